//! Digests of files from earlier builds, in a file that several processes read and write at once.
//!
//! A file is found by its path, and its digest counts if its fingerprint is the same. Each slot has a checksum, so a slot
//! that is damaged, or being written, counts as empty.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use tanto_cas::{ContentDigest, Digest};
use tanto_sys::fs::file::open_no_follow;
use tanto_sys::fs::file_stamp::coarse_now;
use tanto_sys::fs::fingerprint::{FileState, FileSystems, Fingerprint, Trust};
use tanto_sys::fs::stat::{FileKind, stat};

use super::SeenFile;
use crate::plain_files::make_room;

/// Starts the file.
const MAGIC: &[u8; 8] = b"TCF3\0\0\0\0";
const HEAD: u64 = 64;

/// A path can be in any slot of one set.
const SETS: u64 = 1 << 15;
const SLOTS: usize = 4;
const SLOT: usize = 72;
const SET: usize = SLOTS * SLOT;

const SECOND: i64 = 1_000_000_000;

/// The beginning of the digest of a path.
type Key = [u8; 16];

/// Without a file, it is empty and stays so.
#[derive(Default)]
pub(crate) struct KnownFiles(Option<File>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    key: Key,
    state: FileState,
    digest: ContentDigest,
}

impl KnownFiles {
    pub(crate) fn open(path: &Path) -> KnownFiles {
        KnownFiles::checked(open_for_writing(path))
    }

    pub(crate) fn open_to_read(path: &Path) -> KnownFiles {
        KnownFiles::checked(open_no_follow(path))
    }

    fn checked(opened: io::Result<File>) -> KnownFiles {
        KnownFiles(opened.ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()) && has_magic(file)))
    }

    /// Returns the file if it is as it was when it was read.
    pub(super) fn find(&self, path: &[u8], systems: &FileSystems) -> Option<SeenFile> {
        let file = self.0.as_ref()?;
        let (key, place) = place_of(path)?;
        let set = read_set(file, place);
        let known = Slot::decode(set.as_chunks().0.iter().find(|slot| slot.starts_with(&key))?)?;
        let found = stat(path).ok()?.filter(|found| found.kind == FileKind::File)?;
        let state = systems.state_of(path, &found);
        let is_same = state == known.state && state.fingerprint != Fingerprint::NONE && found.ctime < coarse_now();
        is_same.then_some(SeenFile { digest: known.digest, state, trust: Trust::Known, stat: found })
    }

    /// Failures only cost time later. Files of images that may be mounted at the same place one after another are not noted:
    /// tools write images with whole seconds.
    pub(super) fn note(&self, path: &[u8], seen: &SeenFile, systems: &FileSystems) {
        if seen.stat.ctime % SECOND == 0 && !systems.is_on_disk(&seen.stat) {
            return;
        }
        let (Some(file), Some((key, place)), Trust::Known) = (&self.0, place_of(path), seen.trust) else { return };
        let set = read_set(file, place);
        let slots: &[[u8; SLOT]] = set.as_chunks().0;
        let number = slots.iter().position(|slot| slot.starts_with(&key));
        let number = number.or_else(|| slots.iter().position(|slot| Slot::decode(slot).is_none()));
        // Which one is given up does not matter much.
        let number = number.unwrap_or(usize::from(seen.digest.0[0]) % SLOTS);
        let slot = Slot { key, state: seen.state, digest: seen.digest };
        let _ = file.write_all_at(&slot.encode(), place + (number * SLOT) as u64);
    }
}

/// Opens the file, and replaces one of another format.
fn open_for_writing(path: &Path) -> io::Result<File> {
    make_room(path)?;
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if !has_magic(&file) {
        file.set_len(0)?;
        file.write_all_at(MAGIC, 0)?;
    }
    Ok(file)
}

fn has_magic(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *MAGIC
}

/// Returns the key of an absolute path, and where its set is in the file.
fn place_of(path: &[u8]) -> Option<(Key, u64)> {
    let digest = Digest::of(path.starts_with(b"/").then_some(path)?).0;
    let (key, rest) = digest.split_first_chunk()?;
    let number = u64::from_le_bytes(*rest.first_chunk()?) % SETS;
    Some((*key, HEAD + number * SET as u64))
}

/// Bytes beyond the end of the file, and those that cannot be read, count as zero.
fn read_set(file: &File, place: u64) -> [u8; SET] {
    let mut bytes = [0; SET];
    let _ = file.read_at(&mut bytes, place);
    bytes
}

impl Slot {
    fn encode(&self) -> [u8; SLOT] {
        let FileState { mtime, fingerprint } = self.state;
        let mut bytes = [0; SLOT];
        bytes[..16].copy_from_slice(&self.key);
        bytes[16..24].copy_from_slice(&mtime.to_le_bytes());
        bytes[24..32].copy_from_slice(&fingerprint.0.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.digest.0);
        let checksum = checksum(&bytes);
        bytes[64..].copy_from_slice(&checksum);
        bytes
    }

