//! What makes an output dirty though none of its inputs is: the file, what the log says of it, and the newest input.
//! Does not know where these come from, and changes nothing: several threads may measure at once.

use crate::disk::Mtime;
use crate::error::Result;
use crate::graph::CommandEvaluator;
use crate::graph::GraphView;
use crate::ids::{EdgeId, NodeId};
use crate::logs::BuildLog;

use super::state::Files;

/// Older than any file: the newest input of an edge that has none.
pub(super) const NO_INPUT: Mtime = Mtime::MIN;

/// What outputs are measured against.
#[derive(Clone, Copy)]
pub(super) struct Facts<'s, 't> {
    pub(super) graph: &'s GraphView<'t>,
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
    /// It is not known, nor to be asked for: it counts as the same as ever.
    Spared,
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
    /// How an edge whose newest input is this old is measured.
    pub(super) fn measure(&self, edge: EdgeId, newest: Mtime) -> Result<Measure> {
        let (restat, generator) = (self.graph.flag(edge, b"restat")?, self.graph.flag(edge, b"generator")?);
        let command = self.known_hash(edge).map_or(Command::Unknown, Command::Hashed);
        Ok(Measure { edge, restat, generator, newest, command })
    }

    /// As `measure`, but the edge's command counts only if its hash is known.
    pub(super) fn measure_but_command(&self, edge: EdgeId, newest: Mtime) -> Result<Measure> {
        let mut measure = self.measure(edge, newest)?;
        if let Command::Unknown = measure.command {
            measure.command = Command::Spared;
        }
        Ok(measure)
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

    /// Finds out which of these edges had the command that they have now, if the log has their outputs and if that
    /// matters, where that is not known.
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
        let mut entries = it.outs.iter().filter_map(|&out| self.log.made(self.graph, out));
        Ok(entries.all(|entry| entry.command_hash == hash))
    }

    fn known_hash(&self, edge: EdgeId) -> Option<u64> {
        self.graph.known_command_hash(edge, self.log.hash_kind())
    }

    fn is_other_command(&self, measure: &mut Measure, logged: u64) -> Result<bool> {
        match measure.command {
            Command::Spared => Ok(false),
            Command::Hashed(hash) => Ok(hash != logged),
            Command::Unknown => {
                let make = |command: &[u8]| self.log.hash_command(command);
                let hash = self.graph.command_hash(measure.edge, self.log.hash_kind(), make)?;
                measure.command = Command::Hashed(hash);
                Ok(hash != logged)
            }
        }
    }
}
