//! The output and the exit code of a command.

use std::io::Write;

use crate::invocation::Invocation;

/// Texts for standard output and standard error, and the exit code.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CommandOutput {
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub code: u8,
}

impl CommandOutput {
    pub fn printed(text: impl Into<Vec<u8>>, code: u8) -> Self {
        CommandOutput { out: text.into(), err: Vec::new(), code }
    }

    /// A line on standard error, `ninja: fatal: MESSAGE`, and exit code 1.
    pub fn failed(invocation: Invocation, level: &str, message: &[u8]) -> Self {
        let err = [invocation.name().as_bytes(), b": ", level.as_bytes(), b": ", message, b"\n"].concat();
        CommandOutput { out: Vec::new(), err, code: 1 }
    }

    /// Prints both texts, ignoring errors, and returns the exit code.
    pub fn exit(self) -> i32 {
        let _ = std::io::stdout().write_all(&self.out).and_then(|()| std::io::stdout().flush());
        let _ = std::io::stderr().write_all(&self.err);
        self.code.into()
    }
}
