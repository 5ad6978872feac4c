//! Compares the content of inputs and outputs with the record of the last run of a command.
//!
//! A command that is out of date by times alone is up to date if its record says so. And a command that is up to date by
//! times runs again if an input has other content than its record says, such as a file that was replaced by an older one.

use tanto_cas::ContentDigest;
use tanto_sys::fs::fingerprint::Fingerprint;

use super::Scan;
use super::output_check::NO_INPUT;
use crate::content::{CommandRecord, ContentId, PathKey, SideEffects};
use crate::disk::Mtime;
use crate::error::Result;
use crate::explain::Explanation;
use crate::ids::{EdgeId, NodeId, PoolId};

/// Limit of phony edges within phony edges.
const MAX_NESTING: u32 = 64;

/// A command that is up to date although files are newer.
#[derive(Clone, Debug)]
pub struct Renewal {
    pub edge: EdgeId,
    /// The mtime of the newest input, as it was before its content was read.
    pub newest: Mtime,
    /// Outputs to which it is given, with their fingerprints.
    pub outputs: Vec<(NodeId, Fingerprint)>,
}

impl Scan<'_, '_> {
    /// Returns whether the edge must run, given that no input is dirty.
    pub fn is_out_of_date(&mut self, edge: EdgeId, newest_input: Option<NodeId>) -> Result<bool> {
        let by_times = self.edges.deps_stale(edge) || self.outputs_dirty(edge, newest_input)?;
        if self.contents.is_none() || self.graph.edge(edge).is_phony() {
            return Ok(by_times);
        }
        if !by_times {
            return self.has_other_content(edge);
        }
        if let Some(renewal) = self.renewal(edge, newest_input)? {
            let out = self.graph.path(self.graph.edge(edge).outs[0]);
            self.explanations.announce(&[out, b" is up to date: mtime changed, content equal"]);
            renewal.outputs.iter().for_each(|&(out, _)| self.files.set_mtime(out, renewal.newest));
            self.renewals.push(renewal);
            return Ok(false);
        }
        if self.edges.deps_stale(edge) {
            self.edges.set_deps_missing(edge);
        }
        Ok(true)
    }

    pub(crate) fn has_renewals(&self) -> bool {
        !self.renewals.is_empty()
    }

    pub(crate) fn take_renewals(&mut self) -> Vec<Renewal> {
        std::mem::take(&mut self.renewals)
    }

    /// Returns how the command becomes up to date by times too; `None` if it must run.
    fn renewal(&mut self, edge: EdgeId, newest_input: Option<NodeId>) -> Result<Option<Renewal>> {
        let Some(record) = self.record_of(edge)? else { return Ok(None) };
        let make = |command: &[u8]| self.log.hash_command(command);
        if self.graph.command_hash(edge, self.log.hash_kind(), make)? != record.log.command_hash {
            return Ok(None);
        }
        // Outputs first: there are fewer.
        let is_same = self.outputs_id(edge) == Some(record.outputs) && self.inputs_id(edge)? == Some(record.inputs);
        let newest = newest_input.map_or(NO_INPUT, |input| self.mtime(input));
        let mut outputs = Vec::new();
        if !self.graph.flag(edge, b"restat")? {
            let outs = self.graph.edge(edge).outs.iter().filter(|&&out| self.files.mtime(out) < newest);
            outputs.extend(outs.map(|&out| (out, self.files.state(out).fingerprint)));
        }
        let may_renew = is_same && outputs.iter().all(|&(out, _)| self.may_renew(out));
        Ok(may_renew.then_some(Renewal { edge, newest, outputs }))
    }

    /// Returns whether the times of an output may be set.
    fn may_renew(&self, out: NodeId) -> bool {
        let prepared = self.contents.as_ref().and_then(|contents| contents.prepared(out).may_renew);
        prepared.unwrap_or_else(|| self.disk.may_renew(self.graph.path(out)))
    }

    /// Returns whether an input has other content than when the command ran.
    fn has_other_content(&mut self, edge: EdgeId) -> Result<bool> {
        if self.contents.as_ref().is_none_or(|contents| contents.is_unchanged) {
            return Ok(false);
        }
        let Some(record) = self.record_of(edge)? else { return Ok(false) };
        let changed = self.dirtying_ins(edge).find(|&input| self.changed_after(input, record.made, 0));
        let Some(changed) = changed else { return Ok(false) };
        // It may have changed twice, and be as it was.
        if self.inputs_id(edge)?.is_none_or(|inputs| inputs == record.inputs) {
            return Ok(false);
        }
        self.explanations.note(self.graph.edge(edge).outs[0], Explanation::OtherContent(changed));
        Ok(true)
    }

    /// Returns the record of the edge's last run, if that was the last entry of its outputs in the log.
    pub(crate) fn record_of(&mut self, edge: EdgeId) -> Result<Option<CommandRecord>> {
        if !self.has_record(edge)? {
            return Ok(None);
        }
        let outs = self.graph.edge(edge).outs;
        let Some(contents) = &mut self.contents else { return Ok(None) };
        let record = contents.table().command(PathKey::of(self.graph.path(outs[0]))).copied();
        let is_last = |record: &CommandRecord| {
            outs.iter().all(|&out| self.log.logged_command(self.graph, out) == Some(record.log))
        };
        Ok(record.filter(is_last))
    }

    /// Returns whether content can decide about the edge.
    pub(crate) fn has_record(&self, edge: EdgeId) -> Result<bool> {
        let it = self.graph.edge(edge);
        let is_special = it.is_phony() || it.pool == PoolId::CONSOLE || it.dyndep.is_some();
        Ok(!is_special && !self.graph.flag(edge, b"generator")?)
    }

