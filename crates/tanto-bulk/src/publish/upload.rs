//! Uploads packages and reports with rsync, and mails reports.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::list::Listed;
use super::{DIGESTS, SUMMARY};
use crate::config::Config;
use crate::coordinator::state::State;
use crate::error::BulkError;
use crate::package::ALL;
use crate::report::{RunRows, machine};

/// pbulk's machine-readable report, compressed.
pub(super) const REPORT: &str = "report.gz";

/// Uploads the listed packages with their list and digests. Other files of the server are deleted if the arguments ask so.
pub(super) fn packages(config: &Config, dir: &str, listed: &[Listed], log: &mut String) -> Result<(), BulkError> {
    let target = &config.pkg_rsync_target;
    let names = listed.iter().map(|it| it.file.as_str()).chain([SUMMARY]);
    let mut rules: Vec<String> = names.map(|name| format!("+ /{ALL}/{name}\n")).collect();
    rules.extend([format!("+ /{ALL}/\n"), format!("+ /{DIGESTS}\n"), "- *\n".into()]);
    let arguments = &config.pkg_rsync_args;
    Upload { config, arguments, dir: Path::new(dir), target, object: "the packages" }.run(&rules.concat(), log)
}

/// Uploads the report and the logs of failed packages.
pub(super) fn report(config: &Config, rows: &RunRows, log: &mut String) -> Result<(), BulkError> {
    if config.report_rsync_target.is_empty() {
        return Ok(());
    }
    let target = format!("{}/{}", config.report_rsync_target, machine::directory(rows.run.began_ms));
    let files = [REPORT, "report.txt", "report.html", "report.json", "status"];
    let mut rules: Vec<String> = files.iter().map(|name| format!("+ /meta/{name}\n")).collect();
    rules.push("+ /meta/\n".into());
    for failed in rows.packages.iter().filter(|it| it.state == State::Failed.name()) {
        // Earlier versions of Tanto wrote logs into the directory of the package, without one for each attempt.
        rules.push(format!("+ /{0}/\n+ /{0}/*/\n+ /{0}/**.log\n", failed.name));
    }
    rules.push("- *\n".into());
    let dir = Path::new(&config.bulklog);
    let arguments = &config.report_rsync_args;
    Upload { config, arguments, dir, target: &target, object: "the report" }.run(&rules.concat(), log)
}

/// Mails the report to its recipients.
pub(super) fn mail(config: &Config, rows: &RunRows, text: &str, log: &mut String) -> Result<(), BulkError> {
    if config.report_recipients.trim().is_empty() {
        return Ok(());
    }
    let status = std::fs::read_to_string(config.meta_dir().join("status")).unwrap_or_default();
    let platform = status.lines().find_map(|line| line.strip_prefix("PLATFORM=")).unwrap_or_default();
    let subject = format!("{} {platform} {}", config.report_subject_prefix, machine::iso(rows.run.began_ms));
    let mut command = Command::new(&config.mail);
    command.arg("-s").arg(subject.trim()).args(config.report_recipients.split_whitespace());
    run_with_input(command, text.as_bytes(), "cannot mail the report")?;
    *log += &format!("the report was sent to {}\n", config.report_recipients);
    Ok(())
}

struct Upload<'a> {
    config: &'a Config,
    arguments: &'a str,
    dir: &'a Path,
    target: &'a str,
    object: &'a str,
}

impl Upload<'_> {
    /// Runs rsync with filter rules, unless there is no target.
    fn run(&self, rules: &str, log: &mut String) -> Result<(), BulkError> {
        let Upload { config, arguments, dir, target, object } = *self;
        if target.is_empty() {
            return Ok(());
        }
        let mut command = Command::new(&config.rsync);
        // rsync keeps files of interrupted transfers here (--delay-updates); --delete-excluded would remove them.
        command.arg("--filter=P .~tmp~/");
        command.arg("--exclude-from=-").args(arguments.split_whitespace()).arg(".").arg(target).current_dir(dir);
        let why = format!("sent only part of {object} to {target}: the files that rsync lists above");
        run_with_input(command, rules.as_bytes(), &why)?;
        *log += &format!("{object}: sent to {target}\n");
        Ok(())
    }
}

/// Runs a command with an input; its output is the user's.
fn run_with_input(mut command: Command, input: &[u8], failure: &str) -> Result<(), BulkError> {
    let program = command.get_program().to_owned();
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(BulkError::io("starting ", &program))?;
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
    let status = child.wait().map_err(BulkError::io("waiting for ", &program))?;
    match written {
        // The command closed its input early; its exit status decides.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(BulkError::io("writing to ", &program)(error)),
        _ if status.success() => Ok(()),
        _ => Err(format!("{failure} ({} ended with {status})", program.display()).into()),
    }
}
