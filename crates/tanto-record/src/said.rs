//! What every view on a terminal says in the same words: failures and messages. Does not know where they go.

use tanto_exec::event::Level;
use tanto_exec::job::{About, Exit};

/// A job failed: what it should have made, and its command. ninja's bytes.
pub(crate) fn failure(about: &About, exit: Exit, color: bool) -> Vec<u8> {
    let (red, plain) = if color { ("\x1b[31m", "\x1b[0m") } else { ("", "") };
    let mut text = format!("{red}FAILED: [code={}] {plain}", exit.code()).into_bytes();
    for output in &about.outputs {
        text.extend_from_slice(output);
        text.push(b' ');
    }
    text.push(b'\n');
    text.extend_from_slice(&about.command);
    text.push(b'\n');
    text
}

/// A message of the program of that name.
pub(crate) fn message(program: &str, level: Level, text: &[u8]) -> Vec<u8> {
    let kind = match level {
        Level::Info => ": ",
        Level::Warning => ": warning: ",
        Level::Error => ": error: ",
        Level::Explain => " explain: ",
    };
    [program.as_bytes(), kind.as_bytes(), text, b"\n"].concat()
}
