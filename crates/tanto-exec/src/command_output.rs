//! The output and the exit code of a command of `tanto`.

use std::io::Write;

/// Texts for standard output and standard error, and the exit code.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CommandOutput {
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub code: u8,
}

impl CommandOutput {
    pub fn printed(text: impl Into<Vec<u8>>, code: u8) -> Self {
        CommandOutput { out: text.into(), code, ..CommandOutput::default() }
    }

    /// A line on standard error, `PROGRAM: LEVEL: MESSAGE`, and exit code 1.
    pub fn message(program: &str, level: &str, message: &[u8]) -> Self {
        let err = [program.as_bytes(), b": ", level.as_bytes(), b": ", message, b"\n"].concat();
        CommandOutput { err, code: 1, ..CommandOutput::default() }
    }

    /// The message `tanto: error: MESSAGE` and exit code 1.
    pub fn failed(message: impl AsRef<[u8]>) -> Self {
        CommandOutput::message("tanto", "error", message.as_ref())
    }

    pub fn with_code(self, code: u8) -> Self {
        CommandOutput { code, ..self }
    }

    pub fn print(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Adds `tanto: error: MESSAGE` and raises the exit code to `code`.
    pub fn fail(&mut self, message: &[u8], code: u8) {
        self.err.extend(CommandOutput::failed(message.trim_ascii_end()).err);
        self.code = self.code.max(code);
    }

    /// Prints both texts, ignoring errors, and returns the exit code.
    pub fn exit(self) -> i32 {
        let _ = std::io::stdout().write_all(&self.out).and_then(|()| std::io::stdout().flush());
        let _ = std::io::stderr().write_all(&self.err);
        self.code.into()
    }
}
