//! A command that may be cached, and its key.

mod traced;

use std::cell::OnceCell;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use memchr::memmem;
use tanto_cas::Digest;
use tanto_exec::job::Command;
use tanto_exec::runner::process::{split_words, wants_the_shell};
use tanto_sys::process::{Argv, Environment};

use crate::compile::{self, Compile, PathDependence, Refusal};
use crate::places::{Hidden, Places};
use crate::programs::Programs;
use crate::variables;

/// Changes when a key or an entry gets another meaning.
const VERSION: &[u8] = b"tanto action 3";

/// Properties that all commands of a build share.
pub(crate) struct Surroundings {
    pub(crate) cwd: Vec<u8>,
    pub(crate) places: Places,
    pub(crate) environment: Environment,
    pub(crate) programs: Programs,
    /// Values of the library variables.
    variables: Vec<u8>,
    /// Directories for temporary files.
    temporary: Vec<Vec<u8>>,
    /// Variables, machine and user, on which a traced command may depend. Computed for the first one.
    whole_environment: OnceCell<Vec<u8>>,
    /// A reason that applies to all compiles.
    obstacle: Option<NotCacheable>,
}

/// Why a command is not cached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum NotCacheable {
    #[error("{0}")]
    Refused(Refusal),
    #[error("it has the console")]
    Console,
    #[error("it needs a shell")]
    Shell,
    #[error("it has a response file")]
    ResponseFile,
    #[error("the compiler does not write the declared outputs")]
    Outputs,
    #[error("its program was not found")]
    NoProgram,
    #[error("the variable {} is set", String::from_utf8_lossy(.0))]
    Variable(Vec<u8>),
    #[error("the processor is unknown")]
    Processor,
    #[error("it has no outputs")]
    NoOutputs,
    #[error("its response file cannot be read")]
    NoResponseFile,
}

#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) key: Digest,
    /// Hidden in the key, in the names of inputs and in texts.
    pub(crate) places: Places,
    /// In the order of the declaration.
    pub(crate) outputs: Vec<Vec<u8>>,
    pub(crate) depfile: Option<Vec<u8>>,
    /// The build takes the depfile from the completion.
    pub(crate) returns_depfile: bool,
    pub(crate) kind: ActionKind,
    /// Other keys, for a result that turns out to depend on a place. The last is to be used first.
    fallbacks: Vec<Fallback>,
    /// The result may depend on the path of the checkout.
    pub(crate) depends_on_root: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum ActionKind {
    /// A library in the compiler records the inputs.
    Compile(CompileFiles),
    /// System calls are traced.
    Traced {
        /// Its content is a part of the key.
        rspfile: Option<Vec<u8>>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct CompileFiles {
    /// As the command finds it.
    pub(crate) program: Vec<u8>,
    pub(crate) source: Vec<u8>,
    /// The output is a precompiled header.
    pub(crate) is_header: bool,
    /// Files in the working directory must not put their own names into the output, if that directory is hidden.
    pub(crate) forbids_own_names: bool,
    /// All words of the command, one after another.
    pub(crate) words: Vec<u8>,
}

/// A key that hides fewer places.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    pub(crate) key: Digest,
    pub(crate) places: Places,
}

impl Surroundings {
    pub(crate) fn new(environment: Environment) -> Surroundings {
        let cwd = std::env::current_dir().unwrap_or_default();
        let variables = variables::of_library(&environment);
        let forbidden = wants_the_shell(&environment).or_else(|| variables::forbidden(&environment).map(str::as_bytes));
        let obstacle = forbidden.map(|name| NotCacheable::Variable(name.to_vec()));
        let places = Places::around(&cwd);
        let temporary = variables::temporary_dirs(&environment).map(|dir| trimmed(dir).to_vec()).collect();
        Surroundings {
            cwd: cwd.as_os_str().as_bytes().to_vec(),
            places,
            environment,
            programs: Programs::default(),
            variables,
            temporary,
            obstacle,
            whole_environment: OnceCell::new(),
        }
    }

    /// Returns an absolute path; components such as `..` remain.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        match path.first() {
            Some(b'/') => path.to_vec(),
            _ if self.cwd == b"/" => [b"/", path].concat(),
            _ => [&self.cwd, &b"/"[..], path].concat(),
        }
    }

    /// Returns whether a variable names directories that may be in a place.
    fn has_search_path_in(&self, place: &[u8]) -> bool {
        let is_elsewhere = |dir: &[u8]| dir.starts_with(b"/") && !dir.starts_with(place);
        variables::searched_dirs(&self.environment).any(|dir| !is_elsewhere(dir))
    }

    /// Returns whether a path is a directory for temporary files.
    pub(crate) fn is_temporary_dir(&self, path: &[u8]) -> bool {
        self.temporary.iter().any(|dir| dir == trimmed(path))
    }
}

