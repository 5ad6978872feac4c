//! Messages shared by the views.

use tanto_exec::event::Level;
use tanto_exec::job::report::{ProcessInfo, Termination};
use tanto_exec::job::{Exit, JobInfo};

use crate::views::process_list;

/// Formats a failure in ninja's words: outputs and command.
pub(crate) fn failure(info: &JobInfo, exit: Exit, color: bool) -> Vec<u8> {
    let (red, plain) = if color { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
    let mut text = format!("{red}FAILED: [code={}] {plain}", exit.code()).into_bytes();
    for output in &info.outputs {
        text.extend_from_slice(output);
        text.push(b' ');
    }
    text.push(b'\n');
    text.extend_from_slice(&info.command);
    text.push(b'\n');
    text
}

pub(crate) fn termination(program: &str, info: &JobInfo, stopped: &Termination) -> Vec<u8> {
    process_list::termination(&[program.as_bytes(), b": '", name(info), b"'"].concat(), stopped)
}

pub(crate) fn left_behind(program: &str, info: &JobInfo, left: &[ProcessInfo], killed: bool) -> Vec<u8> {
    let what = if killed { "' left processes behind, which were killed:" } else { "' left processes behind:" };
    let mut text = message(program, Level::Warning, &[b"'", name(info), what.as_bytes()].concat());
    text.extend(process_list::tree(left));
    text
}

/// Returns a name for a job: its first output or its command.
fn name(info: &JobInfo) -> &[u8] {
    info.outputs.first().unwrap_or(&info.command)
}

/// Formats a message with the program's name and the level.
pub(crate) fn message(program: &str, level: Level, text: &[u8]) -> Vec<u8> {
    let kind = match level {
        Level::Info => ": ",
        Level::Warning => ": warning: ",
        Level::Error => ": error: ",
        Level::Explain => " explain: ",
    };
    [program.as_bytes(), kind.as_bytes(), text, b"\n"].concat()
}
