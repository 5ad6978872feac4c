//! The damage found in the snapshot of a run, and the messages printed before.

use std::sync::Arc;

use crate::flat::Blocks;
use crate::graph::Graph;

/// The checks of the snapshot in use.
#[derive(Default)]
pub struct SnapshotChecks {
    /// The mapped snapshot of this round, until it is verified.
    blocks: Option<Arc<Blocks>>,
    /// Set after damage was found: this run loads the manifest as text.
    disabled: bool,
    /// Messages of this round and of the abandoned one.
    messages: Vec<Vec<u8>>,
    earlier_messages: Vec<Vec<u8>>,
}

impl SnapshotChecks {
    /// Returns whether damage was found in the parts read so far. Then nothing may be printed or done because of them.
    pub fn found_damage(&self) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.is_damaged())
    }

    /// Begins a round without a snapshot.
    pub fn new_round(&mut self) {
        self.blocks = None;
        self.messages.clear();
    }

    /// Uses the snapshot of this graph from now on.
    pub fn watch(&mut self, graph: &Graph<'_>) {
        self.blocks = graph.blocks().cloned();
    }

    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Verifies the whole snapshot with this many threads, counted only if there is one. Returns false if it is damaged.
    /// After this it is trusted.
    pub fn check_all(&mut self, threads: impl FnOnce() -> usize) -> bool {
        let is_sound = self.blocks.as_ref().is_none_or(|blocks| blocks.check_all(threads()));
        if is_sound {
            self.blocks = None;
        }
        is_sound
    }

    /// Begins again without the snapshot.
    pub fn disable(&mut self) {
        let earlier_messages = std::mem::take(&mut self.messages);
        *self = SnapshotChecks { disabled: true, earlier_messages, ..SnapshotChecks::default() };
    }

    /// Returns false if the abandoned round has printed the message.
    pub fn is_new(&mut self, text: &[u8]) -> bool {
        if let Some(at) = self.earlier_messages.iter().position(|messages| messages == text) {
            self.earlier_messages.swap_remove(at);
            return false;
        }
        if self.blocks.is_some() {
            self.messages.push(text.into());
        }
        true
    }
}
