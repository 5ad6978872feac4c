//! `tanto doctor`: prints every setting with its source, and the state of the machine that builds depend on.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_exec::command_output::CommandOutput;
use tanto_exec::runner::clang::{conflicting_variable, programs, replaced_version};
use tanto_exec::runner::process::wants_the_shell;
use tanto_exec::text::table::Table;
use tanto_ninja::load::NINJA_VERSION;
use tanto_ninja::other_ninja;
use tanto_sys::cgroup::{Hierarchy, OwnCgroups};
use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::machine::cpu;
use tanto_sys::machine::pressure::PressureMonitor;
use tanto_sys::process::Environment;
use tanto_sys::process::procs;

use crate::invocation::Invocation;
use crate::ninja::clang_worker;
use crate::settings::CommandLineError;
use crate::settings::declaration::Settings;
use crate::settings::{self, ConfigFile, EnvVars, Options, Origin};

/// A name, a value, and the source of the value.
struct DoctorRow(String, Vec<u8>, Vec<u8>);

pub fn run(args: &[Vec<u8>], around: &EnvVars) -> Result<CommandOutput, CommandLineError> {
    let mut warnings = Vec::new();
    let mut warn = |text: &[u8]| warnings.extend_from_slice(&[b"tanto: warning: ", text, b"\n"].concat());
    let options = settings::options(Invocation::Tanto, args, around, &mut warn)?;
    Ok(CommandOutput { out: report(&options, around), err: warnings, code: 0 })
}

fn report(options: &Options, around: &EnvVars) -> Vec<u8> {
    let dir = options.dir.as_deref();
    let mut text = format!("{}; compatible with ninja {NINJA_VERSION}\n\n", Invocation::Tanto.version()).into_bytes();
    text.extend(aligned(&setting_rows(&options.settings, dir, around)));
    text.push(b'\n');
    text.extend(aligned(&machine_rows(dir, around)));
    text
}

fn aligned(rows: &[DoctorRow]) -> Vec<u8> {
    let mut table = Table::new(&[]);
    rows.iter().for_each(|DoctorRow(name, value, from)| table.row([name.as_bytes(), value, from]));
    table.text()
}

fn setting_rows(settings: &Settings, dir: Option<&[u8]>, around: &EnvVars) -> Vec<DoctorRow> {
    let row = |(name, value, origin): (&str, String, Origin)| {
        DoctorRow(name.replace('_', "-"), value.into(), origin_text(origin, dir, around))
    };
    settings.rows().into_iter().map(row).collect()
}

fn origin_text(origin: Origin, dir: Option<&[u8]>, around: &EnvVars) -> Vec<u8> {
    match origin {
        Origin::Default => "default".into(),
        Origin::CommandLine => "command line".into(),
        Origin::Variable(name) => name.into(),
        Origin::File(file, line) => {
            let path = match file {
                ConfigFile::Build => settings::build_file(dir),
                ConfigFile::User => around.user_file().unwrap_or_default(),
            };
            [path.as_os_str().as_bytes(), format!(":{line}").as_bytes()].concat()
        }
    }
}

fn machine_rows(dir: Option<&[u8]>, around: &EnvVars) -> Vec<DoctorRow> {
    let row = |name: &str, value| DoctorRow(name.into(), value, Vec::new());
    let mut rows = vec![
        row("build directory", directory(dir)),
        row("its .ninja_log", log(dir)),
        row("its config", presence(Some(settings::build_file(dir)))),
        row("your config", presence(around.user_file())),
        row("state of tanto build", presence(around.state(dir).read_dirs().next().map(Path::to_path_buf))),
        row("state of ninja", presence(around.state(dir).read_dirs().nth(1).map(Path::to_path_buf))),
        row("commands have a shell", shell()),
        row("processors", cpu::count().to_string().into()),
        row("control groups", control_groups(&OwnCgroups::find())),
        row("process trees", process_trees().into()),
        row("free memory", free_memory().into()),
        row("pressure", pressure().into()),
        row("MAKEFLAGS' jobserver", jobserver(std::env::var_os("MAKEFLAGS").as_deref())),
        row("ninja in PATH", ninja_in_path(std::env::var_os("PATH").as_deref())),
    ];
    if let Some(held) = clang_worker::checkpoint_usage(&around.state(dir)) {
        rows.push(row("checkpoints kept", crate::clang::brief(&held)));
    }
    rows.extend(compile_worker(&around.state(dir)).into_iter().map(|place| row("compile worker", place)));
    rows
}

