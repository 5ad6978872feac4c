//! Checks an output against its file, its log entry and the newest input. Does not modify state, so several threads can
//! check at once.

use crate::disk::Mtime;
use crate::error::Result;
use crate::graph::CommandEvaluator;
use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::BuildLog;

use super::state::FileStates;

/// The newest input's mtime for an edge without inputs: older than any file.
pub(super) const NO_INPUT: Mtime = Mtime::MIN;

/// The state that outputs are checked against.
#[derive(Clone, Copy)]
pub(super) struct DirtyInputs<'s, 't> {
    pub(super) graph: &'s GraphView<'t>,
    pub(super) log: &'s BuildLog,
    pub(super) files: &'s FileStates,
}

/// The properties of an edge that its outputs are checked with.
pub(super) struct OutputCheck {
    pub(super) edge: EdgeId,
    restat: bool,
    generator: bool,
    /// The mtime of the newest dirtying input, or `NO_INPUT`.
    pub(super) newest: Mtime,
    command: Command,
}

enum Command {
    Unknown,
    Hashed(u64),
    /// Unknown, and not to be computed; treated as unchanged.
    Ignored,
}

/// The reason an output is dirty although none of its inputs is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DirtyReason {
    Missing,
    /// The file is older than the newest input.
    Older,
    NotLogged,
    OtherCommand,
    /// The mtime in the log, which is older than the newest input.
    LoggedBefore(Mtime),
}

impl DirtyInputs<'_, '_> {
    pub(super) fn output_check(&self, edge: EdgeId, newest: Mtime) -> Result<OutputCheck> {
        let (restat, generator) = (self.graph.flag(edge, b"restat")?, self.graph.flag(edge, b"generator")?);
        let command = self.known_hash(edge).map_or(Command::Unknown, Command::Hashed);
        Ok(OutputCheck { edge, restat, generator, newest, command })
    }

    /// Like `output_check`, but ignores the command unless its hash is known.
    pub(super) fn check_ignoring_unknown_command(&self, edge: EdgeId, newest: Mtime) -> Result<OutputCheck> {
        let mut output_check = self.output_check(edge, newest)?;
        if let Command::Unknown = output_check.command {
            output_check.command = Command::Ignored;
        }
        Ok(output_check)
    }

    /// Returns the reason the output is dirty, or `None` if it is clean.
    pub(super) fn reason(&self, output_check: &mut OutputCheck, out: NodeId) -> Result<Option<DirtyReason>> {
        if !self.files.exists(out) {
            return Ok(Some(DirtyReason::Missing));
        }
        let entry = self.log.logged_command(self.graph, out);
        // A restat command may have left its output older than its input on purpose; then the log's mtime decides.
        if !(output_check.restat && entry.is_some()) && self.files.mtime(out) < output_check.newest {
            return Ok(Some(DirtyReason::Older));
        }
        let Some(entry) = entry else { return Ok((!output_check.generator).then_some(DirtyReason::NotLogged)) };
        if !output_check.generator && self.is_other_command(output_check, entry.command_hash)? {
            return Ok(Some(DirtyReason::OtherCommand));
        }
        Ok((entry.mtime < output_check.newest).then_some(DirtyReason::LoggedBefore(entry.mtime)))
    }

    pub(super) fn all_clean(&self, output_check: &mut OutputCheck) -> Result<bool> {
        for &out in self.graph.edge(output_check.edge).outs {
            if self.reason(output_check, out)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds out whether these edges still have the commands in the log. Skips edges whose hash is known or does not
    /// matter.
    pub(super) fn compare_commands(&self, edges: impl Iterator<Item = Option<EdgeId>>, same: &mut [bool]) {
        let mut commands = CommandEvaluator::new(self.graph);
        let mut hashes = Vec::new();
        for (edge, same) in edges.zip(&mut *same) {
            let Some(edge) = edge else { continue };
            *same = self.is_same_command(edge, &mut commands, &mut hashes).unwrap_or(false);
        }
        if commands.are_unchanged() {
            hashes.into_iter().for_each(|(edge, hash)| self.graph.note_command_hash(edge, self.log.hash_kind(), hash));
        } else {
            same.fill(false);
        }
    }

    fn is_same_command(
        &self,
        edge: EdgeId,
        commands: &mut CommandEvaluator<'_, '_>,
        hashes: &mut Vec<(EdgeId, u64)>,
    ) -> Result<bool> {
        let it = self.graph.edge(edge);
        if it.is_phony() || self.known_hash(edge).is_some() || self.graph.flag(edge, b"generator")? {
            return Ok(true);
        }
        let hash = self.log.hash_command(commands.for_hash(edge)?);
        hashes.push((edge, hash));
        let mut entries = it.outs.iter().filter_map(|&out| self.log.logged_command(self.graph, out));
        Ok(entries.all(|entry| entry.command_hash == hash))
    }

    /// Returns the hash of the edge's command, if it was computed before.
    pub(super) fn known_hash(&self, edge: EdgeId) -> Option<u64> {
        self.graph.known_command_hash(edge, self.log.hash_kind())
    }

    fn is_other_command(&self, output_check: &mut OutputCheck, logged: u64) -> Result<bool> {
        match output_check.command {
            Command::Ignored => Ok(false),
            Command::Hashed(hash) => Ok(hash != logged),
            Command::Unknown => {
                let make = |command: &[u8]| self.log.hash_command(command);
                let hash = self.graph.command_hash(output_check.edge, self.log.hash_kind(), make)?;
                output_check.command = Command::Hashed(hash);
                Ok(hash != logged)
            }
        }
    }
}