/// Without the slash at the end.
fn trimmed(dir: &[u8]) -> &[u8] {
    dir.strip_suffix(b"/").unwrap_or(dir)
}

impl Action {
    /// Examines a command.
    pub(crate) fn of(command: &Command, around: &Surroundings) -> Result<Action, NotCacheable> {
        let examined = Action::compile(command, around);
        match &command.files {
            Some(files) if files.may_trace && examined.is_err() => Action::traced(command, files, around),
            _ => examined,
        }
    }

    fn compile(command: &Command, around: &Surroundings) -> Result<Action, NotCacheable> {
        if let Some(obstacle) = &around.obstacle {
            return Err(obstacle.clone());
        }
        let Some(files) = &command.files else { return Err(NotCacheable::Outputs) };
        if command.console {
            return Err(NotCacheable::Console);
        }
        if !files.rspfile.is_empty() {
            return Err(NotCacheable::ResponseFile);
        }
        let mut words = Argv::default();
        if !split_words(&command.line, &mut words) {
            return Err(NotCacheable::Shell);
        }
        let words: Vec<&[u8]> = words.iter().collect();
        let compile = compile::parse(&words).map_err(NotCacheable::Refused)?;
        let is_declared =
            files.outputs.iter().all(|out| out == compile.output || Some(out) == compile.depfile.as_ref());
        if !is_declared || files.outputs.first().map(|out| &out[..]) != Some(compile.output) {
            return Err(NotCacheable::Outputs);
        }
        if !files.depfile.is_empty() && compile.depfile.as_ref() != Some(&files.depfile) {
            return Err(NotCacheable::Outputs);
        }
        let returns_depfile = files.reads_depfile && !files.depfile.is_empty();
        Ok(Action { returns_depfile, ..Action::of_compile(&words, &compile, around)? })
    }

    fn of_compile(words: &[&[u8]], compile: &Compile<'_>, around: &Surroundings) -> Result<Action, NotCacheable> {
        let path = around.environment.get(b"PATH").unwrap_or_default();
        let program = around.programs.find(compile.program, path, &around.cwd).ok_or(NotCacheable::NoProgram)?;
        let processor = if compile.is_native { processor().ok_or(NotCacheable::Processor)? } else { Vec::new() };
        let dependence = Dependence::of(compile, &program, around);
        let fallback = |hidden: &Hidden| {
            let places = around.places.only(*hidden);
            Fallback { key: key(words, &program, &processor, &places, around), places }
        };
        let mut fallbacks: Vec<Fallback> = dependence.ways().iter().rev().map(fallback).collect();
        let Some(Fallback { key, places }) = fallbacks.pop() else { return Err(NotCacheable::Outputs) };
        Ok(Action {
            key,
            places,
            kind: ActionKind::Compile(CompileFiles {
                program,
                source: compile.source.to_vec(),
                is_header: compile.language.is_header(),
                forbids_own_names: dependence.directory == PathDependence::UnlessNamed,
                words: words.join(&b' '),
            }),
            outputs: vec![compile.output.to_vec()],
            depfile: compile.depfile.clone(),
            returns_depfile: false,
            fallbacks,
            depends_on_root: dependence.root == PathDependence::Dependent && around.places.root().is_some(),
        })
    }