/// The path of the compile worker, the clang that it replaces, and the clangs that builds in this directory have used.
fn compile_worker(state: &StateDirs) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    if let Some(name) = conflicting_variable(&Environment::inherit_with(&[])) {
        lines.push([b"not used, because of ", name, b" in the environment"].concat());
    }
    let places = clang_worker::candidates();
    match places.iter().find(|place| clang_worker::is_executable(place)) {
        Some(place) => {
            lines.push(place.as_os_str().as_bytes().to_vec());
            let clang =
                replaced_version(place).unwrap_or_else(|| b"nothing: it does not run. Run ./install again".into());
            lines.push([&b"stands for "[..], &clang].concat());
        }
        None => {
            lines.extend(places.iter().map(|place| [place.as_os_str().as_bytes(), b" (none)"].concat()));
            lines.push(format!("./install builds it, after: apt-get install {}", clang_worker::DEBIAN_PACKAGES).into());
        }
    }
    let met: Vec<_> =
        state.verified_dirs().flat_map(|place| programs(&place.join(clang_worker::IDENTITY_CACHE))).collect();
    if met.is_empty() {
        lines.push(b"no build here has used a clang with it yet; gcc and other compilers are always processes".into());
    }
    for (program, is_ours) in met {
        let how: &[u8] = if is_ours {
            b" runs in it"
        } else {
            b" is another build of clang, and a process: ./install builds the worker anew"
        };
        lines.push([b"builds here: ", program.as_os_str().as_bytes(), how].concat());
    }
    lines
}

fn control_groups(home: &OwnCgroups) -> Vec<u8> {
    let layout = match home.hierarchy() {
        Hierarchy::Unified => "version 2",
        Hierarchy::Hybrid => "versions 1 and 2",
        Hierarchy::Legacy => return "version 1 only: not used".into(),
        Hierarchy::None => return "none".into(),
    };
    let usable = match home.obstacle() {
        Some(error) if error.kind() == ErrorKind::PermissionDenied => {
            "; not delegated: run Tanto under systemd-run --user --scope -p Delegate=yes".into()
        }
        Some(error) => [b"; unusable: ", &tanto_sys::error::text(&error)[..]].concat(),
        None if home.could_count_memory() => b"; delegated, with memory".to_vec(),
        None => b"; delegated, without memory".to_vec(),
    };
    [layout.as_bytes(), &usable].concat()
}

fn process_trees() -> &'static str {
    match (procs::lists_children(), procs::pidfd(std::process::id()).is_some()) {
        (true, true) => "lists of children, pidfd",
        (false, true) => "scan of all processes (no CONFIG_PROC_CHILDREN), pidfd",
        (true, false) => "lists of children; no pidfd (before Linux 5.3)",
        (false, false) => "scan of all processes; no pidfd (before Linux 5.3)",
    }
}

fn free_memory() -> String {
    let free = PressureMonitor::open().sample().free_kib;
    free.map_or_else(|| "unknown".into(), |kib| format!("{} MiB", kib >> 10))
}

fn pressure() -> String {
    let headroom = PressureMonitor::open();
    if !headroom.has_pressure() {
        return "not measured by this kernel".into();
    }
    let now = headroom.sample();
    format!("memory {:.0} %, processors {:.0} % of the last ten seconds", now.memory_some, now.cpu_some)
}

fn directory(dir: Option<&[u8]>) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(dir.unwrap_or(b".")));
    match path.canonicalize() {
        Ok(path) => path.into_os_string().into_vec(),
        Err(error) => [path.as_os_str().as_bytes(), b": ", &tanto_sys::error::text(&error)].concat(),
    }
}

/// The version of the log, from its first line. A log in another directory (`builddir`) is not found.
fn log(dir: Option<&[u8]>) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(dir.unwrap_or_default())).join(".ninja_log");
    let Ok(file) = std::fs::File::open(path) else {
        return "none".into();
    };
    let mut line = Vec::new();
    let read = BufReader::new(file.take(64)).read_until(b'\n', &mut line);
    match (read, line.trim_ascii_end().strip_prefix(b"# ninja log v")) {
        (Ok(_), Some(version)) if !version.is_empty() && version.iter().all(u8::is_ascii_digit) => {
            [b"version ", version].concat()
        }
        _ => "not a log of ninja".into(),
    }
}

fn shell() -> Vec<u8> {
    match wants_the_shell(&Environment::inherit_with(&[])) {
        Some(name) => [b"all of them, because of ", name, b" in the environment"].concat(),
        None => b"if they need one".to_vec(),
    }
}

