//! The options of a build, from all sources.

use std::path::PathBuf;

use super::declaration::Settings;
use super::modes::Debug;
use super::parser::{FollowTarget, LowArgs, ToolCall};
use crate::invocation::Invocation;

#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    pub invocation: Invocation,
    pub settings: Settings,
    /// Change to this directory first.
    pub dir: Option<Vec<u8>>,
    pub manifest: Vec<u8>,
    pub dry_run: bool,
    pub debug: Debug,
    /// `-w phonycycle=err`
    pub phony_cycle_is_error: bool,
    /// The tool to run instead of a build.
    pub tool: Option<ToolCall>,
    /// Build again whenever a source file changes.
    pub watch: bool,
    /// The command whose output is shown while it runs.
    pub follow: Option<FollowTarget>,
    /// Run the commands of the targets even if they are up to date.
    pub again: bool,
    /// The file for what commands look at.
    pub trace: Option<PathBuf>,
    /// Empty for the default targets.
    pub targets: Vec<Vec<u8>>,
    /// The user's cache directory; `None` without a home.
    pub cache: Option<PathBuf>,
}

impl Options {
    pub(super) fn of(invocation: Invocation, low: LowArgs, cache: Option<PathBuf>) -> Self {
        Options {
            invocation,
            settings: Settings::of(low.layer, invocation),
            dir: low.dir,
            manifest: low.manifest.unwrap_or_else(|| b"build.ninja".to_vec()),
            dry_run: low.dry_run,
            debug: low.debug,
            phony_cycle_is_error: low.phony_cycle_is_error.unwrap_or(false),
            tool: low.tool,
            watch: low.watch,
            follow: low.follow,
            again: low.again,
            trace: low.trace,
            targets: low.targets,
            cache,
        }
    }
}

#[cfg(test)]
mod tests;
