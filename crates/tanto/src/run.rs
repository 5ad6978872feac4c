//! `tanto run`: one command under the monitor. Does not know what the command does.

mod command;
pub mod tail;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use tanto_exec::job::ResourceLimits;
use tanto_exec::job::report::{MonitorReport, ProcessInfo};
use tanto_exec::monitor::watcher::{CgroupUse, Leftovers, WatchOptions, Watcher};
use tanto_exec::runner::clang;
use tanto_ninja::getopt::{Bad, Getopt};
use tanto_record::views::process_list;

use crate::flags::door::Door;
use crate::flags::low;
use crate::flags::stop::Stop;
use crate::flags::table::RUN_FLAGS;
use crate::run::command::{Ended, Running};
use crate::settings::layer::{Layer, Origin};
use crate::{commands, help};

/// What Tanto exits with if it cannot do its own part, as `timeout` and `env` do.
const OWN_FAILURE: u8 = 125;

/// Runs the command that these arguments name, and says what is to be said at its end.
pub fn run(args: &[Vec<u8>]) -> Stop {
    if let Some(b"-h" | b"--help") = args.first().map(Vec::as_slice) {
        return Stop::printed(commands::find(b"run").map(help::topic).unwrap_or_default(), 0);
    }
    let (layer, words) = match read(args) {
        Ok(read) => read,
        Err(message) => return failed(&message, OWN_FAILURE),
    };
    let limits = ResourceLimits {
        hang_ms: layer.hang_timeout.and_then(|said| said.value),
        total_ms: layer.timeout.and_then(|said| said.value),
        ..ResourceLimits::NONE
    };
    let groups = if limits.hang_ms.is_some() { CgroupUse::All } else { CgroupUse::None };
    let leftovers = layer.leftovers.map_or(Leftovers::Report, |said| said.value);
    match watch(&words, WatchOptions { limits, leftovers, cgroups: groups }) {
        Ok(stop) => stop,
        Err(error) => failed(&tanto_sys::error::text(&error), OWN_FAILURE),
    }
}

/// The flags, and the command with its arguments.
fn read(args: &[Vec<u8>]) -> Result<(Layer, Vec<Vec<u8>>), Vec<u8>> {
    let mut layer = Layer::default();
    let mut getopt = Getopt::new(RUN_FLAGS, args, true);
    while let Some((flag, value)) = getopt.flag().map_err(Bad::with_hint)? {
        if !layer.say(flag.id, value, Origin::Flag) {
            return Err(low::wrong_value(flag));
        }
    }
    let words = getopt.into_operands();
    if words.is_empty() { Err(b"run what? 'tanto help run' tells more".to_vec()) } else { Ok((layer, words)) }
}

fn watch(words: &[Vec<u8>], options: WatchOptions) -> io::Result<Stop> {
    let watcher = Watcher::new(options, clang::is_checkpoint_daemon)?;
    let mut command = Command::new(OsStr::from_bytes(&words[0]));
    command.args(words[1..].iter().map(|word| OsStr::from_bytes(word)));
    let running = match Running::start(command, watcher, options.leftovers) {
        Ok(running) => running,
        Err(error) => return Ok(no_command(&words[0], &error)),
    };
    Ok(told(&words[0], &running.finish()?))
}

/// What shells say, and their exit codes.
fn no_command(name: &[u8], error: &io::Error) -> Stop {
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    failed(&[name, b": ", &tanto_sys::error::text(error)].concat(), code)
}

fn told(name: &[u8], ended: &Ended) -> Stop {
    let mut err = Vec::new();
    if let Some(stopped) = ended.report.as_ref().and_then(|findings| findings.termination.as_ref()) {
        err.extend(process_list::termination(&[b"tanto: ", name].concat(), stopped));
        if !ended.last_lines.is_empty() {
            err.extend_from_slice(b"the last lines that it printed were:\n");
            err.extend_from_slice(&ended.last_lines);
        }
    }
    err.extend(left(name, ended.report.as_ref(), &ended.left));
    Stop { out: Vec::new(), err, code: ended.code }
}

fn left(name: &[u8], findings: Option<&MonitorReport>, left: &[ProcessInfo]) -> Vec<u8> {
    let killed = findings.is_some_and(|findings| findings.leftovers_killed && !findings.leftovers.is_empty());
    let (processes, what) = match findings {
        Some(findings) if killed => (&findings.leftovers[..], " left processes behind, which were killed:\n"),
        _ => (left, " left processes behind:\n"),
    };
    if processes.is_empty() {
        return Vec::new();
    }
    [b"tanto: ", name, what.as_bytes(), &process_list::tree(processes)].concat()
}

fn failed(message: &[u8], code: u8) -> Stop {
    Stop { code, ..Stop::failed(Door::Tanto, "error", message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').filter(|word| !word.is_empty()).map(|word| word.into()).collect()
    }

    #[test]
    fn flags_end_where_the_command_begins() {
        let (layer, command) = read(&words("--timeout 2h --hang-timeout=90s sh -c x --timeout")).unwrap();
        assert_eq!(command, words("sh -c x --timeout"));
        assert_eq!(layer.timeout.unwrap().value, Some(7_200_000));
        assert_eq!(layer.hang_timeout.unwrap().value, Some(90_000));
        assert_eq!(read(&words("--leftovers kill -- -x")).unwrap().1, words("-x"));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (line, message) in [
            ("", "tanto: error: run what? 'tanto help run' tells more\n"),
            (
                "--timeout x y",
                "tanto: error: invalid --timeout parameter: expected a time such as 90s or 1h30m, 0 for none\n",
            ),
            ("-j 4 x", "tanto: error: invalid option -- 'j'\n"),
        ] {
            let stop = run(&words(line));
            assert_eq!((String::from_utf8(stop.err).unwrap().as_str(), stop.code), (message, 125));
        }
    }
}
