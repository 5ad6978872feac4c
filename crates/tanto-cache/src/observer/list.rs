//! Computes one digest of all inputs in a list.

use tanto_cas::Digest;
use tanto_sys::fs::file_stamp::{fine_now, wait_until_after};
use tanto_sys::fs::stat::FileKind;

use super::lines::{Identity, Line, NameId};
use super::{Aspect, Observer, Seen};
use crate::places::Places;

/// A name in a list of inputs, with placeholders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct InputName<'n> {
    pub(crate) aspect: Aspect,
    pub(crate) name: &'n [u8],
    /// `None` if it was not looked up.
    pub(crate) id: Option<NameId>,
}

/// The state of all inputs in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Evaluation {
    pub(crate) digest: Digest,
    /// Nothing has changed since then.
    pub(crate) seen_at: i64,
    /// The newest mtime of all files.
    pub(crate) newest: i64,
}

/// Buffers.
#[derive(Default)]
pub(super) struct Scratch {
    line: Vec<u8>,
    path: Vec<u8>,
    value: Vec<u8>,
}

impl Observer {
    /// Looks at all names of a list; `None` if one cannot be compared. Files that are newer than the moment at which others
    /// were seen would look changed to the next build, so then the others are confirmed.
    pub(crate) fn evaluate(&mut self, names: &[InputName<'_>], places: &Places) -> Option<Evaluation> {
        let first = self.evaluate_as_seen(names, places)?;
        if first.newest <= first.seen_at {
            return Some(first);
        }
        // A file from the future would be waited for in vain.
        if first.newest <= fine_now() {
            wait_until_after(first.newest - 1);
        }
        self.distrust_all();
        self.evaluate_as_seen(names, places).filter(|second| second.newest <= second.seen_at)
    }

    /// Like `evaluate`, but never confirms valid sightings.
    pub(crate) fn evaluate_as_seen(&mut self, names: &[InputName<'_>], places: &Places) -> Option<Evaluation> {
        let set = self.lines.begin(places);
        let done = self.progress.begin(names, (self.round, set));
        for name in &names[done..] {
            let (line, is_lasting) = self.line(name, places)?;
            self.progress.add(name, &line, is_lasting);
        }
        Some(self.progress.evaluation())
    }

    /// Returns a line, and whether it stays as it is in this round; `None` if the input cannot be compared.
    fn line(&mut self, input: &InputName<'_>, places: &Places) -> Option<(Line, bool)> {
        if let Some(line) = self.lines.find(input, self.round) {
            return Some((line, true));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let found = self.new_line(input, places, &mut scratch);
        self.scratch = scratch;
        found
    }

    fn new_line(&mut self, input: &InputName<'_>, places: &Places, scratch: &mut Scratch) -> Option<(Line, bool)> {
        let &InputName { aspect, name, .. } = input;
        let path = places.show_in_path(name, &mut scratch.path);
        let sighting = self.see(aspect, path);
        let text = &mut scratch.line;
        text.clear();
        text.push(aspect as u8);
        put(text, name);
        put_seen(text, &sighting.seen, places, &mut scratch.value)?;
        let at = if aspect == Aspect::Variable { i64::MAX } else { sighting.at };
        let line = Line { digest: Digest::of(text), identity: Identity::of(&sighting.seen), at };
        let sighting = sighting.clone();
        let is_lasting = self.is_valid(aspect, &sighting);
        if is_lasting {
            self.lines.insert(input, self.round, line);
        }
        Some((line, is_lasting))
    }
}

fn put(text: &mut Vec<u8>, bytes: &[u8]) {
    text.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    text.extend_from_slice(bytes);
}

/// Returns `None` if it cannot be compared.
fn put_seen(text: &mut Vec<u8>, seen: &Seen, places: &Places, buffer: &mut Vec<u8>) -> Option<()> {
    match seen {
        Seen::File(file) => {
            text.push(if file.stat.is_executable { b'x' } else { b'f' });
            text.extend_from_slice(&file.digest.0);
        }
        Seen::Directory { names, .. } => {
            text.push(b'd');
            text.extend_from_slice(&names.0);
        }
        Seen::Present(stat) => text.push(match stat.kind {
            FileKind::File if stat.is_executable => b'X',
            FileKind::File => b'F',
            FileKind::Directory => b'D',
            FileKind::Other => b'O',
        }),
        Seen::Text(found) => {
            text.push(b't');
            put(text, places.hide_in_path(found, buffer));
        }
        Seen::Device => text.push(b'c'),
        Seen::Nothing => text.push(b'-'),
        Seen::Unknown => return None,
    }
    Some(())
}