fn presence(path: Option<PathBuf>) -> Vec<u8> {
    let Some(path) = path else {
        return "none (no HOME)".into();
    };
    let there: &[u8] = if path.exists() { b"" } else { b" (none)" };
    [path.as_os_str().as_bytes(), there].concat()
}

/// The jobserver in `MAKEFLAGS`; the last one counts.
fn jobserver(makeflags: Option<&OsStr>) -> Vec<u8> {
    let words = makeflags.unwrap_or_default().as_bytes().split(|&byte| byte == b' ');
    let named = |word: &[u8]| {
        let auth = word.strip_prefix(b"--jobserver-auth=").or_else(|| word.strip_prefix(b"--jobserver-fds="))?;
        Some(auth.to_vec())
    };
    words.filter_map(named).next_back().unwrap_or_else(|| "none".into())
}

fn ninja_in_path(path: Option<&OsStr>) -> Vec<u8> {
    let Some(found) = other_ninja::all_in(path).next() else {
        return "none".into();
    };
    let which: &[u8] = if other_ninja::is_this_program(&found) { b"this program" } else { b"another program" };
    [found.as_os_str().as_bytes(), b" (", which, b")"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    #[test]
    fn columns_are_aligned() {
        let rows =
            [DoctorRow("a".into(), b"1".to_vec(), b"x".to_vec()), DoctorRow("long".into(), b"22".to_vec(), Vec::new())];
        assert_eq!(aligned(&rows), b"a     1   x\nlong  22\n");
    }

    #[test]
    fn last_jobserver_counts() {
        assert_eq!(jobserver(None), b"none");
        assert_eq!(jobserver(Some(OsStr::new(" -j4 --jobserver-auth=3,4"))), b"3,4");
        let two = " -j --jobserver-fds=3,4 --jobserver-auth=fifo:/tmp/x -- A=b";
        assert_eq!(jobserver(Some(OsStr::new(two))), b"fifo:/tmp/x");
    }

    #[test]
    fn settings_have_values_and_sources() {
        let dir = Scratch::new("doctor");
        dir.write(".tanto/config", "# ours\njobs = 0\n");
        dir.write(".ninja_log", "# ninja log v5\n1\t2\t3\tout\tabc\n");
        let place = dir.text();
        let args = ["-C", place, "-k", "0", "--hang-timeout=90s", "--record=off", "target"].map(Vec::from);
        let around = EnvVars::from([
            ("TANTO_FLAGS", "--quiet -w dupbuild=err"),
            ("NINJA_STATUS", "%p "),
            ("TANTO_THREADS", "2"),
            ("TANTO_SNAPSHOT", "always"),
        ]);
        let stop = run(&args, &around).expect("valid");
        let lines = |text: Vec<u8>| -> Vec<String> {
            let text = String::from_utf8(text).expect("text");
            text.lines()
                .map(|line| {
                    line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<_>>().join("|")
                })
                .collect()
        };
        let out = lines(stop.out);
        let at = format!("jobs|no limit|{place}/.tanto/config:2");
        let expected = [
            "verbosity|quiet|TANTO_FLAGS",
            "status|\"%p \"|NINJA_STATUS",
            &at[..],
            "keep-going|no limit|command line",
            "max-load|no limit|default",
            "log-version|as the other ninja in PATH, else 7|default",
            "format|live on a terminal (under the name ninja: plain)|default",
            "hang-timeout|1m30s|command line",
            "timeout|no limit|default",
            "leftovers|report|default",
            "memory|free memory|default",
            "jobserver|a pipe, unless there is a jobserver (under the name ninja: off)|default",
            "clang-worker|if there is one|default",
            "checkpoints|of 8 files (under the name ninja: none)|default",
            "verify-checkpoints|none|default",
            "threads|2|TANTO_THREADS",
            "snapshots|always|TANTO_SNAPSHOT",
            "record|off|command line",
        ];
        assert_eq!(out[2..20], expected);
        assert!(out.iter().any(|line| line == "its .ninja_log|version 5"), "{out:?}");
        assert!(out.iter().any(|line| line == "your config|none (no HOME)"), "{out:?}");
        assert_eq!((lines(stop.err), stop.code), (vec!["tanto: warning: deprecated warning 'dupbuild'".to_owned()], 0));
    }

    #[test]
    fn help_and_errors() {
        let ask = |arg: &str| run(&[arg.into()], &EnvVars::default()).err();
        assert_eq!(ask("-h"), Some(CommandLineError::Help));
        assert_eq!(ask("-jx"), Some(CommandLineError::Fatal(b"invalid -j parameter".to_vec())));
    }
}