    /// The same action with fewer places hidden; `None` if it has whole paths already.
    pub(crate) fn fallback(&self) -> Option<Action> {
        let mut fallbacks = self.fallbacks.clone();
        let Fallback { key, places } = fallbacks.pop()?;
        let depends_on_root = places.root().is_none();
        Some(Action { key, places, fallbacks, depends_on_root, ..self.clone() })
    }

    pub(crate) fn fallbacks(&self) -> &[Fallback] {
        &self.fallbacks
    }
}

/// The text of a key: fields with their lengths.
#[derive(Default)]
struct KeyText(Vec<u8>);

impl KeyText {
    fn put(&mut self, field: &[u8]) {
        self.0.extend_from_slice(&u64::try_from(field.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.extend_from_slice(field);
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }
}

/// How a compile depends on places.
struct Dependence {
    root: PathDependence,
    directory: PathDependence,
}

impl Dependence {
    fn of(compile: &Compile<'_>, program: &[u8], around: &Surroundings) -> Dependence {
        // Compilers name the working directory as PWD does.
        let is_plain = around.environment.get(b"PWD") == Some(&around.cwd);
        let decide = |place: Option<&[u8]>, decide: &dyn Fn(&[u8]) -> PathDependence| match place {
            Some(place) if is_plain && !around.has_search_path_in(place) => decide(place),
            _ => PathDependence::Dependent,
        };
        let in_directory = |cwd: &[u8]| match compile.directory_dependence(cwd) {
            // Compilers search headers beside themselves, and shorten the names of these.
            _ if program.starts_with(cwd) => PathDependence::Dependent,
            found => found,
        };
        Dependence {
            root: decide(around.places.root(), &|root| compile.path_dependence(root, &around.cwd)),
            directory: decide(around.places.directory(), &in_directory),
        }
    }

    /// The ways to hide places, in the order in which they are tried.
    fn ways(&self) -> &'static [Hidden] {
        let (root, directory) = (self.root != PathDependence::Dependent, self.directory != PathDependence::Dependent);
        match (root, directory) {
            (true, true) => &[Hidden::RootAndDirectory, Hidden::Root, Hidden::Directory, Hidden::Nothing],
            (true, false) => &[Hidden::Root, Hidden::Nothing],
            (false, true) => &[Hidden::Directory, Hidden::Nothing],
            (false, false) => &[Hidden::Nothing],
        }
    }
}

fn key(words: &[&[u8]], program: &[u8], processor: &[u8], places: &Places, around: &Surroundings) -> Digest {
    let mut key = KeyText::default();
    key.put(VERSION);
    key.put(match (places.root(), places.directory()) {
        (None, None) => b"whole paths",
        (Some(_), None) => b"without the root",
        (None, Some(_)) => b"without the directory",
        (Some(_), Some(_)) => b"without both",
    });
    words.iter().for_each(|word| key.put(&places.hide_in_word(word)));
    key.put(b"");
    let mut buffer = Vec::new();
    key.put(places.hide_in_path(&around.cwd, &mut buffer));
    if places.directory().is_some() && words.iter().any(|word| memmem::find(word, b"..").is_some()) {
        // `..` must mean the same directory: real paths that are made from it do not begin with the working directory.
        key.put(places.hide_in_path(parent(&around.cwd), &mut buffer));
    }
    key.put(places.hide_in_path(program, &mut buffer));
    key.put(&around.variables);
    key.put(processor);
    key.digest()
}

fn parent(dir: &[u8]) -> &[u8] {
    let slash = dir.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    &dir[..slash]
}

/// Describes the processor, for options such as `-march=native`.
fn processor() -> Option<Vec<u8>> {
    /// Lines of `/proc/cpuinfo` that decide which instructions there are, and how fast they are.
    const LINES: [&str; 10] = [
        "vendor_id",
        "cpu family",
        "model",
        "stepping",
        "cache size",
        "flags",
        "Features",
        "CPU implementer",
        "CPU part",
        "CPU variant",
    ];
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let first = text.split("\n\n").next()?;
    let is_wanted = |line: &&str| LINES.contains(&line.split(':').next().unwrap_or_default().trim());
    let lines: Vec<&str> = first.lines().filter(is_wanted).collect();
    (!lines.is_empty()).then(|| lines.join("\n").into_bytes())
}
