//! Which view a run has: today, ninja's status lines on standard output. Does not know what is shown.

use std::io::{self, IsTerminal, Write};

use tanto_record::format::Format;
use tanto_record::ninja::{Config, NinjaView};
use tanto_record::terminal::Terminal;
use tanto_sys::{cpu, terminal};

use crate::flags::Options;
use crate::flags::door::Door;
use crate::settings::layer::StatusFormat;

/// The view that the options ask for. An error is a format that makes no sense.
pub fn of(options: &Options) -> Result<NinjaView, Vec<u8>> {
    let format = match &options.status {
        StatusFormat::Percent(text) => Format::ninja_status(text),
        StatusFormat::Variables(text) => Format::status(text).map_err(|bad| bad.0)?,
    };
    let config = Config {
        program: options.door.name(),
        verbosity: options.verbosity,
        format,
        parallelism: options.jobs.limit(cpu::count),
    };
    let columns = Box::new(|| terminal::columns(io::stdout()));
    let terminal = Terminal::detect(io::stdout().is_terminal(), |name| std::env::var_os(name), columns);
    Ok(NinjaView::new(config, terminal, Box::new(io::stdout()), Box::new(io::stderr())))
}

/// Says `ninja: fatal: TEXT`; that nobody hears it is no error.
pub fn fatal(door: Door, text: &[u8]) {
    let _ = io::stderr().write_all(&[door.name().as_bytes(), b": fatal: ", text, b"\n"].concat());
}