    fn decode(bytes: &[u8; SLOT]) -> Option<Slot> {
        let number = |at: usize| bytes[at..].first_chunk().map(|number| u64::from_le_bytes(*number));
        let state = FileState { mtime: number(16)?.cast_signed(), fingerprint: Fingerprint(number(24)?) };
        let slot = Slot { key: *bytes.first_chunk()?, state, digest: ContentDigest(*bytes[32..].first_chunk()?) };
        (bytes[64..] == checksum(bytes)).then_some(slot)
    }
}

fn checksum(bytes: &[u8; SLOT]) -> [u8; 8] {
    let digest = Digest::of(&bytes[..SLOT - 8]).0;
    std::array::from_fn(|index| digest[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tanto_sys::fs::fingerprint::wait_for_known_files;
    use tanto_sys::fs::stat::Stat;
    use tanto_testing::Scratch;

    fn open(dir: &Scratch) -> KnownFiles {
        KnownFiles::open(&dir.at("known"))
    }

    fn seen(path: &Path) -> SeenFile {
        let file = File::open(path).unwrap();
        let state = FileSystems::default().state(&file).unwrap();
        let digest = ContentDigest::of(&fs::read(path).unwrap());
        SeenFile { digest, state, trust: Trust::Known, stat: Stat::of(&file).unwrap() }
    }

    #[test]
    fn digests_are_kept_while_files_stay_the_same() {
        let dir = Scratch::new("known-files");
        let systems = FileSystems::default();
        let names: Vec<String> = (0..50).map(|number| format!("f{number}")).collect();
        names.iter().for_each(|name| dir.write(name, name));
        wait_for_known_files();
        let find = |known: &KnownFiles, name: &str| known.find(&dir.bytes(name), &systems).map(|seen| seen.digest);
        let first = open(&dir);
        for name in &names {
            assert_eq!(find(&first, name), None);
            first.note(&dir.bytes(name), &seen(&dir.at(name)), &FileSystems::default());
        }
        let second = open(&dir);
        assert!(names.iter().all(|name| find(&second, name) == Some(ContentDigest::of(name.as_bytes()))));
        dir.write("f7", "f8");
        assert_eq!(find(&second, "f7"), None);
        wait_for_known_files();
        second.note(&dir.bytes("f7"), &seen(&dir.at("f7")), &FileSystems::default());
        assert_eq!(find(&first, "f7"), Some(ContentDigest::of(b"f8")), "all processes share the file");
        fs::remove_file(dir.at("f9")).unwrap();
        assert_eq!(find(&second, "f9"), None);
        let reader = KnownFiles::open_to_read(&dir.at("known"));
        assert_eq!(find(&reader, "f10"), Some(ContentDigest::of(b"f10")));
    }

    #[test]
    fn a_full_set_gives_up_a_slot() {
        let dir = Scratch::new("known-files-full");
        dir.write("f", "content");
        wait_for_known_files();
        let known = open(&dir);
        let seen = seen(&dir.at("f"));
        let path = dir.bytes("f");
        let (key, place) = place_of(&path).unwrap();
        for number in 0..10 {
            let slot = Slot { key: [number; 16], state: seen.state, digest: seen.digest };
            let file = known.0.as_ref().unwrap();
            file.write_all_at(&slot.encode(), place + u64::from(number) % 4 * SLOT as u64).unwrap();
        }
        known.note(&path, &seen, &FileSystems::default());
        let set = read_set(known.0.as_ref().unwrap(), place);
        let slots: Vec<Slot> = set.as_chunks().0.iter().filter_map(Slot::decode).collect();
        assert_eq!(slots.iter().filter(|slot| slot.key == key).count(), 1);
        assert_eq!(slots.len(), SLOTS);
    }

    #[test]
    fn damage_only_costs_time() {
        let dir = Scratch::new("known-files-damage");
        dir.write("f", "content");
        wait_for_known_files();
        let path = dir.bytes("f");
        let place = place_of(&path).unwrap().1;
        let known = open(&dir);
        known.note(&path, &seen(&dir.at("f")), &FileSystems::default());
        let file = File::options().read(true).write(true).open(dir.at("known")).unwrap();
        let systems = FileSystems::default();
        for at in 0..SLOT as u64 {
            let mut byte = [0];
            file.read_exact_at(&mut byte, place + at).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << (at % 8)], place + at).unwrap();
            assert_eq!(known.find(&path, &systems), None, "{at}");
            file.write_all_at(&byte, place + at).unwrap();
        }
        assert!(known.find(&path, &systems).is_some());
        file.set_len(place + SLOT as u64 - 8).unwrap();
        assert_eq!(open(&dir).find(&path, &systems), None, "torn");
        dir.write("known", "of another version");
        assert_eq!(open(&dir).find(&path, &systems), None);
        fs::remove_file(dir.at("known")).unwrap();
        fs::create_dir(dir.at("known")).unwrap();
        open(&dir).note(&path, &seen(&dir.at("f")), &FileSystems::default());
        assert!(open(&dir).find(&path, &systems).is_some());
    }

    #[test]
    fn relative_names_are_not_kept() {
        assert_eq!(place_of(b"f"), None);
        assert_ne!(place_of(b"/f"), place_of(b"/g"));
    }
}
