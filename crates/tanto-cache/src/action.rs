//! A command that may be cached, and its key.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tanto_cas::Digest;
use tanto_exec::job::Command;
use tanto_exec::runner::process::{split_words, wants_the_shell};
use tanto_sys::process::{Argv, Environment};

use crate::compile::{self, Compile, PathDependence, Refusal, WRITING_VARIABLES};
use crate::roots::Root;

/// Changes when a key or an entry gets another meaning.
const VERSION: &[u8] = b"tanto action 1";

/// Variables that the C library and the dynamic loader read themselves, which the recorder does not see.
const LIBRARY_VARIABLES: [&[u8]; 10] = [
    b"LANG",
    b"LANGUAGE",
    b"LOCPATH",
    b"NLSPATH",
    b"GCONV_PATH",
    b"GETCONF_DIR",
    b"GLIBC_TUNABLES",
    b"POSIXLY_CORRECT",
    b"MALLOC_ARENA_MAX",
    b"OUTPUT_CHARSET",
];
/// Variables that name directories in which compilers look for headers and programs.
const SEARCH_PATHS: [&[u8]; 7] = [
    b"CPATH",
    b"C_INCLUDE_PATH",
    b"CPLUS_INCLUDE_PATH",
    b"OBJC_INCLUDE_PATH",
    b"COMPILER_PATH",
    b"GCC_EXEC_PREFIX",
    b"LIBRARY_PATH",
];
/// Variables that name directories for temporary files: no result depends on them.
pub(crate) const TEMPORARY: [&[u8]; 3] = [b"TMPDIR", b"TMP", b"TEMP"];

/// Beginnings of variables that the C library and the dynamic loader read themselves.
const LIBRARY_PREFIXES: [&[u8]; 2] = [b"LC_", b"LD_"];

/// What is the same for all commands of a build.
pub(crate) struct Surroundings {
    pub(crate) cwd: Vec<u8>,
    pub(crate) root: Root,
    pub(crate) environment: Environment,
    /// Values of the library variables.
    variables: Vec<u8>,
    /// Directories for temporary files.
    pub(crate) temporary: Vec<Vec<u8>>,
    /// Why no command can be cached.
    obstacle: Option<NotCacheable>,
}

/// Why a command is not cached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotCacheable {
    #[error("{0}")]
    Refused(Refusal),
    #[error("it has the console")]
    Console,
    #[error("it needs a shell")]
    Shell,
    #[error("it has a response file")]
    ResponseFile,
    #[error("the compiler does not write what the manifest declares")]
    Outputs,
    #[error("its program was not found")]
    NoProgram,
    #[error("the variable {} is set", String::from_utf8_lossy(.0))]
    Variable(Vec<u8>),
    #[error("the processor is unknown")]
    Processor,
}

#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) key: Digest,
    /// Hidden in the key, and in the names of inputs.
    pub(crate) root: Root,
    /// As the command finds it.
    pub(crate) program: Vec<u8>,
    pub(crate) source: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) depfile: Option<Vec<u8>>,
    /// The build takes the depfile from the completion.
    pub(crate) returns_depfile: bool,
    /// The output is a precompiled header.
    pub(crate) is_header: bool,
    /// The key with whole paths, if `key` is without the root.
    literal_key: Option<Digest>,
    /// The result may depend on the path of the checkout.
    pub(crate) depends_on_root: bool,
}

impl Surroundings {
    pub(crate) fn new(environment: Environment) -> Surroundings {
        let cwd = std::env::current_dir().unwrap_or_default();
        let mut variables: Vec<&[u8]> = environment.strings().filter(|text| is_library_variable(text)).collect();
        variables.sort_unstable();
        let variables = variables.join(&0);
        let obstacle = wants_the_shell(&environment).map(|name| NotCacheable::Variable(name.to_vec()));
        let refused = ["LD_AUDIT"].into_iter().chain(WRITING_VARIABLES);
        let is_set = |name: &&str| environment.get(name.as_bytes()).is_some();
        let refused = refused.into_iter().find(is_set).map(|name| NotCacheable::Variable(name.into()));
        let obstacle = obstacle.or(refused);
        let root = Root::around(&cwd);
        let temporary =
            TEMPORARY.iter().filter_map(|name| environment.get(name)).map(|dir| trimmed(dir).to_vec()).collect();
        Surroundings { cwd: cwd.as_os_str().as_bytes().to_vec(), root, environment, variables, temporary, obstacle }
    }

