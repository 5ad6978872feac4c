//! `tanto doctor`: each setting's value and where it came from, and what of the machine matters to a build. Runs no
//! program but the compile worker's, to ask for its version, and writes nothing.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_exec::monitor::watcher::Leftovers;
use tanto_exec::runner::clang::{is_left_alone_because_of, programs, stands_for};
use tanto_exec::runner::process::wants_the_shell;
use tanto_exec::text::table::Table;
use tanto_exec::text::units::ExactDuration;
use tanto_ninja::load::NINJA_VERSION;
use tanto_ninja::snapshot::SnapshotPolicy;
use tanto_record::views::ninja::Verbosity;
use tanto_sys::cgroup::{Hierarchy, OwnCgroups};
use tanto_sys::fs::state_dir::StateDirs;
use tanto_sys::machine::cpu;
use tanto_sys::machine::pressure::PressureMonitor;
use tanto_sys::process::Environment;
use tanto_sys::process::procs;
use tanto_sys::threads::ThreadLimit;

use crate::command_line;
use crate::flags::door::Door;
use crate::flags::low::LowArgs;
use crate::flags::stop::{Halt, Stop};
use crate::flags::{self};
use crate::ninja::{clang_worker, other_ninja};
use crate::settings::layer::{
    ClangWorker, ConfigFile, Jobs, JobserverMode, Kept, Memory, Origin, Said, Shown, StatusFormat,
};
use crate::settings::{self, Settings, Surroundings};

/// A line of the report: what, its value, and where the value came from.
struct Row(&'static str, Vec<u8>, Vec<u8>);

/// What `tanto doctor` prints for these arguments.
pub fn run(args: &[Vec<u8>], around: &Surroundings) -> Stop {
    let mut warnings = Vec::new();
    let mut warn = |text: &[u8]| warnings.extend_from_slice(&[b"tanto: warning: ", text, b"\n"].concat());
    match flags::all(Door::Tanto, args, around, &mut warn) {
        Ok(low) => Stop { out: report(low, around), err: warnings, code: 0 },
        Err(Halt::Help) => Stop::printed(command_line::help("doctor", command_line::wants_long_help(args)), 0),
        Err(halt) => Stop::of(halt, Door::Tanto, b"tanto doctor"),
    }
}

fn report(low: LowArgs, around: &Surroundings) -> Vec<u8> {
    let settings = Settings::of(low.layer, Door::Tanto);
    let dir = low.dir.as_deref();
    let mut text = format!("{}; as ninja it is {NINJA_VERSION}\n\n", Door::Tanto.version()).into_bytes();
    text.extend(aligned(&setting_rows(&settings, dir, around)));
    text.push(b'\n');
    text.extend(aligned(&machine_rows(dir, around)));
    text
}

fn aligned(rows: &[Row]) -> Vec<u8> {
    let mut table = Table::new(&[]);
    rows.iter().for_each(|Row(name, value, from)| table.row([name.as_bytes(), value, from]));
    table.text()
}

fn setting_rows(settings: &Settings, dir: Option<&[u8]>, around: &Surroundings) -> Vec<Row> {
    let from = |origin| origin_text(origin, dir, around);
    let mut rows = vec![
        Row("jobs", jobs(settings.jobs.value), from(settings.jobs.origin)),
        Row("keep-going", limit(settings.keep_going.value), from(settings.keep_going.origin)),
        Row("max-load", load(settings.max_load.value), from(settings.max_load.origin)),
        Row("verbosity", verbosity(settings.verbosity.value).into(), from(settings.verbosity.origin)),
        Row("status", status(&settings.status), from(settings.status.origin)),
        Row("format", shown(settings.format.value).into(), from(settings.format.origin)),
        Row("log-version", log_version(settings.log_version.value), from(settings.log_version.origin)),
        Row("hang-timeout", time(settings.hang_timeout.value), from(settings.hang_timeout.origin)),
        Row("timeout", time(settings.timeout.value), from(settings.timeout.origin)),
        Row("leftovers", leftovers(settings.leftovers.value).into(), from(settings.leftovers.origin)),
        Row("memory", memory(settings.memory.value), from(settings.memory.origin)),
        Row("jobserver", sharing(settings.jobserver.value).into(), from(settings.jobserver.origin)),
        Row("clang-worker", worker_use(settings.clang_worker.value).into(), from(settings.clang_worker.origin)),
        Row("checkpoints", kept(settings.checkpoints.value), from(settings.checkpoints.origin)),
        Row(
            "verify-checkpoints",
            doubted(settings.verify_checkpoints.value).into(),
            from(settings.verify_checkpoints.origin),
        ),
        Row("threads", threads(settings.threads.value), from(settings.threads.origin)),
        Row("snapshots", snapshots(settings.snapshots.value).into(), from(settings.snapshots.origin)),
        Row("record", if settings.record.value { "on" } else { "off" }.into(), from(settings.record.origin)),
    ];
    if settings.jobs.origin == Origin::Default {
        rows[0].2 = format!("default (under the name ninja: {})", Jobs::ProcessorsAndMore.limit(cpu::count)).into();
    }
    rows
}

fn origin_text(origin: Origin, dir: Option<&[u8]>, around: &Surroundings) -> Vec<u8> {
    match origin {
        Origin::Default => "default".into(),
        Origin::Flag => "command line".into(),
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

fn jobs(jobs: Jobs) -> Vec<u8> {
    match jobs {
        Jobs::Unlimited => "no limit".into(),
        jobs => jobs.limit(cpu::count).to_string().into(),
    }
}

fn memory(memory: Memory) -> Vec<u8> {
    match memory {
        Memory::Off => "not counted".into(),
        Memory::Free => "what is free".into(),
        Memory::AtMost(kib) => kibibytes(kib).into(),
    }
}

/// In MiB, or in KiB where that is not a whole number.
fn kibibytes(kib: u64) -> String {
    if kib.is_multiple_of(1 << 10) { format!("{} MiB", kib >> 10) } else { format!("{kib} KiB") }
}

fn sharing(jobserver: JobserverMode) -> &'static str {
    match jobserver {
        JobserverMode::Auto => "a pipe, if there is none already (under the name ninja: off)",
        JobserverMode::On => "a pipe",
        JobserverMode::Off => "off",
        JobserverMode::Fifo => "a fifo",
    }
}

fn worker_use(worker: ClangWorker) -> &'static str {
    match worker {
        ClangWorker::Auto => "if there is one",
        ClangWorker::Off => "off",
        ClangWorker::Require => "required",
    }
}

fn kept(kept: Kept) -> Vec<u8> {
    match kept {
        Kept::AtMost(0) => "none".into(),
        Kept::Auto => format!("of {} files (under the name ninja: none)", clang_worker::max_checkpoints(kept)).into(),
        kept => format!("of {} files", clang_worker::max_checkpoints(kept)).into(),
    }
}

fn doubted(one_in: u32) -> String {
    if one_in == 0 { "none".into() } else { format!("one in {one_in}") }
}

fn threads(threads: ThreadLimit) -> Vec<u8> {
    match threads {
        ThreadLimit::Auto => "as many as fit".into(),
        ThreadLimit::AtMost(most) => most.to_string().into(),
    }
}

fn time(limit_ms: Option<i64>) -> Vec<u8> {
    limit_ms.map_or("no limit".into(), |ms| ExactDuration(ms).to_string().into())
}

fn leftovers(leftovers: Leftovers) -> &'static str {
    match leftovers {
        Leftovers::Ignore => "ignore",
        Leftovers::Report => "report",
        Leftovers::Kill => "kill",
    }
}

