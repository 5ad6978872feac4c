//! `--trace`: the file with the inputs of all commands, and what it shows.

use std::io;
use std::os::unix::ffi::OsStrExt;

use tanto_exec::event::Level;
use tanto_ninja::input_trace::{InputTrace, TraceSummary, TracedInput};

use super::{BuildRun, RunResult, view};
use crate::settings::Options;

/// Undeclared inputs that are printed; the file has all of them.
const MAX_PRINTED: usize = 10;

/// Creates the file. It is relative to the directory in which the program was started.
pub(super) fn create(options: &Options) -> Result<Option<InputTrace>, i32> {
    let Some(path) = &options.trace else { return Ok(None) };
    let fail = |text: &[u8]| {
        view::fatal(options.invocation, text);
        Err(1)
    };
    if options.watch {
        return fail(b"--trace and --watch exclude each other");
    }
    match InputTrace::create(path) {
        Ok(trace) => Ok(Some(trace)),
        Err(error) => fail(&message(options, &error)),
    }
}

fn message(options: &Options, error: &io::Error) -> Vec<u8> {
    let path = options.trace.as_deref().map_or(&b""[..], |path| path.as_os_str().as_bytes());
    [path, b": ", &tanto_sys::error::text(error)].concat()
}

impl BuildRun<'_> {
    /// Writes the rest of the file, and prints what it shows. `result`: that of the build.
    pub(super) fn finish_trace(&mut self, result: RunResult<()>) -> RunResult<()> {
        match self.input_trace.take().map(InputTrace::finish) {
            None => result,
            Some(Ok(summary)) => {
                self.print_trace(&summary);
                result
            }
            Some(Err(error)) => {
                let failed = self.error(&message(self.options, &error));
                result.and(Err(failed))
            }
        }
    }

    fn print_trace(&mut self, summary: &TraceSummary) {
        let path = self.options.trace.as_deref().map_or(&b""[..], |path| path.as_os_str().as_bytes()).to_vec();
        if summary.incomplete > 0 {
            let count = format!("{} of {} lists in ", summary.incomplete, summary.commands);
            self.say(Level::Warning, &[count.as_bytes(), &path, b" are incomplete"].concat());
        }
        self.print_inputs(b"neither the manifest nor a depfile names these inputs:", &summary.undeclared, &path);
        self.print_inputs(b"these commands may run before the ones that make their inputs:", &summary.unordered, &path);
    }

    fn print_inputs(&mut self, heading: &[u8], found: &[TracedInput], path: &[u8]) {
        if found.is_empty() {
            return;
        }
        let mut text = heading.to_vec();
        for input in found.iter().take(MAX_PRINTED) {
            text.extend([b"\n  ", &input.output[..], b": ", input.file.as_os_str().as_bytes()].concat());
            if let Some(output) = &input.made_with {
                text.extend([b", made with ", &output[..]].concat());
            }
        }
        if let Some(more) = found.len().checked_sub(MAX_PRINTED).filter(|&more| more > 0) {
            text.extend([format!("\n  and {more} more, in ").as_bytes(), path].concat());
        }
        self.say(Level::Warning, &text);
    }
}
