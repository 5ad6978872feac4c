//! The names of all inputs in the cache, each stored once. Lists of inputs refer to them by their place in the file.
//!
//! Nothing depends on this file being right: the digest of a list covers its names.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tanto_sys::fs::lock::lock_exclusive;
use tanto_sys::random;

use crate::observer::{Aspect, InputName, Map, NameId};
use crate::places::PLACEHOLDERS;
use crate::plain_files::{make_room, read_file};

const MAGIC: &[u8; 4] = b"TCN1";
/// Before the first name: the magic bytes, and the id of the table.
const HEAD: usize = 12;
/// A larger table is not extended. The next collection starts a new one.
const MAX_BYTES: usize = 64 << 20;
/// The last list that was added can make it longer.
const MAX_FILE_BYTES: u64 = 2 * MAX_BYTES as u64;
/// Maximum number of inputs of a command.
const MAX_INPUTS: usize = 1 << 20;
/// Another process writes for at most this time.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct NameTable {
    path: PathBuf,
    /// The content of the file, as far as it was read.
    bytes: Vec<u8>,
    /// Changes when `bytes` are replaced by others.
    generation: u64,
    /// The places of all names, if names were added.
    places: Map<Box<[u8]>, u32>,
    /// The end of the names in `places`.
    indexed: usize,
}

/// A list of inputs as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PackedList {
    /// The id of the table.
    pub(crate) table: u64,
    /// For each input, in the order of their places: the distance to the last place and the aspect, in one number of
    /// seven bits a byte.
    pub(crate) inputs: Vec<u8>,
}

/// Which lists have a name. Those that most lists have get the first places: lists that begin with the same names are
/// compared faster.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Users {
    AllCompiles,
    SomeCompiles,
    OneProject,
}

impl Users {
    /// Guesses.
    fn of(name: &[u8]) -> Users {
        match name.first() {
            Some(first) if PLACEHOLDERS.contains(first) => Users::OneProject,
            _ if name.split(|&byte| byte == b'/').any(|part| part == b"include") => Users::SomeCompiles,
            _ => Users::AllCompiles,
        }
    }
}

impl NameTable {
    pub(crate) fn open(path: &Path) -> NameTable {
        let bytes = read_table(path).unwrap_or_default();
        NameTable { path: path.to_path_buf(), bytes, generation: 0, places: Map::default(), indexed: HEAD }
    }