fn snapshots(policy: SnapshotPolicy) -> &'static str {
    match policy {
        SnapshotPolicy::Auto => "where they save time",
        SnapshotPolicy::Always => "always",
        SnapshotPolicy::Off => "off",
    }
}

fn limit(count: u32) -> Vec<u8> {
    if count == u32::MAX { "no limit".into() } else { count.to_string().into() }
}

fn load(load: f64) -> Vec<u8> {
    if load > 0.0 { load.to_string().into() } else { "no limit".into() }
}

fn verbosity(verbosity: Verbosity) -> &'static str {
    match verbosity {
        Verbosity::Quiet => "quiet",
        Verbosity::Normal => "normal",
        Verbosity::Verbose => "verbose",
    }
}

fn shown(shown: Shown) -> &'static str {
    match shown {
        Shown::Auto => "live on a terminal (under the name ninja: plain)",
        Shown::Live => "live",
        Shown::Plain => "plain",
        Shown::Jsonl => "jsonl",
    }
}

fn status(status: &Said<StatusFormat>) -> Vec<u8> {
    let (StatusFormat::Percent(format) | StatusFormat::Variables(format)) = &status.value;
    [b"\"", &format[..], b"\""].concat()
}

fn log_version(version: Option<u32>) -> Vec<u8> {
    version.map_or_else(|| "that of the other ninja in PATH, else 7".into(), |version| version.to_string()).into()
}

