//! Selects and configures the view on standard output.

use std::io::{self, IsTerminal, Write};

use tanto_record::views::display::{Display, standard_output};
use tanto_record::views::live::LiveConfig;
use tanto_record::views::ninja::{NinjaConfig, Verbosity};
use tanto_record::views::status_format::{FormatError, ProgressFormat};
use tanto_record::views::terminal::Terminal;
use tanto_record::views::truncated_output::FullOutputHint;
use tanto_sys::machine::cpu;
use tanto_sys::terminal;

use crate::invocation::Invocation;
use crate::settings::Options;
use crate::settings::values::{OutputFormat, StatusFormat};

/// Creates the view. The error is about an invalid status format.
pub fn create(options: &Options) -> Result<Display, FormatError> {
    let format = match &options.settings.status.value {
        StatusFormat::Percent(text) => ProgressFormat::parse_ninja_status(text),
        StatusFormat::Variables(text) => ProgressFormat::parse_status(text)?,
    };
    let is_shown =
        options.settings.format.value != OutputFormat::Jsonl && options.settings.verbosity.value != Verbosity::Quiet;
    let checked = if is_shown { format.check() } else { Ok(()) };
    if options.settings.format.value == OutputFormat::Jsonl {
        return Ok(Display::lines());
    }
    let columns = Box::new(|| terminal::columns(io::stdout()));
    let terminal = Terminal::detect(io::stdout().is_terminal(), |name| std::env::var_os(name), columns);
    let own_file = if terminal.smart && wants_live(options) { standard_output() } else { None };
    Ok(match own_file {
        Some(out) => Display::live(live(options, format, &terminal), out, checked),
        None => Display::plain(plain(options, format), terminal, checked),
    })
}

/// The live view is not used with options that need every line.
fn wants_live(options: &Options) -> bool {
    let wanted = match options.settings.format.value {
        OutputFormat::Auto => options.invocation == Invocation::Tanto,
        OutputFormat::Live => true,
        OutputFormat::Plain | OutputFormat::Jsonl => false,
    };
    wanted && options.settings.verbosity.value == Verbosity::Normal && !options.dry_run && !options.debug.explain
}

fn plain(options: &Options, format: ProgressFormat) -> NinjaConfig {
    NinjaConfig {
        program: options.invocation.name(),
        verbosity: options.settings.verbosity.value,
        format,
        explain: options.debug.explain,
        holds: options.invocation == Invocation::Tanto,
        notes: options.invocation == Invocation::Tanto,
        rest: io::stdout().is_terminal().then(|| rest(options)),
        // Under the name `ninja`, failures go to the same stream as in ninja.
        failures_to_err: options.settings.format.value == OutputFormat::Plain
            && options.invocation == Invocation::Tanto,
        parallelism: parallelism(options),
    }
}

fn live(options: &Options, format: ProgressFormat, terminal: &Terminal) -> LiveConfig {
    LiveConfig {
        program: options.invocation.name(),
        format,
        own_format: options.settings.status.is_set(),
        parallelism: parallelism(options),
        rest: rest(options),
        color: terminal.color,
        unicode: terminal.unicode,
        size: Box::new(|| terminal::size(io::stdout())),
        in_background: Box::new(|| terminal::is_in_background(io::stdout())),
    }
}

/// Where the user finds output that was truncated on the terminal.
fn rest(options: &Options) -> FullOutputHint {
    if options.settings.record.value { FullOutputHint::Recorded(options.dir.clone()) } else { FullOutputHint::Lost }
}

/// The number of parallel commands, computed on demand: counting CPUs reads five files, and no-op builds do not need
/// it.
fn parallelism(options: &Options) -> Box<dyn Fn() -> usize> {
    let jobs = options.settings.jobs.value;
    Box::new(move || jobs.limit(cpu::count))
}

/// Prints `ninja: fatal: TEXT`; ignores errors.
pub fn fatal(invocation: Invocation, text: &[u8]) {
    let _ = io::stderr().write_all(&[invocation.name().as_bytes(), b": fatal: ", text, b"\n"].concat());
}
