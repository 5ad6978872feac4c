//! Writes what the commands of a build look at, and finds files that they read although neither the manifest nor a depfile
//! names them (`tanto build --trace`).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_exec::input_recorder::input_list::{Input, InputList, escaped};

use crate::graph::Graph;
use crate::hash::Set;
use crate::ids::{EdgeId, NodeId};

/// Programs and libraries in these directories are not a part of a project.
const SYSTEM_DIRS: [&str; 13] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
];

/// The file with the inputs of all commands.
pub struct InputTrace {
    file: BufWriter<File>,
    /// Only files below these directories have to be declared. Empty before the first command.
    project: Vec<PathBuf>,
    summary: TraceSummary,
    result: io::Result<()>,
}

#[derive(Default, Debug)]
pub struct TraceSummary {
    pub commands: usize,
    /// Commands whose list may lack inputs.
    pub incomplete: usize,
    pub undeclared: Vec<UndeclaredInput>,
}

/// A file that a command reads, but that neither the manifest nor a depfile names.
#[derive(Debug)]
pub struct UndeclaredInput {
    /// The first output of the command.
    pub output: Vec<u8>,
    /// Without symbolic links.
    pub file: PathBuf,
}

impl InputTrace {
    pub fn create(path: &Path) -> io::Result<InputTrace> {
        let file = BufWriter::new(File::create(path)?);
        Ok(InputTrace { file, project: Vec::new(), summary: TraceSummary::default(), result: Ok(()) })
    }

    /// Adds a command that has ended. `discovered`: its inputs from a depfile; `own`: files that Tanto made for it.
    pub(crate) fn record(
        &mut self,
        graph: &Graph<'_>,
        edge: EdgeId,
        discovered: &[NodeId],
        own: &[&[u8]],
        list: &InputList,
    ) {
        if self.project.is_empty() {
            self.project = project_dirs(graph);
        }
        let paths = declared_inputs(graph, edge, discovered).into_iter().chain(own.iter().copied());
        let declared: HashSet<PathBuf> = paths.filter_map(resolved).collect();
        let undeclared = self.undeclared(&declared, list);
        let output = graph.path(graph.edge(edge).outs[0]);
        let mut text = format!("command\t{}\n", escaped(output));
        text.extend(list.missing().map(|why| format!("incomplete\t{why}\n")));
        text.extend(undeclared.iter().map(|file| format!("undeclared\t{}\n", escaped(file.as_os_str().as_bytes()))));
        text.push_str(&list.text());
        if self.result.is_ok() {
            self.result = self.file.write_all(text.as_bytes());
        }
        self.summary.commands += 1;
        self.summary.incomplete += usize::from(list.missing().is_some());
        let of_command = |file| UndeclaredInput { output: output.to_vec(), file };
        self.summary.undeclared.extend(undeclared.into_iter().map(of_command));
    }

    /// Returns the files of the project that the command has read and neither declared nor written, in their order.
    fn undeclared(&self, declared: &HashSet<PathBuf>, list: &InputList) -> Vec<PathBuf> {
        let written: HashSet<PathBuf> = list.inputs().iter().filter_map(written).filter_map(resolved).collect();
        let is_undeclared = |file: &PathBuf| {
            self.project.iter().any(|dir| file.starts_with(dir))
                && !declared.contains(file)
                && !written.contains(file)
                && file.is_file()
        };
        let mut found: Vec<PathBuf> =
            list.inputs().iter().filter_map(read).filter_map(resolved).filter(is_undeclared).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Writes the rest of the file.
    pub fn finish(mut self) -> io::Result<TraceSummary> {
        self.result?;
        self.file.flush()?;
        Ok(self.summary)
    }
}

/// Files whose content a command depends on.
fn read(input: &Input) -> Option<&[u8]> {
    match input {
        Input::Read(path) | Input::Program(path) => Some(path).filter(|path| !is_in_system(path)).map(Vec::as_slice),
        _ => None,
    }
}

fn written(input: &Input) -> Option<&[u8]> {
    match input {
        Input::Written(path) => Some(path),
        _ => None,
    }
}

fn is_in_system(path: &[u8]) -> bool {
    SYSTEM_DIRS.iter().any(|dir| path.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/')))
}

/// Returns the path without symbolic links; `None` if there is no such file.
fn resolved(path: &[u8]) -> Option<PathBuf> {
    fs::canonicalize(OsStr::from_bytes(path)).ok()
}

/// Returns the paths of the inputs, of the members of phony groups among them, and of the outputs.
fn declared_inputs<'t>(graph: &Graph<'t>, edge: EdgeId, discovered: &[NodeId]) -> Vec<&'t [u8]> {
    let its = graph.edge(edge);
    let mut ahead: Vec<NodeId> = its.dirtying_ins().iter().chain(discovered).chain(its.outs).copied().collect();
    let mut seen: Set<NodeId> = Set::default();
    let mut paths = Vec::new();
    while let Some(node) = ahead.pop() {
        if !seen.insert(node) {
            continue;
        }
        paths.push(graph.path(node));
        let group = graph.in_edge(node).map(|maker| graph.edge(maker)).filter(|maker| maker.is_phony());
        ahead.extend(group.iter().flat_map(|group| group.dirtying_ins()));
    }
    paths
}

/// Returns the build directory, and the directory that contains all source files outside it.
fn project_dirs(graph: &Graph<'_>) -> Vec<PathBuf> {
    let Some(build_dir) = resolved(b".") else { return Vec::new() };
    let mut sources: Option<PathBuf> = None;
    for node in graph.node_ids().filter(|&node| graph.in_edge(node).is_none()) {
        let Some(file) = resolved(graph.path(node)) else { continue };
        let Some(dir) = file.parent().filter(|dir| !dir.starts_with(&build_dir)) else { continue };
        if is_in_system(dir.as_os_str().as_bytes()) {
            continue;
        }
        let common = |dirs: PathBuf| dirs.ancestors().find(|dirs| dir.starts_with(dirs)).map(Path::to_path_buf);
        sources = sources.map_or_else(|| Some(dir.to_path_buf()), common);
    }
    // The root contains everything: the sources are at unrelated places.
    let sources = sources.filter(|dir| dir.parent().is_some());
    [build_dir].into_iter().chain(sources).collect()
}
