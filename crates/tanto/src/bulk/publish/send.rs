//! Sends packages, reports and letters, by programs that know how. Does not know what is in them.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use tanto_bulk::config::Config;
use tanto_bulk::coordinator::state::State;
use tanto_bulk::package::ALL;
use tanto_bulk::publish::list::Listed;
use tanto_bulk::publish::{DIGESTS, SUMMARY};
use tanto_bulk::report::{Rows, machine};

use crate::bulk::{files, meta};

/// pbulk's machine-readable report, packed.
pub(super) const REPORT: &str = "report.gz";

/// The packages, and what is told of them all, from this directory. All else there stays, and what the server has of it
/// goes if the arguments say so.
pub(super) fn packages(config: &Config, dir: &str, listed: &[Listed], told: &mut String) -> Result<(), Vec<u8>> {
    let target = &config.pkg_rsync_target;
    let names = listed.iter().map(|it| it.file.as_str()).chain([SUMMARY]);
    let mut rules: Vec<String> = names.map(|name| format!("+ /{ALL}/{name}\n")).collect();
    rules.extend([format!("+ /{ALL}/\n"), format!("+ /{DIGESTS}\n"), "- *\n".into()]);
    let sent = Upload { config, arguments: &config.pkg_rsync_args, dir: Path::new(dir), target, what: "the packages" };
    sent.run(&rules.concat(), told)
}

/// The report, and the logs of what failed.
pub(super) fn report(config: &Config, rows: &Rows, told: &mut String) -> Result<(), Vec<u8>> {
    if config.report_rsync_target.is_empty() {
        return Ok(());
    }
    let target = format!("{}/{}", config.report_rsync_target, machine::directory(rows.run.began_ms));
    let files = [REPORT, "report.txt", "report.html", "report.json", "status"];
    let mut rules: Vec<String> = files.iter().map(|name| format!("+ /meta/{name}\n")).collect();
    rules.push("+ /meta/\n".into());
    for failed in rows.packages.iter().filter(|it| it.state == State::Failed.name()) {
        rules.push(format!("+ /{0}/\n+ /{0}/*.log\n", failed.name));
    }
    rules.push("- *\n".into());
    let dir = Path::new(&config.bulklog);
    let sent = Upload { config, arguments: &config.report_rsync_args, dir, target: &target, what: "the report" };
    sent.run(&rules.concat(), told)
}

/// The report, to those who want it.
pub(super) fn letter(config: &Config, rows: &Rows, text: &str, told: &mut String) -> Result<(), Vec<u8>> {
    if config.report_recipients.trim().is_empty() {
        return Ok(());
    }
    let status = meta::dir(config).join("status");
    let status = std::fs::read_to_string(&status).unwrap_or_default();
    let platform = status.lines().find_map(|line| line.strip_prefix("PLATFORM=")).unwrap_or_default();
    let subject = format!("{} {platform} {}", config.report_subject_prefix, machine::iso(rows.run.began_ms));
    let mut command = Command::new(&config.mail);
    command.arg("-s").arg(subject.trim()).args(config.report_recipients.split_whitespace());
    fed(command, text.as_bytes(), "the report could not be sent to those who want it")?;
    *told += &format!("the report was sent to {}\n", config.report_recipients);
    Ok(())
}

/// What rsync is to do.
struct Upload<'a> {
    config: &'a Config,
    arguments: &'a str,
    dir: &'a Path,
    target: &'a str,
    what: &'a str,
}

impl Upload<'_> {
    /// Nothing, if there is no target. The rules say what is sent.
    fn run(&self, rules: &str, told: &mut String) -> Result<(), Vec<u8>> {
        let Upload { config, arguments, dir, target, what } = *self;
        if target.is_empty() {
            return Ok(());
        }
        let mut command = Command::new(&config.rsync);
        // Where rsync keeps what an interrupted transfer has sent (--delay-updates): --delete-excluded would remove it.
        command.arg("--filter=P .~tmp~/");
        command.arg("--exclude-from=-").args(arguments.split_whitespace()).arg(".").arg(target).current_dir(dir);
        let why = format!("not all of {what} got to {target}: what rsync lists above was sent, the rest was not");
        fed(command, rules.as_bytes(), &why)?;
        *told += &format!("{what}: sent to {target}\n");
        Ok(())
    }
}

/// Runs a command with this input; its output is the user's.
fn fed(mut command: Command, input: &[u8], why: &str) -> Result<(), Vec<u8>> {
    let program = command.get_program().as_encoded_bytes().to_vec();
    let mut child =
        command.stdin(Stdio::piped()).spawn().map_err(|error| files::failed("starting ", &program, &error))?;
    let given = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input));
    let status = child.wait().map_err(|error| files::failed("waiting for ", &program, &error))?;
    match given {
        // It did not want to read all of it; how it ended says whether that is right.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(files::failed("writing to ", &program, &error)),
        _ if status.success() => Ok(()),
        _ => Err(format!("{why} ({} ended with {status})", String::from_utf8_lossy(&program)).into_bytes()),
    }
}
