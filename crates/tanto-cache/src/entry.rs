//! The file of an action: the lists of inputs of its runs, and their results.

use tanto_cas::{ContentDigest, Digest};
use tanto_exec::job::Cost;

use crate::input_names::PackedList;

const MAGIC: &[u8; 4] = b"TCA3";
/// Results of one action. A new one replaces the oldest.
pub(crate) const MAX_ENTRIES: usize = 16;
/// Maximum size of the file.
pub(crate) const MAX_BYTES: u64 = 4 << 20;
/// The result depends on a path that the key hides.
const DEPENDS_ON_PLACE: u8 = 1;

/// All known results of an action, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ActionFile {
    /// The key, which hides paths, must not be used.
    pub(crate) depends_on_place: bool,
    pub(crate) entries: Vec<Entry>,
}

/// The inputs of a run, and its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) list: PackedList,
    /// Names and states of the inputs.
    pub(crate) inputs: Digest,
    /// The command looked for its outputs, and found none.
    pub(crate) needs_absent_outputs: bool,
    pub(crate) result: ActionResult,
}

/// The result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ActionResult {
    /// In the order of the declaration.
    pub(crate) outputs: Vec<StoredOutput>,
    pub(crate) depfile: Option<Digest>,
    /// Printed text; `None` if there was none.
    pub(crate) text: Option<Digest>,
    pub(crate) cost: Cost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StoredOutput {
    pub(crate) blob: Digest,
    /// Of the same bytes, faster to verify.
    pub(crate) content: ContentDigest,
    pub(crate) is_executable: bool,
}

impl ActionResult {
    /// All blobs.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = Digest> {
        self.outputs.iter().map(|output| output.blob).chain(self.depfile).chain(self.text)
    }
}

impl ActionFile {
    /// Adds an entry, and removes one with the same inputs.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.entries.retain(|it| !it.is_about_same(&entry));
        self.entries.insert(0, entry);
        self.entries.truncate(MAX_ENTRIES);
    }

    /// `key`: the action's. A file in the place of another one's is damaged.
    pub(crate) fn encode(&self, key: &Digest) -> Vec<u8> {
        let mut body = vec![if self.depends_on_place { DEPENDS_ON_PLACE } else { 0 }];
        body.push(u8::try_from(self.entries.len()).unwrap_or(0));
        self.entries.iter().for_each(|entry| entry.encode(&mut body));
        ActionFile::sealed(&body, key)
    }

    /// Returns a file with a checksum.
    pub(crate) fn sealed(body: &[u8], key: &Digest) -> Vec<u8> {
        [&MAGIC[..], &checksum(key, body).0, body].concat()
    }

    /// Returns `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8], key: &Digest) -> Option<ActionFile> {
        let (digest, body) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<32>()?;
        if checksum(key, body).0 != *digest {
            return None;
        }
        let mut fields = Fields(body);
        let [flags, count] = fields.take()?;
        let entries = (0..count).map(|_| Entry::decode(&mut fields)).collect::<Option<_>>()?;
        fields.0.is_empty().then_some(ActionFile { depends_on_place: flags & DEPENDS_ON_PLACE != 0, entries })
    }
}

