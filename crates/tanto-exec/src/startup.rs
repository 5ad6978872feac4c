//! Estimates the cost of starting a program: loading it and its libraries, and relocating them.
//!
//! The dynamic loader is started on the program in the mode that `ldd -d` uses, which does all of that and then exits. Of
//! the program's code only its IFUNC resolvers run, which choose between variants of a function.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tanto_sys::process::{Argv, Environment, ExitReport, ExitStatus, Launcher, Program, find_program};

use crate::elf;
use crate::runner::process::split_words;

/// Number of measurements; their median counts.
const TRIALS: usize = 5;
/// `LD_TRACE_LOADED_OBJECTS` without the prefix, which glibc's loader compares separately.
const MODE: &[u8] = b"TRACE_LOADED_OBJECTS";
/// Dynamic loaders are shorter.
const LONGEST_LOADER: u64 = 4 << 20;

/// Starts dynamic loaders on programs.
pub struct Startup {
    launcher: Launcher,
    /// Programs by the names that commands give them.
    found: HashMap<Vec<u8>, Option<PathBuf>>,
}

impl Startup {
    /// Programs are started in the environment of this process.
    pub fn in_own_environment() -> Startup {
        let mode = ["LD_TRACE_LOADED_OBJECTS", "LD_WARN"].map(|name| (name.into(), "1".into()));
        Startup { launcher: Launcher::new(Environment::inherit_with(&mode)), found: HashMap::new() }
    }

    /// Returns the program that a command starts first: `/bin/sh` if it needs a shell. `dir` is the working directory
    /// of the command. `None` if the program is not found.
    pub fn program_of(&mut self, command: &[u8], dir: &Path) -> Option<PathBuf> {
        let mut words = Argv::default();
        if !split_words(command, &mut words) {
            return Some("/bin/sh".into());
        }
        let name = words.iter().next()?;
        let path = self.launcher.environment().get(b"PATH").unwrap_or_default();
        let search = || find_program(name, path, dir).filter(|path| path.is_file());
        self.found.entry(name.into()).or_insert_with(search).clone()
    }

    /// Returns the CPU time of one start in microseconds. `None` for scripts, static programs, programs with an unknown
    /// loader, which might run the program, and programs that do not belong to root: commands come from a record that
    /// anybody may have made, and some code of the program runs.
    pub fn cost_us(&mut self, program: &Path) -> Option<u64> {
        let is_roots = |path: &Path| std::fs::metadata(path).is_ok_and(|data| data.uid() == 0);
        let loader = elf::loader(program).filter(|loader| is_roots(loader) && knows_the_mode(loader))?;
        if !is_roots(program) {
            return None;
        }
        let mut words = Argv::default();
        for word in [loader.as_path(), program] {
            words.begin();
            word.as_os_str().as_bytes().iter().for_each(|&byte| words.push(byte));
            words.end();
        }
        let mut costs = Vec::with_capacity(TRIALS);
        for _ in 0..TRIALS {
            let ended = run(&mut self.launcher, &words).ok().filter(|ended| ended.status == ExitStatus::Code(0))?;
            costs.push(ended.user_us.saturating_add(ended.system_us));
        }
        costs.sort_unstable();
        Some(costs[TRIALS / 2])
    }
}

/// Returns whether a dynamic loader is glibc's, whose code contains the name of the variable. Others, such as musl's,
/// ignore it.
fn knows_the_mode(loader: &Path) -> bool {
    let mut code = Vec::new();
    let read = File::open(loader).and_then(|file| file.take(LONGEST_LOADER).read_to_end(&mut code));
    read.is_ok() && code.windows(MODE.len()).any(|bytes| bytes == MODE)
}

/// Runs the program to its end and drops its output.
fn run(launcher: &mut Launcher, words: &Argv) -> io::Result<ExitReport> {
    let mut child = launcher.spawn_piped(Program::Argv(words))?;
    let mut buffer = [0; 4096];
    while child.read_output(&mut buffer)? > 0 {}
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn first_program_of_a_command_is_found() {
        let dir = Scratch::new("startup");
        dir.program("bin/tool", "#!/bin/sh\n");
        let of = |command: &str| Startup::in_own_environment().program_of(command.as_bytes(), dir.path());
        assert!(of("env a b").is_some_and(|path| path.is_absolute() && path.ends_with("env")));
        assert_eq!(of("bin/tool x"), Some(dir.at("bin/tool")));
        assert_eq!(of("/bin/true"), Some("/bin/true".into()));
        assert_eq!((of("env && env"), of("true")), (Some("/bin/sh".into()), Some("/bin/sh".into())));
        assert_eq!((of("no-such-tool"), of("bin/none")), (None, None));
    }

    #[test]
    fn programs_are_measured_without_running() {
        let dir = Scratch::new("startup-cost");
        let mut startup = Startup::in_own_environment();
        assert!(startup.cost_us(Path::new("/usr/bin/env")).is_some());
        // `yes` would run until its output is closed.
        assert!(startup.cost_us(Path::new("/usr/bin/yes")).is_some());
        dir.program("script", format!("#!/bin/sh\ntouch {}\n", dir.at("ran").display()));
        assert_eq!(startup.cost_us(&dir.at("script")), None);
        assert!(!dir.at("ran").exists());
        assert_eq!(startup.cost_us(&dir.at("none")), None);
    }

    #[test]
    fn only_loaders_with_the_verify_mode_are_used() {
        let dir = Scratch::new("startup-loader");
        dir.write("loader", "LD_LIBRARY_PATH LD_PRELOAD");
        assert!(!knows_the_mode(&dir.at("loader")));
        assert!(knows_the_mode(&elf::loader(Path::new("/usr/bin/env")).unwrap()));
    }
}
