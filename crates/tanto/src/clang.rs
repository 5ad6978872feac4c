//! `tanto clang`: shows and stops the compiles that are kept between builds.

use std::ffi::{OsStr, OsString};

use clap::{Args, Subcommand, ValueHint};
use tanto_exec::command_output::CommandOutput;
use tanto_exec::runner::clang::installation::{self, CHECKPOINT_DIR};
use tanto_exec::runner::clang::{self, Held};

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
        ClangCommand::Status => installation::checkpoint_usage(&state).as_ref().map(Held::text),
        ClangCommand::Stop => {
            let stopped = state.verified_dirs().filter(|top| clang::stop(&top.join(CHECKPOINT_DIR))).count();
            (stopped > 0).then(Vec::new)
        }
    };
    CommandOutput::printed(answer.unwrap_or_else(|| b"no checkpoints are kept here\n".into()), 0)
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
}
