//! Digests of single inputs: the lines of which the digest of a list is made. They are remembered while no command runs,
//! because most lists of a build have most names in common.

use tanto_cas::{ContentDigest, Digest};

use super::{Aspect, InputName, Map, Seen};
use crate::places::Places;

/// Where a name is in the table of names. Each generation of the table has one name at a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct NameId {
    pub(crate) generation: u64,
    pub(crate) offset: u32,
}

/// An input as the digest of a list sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Of the aspect, the name and what was seen.
    pub(super) digest: Digest,
    pub(super) identity: Identity,
    /// The clock of file systems before it was last confirmed.
    pub(super) at: i64,
}

/// Which file it is. Lists tell one file with two names from two equal files.
#[derive(Clone, Copy, Debug)]
pub(super) enum Identity {
    None,
    /// The device and the inode of a directory, or of a file that was not read.
    Name((u64, u64)),
    File {
        content: ContentDigest,
        device_and_inode: (u64, u64),
        mtime: i64,
    },
}

impl Identity {
    pub(super) fn of(seen: &Seen) -> Identity {
        match seen {
            Seen::File(file) => Identity::File {
                content: file.digest,
                device_and_inode: (file.stat.device, file.stat.inode),
                mtime: file.stat.mtime,
            },
            Seen::Directory { stat, .. } | Seen::Present(stat) => Identity::Name((stat.device, stat.inode)),
            Seen::Text(_) | Seen::Device | Seen::Nothing | Seen::Unknown => Identity::None,
        }
    }
}

#[derive(Default)]
pub(super) struct Lines {
    /// All sets of hidden places: at most four in a build.
    hidden: Vec<Places>,
    /// The set of the current list.
    current: usize,
    /// By the name, the aspect and the set. With the round in which they were confirmed.
    known: Map<(NameId, Aspect, usize), (Line, u64)>,
}

impl Lines {
    /// Prepares for a list in which these places are hidden. Returns the number of the set.
    pub(super) fn begin(&mut self, places: &Places) -> usize {
        self.current = self.hidden.iter().position(|hidden| hidden == places).unwrap_or_else(|| {
            self.hidden.push(places.clone());
            self.hidden.len() - 1
        });
        self.current
    }

    /// Returns a line that was confirmed in this round.
    pub(super) fn find(&self, input: &InputName<'_>, round: u64) -> Option<Line> {
        let key = (input.id?, input.aspect, self.current);
        self.known.get(&key).filter(|(_, confirmed)| *confirmed == round).map(|(line, _)| *line)
    }

    pub(super) fn insert(&mut self, input: &InputName<'_>, round: u64, line: Line) {
        if let Some(id) = input.id {
            self.known.insert((id, input.aspect, self.current), (line, round));
        }
    }
}