    /// Returns an absolute path; components such as `..` remain.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        match path.first() {
            Some(b'/') => path.to_vec(),
            _ if self.cwd == b"/" => [b"/", path].concat(),
            _ => [&self.cwd, &b"/"[..], path].concat(),
        }
    }

    /// Returns whether a variable names directories that may be in the checkout.
    fn has_search_path_in_root(&self) -> bool {
        let is_elsewhere = |dir: &[u8]| dir.starts_with(b"/") && !dir.starts_with(self.root.path());
        let dirs = SEARCH_PATHS.iter().filter_map(|name| self.environment.get(name));
        dirs.filter(|value| !value.is_empty())
            .flat_map(|value| value.split(|&byte| byte == b':'))
            .any(|dir| !is_elsewhere(dir))
    }

    /// Finds the program that a command of this name runs.
    fn find(&self, name: &[u8]) -> Option<Vec<u8>> {
        if name.contains(&b'/') {
            return Some(self.absolute(name));
        }
        let is_program = |path: &Path| fs::metadata(path).is_ok_and(|data| data.is_file() && is_executable(&data));
        let dirs = self.environment.get(b"PATH")?.split(|&byte| byte == b':');
        // An empty entry is the current directory.
        let files = dirs.map(|dir| PathBuf::from(OsStr::from_bytes(if dir.is_empty() { b"." } else { dir })));
        let found = files.map(|dir| dir.join(OsStr::from_bytes(name))).find(|path| is_program(path))?;
        Some(self.absolute(found.as_os_str().as_bytes()))
    }
}

fn is_executable(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.mode() & 0o111 != 0
}

/// Without the slash at the end.
pub(crate) fn trimmed(dir: &[u8]) -> &[u8] {
    dir.strip_suffix(b"/").unwrap_or(dir)
}

fn is_library_variable(text: &[u8]) -> bool {
    let name = text.split(|&byte| byte == b'=').next().unwrap_or_default();
    LIBRARY_VARIABLES.contains(&name) || LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl Action {
    /// Examines a command.
    pub(crate) fn of(command: &Command, around: &Surroundings) -> Result<Action, NotCacheable> {
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
        let program = around.find(compile.program).ok_or(NotCacheable::NoProgram)?;
        let processor = if compile.is_native { processor().ok_or(NotCacheable::Processor)? } else { Vec::new() };
        let key = |root: &Root| key(words, &program, &processor, root, around);
        let literal_key = key(&Root::NONE);
        let depends_on_root = around.root.is_none()
            || compile.path_dependence(around.root.path(), &around.cwd) != PathDependence::Independent;
        // Compilers name the working directory as PWD does.
        let is_plain = around.environment.get(b"PWD") == Some(&around.cwd);
        let depends_on_root = depends_on_root || !is_plain || around.has_search_path_in_root();
        let is_shared = !depends_on_root;
        let root = if is_shared { around.root.clone() } else { Root::NONE };
        Ok(Action {
            key: if is_shared { key(&root) } else { literal_key },
            literal_key: is_shared.then_some(literal_key),
            root,
            program: program.clone(),
            source: compile.source.to_vec(),
            output: compile.output.to_vec(),
            depfile: compile.depfile.clone(),
            returns_depfile: false,
            is_header: compile.language.is_header(),
            depends_on_root: depends_on_root && !around.root.is_none(),
        })
    }

    /// The same action with whole paths; `None` if it has them already.
    pub(crate) fn literal(&self) -> Option<Action> {
        let key = self.literal_key?;
        Some(Action { key, root: Root::NONE, literal_key: None, depends_on_root: true, ..self.clone() })
    }
}

fn key(words: &[&[u8]], program: &[u8], processor: &[u8], root: &Root, around: &Surroundings) -> Digest {
    let mut text = Vec::new();
    let mut put = |field: &[u8]| {
        text.extend_from_slice(&u64::try_from(field.len()).unwrap_or(u64::MAX).to_le_bytes());
        text.extend_from_slice(field);
    };
    put(VERSION);
    put(if root.is_none() { b"whole paths" } else { b"without the root" });
    words.iter().for_each(|word| put(&root.hide_in_text(word)));
    put(b"");
    let mut buffer = Vec::new();
    put(root.hide_in_path(&around.cwd, &mut buffer));
    put(root.hide_in_path(program, &mut buffer));
    put(&around.variables);
    put(processor);
    Digest::of(&text)
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