impl Entry {
    fn is_about_same(&self, other: &Entry) -> bool {
        let is_same = self.inputs == other.inputs && self.list == other.list;
        is_same && self.needs_absent_outputs == other.needs_absent_outputs
    }

    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.list.table.to_le_bytes());
        put_u32(to, self.list.inputs.len());
        to.extend_from_slice(&self.list.inputs);
        to.extend_from_slice(&self.inputs.0);
        to.push(u8::from(self.needs_absent_outputs));
        put_u32(to, self.result.outputs.len());
        for output in &self.result.outputs {
            to.extend_from_slice(&output.blob.0);
            to.extend_from_slice(&output.content.0);
            to.push(u8::from(output.is_executable));
        }
        for blob in [self.result.depfile, self.result.text] {
            to.push(u8::from(blob.is_some()));
            to.extend(blob.iter().flat_map(|digest| digest.0));
        }
        let Cost { wall_ms, cpu_ms, memory_kib } = self.result.cost;
        to.extend_from_slice(&wall_ms.to_le_bytes());
        to.extend_from_slice(&cpu_ms.to_le_bytes());
        to.extend_from_slice(&memory_kib.to_le_bytes());
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Entry> {
        let table = u64::from_le_bytes(fields.take()?);
        let length = fields.u32()? as usize;
        let (inputs, rest) = fields.0.split_at_checked(length)?;
        fields.0 = rest;
        let list = PackedList { table, inputs: inputs.to_vec() };
        let inputs = Digest(fields.take()?);
        let [needs_absent_outputs] = fields.take()?;
        let count = fields.u32()?;
        let outputs = (0..count).map(|_| output(fields)).collect::<Option<_>>()?;
        let (depfile, text) = (blob(fields)?, blob(fields)?);
        let (wall_ms, cpu_ms) = (fields.u32()?, fields.u32()?);
        let memory_kib = fields.u32()?;
        let cost = Cost { wall_ms, cpu_ms, memory_kib };
        let result = ActionResult { outputs, depfile, text, cost };
        Some(Entry { list, inputs, needs_absent_outputs: needs_absent_outputs != 0, result })
    }
}

fn checksum(key: &Digest, body: &[u8]) -> Digest {
    Digest::of(&[&key.0[..], body].concat())
}

fn output(fields: &mut Fields<'_>) -> Option<StoredOutput> {
    let (blob, content) = (Digest(fields.take()?), ContentDigest(fields.take()?));
    let [executable] = fields.take()?;
    Some(StoredOutput { blob, content, is_executable: executable != 0 })
}

fn blob(fields: &mut Fields<'_>) -> Option<Option<Digest>> {
    match fields.take()? {
        [0] => Some(None),
        [1] => Some(Some(Digest(fields.take()?))),
        _ => None,
    }
}

fn put_u32(to: &mut Vec<u8>, number: usize) {
    to.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Digest = Digest([9; 32]);

    fn entry(number: u8) -> Entry {
        let (blob, content) = (Digest([number; 32]), ContentDigest([number + 1; 32]));
        let output = StoredOutput { blob, content, is_executable: number % 2 == 1 };
        let cost = Cost { wall_ms: 7, cpu_ms: 5, memory_kib: 9 };
        let (depfile, text) = (Some(Digest([2; 32])), None);
        Entry {
            list: PackedList { table: 3, inputs: vec![1, 2, number] },
            inputs: Digest([number; 32]),
            needs_absent_outputs: number.is_multiple_of(3),
            result: ActionResult { outputs: vec![output; usize::from(number % 4)], depfile, text, cost },
        }
    }

    #[test]
    fn files_are_read_back() {
        let mut file = ActionFile { depends_on_place: true, entries: Vec::new() };
        assert_eq!(ActionFile::decode(&file.encode(&KEY), &KEY).unwrap(), file);
        (0..20).for_each(|number| file.insert(entry(number)));
        assert_eq!(file.entries.len(), MAX_ENTRIES);
        assert_eq!(file.entries[0], entry(19));
        file.insert(entry(10));
        assert_eq!((file.entries.len(), &file.entries[0]), (MAX_ENTRIES, &entry(10)));
        assert_eq!(ActionFile::decode(&file.encode(&KEY), &KEY).unwrap(), file);
    }

    #[test]
    fn damage_is_noticed() {
        let mut file = ActionFile::default();
        file.insert(entry(1));
        let bytes = file.encode(&KEY);
        assert_eq!(ActionFile::decode(&bytes, &Digest([8; 32])), None, "that of another action");
        for end in 0..bytes.len() {
            assert_eq!(ActionFile::decode(&bytes[..end], &KEY), None);
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(ActionFile::decode(&damaged, &KEY), None);
        }
    }
}
