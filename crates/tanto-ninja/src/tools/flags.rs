//! What a tool's flags are, and what becomes of a wrong one. Does not know what the flags mean.

use super::{Context, Stop};
use crate::getopt::Bad;
use crate::getopt::given::Plain;

pub(super) use crate::getopt::given::{Given, both, letter, name};

/// A tool's flags. `-h` asks for the usage in every tool.
pub(super) struct Flags {
    pub(super) known: &'static [Plain],
    /// Printed for `-h` and after a mistake.
    pub(super) usage: &'static str,
}

impl Flags {
    /// Reads the arguments. A mistake is reported as `getopt` does, by the name the tool was called.
    pub(super) fn parse(&self, context: &mut Context<'_, '_>, args: &[Vec<u8>]) -> Result<Given, Stop> {
        match Given::read(self.known, args) {
            Ok(given) if given.has("h") => Err(Stop::Usage(self.usage)),
            Ok(given) => Ok(given),
            Err(Bad { message: text, .. }) => {
                context.err.write_all(&[&context.options.called, b": ".as_slice(), &text, b"\n"].concat())?;
                Err(Stop::Usage(self.usage))
            }
        }
    }
}
