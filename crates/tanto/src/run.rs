//! `tanto run`: runs one command under the monitor.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::input_recorder::InputRecorder;
use tanto_exec::job::ResourceLimits;
use tanto_exec::job::report::{MonitorReport, ProcessInfo};
use tanto_exec::monitor::watcher::{CgroupUse, Leftovers, WatchOptions, Watcher};
use tanto_exec::runner::clang;
use tanto_exec::single_command::{CommandResult, RunningCommand};
use tanto_record::views::process_list;

use crate::settings::declaration::TIME;
use crate::settings::values;

/// Exit code for failures of Tanto itself, as of `timeout` and `env`.
pub const OWN_FAILURE: u8 = 125;

/// Run a command and kill it if it hangs
///
/// Monitors the command and all processes below it, and passes on its output. If it hangs or takes too long, its
/// processes get SIGTERM, and SIGKILL ten seconds later; the last lines of its output and its process tree are printed.
/// The exit code is the command's, or 128 and the number of the signal that killed it; 123 if it hung, 124 if it took
/// too long, 125 if Tanto itself failed, 126 if the command cannot be run, 127 if it does not exist.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Kill the command after TIME without CPU use, output or new processes (such as 90s or 1h30m)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    hang_timeout: Option<TimeLimit>,
    /// Kill the command after TIME
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<TimeLimit>,
    /// Action for processes that outlive the command
    #[arg(long, value_name = "ACTION", default_value = "report", value_parser = PossibleValuesParser::new(values::leftovers::WORDS))]
    leftovers: String,
    /// Write to FILE which files and variables the command looks at
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    record_inputs: Option<PathBuf>,
    /// Command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// A limit in milliseconds; `None` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TimeLimit(Option<i64>);

fn parse_time(value: &str) -> Result<TimeLimit, String> {
    values::time(value.as_bytes()).map(TimeLimit).ok_or_else(|| format!("expected {TIME}"))
}

pub fn run(args: &RunArgs) -> CommandOutput {
    let limits = ResourceLimits {
        hang_ms: args.hang_timeout.and_then(|TimeLimit(ms)| ms),
        total_ms: args.timeout.and_then(|TimeLimit(ms)| ms),
        ..ResourceLimits::NONE
    };
    let groups = if limits.hang_ms.is_some() { CgroupUse::All } else { CgroupUse::None };
    let leftovers = values::leftovers::parse(args.leftovers.as_bytes()).unwrap_or(Leftovers::Report);
    let options = WatchOptions { limits, leftovers, cgroups: groups };
    match watch(&args.command, options, args.record_inputs.as_deref()) {
        Ok(output) => output,
        Err(error) => failed(&tanto_sys::error::text(&error), OWN_FAILURE),
    }
}

fn watch(words: &[OsString], options: WatchOptions, inputs: Option<&Path>) -> io::Result<CommandOutput> {
    let watcher = Watcher::new(options, clang::is_checkpoint_daemon)?;
    let name = words[0].as_encoded_bytes();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let mut recording = inputs.map(Recording::begin).transpose()?;
    if let Some(Recording { recorder, .. }) = &recording {
        command.envs([recorder.preload(), recorder.begin(ONLY_COMMAND)?]);
    }
    let running = match RunningCommand::start(command, watcher, options.leftovers) {
        Ok(running) => running,
        Err(error) => return Ok(no_command(name, &error)),
    };
    let mut output = output(name, &running.finish()?);
    if let Some(recording) = &mut recording {
        output.err.extend(recording.end()?.into_bytes());
    }
    Ok(output)
}

/// The number of the command in the recorder.
const ONLY_COMMAND: u32 = 0;

/// The list of inputs of a running command.
struct Recording {
    recorder: InputRecorder,
    path: PathBuf,
    file: File,
}

impl Recording {
    /// Creates the file for the list first: a long command does not run in vain.
    fn begin(path: &Path) -> io::Result<Recording> {
        let file = File::create(path).map_err(|error| about(path, &error))?;
        Ok(Recording { recorder: InputRecorder::create()?, path: path.to_owned(), file })
    }

    /// Writes the list. Returns a warning if it is incomplete.
    fn end(&mut self) -> io::Result<String> {
        let inputs = self.recorder.end(ONLY_COMMAND);
        self.file.write_all(inputs.text().as_bytes()).map_err(|error| about(&self.path, &error))?;
        let warning = |why| format!("tanto: warning: {} is incomplete: {why}\n", self.path.display());
        Ok(inputs.missing().map(warning).unwrap_or_default())
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The message and exit code of a shell for a command that cannot be started.
fn no_command(name: &[u8], error: &io::Error) -> CommandOutput {
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    failed(&[name, b": ", &tanto_sys::error::text(error)].concat(), code)
}

fn output(name: &[u8], result: &CommandResult) -> CommandOutput {
    let mut err = Vec::new();
    if let Some(stopped) = result.report.as_ref().and_then(|report| report.termination.as_ref()) {
        err.extend(process_list::termination(&[b"tanto: ", name].concat(), stopped));
        if !result.last_lines.is_empty() {
            err.extend_from_slice(b"last lines of its output:\n");
            err.extend_from_slice(&result.last_lines);
        }
    }
    err.extend(leftover_list(name, result.report.as_ref(), &result.left));
    CommandOutput { out: Vec::new(), err, code: result.code }
}

fn leftover_list(name: &[u8], report: Option<&MonitorReport>, left: &[ProcessInfo]) -> Vec<u8> {
    let killed = report.is_some_and(|report| report.leftovers_killed && !report.leftovers.is_empty());
    let (processes, text) = match report {
        Some(report) if killed => (&report.leftovers[..], " left processes behind, which were killed:\n"),
        _ => (left, " left processes behind:\n"),
    };
    if processes.is_empty() {
        return Vec::new();
    }
    [b"tanto: ", name, text.as_bytes(), &process_list::tree(processes)].concat()
}

fn failed(message: &[u8], code: u8) -> CommandOutput {
    CommandOutput::failed(message).with_code(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::command_line::{self, tests::parse};

    #[test]
    fn command_ends_the_options() {
        let args: RunArgs = parse("--timeout 2h --hang-timeout=90s sh -c x --timeout").unwrap();
        assert_eq!(args.command, ["sh", "-c", "x", "--timeout"]);
        assert_eq!(args.timeout, Some(TimeLimit(Some(7_200_000))));
        assert_eq!(args.hang_timeout, Some(TimeLimit(Some(90_000))));
        assert_eq!(parse::<RunArgs>("--leftovers kill -- -x").unwrap().command, ["-x"]);
        assert_eq!(parse::<RunArgs>("--timeout 0 x").unwrap().timeout, Some(TimeLimit(None)));
    }

    #[test]
    fn usage_errors_have_exit_code_125() {
        for (line, message) in [
            ("run", "tanto: error: the following required arguments were not provided: <COMMAND>..."),
            (
                "run --timeout x y",
                "tanto: error: invalid value 'x' for '--timeout <TIME>': expected a time such as 90s or 1h30m, 0 for none",
            ),
            ("run -j 4 x", "tanto: error: unexpected argument '-j'"),
        ] {
            let words: Vec<Vec<u8>> = line.split(' ').map(Vec::from).collect();
            let stop = command_line::dispatch(&words);
            let text = String::from_utf8(stop.err).unwrap();
            assert_eq!((text.lines().next(), stop.code), (Some(message), 125));
        }
    }
}