fn machine_rows(dir: Option<&[u8]>, around: &Surroundings) -> Vec<Row> {
    let row = |name, value| Row(name, value, Vec::new());
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

/// Where it was looked for, up to where it is; which clang it stands for; and which ones builds in this directory have used.
fn compile_worker(state: &StateDirs) -> Vec<Vec<u8>> {
    let mut told = Vec::new();
    if let Some(name) = is_left_alone_because_of(&Environment::inherit_with(&[])) {
        told.push([b"not used, because of ", name, b" in the environment"].concat());
    }
    let places = clang_worker::candidates();
    match places.iter().find(|place| clang_worker::is_executable(place)) {
        Some(place) => {
            told.push(place.as_os_str().as_bytes().to_vec());
            let clang =
                stands_for(place).unwrap_or_else(|| b"nothing: it does not run; build it again by ./install".into());
            told.push([&b"stands for "[..], &clang].concat());
        }
        None => {
            told.extend(places.iter().map(|place| [place.as_os_str().as_bytes(), b" (none)"].concat()));
            told.push(format!("./install builds it, after: apt-get install {}", clang_worker::DEBIAN_PACKAGES).into());
        }
    }
    let met: Vec<_> =
        state.verified_dirs().flat_map(|place| programs(&place.join(clang_worker::IDENTITY_CACHE))).collect();
    if met.is_empty() {
        told.push(b"no build here has used a clang with it yet; gcc and other compilers are always processes".into());
    }
    for (program, is_ours) in met {
        let how: &[u8] = if is_ours {
            b" runs in it"
        } else {
            b" is another build of clang, and a process: ./install builds the worker anew"
        };
        told.push([b"builds here: ", program.as_os_str().as_bytes(), how].concat());
    }
    told
}

/// Which there are, and whether the monitor can use them.
fn control_groups(home: &OwnCgroups) -> Vec<u8> {
    let layout = match home.hierarchy() {
        Hierarchy::Unified => "version 2",
        Hierarchy::Hybrid => "version 1, and version 2 beside it",
        Hierarchy::Legacy => return "version 1 alone, which is not used".into(),
        Hierarchy::None => return "none".into(),
    };
    let usable = match home.obstacle() {
        Some(error) if error.kind() == ErrorKind::PermissionDenied => {
            "; not ours to use: run us by systemd-run --user --scope -p Delegate=yes".into()
        }
        Some(error) => [b"; not to be used: ", &tanto_sys::error::text(&error)[..]].concat(),
        None if home.could_count_memory() => b"; ours to use, with memory".to_vec(),
        None => b"; ours to use, without memory".to_vec(),
    };
    [layout.as_bytes(), &usable].concat()
}

/// What the monitor looks at.
fn process_trees() -> &'static str {
    match (procs::lists_children(), procs::pidfd(std::process::id()).is_some()) {
        (true, true) => "children are listed, signals cannot go astray",
        (false, true) => "found by a look at all processes (no CONFIG_PROC_CHILDREN)",
        (true, false) => "children are listed; no pidfd, which takes Linux 5.3",
        (false, false) => "found by a look at all processes; no pidfd, which takes Linux 5.3",
    }
}

fn free_memory() -> String {
    let free = PressureMonitor::open().sample().free_kib;
    free.map_or_else(|| "not known".into(), |kib| format!("{} MiB", kib >> 10))
}

/// What this kernel says of how hard pressed it is.
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

/// The first line says the version. A manifest can put the log elsewhere (`builddir`), which only loading it tells.
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
        _ => "no log of ninja's".into(),
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

/// The jobserver that `make` tells of; the last word that names one counts.
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
        let rows = [Row("a", b"1".to_vec(), b"x".to_vec()), Row("long", b"22".to_vec(), Vec::new())];
        assert_eq!(aligned(&rows), b"a     1   x\nlong  22\n");
    }

    #[test]
    fn the_last_jobserver_counts() {
        assert_eq!(jobserver(None), b"none");
        assert_eq!(jobserver(Some(OsStr::new(" -j4 --jobserver-auth=3,4"))), b"3,4");
        let two = " -j --jobserver-fds=3,4 --jobserver-auth=fifo:/tmp/x -- A=b";
        assert_eq!(jobserver(Some(OsStr::new(two))), b"fifo:/tmp/x");
    }

    #[test]
    fn says_who_said_what() {
        let dir = Scratch::new("doctor");
        dir.write(".tanto/config", "# ours\njobs = 0\n");
        dir.write(".ninja_log", "# ninja log v5\n1\t2\t3\tout\tabc\n");
        let place = dir.text();
        let args = ["-C", place, "-k", "0", "--hang-timeout=90s", "--record=off", "target"].map(Vec::from);
        let around = Surroundings {
            flags: Some("--quiet -w dupbuild=err".into()),
            ninja_status: Some("%p ".into()),
            threads: Some("2".into()),
            snapshots: Some("always".into()),
            ..Surroundings::default()
        };
        let stop = run(&args, &around);
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
            &at[..],
            "keep-going|no limit|command line",
            "max-load|no limit|default",
            "verbosity|quiet|TANTO_FLAGS",
            "status|\"%p \"|NINJA_STATUS",
            "format|live on a terminal (under the name ninja: plain)|default",
            "log-version|that of the other ninja in PATH, else 7|default",
            "hang-timeout|1m30s|command line",
            "timeout|no limit|default",
            "leftovers|report|default",
            "memory|what is free|default",
            "jobserver|a pipe, if there is none already (under the name ninja: off)|default",
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
    fn help_and_errors_are_its_own() {
        let ask = |arg: &str| run(&[arg.into()], &Surroundings::default());
        assert!(ask("-h").out.starts_with(b"Show every setting"));
        assert_eq!((ask("-jx").err, ask("-jx").code), (b"tanto: fatal: invalid -j parameter\n".to_vec(), 1));
    }
}