    /// Returns the id of all inputs, except order-only ones; `None` if the content of one cannot be determined.
    pub(crate) fn inputs_id(&mut self, edge: EdgeId) -> Result<Option<ContentId>> {
        let mut ids = Vec::new();
        for input in self.dirtying_ins(edge) {
            match self.input_id(input, 0)? {
                Some(id) => ids.extend_from_slice(&id.0),
                None => return Ok(None),
            }
        }
        Ok(Some(ContentId::of(&ids)))
    }

    pub(crate) fn outputs_id(&mut self, edge: EdgeId) -> Option<ContentId> {
        let outs = self.graph.edge(edge).outs;
        let ids: Option<Vec<[u8; 16]>> = outs.iter().map(|&out| self.output_id(out).map(|id| id.0)).collect();
        Some(ContentId::of(ids?.as_flattened()))
    }

    fn output_id(&mut self, out: NodeId) -> Option<ContentId> {
        if !self.is_large_result(out) {
            return self.file_id(out);
        }
        let fingerprint = self.files.state(out).fingerprint.0;
        Some(ContentId::of(&[&b"state"[..], &fingerprint.to_le_bytes(), self.graph.path(out)].concat()))
    }

    /// Returns the id of an input. If its maker may have side effects, which dependents may use, this includes what the
    /// maker was run with.
    fn input_id(&mut self, node: NodeId, nesting: u32) -> Result<Option<ContentId>> {
        if let Some(id) = self.contents.as_ref().and_then(|contents| contents.id(node)) {
            return Ok(Some(id));
        }
        let id = match self.graph.in_edge(node) {
            None => self.file_id(node),
            Some(maker) if self.graph.edge(maker).is_phony() => self.group_id(node, maker, nesting)?,
            Some(maker) => match self.file_id(node) {
                None => None,
                Some(file) => self.made_id(node, file, maker)?,
            },
        };
        if let (Some(id), Some(contents)) = (id, &mut self.contents) {
            contents.set_id(node, id);
        }
        Ok(id)
    }

    fn made_id(&mut self, node: NodeId, file: ContentId, maker: EdgeId) -> Result<Option<ContentId>> {
        let with = |what: &[u8]| ContentId::of(&[&file.0, what].concat());
        Ok(match self.record_of(maker)? {
            Some(CommandRecord { side_effects: SideEffects::None, .. }) => Some(file),
            Some(record) => Some(with(&record.inputs.0)),
            None => self
                .log
                .logged_command(self.graph, node)
                .map(|logged| with(&[logged.command_hash.to_le_bytes(), logged.mtime.to_le_bytes()].concat())),
        })
    }

    /// Returns the id of a phony output: of all members, and of the file if there is one.
    fn group_id(&mut self, node: NodeId, maker: EdgeId, nesting: u32) -> Result<Option<ContentId>> {
        let members = self.graph.edge(maker).dirtying_ins();
        let exists = self.files.exists(node);
        if nesting == MAX_NESTING || (members.is_empty() && !exists) {
            return Ok(None);
        }
        let mut ids = Vec::new();
        if exists {
            let Some(id) = self.file_id(node) else { return Ok(None) };
            ids.extend_from_slice(&id.0);
        }
        for &member in members {
            let Some(id) = self.input_id(member, nesting + 1)? else { return Ok(None) };
            ids.extend_from_slice(&id.0);
        }
        Ok(Some(ContentId::of(&ids)))
    }

    fn file_id(&mut self, node: NodeId) -> Option<ContentId> {
        if let Some(id) = self.contents.as_ref()?.prepared(node).id {
            return Some(id);
        }
        let digest = self.digest(node)?;
        Some(ContentId::of_file(self.graph.path(node), &digest))
    }

    /// Returns the digest of a file in the state in which it was found.
    fn digest(&mut self, node: NodeId) -> Option<ContentDigest> {
        if !self.files.exists(node) {
            return None;
        }
        let (path, state) = (self.graph.path(node), self.files.state(node));
        let contents = self.contents.as_mut()?;
        let key = PathKey::of(path);
        if let Some(entry) = contents.table().file(key).filter(|entry| entry.is_of(state)) {
            return Some(entry.digest);
        }
        if let Some(digest) = contents.just_read(node, state) {
            return Some(digest);
        }
        let found = self.disk.digest(path, &self.systems).ok().flatten()?;
        if found.state.fingerprint != state.fingerprint {
            return None;
        }
        contents.note_read(key, &found, self.graph.in_edge(node).is_none());
        Some(found.digest)
    }

    /// Returns whether the content of a file, or of a member of a group, changed after this build. If that cannot be
    /// determined, times decide.
    fn changed_after(&mut self, node: NodeId, build: u32, nesting: u32) -> bool {
        if let Some(maker) = self.graph.in_edge(node).filter(|&maker| self.graph.edge(maker).is_phony()) {
            let members = self.graph.edge(maker).dirtying_ins();
            if nesting < MAX_NESTING && members.iter().any(|&member| self.changed_after(member, build, nesting + 1)) {
                return true;
            }
        }
        self.last_change(node).is_some_and(|changed| changed > build)
    }

    /// Returns the number of the build that found the file's content first.
    fn last_change(&mut self, node: NodeId) -> Option<u32> {
        if !self.files.exists(node) {
            return None;
        }
        let state = self.files.state(node);
        let contents = self.contents.as_mut()?;
        if let Some(changed) = contents.last_change(node) {
            return Some(changed);
        }
        let key = PathKey::of(self.graph.path(node));
        let entry = *contents.table().file(key)?;
        if !entry.may_be_of(state) {
            self.digest(node)?;
        }
        let contents = self.contents.as_mut()?;
        let changed = contents.table().file(key)?.changed;
        contents.set_last_change(node, changed);
        Some(changed)
    }
}
