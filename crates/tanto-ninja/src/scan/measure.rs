//! What makes an output dirty though none of its inputs is: the file, what the log says of it, and the newest input.
//! Does not know where these come from, and changes nothing: several threads may measure at once.

use crate::disk::Mtime;
use crate::error::Result;
use crate::graph::{EdgeId, Known, NodeId};
use crate::log::BuildLog;

use super::state::Files;

/// Older than any file: the newest input of an edge that has none.
pub(super) const NO_INPUT: Mtime = Mtime::MIN;

/// What outputs are measured against.
#[derive(Clone, Copy)]
pub(super) struct Facts<'s, 't> {
    pub(super) graph: &'s Known<'t>,
    pub(super) log: &'s BuildLog,
    pub(super) files: &'s Files,
}

/// What the outputs of an edge are measured by.
pub(super) struct Measure {
    pub(super) edge: EdgeId,
    restat: bool,
    generator: bool,
    /// The mtime of the newest input that makes the edge dirty, or `NO_INPUT`.
    pub(super) newest: Mtime,
    command: Command,
}

/// What is known of an edge's command.
enum Command {
    Unknown,
    Hashed(u64),
    /// Where the log has an output, it was made by this command; or that is not to be asked.
    Same,
}

/// Why an output is dirty though none of its inputs is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    Missing,
    /// Its file is older than the newest input.
    Older,
    NotLogged,
    OtherCommand,
    /// Its mtime in the log, this one, is older than the newest input.
    LoggedBefore(Mtime),
}

impl Facts<'_, '_> {
    /// How an edge whose newest input is this old is measured; without its command, where that `is_same`.
    pub(super) fn measure(&self, edge: EdgeId, newest: Mtime, is_same: bool) -> Result<Measure> {
        let (restat, generator) = (self.graph.flag(edge, b"restat")?, self.graph.flag(edge, b"generator")?);
        let command = if is_same { Command::Same } else { Command::Unknown };
        Ok(Measure { edge, restat, generator, newest, command })
    }

    /// Why the output is dirty, if it is.
    pub(super) fn reason(&self, measure: &mut Measure, out: NodeId) -> Result<Option<Reason>> {
        if !self.files.exists(out) {
            return Ok(Some(Reason::Missing));
        }
        let entry = self.log.made(self.graph, out);
        // A restat command may have left its output older than its input on purpose: then the log knows better.
        if !(measure.restat && entry.is_some()) && self.files.mtime(out) < measure.newest {
            return Ok(Some(Reason::Older));
        }
        let Some(entry) = entry else { return Ok((!measure.generator).then_some(Reason::NotLogged)) };
        if !measure.generator && self.is_other_command(measure, entry.command_hash)? {
            return Ok(Some(Reason::OtherCommand));
        }
        Ok((entry.mtime < measure.newest).then_some(Reason::LoggedBefore(entry.mtime)))
    }

    /// Is none of the edge's outputs dirty?
    pub(super) fn are_good(&self, measure: &mut Measure) -> Result<bool> {
        for &out in self.graph.edge(measure.edge).outs {
            if self.reason(measure, out)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Was each output that the log has made by the command that its edge has now, or is that no matter?
    pub(super) fn is_same_command(&self, edge: EdgeId) -> Result<bool> {
        if self.graph.flag(edge, b"generator")? {
            return Ok(true);
        }
        let hash = self.hash(edge)?;
        let outs = self.graph.edge(edge).outs;
        Ok(outs.iter().filter_map(|&out| self.log.made(self.graph, out)).all(|it| it.command_hash == hash))
    }

    fn is_other_command(&self, measure: &mut Measure, logged: u64) -> Result<bool> {
        match measure.command {
            Command::Same => Ok(false),
            Command::Hashed(hash) => Ok(hash != logged),
            Command::Unknown => {
                let hash = self.hash(measure.edge)?;
                measure.command = Command::Hashed(hash);
                Ok(hash != logged)
            }
        }
    }

    fn hash(&self, edge: EdgeId) -> Result<u64> {
        self.graph.command_hash(edge, self.log.hash_kind(), |command| self.log.hash_command(command))
    }
}
