//! `tanto doctor`: prints every setting with its source, and the state of the machine that builds depend on.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tanto_exec::command_output::CommandOutput;
use tanto_exec::machine_summary;
use tanto_exec::runner::clang::installation;
use tanto_exec::text::table::Table;
use tanto_ninja::load::NINJA_VERSION;
use tanto_ninja::logs::BuildLog;
use tanto_ninja::other_ninja;

use crate::invocation::Invocation;
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
    // A log in another directory (`builddir`) is not found.
    let log = Path::new(OsStr::from_bytes(dir.unwrap_or_default())).join(".ninja_log");
    let mut rows = vec![
        row("build directory", directory(dir)),
        row("its .ninja_log", BuildLog::describe(&log)),
        row("its config", presence(Some(settings::build_file(dir)))),
        row("your config", presence(around.user_file())),
        row("state of tanto build", presence(around.state(dir).read_dirs().next().map(Path::to_path_buf))),
        row("state of ninja", presence(around.state(dir).read_dirs().nth(1).map(Path::to_path_buf))),
    ];
    rows.extend(machine_summary::rows().into_iter().map(|(name, value)| row(name, value)));
    rows.push(row("ninja in PATH", ninja_in_path(std::env::var_os("PATH").as_deref())));
    let state = around.state(dir);
    rows.extend(installation::checkpoint_usage(&state).map(|held| row("checkpoints kept", held.brief())));
    rows.extend(installation::describe(&state).into_iter().map(|place| row("compilers", place)));
    rows
}

fn directory(dir: Option<&[u8]>) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(dir.unwrap_or(b".")));
    match path.canonicalize() {
        Ok(path) => path.into_os_string().into_vec(),
        Err(error) => [path.as_os_str().as_bytes(), b": ", &tanto_sys::error::text(&error)].concat(),
    }
}

fn presence(path: Option<PathBuf>) -> Vec<u8> {
    let Some(path) = path else {
        return "none (no HOME)".into();
    };
    let there: &[u8] = if path.exists() { b"" } else { b" (none)" };
    [path.as_os_str().as_bytes(), there].concat()
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
            "clang-worker|where it is cheaper|default",
            "checkpoints|of 8 files (under the name ninja: none)|default",
            "verify-checkpoints|none|default",
            "threads|2|TANTO_THREADS",
            "snapshots|always|TANTO_SNAPSHOT",
            "content|content decides (under the name ninja: timestamps)|default",
            "cache|off|default",
            "cache-size|10 GiB|default",
            "cache-rules|none|default",
            "record|off|command line",
        ];
        assert_eq!(out[2..24], expected);
        assert!(out.iter().any(|line| line == "its .ninja_log|version 5"), "{out:?}");
        assert!(out.iter().any(|line| line == "your config|none (no HOME)"), "{out:?}");
        assert_eq!((lines(stop.err), stop.code), (vec!["tanto: warning: deprecated warning 'dupbuild'".to_owned()], 0));
    }

    #[test]
    fn help_and_errors() {
        let ask = |arg: &str| run(&[arg.into()], &EnvVars::default()).err();
        assert!(matches!(ask("-h"), Some(CommandLineError::Help)));
        assert!(ask("-jx").is_some_and(|error| error.to_string() == "invalid -j parameter"));
    }
}
