//! `tanto clang`: shows and stops the compiles that are kept between builds.

use std::ffi::{OsStr, OsString};

use clap::{Args, Subcommand, ValueHint};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::runner::clang::{self, Held, Without};

use crate::ninja::clang_worker::{self, CHECKPOINT_DIR};
use crate::settings::EnvVars;

/// Show or stop the compiles that are kept between builds
///
/// With --checkpoints, compiles stay paused at the end of their includes until the next build. They also end half an
/// hour after the last build, when memory is short, or when the build directory is removed.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct ClangArgs {
    /// Build directory
    #[arg(short = 'C', value_name = "DIR", global = true, value_hint = ValueHint::DirPath)]
    dir: Option<OsString>,
    #[command(subcommand)]
    command: ClangCommand,
}

#[derive(Subcommand, Debug)]
enum ClangCommand {
    /// Print the files with a checkpoint, the memory they take, and the files without one and why
    Status,
    /// Stop the processes that keep checkpoints
    Stop,
}

pub fn run(args: &ClangArgs) -> CommandOutput {
    let state = EnvVars::of_process().state(args.dir.as_deref().map(OsStr::as_encoded_bytes));
    let answer = match args.command {
        ClangCommand::Status => clang_worker::checkpoint_usage(&state).map(status),
        ClangCommand::Stop => {
            let stopped = state.verified_dirs().filter(|top| clang::stop(&top.join(CHECKPOINT_DIR))).count();
            (stopped > 0).then(Vec::new)
        }
    };
    CommandOutput::printed(answer.unwrap_or_else(|| b"no checkpoints are kept here\n".into()), 0)
}

fn status(held: Held) -> Vec<u8> {
    let mut text = [b"checkpoints: ", &brief(&held)[..], b"\n"].concat();
    for file in &held.files {
        text.extend_from_slice(&[b"  ", &file[..], b"\n"].concat());
    }
    if !held.without.is_empty() {
        text.extend_from_slice(b"without one:\n");
    }
    for Without { file, why } in &held.without {
        text.extend_from_slice(&[b"  ", &file[..], b": ", why, b"\n"].concat());
    }
    text
}

/// One line about the checkpoints.
pub fn brief(held: &Held) -> Vec<u8> {
    let Held { pid, most, wanted, memory_kib, files, .. } = held;
    let more = if *wanted > 0 { format!(", {wanted} yet to be made") } else { String::new() };
    let (count, mib) = (files.len(), memory_kib >> 10);
    format!("{count} of at most {most}, {mib} MiB, in process {pid}{more}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_without_checkpoints_is_not_an_error() {
        for command in [ClangCommand::Status, ClangCommand::Stop] {
            let stop = run(&ClangArgs { dir: Some("/nowhere".into()), command });
            assert_eq!((stop.out, stop.code), (b"no checkpoints are kept here\n".to_vec(), 0));
        }
    }

    #[test]
    fn status_lists_files_with_and_without_checkpoints() {
        let without = vec![Without { file: b"b.c".to_vec(), why: b"its includes print warnings".to_vec() }];
        let held = Held { pid: 7, most: 8, wanted: 1, memory_kib: 123_456, files: vec![b"a.c".to_vec()], without };
        let text = String::from_utf8(status(held)).unwrap();
        let first = "checkpoints: 1 of at most 8, 120 MiB, in process 7, 1 yet to be made\n  a.c\n";
        assert_eq!(text, format!("{first}without one:\n  b.c: its includes print warnings\n"));
    }
}