    /// Returns whether a collection should start a new table.
    pub(crate) fn is_full(path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|data| data.len() > MAX_BYTES as u64 / 2)
    }

    fn id(&self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes.get(MAGIC.len()..HEAD)?.try_into().ok()?))
    }

    /// Returns the inputs of a list; `None` if the table does not have them.
    pub(crate) fn unpack(&mut self, list: &PackedList) -> Option<Vec<InputName<'_>>> {
        let last = self.last_place(list)?;
        if self.id() != Some(list.table) || self.name(last).is_none() {
            // Another process may have extended or replaced it.
            self.update(read_table(&self.path)?);
        }
        if self.id() != Some(list.table) {
            return None;
        }
        let mut names = Vec::with_capacity(list.inputs.len());
        for found in places(&list.inputs) {
            let (offset, aspect) = found?;
            let id = Some(NameId { generation: self.generation, offset });
            names.push(InputName { aspect, name: self.name(offset)?, id });
        }
        Some(names)
    }

    fn last_place(&self, list: &PackedList) -> Option<u32> {
        let mut last = 0;
        for found in places(&list.inputs) {
            last = found?.0;
        }
        Some(last)
    }

    fn name(&self, place: u32) -> Option<&[u8]> {
        let (length, rest) = self.bytes.get(place as usize..)?.split_first_chunk::<2>()?;
        rest.get(..usize::from(u16::from_le_bytes(*length)))
    }

    /// Stores the names of a list that are new. The list is sorted.
    pub(crate) fn pack(&mut self, inputs: &mut Vec<InputName<'_>>) -> io::Result<PackedList> {
        if self.bytes.is_empty() || inputs.iter().any(|input| !self.is_indexed(input.name)) {
            self.extend(inputs)?;
        }
        let table = self.id().ok_or(io::ErrorKind::InvalidData)?;
        inputs.sort_by_cached_key(|input| (self.places.get(input.name).copied(), input.aspect));
        inputs.dedup();
        let (mut packed, mut last) = (Vec::with_capacity(inputs.len() * 2), 0);
        for input in inputs {
            let &offset = self.places.get(input.name).ok_or(io::ErrorKind::InvalidData)?;
            put_number(&mut packed, u64::from(offset - last) << 3 | input.aspect as u64);
            last = offset;
            input.id = Some(NameId { generation: self.generation, offset });
        }
        Ok(PackedList { table, inputs: packed })
    }

    fn is_indexed(&self, name: &[u8]) -> bool {
        self.places.contains_key(name)
    }

    fn extend(&mut self, inputs: &[InputName<'_>]) -> io::Result<()> {
        make_room(&self.path)?;
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        lock_exclusive(&file, PATIENCE, || {})?;
        self.read_rest(&mut file)?;
        self.index();
        let end = self.bytes.len();
        let mut new: Vec<&InputName<'_>> = inputs.iter().filter(|input| !self.is_indexed(input.name)).collect();
        new.sort_by_key(|input| Users::of(input.name));
        for input in new {
            // A name can have several aspects.
            if self.is_indexed(input.name) {
                continue;
            }
            let length = u16::try_from(input.name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            if self.bytes.len() > MAX_BYTES {
                self.bytes.truncate(end);
                self.places.clear();
                self.indexed = HEAD;
                return Err(io::Error::other("the table of names is full"));
            }
            self.places.insert(input.name.into(), self.bytes.len() as u32);
            self.bytes.extend_from_slice(&length.to_le_bytes());
            self.bytes.extend_from_slice(input.name);
        }
        self.indexed = self.bytes.len();
        let written = file.write_all(&self.bytes[end..]);
        if written.is_err() {
            // A partial name at the end would make all later names unreadable.
            let _ = file.set_len(end as u64);
            *self = NameTable { generation: self.generation + 1, ..NameTable::open(&self.path) };
        }
        written
    }

    /// Reads names that other processes have added, or starts the table.
    fn read_rest(&mut self, file: &mut File) -> io::Result<()> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        if !is_table(&bytes) {
            bytes = [&MAGIC[..], &random::bytes::<8>()?].concat();
            file.set_len(0)?;
            file.write_all(&bytes)?;
        }
        let end = end_of_names(&bytes);
        if end < bytes.len() {
            file.set_len(end as u64)?;
            bytes.truncate(end);
        }
        self.update(bytes);
        Ok(())
    }

    /// Takes the new content of the file.
    fn update(&mut self, bytes: Vec<u8>) {
        if !bytes.starts_with(&self.bytes) || self.bytes.is_empty() {
            self.places.clear();
            self.indexed = HEAD;
            self.generation += 1;
        }
        self.bytes = bytes;
    }

    fn index(&mut self) {
        while let Some(name) = self.name(self.indexed as u32).map(Box::from) {
            let place = self.indexed;
            self.indexed += 2 + <[u8]>::len(&name);
            self.places.entry(name).or_insert(place as u32);
        }
    }
}

fn read_table(path: &Path) -> Option<Vec<u8>> {
    read_file(path, MAX_FILE_BYTES).ok().map(|read| read.content).filter(|bytes| is_table(bytes))
}

fn is_table(bytes: &[u8]) -> bool {
    bytes.len() >= HEAD && bytes.starts_with(MAGIC)
}

/// Returns the end of the last name that is complete.
fn end_of_names(bytes: &[u8]) -> usize {
    let mut end = HEAD;
    while let Some(length) = bytes.get(end..end + 2) {
        let next = end + 2 + usize::from(u16::from_le_bytes([length[0], length[1]]));
        if next > bytes.len() {
            break;
        }
        end = next;
    }
    end
}

/// The places and aspects of a packed list; `None` if it is damaged.
fn places(mut packed: &[u8]) -> impl Iterator<Item = Option<(u32, Aspect)>> {
    let (mut last, mut left) = (0_u32, MAX_INPUTS);
    std::iter::from_fn(move || {
        if packed.is_empty() || left == 0 {
            return None;
        }
        left -= 1;
        let found = take_number(&mut packed).and_then(|number| {
            let distance = u32::try_from(number >> 3).ok()?;
            last = last.checked_add(distance)?;
            Some((last, *Aspect::ALL.get((number & 7) as usize)?))
        });
        if found.is_none() {
            packed = &[];
        }
        Some(found)
    })
}

fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..42).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn inputs<'n>(names: &[&'n str]) -> Vec<InputName<'n>> {
        names.iter().map(|name| InputName { aspect: Aspect::Content, name: name.as_bytes(), id: None }).collect()
    }

    fn unpacked<'t>(table: &'t mut NameTable, list: &PackedList) -> Option<Vec<(Aspect, &'t [u8])>> {
        table.unpack(list).map(|names| plain(&names))
    }

    fn plain<'n>(names: &[InputName<'n>]) -> Vec<(Aspect, &'n [u8])> {
        names.iter().map(|input| (input.aspect, input.name)).collect()
    }

    #[test]
    fn lists_are_unpacked_by_any_process() {
        let dir = Scratch::new("cache-names");
        let path = dir.at("names");
        let mut first = NameTable::open(&path);
        let mut list = inputs(&["/b", "/a", "/c/longer"]);
        list.push(InputName { aspect: Aspect::Presence, name: b"/a", id: None });
        let packed = first.pack(&mut list).unwrap();
        // Another process, which has read the file before it was extended.
        let mut second = NameTable::open(&path);
        let mut more = inputs(&["/d", "/a"]);
        let packed_more = first.pack(&mut more).unwrap();
        assert_eq!(unpacked(&mut second, &packed).unwrap(), plain(&list));
        assert_eq!(unpacked(&mut second, &packed_more).unwrap(), plain(&more));
        let mut again = inputs(&["/e", "/a", "/d"]);
        let packed_again = second.pack(&mut again).unwrap();
        assert_eq!(unpacked(&mut first, &packed_again).unwrap(), plain(&again));
        let size = fs::metadata(&path).unwrap().len();
        first.pack(&mut inputs(&["/a", "/e"])).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), size, "known names are not stored again");
    }

    #[test]
    fn an_id_has_one_name_in_each_generation() {
        let dir = Scratch::new("cache-names-generation");
        let path = dir.at("names");
        let mut table = NameTable::open(&path);
        let mut one = inputs(&["/one"]);
        table.pack(&mut one).unwrap();
        let mut more = inputs(&["/one", "/two"]);
        table.pack(&mut more).unwrap();
        assert_eq!(one[0].id, more[0].id);
        fs::remove_file(&path).unwrap();
        let mut two = inputs(&["/two"]);
        let packed = NameTable::open(&path).pack(&mut two).unwrap();
        let id = table.unpack(&packed).unwrap()[0].id.unwrap();
        let before = one[0].id.unwrap();
        assert!(id.offset == before.offset && id.generation != before.generation);
    }

    #[test]
    fn a_torn_name_is_removed() {
        let dir = Scratch::new("cache-names-torn");
        let path = dir.at("names");
        let packed = NameTable::open(&path).pack(&mut inputs(&["/one", "/two"])).unwrap();
        let whole = fs::read(&path).unwrap();
        for end in HEAD..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            let mut table = NameTable::open(&path);
            assert_eq!(table.unpack(&packed), None, "{end}");
            let three = table.pack(&mut inputs(&["/three"])).unwrap();
            assert_eq!(unpacked(&mut NameTable::open(&path), &three).unwrap(), plain(&inputs(&["/three"])));
        }
    }

    #[test]
    fn another_table_has_no_lists_of_this_one() {
        let dir = Scratch::new("cache-names-other");
        let packed = NameTable::open(&dir.at("a")).pack(&mut inputs(&["/one"])).unwrap();
        let mut other = NameTable::open(&dir.at("b"));
        other.pack(&mut inputs(&["/one"])).unwrap();
        assert_eq!(other.unpack(&packed), None);
        assert_eq!(NameTable::open(&dir.at("none")).unpack(&packed), None);
        dir.write("garbage", "garbage");
        assert_eq!(NameTable::open(&dir.at("garbage")).unpack(&packed), None);
    }

    #[test]
    fn damaged_lists_are_refused() {
        let dir = Scratch::new("cache-names-damage");
        let mut table = NameTable::open(&dir.at("names"));
        let PackedList { table: id, inputs } = table.pack(&mut inputs(&["/one", "/two"])).unwrap();
        for bytes in [vec![0xff; 9], vec![7], [&inputs[..], &[0x80]].concat(), vec![0xf8, 0xff, 0xff, 0x7f]] {
            assert_eq!(table.unpack(&PackedList { table: id, inputs: bytes.clone() }), None, "{bytes:?}");
        }
    }
}
