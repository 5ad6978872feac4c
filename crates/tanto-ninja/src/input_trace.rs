//! Writes what the commands of a build look at, and finds files that they read although neither the manifest nor a depfile
//! names them (`tanto build --trace`).

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_exec::input_recorder::input_list::{Input, InputList, escaped};

use crate::dependency_paths::DependencyPaths;
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
    /// Only files below these directories have to be declared; the first is the build directory. Empty before the first
    /// command.
    project: Vec<PathBuf>,
    paths: DependencyPaths,
    summary: TraceSummary,
    result: io::Result<()>,
}

#[derive(Default, Debug)]
pub struct TraceSummary {
    pub commands: usize,
    /// Commands whose list may lack inputs.
    pub incomplete: usize,
    /// Files that neither the manifest nor a depfile names.
    pub undeclared: Vec<TracedInput>,
    /// Outputs of commands that may run later, as far as the manifest says.
    pub unordered: Vec<TracedInput>,
}

/// A file that a command reads.
#[derive(Debug)]
pub struct TracedInput {
    /// The first output of the command.
    pub output: Vec<u8>,
    /// Without symbolic links.
    pub file: PathBuf,
    /// The first output of the command that makes it, if one does.
    pub made_with: Option<Vec<u8>>,
}

impl TracedInput {
    fn line(&self, word: &str) -> String {
        let made_with = self.made_with.iter().map(|output| format!("\t{}", escaped(output)));
        format!("{word}\t{}{}\n", escaped(self.file.as_os_str().as_bytes()), made_with.collect::<String>())
    }
}

impl InputTrace {
    pub fn create(path: &Path) -> io::Result<InputTrace> {
        let file = BufWriter::new(File::create(path)?);
        Ok(InputTrace {
            file,
            project: Vec::new(),
            paths: DependencyPaths::default(),
            summary: TraceSummary::default(),
            result: Ok(()),
        })
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
        let output = graph.path(graph.edge(edge).outs[0]);
        let (mut undeclared, mut unordered) = (Vec::new(), Vec::new());
        for file in self.read_files(list) {
            let maker = self.maker(graph, &file).filter(|&maker| maker != edge);
            let made_with = maker.map(|maker| graph.path(graph.edge(maker).outs[0]).to_vec());
            let is_unordered = maker.is_some_and(|maker| !self.paths.exists(graph, maker, edge));
            let is_declared = declared.contains(&file);
            let input = TracedInput { output: output.to_vec(), file, made_with };
            match () {
                () if is_unordered => unordered.push(input),
                () if !is_declared => undeclared.push(input),
                () => {}
            }
        }
        let mut text = format!("command\t{}\n", escaped(output));
        text.extend(list.missing().map(|why| format!("incomplete\t{why}\n")));
        text.extend(undeclared.iter().map(|input| input.line("undeclared")));
        text.extend(unordered.iter().map(|input| input.line("unordered")));
        text.push_str(&list.text());
        if self.result.is_ok() {
            self.result = self.file.write_all(text.as_bytes());
        }
        self.summary.commands += 1;
        self.summary.incomplete += usize::from(list.missing().is_some());
        self.summary.undeclared.extend(undeclared);
        self.summary.unordered.extend(unordered);
    }

    /// Returns the files of the project that a command has read and not written.
    fn read_files(&self, list: &InputList) -> BTreeSet<PathBuf> {
        let written: HashSet<PathBuf> = list.inputs().iter().filter_map(written).filter_map(resolved).collect();
        let is_in_project = |file: &PathBuf| self.project.iter().any(|dir| file.starts_with(dir));
        let files = list.inputs().iter().filter_map(read).filter_map(resolved).filter(is_in_project);
        files.filter(|file| !written.contains(file) && file.is_file()).collect()
    }

    /// Returns the command that makes a file. Those that make manifests always run first.
    fn maker(&self, graph: &Graph<'_>, file: &Path) -> Option<EdgeId> {
        // A manifest may name it either way.
        let relative = file.strip_prefix(self.project.first()?).unwrap_or(file);
        let makers = [relative, file].into_iter().filter_map(|path| graph.lookup(path.as_os_str().as_bytes()));
        let maker = makers.filter_map(|node| graph.in_edge(node)).next()?;
        let is_command = !graph.edge(maker).is_phony() && !graph.flag(maker, b"generator").unwrap_or(false);
        is_command.then_some(maker)
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
