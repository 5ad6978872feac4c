//! Observes files and variables as a command would see them now, and remembers observations while no command runs.

mod directives;
mod file_traits;
mod known_files;
mod lines;
mod list;
mod macros;
mod progress;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use hashbrown::{HashMap, HashSet};
use tanto_cas::{ContentDigest, Digest, FileDigest, RecentDigests};
use tanto_exec::input_recorder::input_list::permissions;
use tanto_sys::fs::file;
use tanto_sys::fs::file_stamp::coarse_now;
use tanto_sys::fs::fingerprint::{FileState, FileSystems, Trust};
use tanto_sys::fs::stat::{FileKind, Stat, stat};
use tanto_sys::process::Environment;

use crate::places::Places;

use self::macros::may_define_path;

pub(crate) use self::file_traits::FileTraits;
pub(crate) use self::known_files::KnownFiles;
pub(crate) use self::lines::NameId;
pub(crate) use self::list::{Evaluation, InputName};

pub(crate) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// An observable property of a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Aspect {
    /// The content of a file, or the names in a directory.
    Content,
    /// Existence, and the kind of the file.
    Presence,
    /// The target of a symbolic link; empty for other files.
    Link,
    /// The path without symbolic links.
    Resolved,
    /// The value of a variable.
    Variable,
    /// Kind, permissions and owner.
    Permissions,
}

const ASPECTS: usize = 6;

impl Aspect {
    pub(crate) const ALL: [Aspect; ASPECTS] =
        [Aspect::Content, Aspect::Presence, Aspect::Link, Aspect::Resolved, Aspect::Variable, Aspect::Permissions];
}

/// Devices that give every command the same, or on which no result depends.
const DEVICES: [&[u8]; 4] = [b"/dev/null", b"/dev/zero", b"/dev/urandom", b"/dev/random"];

/// A result of an observation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    File(SeenFile),
    /// The digest of the names, and the last change of the directory.
    Directory {
        names: Digest,
        stat: Stat,
    },
    /// Something that was not read.
    Present(Stat),
    /// A value, a target or a path.
    Text(Vec<u8>),
    /// A device from the list.
    Device,
    Nothing,
    /// It cannot be observed, or not compared.
    Unknown,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SeenFile {
    pub(crate) digest: ContentDigest,
    pub(crate) state: FileState,
    pub(crate) trust: Trust,
    pub(crate) stat: Stat,
}

/// An observation and its time.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub(crate) seen: Seen,
    /// The clock of file systems before it was last confirmed.
    pub(crate) at: i64,
    /// The same, before it was first seen in this state.
    pub(crate) since: i64,
    /// The round in which it was last confirmed.
    round: u64,
}

pub(crate) struct Observer {
    systems: FileSystems,
    sightings: [Map<Box<[u8]>, Sighting>; ASPECTS],
    /// The last components of their names.
    seen_names: HashSet<Box<[u8]>, foldhash::fast::RandomState>,
    /// Sightings of earlier rounds have to be confirmed.
    round: u64,
    /// The variables of commands.
    environment: Environment,
    known: KnownFiles,
    recent: RecentDigests,
    /// By content.
    traits: Map<ContentDigest, FileTraits>,
    /// By content and macro.
    definitions: Map<(ContentDigest, Box<[u8]>), bool>,
    lines: lines::Lines,
    progress: progress::Progress,
    scratch: list::Scratch,
}

impl Observer {
    /// Notes the digests of files that it reads in `recent`.
    pub(crate) fn new(environment: Environment, known: KnownFiles, recent: RecentDigests) -> Observer {
        Observer {
            environment,
            systems: FileSystems::default(),
            sightings: Default::default(),
            seen_names: HashSet::default(),
            round: 0,
            known,
            recent,
            traits: Map::default(),
            definitions: Map::default(),
            lines: lines::Lines::default(),
            progress: progress::Progress::default(),
            scratch: list::Scratch::default(),
        }
    }

    /// Confirms everything before it is used again: a command may have changed any file.
    pub(crate) fn distrust_all(&mut self) {
        self.round += 1;
    }

    /// Notes that a file was written while no command ran. Names can be spelled in several ways, so if something with
    /// the same last component was seen, everything is confirmed.
    pub(crate) fn file_was_written(&mut self, path: &[u8]) {
        if self.seen_names.contains(last_component(path)) {
            self.distrust_all();
        }
    }

    /// Observes a name, unless an earlier sighting is still valid.
    pub(crate) fn see(&mut self, aspect: Aspect, name: &[u8]) -> &Sighting {
        let map = &self.sightings[aspect as usize];
        let before = map.get(name);
        if before.is_none_or(|it| !self.is_valid(aspect, it)) {
            let now = coarse_now();
            let before = before.cloned();
            let is_new = before.is_none();
            let (seen, at) = self.look(aspect, name, before.as_ref().map(|it| &it.seen), now);
            let since = before.filter(|it| it.seen == seen).map_or(now, |it| it.since);
            if is_new {
                self.seen_names.insert(last_component(name).into());
            }
            self.sightings[aspect as usize].insert(name.into(), Sighting { seen, at, since, round: self.round });
        }
        &self.sightings[aspect as usize][name]
    }

    fn is_valid(&self, aspect: Aspect, it: &Sighting) -> bool {
        let is_racy = matches!(&it.seen, Seen::File(file) if file.trust != Trust::Known);
        aspect == Aspect::Variable || it.round == self.round && !is_racy
    }

    /// Returns also the clock before the oldest part of this was observed.
    fn look(&mut self, aspect: Aspect, name: &[u8], before: Option<&Seen>, now: i64) -> (Seen, i64) {
        let seen = match aspect {
            Aspect::Variable => self.environment.get(name).map_or(Seen::Nothing, |value| Seen::Text(value.to_vec())),
            Aspect::Link => match fs::read_link(file::path(name)) {
                // No link has an empty target.
                Err(error) if error.kind() == ErrorKind::InvalidInput => Seen::Text(Vec::new()),
                target => text(target),
            },
            Aspect::Resolved => return self.resolve(name, now),
            Aspect::Permissions => match fs::metadata(file::path(name)) {
                Ok(data) => Seen::Text(permissions(&data).into_bytes()),
                Err(_) => Seen::Nothing,
            },
            Aspect::Presence => match stat(name) {
                Ok(None) => Seen::Nothing,
                Ok(Some(found)) => Seen::Present(found),
                Err(_) => Seen::Unknown,
            },
            Aspect::Content => match before {
                Some(Seen::File(file)) if self.is_same(name, file) => Seen::File(file.clone()),
                _ => self.content(name),
            },
        };
        (seen, now)
    }

    /// Resolves a path. Its directory was often resolved before, in this round.
    fn resolve(&mut self, path: &[u8], now: i64) -> (Seen, i64) {
        let Some((dir, name)) = split(path) else { return (resolved(path), now) };
        let Sighting { seen: Seen::Text(real), at, .. } = self.see(Aspect::Resolved, dir) else {
            return (resolved(path), now);
        };
        match fs::read_link(file::path(path)) {
            // No link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let slash: &[u8] = if real.ends_with(b"/") { b"" } else { b"/" };
                (Seen::Text([real, slash, name].concat()), now.min(*at))
            }
            _ => (resolved(path), now),
        }
    }

    fn content(&mut self, path: &[u8]) -> Seen {
        if let Some(seen) = self.known.find(path, &self.systems) {
            let SeenFile { digest, state, trust, stat } = seen;
            self.recent.note(FileDigest { digest, state, stat, trust });
            return Seen::File(seen);
        }
        // Usually, it is a file. A named pipe or a device that replaced one is not read.
        if !DEVICES.contains(&path)
            && let Some(seen) = self.read(path)
        {
            return seen;
        }
        match stat(path) {
            Ok(None) => Seen::Nothing,
            Ok(Some(found)) => match found.kind {
                FileKind::Directory => names(path, &found),
                FileKind::Other if DEVICES.contains(&path) => Seen::Device,
                FileKind::Other => Seen::Unknown,
                FileKind::File => self.read(path).unwrap_or(Seen::Unknown),
            },
            Err(_) => Seen::Unknown,
        }
    }

    /// `None`: it is no regular file, cannot be read, or changed meanwhile.
    fn read(&mut self, path: &[u8]) -> Option<Seen> {
        let found = FileDigest::of(file::path(path), &self.systems).ok()??;
        if found.trust == Trust::Known {
            self.recent.note(found);
        }
        let FileDigest { digest, state, trust, stat } = found;
        let seen = SeenFile { digest, state, trust, stat };
        self.known.note(path, &seen, &self.systems);
        Some(Seen::File(seen))
    }

    /// Searches a file with this digest for constructs that restrict caching.
    pub(crate) fn traits_of(&mut self, path: &[u8], digest: ContentDigest, places: &Places) -> FileTraits {
        if let Some(known) = self.traits.get(&digest) {
            return known.clone();
        }
        // It has changed just now.
        let Some(content) = content_of(path, digest) else { return FileTraits::worst() };
        let traits = FileTraits::of(&content, places);
        self.traits.insert(digest, traits.clone());
        traits
    }

    /// Returns whether a file with this digest may define a macro as anything but the relative name of a file.
    pub(crate) fn may_define_path(&mut self, path: &[u8], digest: ContentDigest, name: &[u8]) -> bool {
        let key = (digest, Box::from(name));
        if let Some(known) = self.definitions.get(&key) {
            return *known;
        }
        let may_define = content_of(path, digest).is_none_or(|content| may_define_path(path, &content, name));
        self.definitions.insert(key, may_define);
        may_define
    }

    /// Returns whether a file that was read before is the same.
    fn is_same(&self, path: &[u8], before: &SeenFile) -> bool {
        before.trust == Trust::Known && self.systems.observe(path).is_ok_and(|state| state == before.state)
    }
}

/// `None`: the file has another digest now.
fn content_of(path: &[u8], digest: ContentDigest) -> Option<Vec<u8>> {
    fs::read(file::path(path)).ok().filter(|content| ContentDigest::of(content) == digest)
}

pub(crate) fn last_component(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Returns the directory and the name of a file; `None` unless both are usual.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    let (dir, name) = (&path[..slash], &path[slash + 1..]);
    let is_usual = !dir.is_empty() && !dir.ends_with(b"/") && !matches!(name, b"" | b"." | b"..");
    is_usual.then_some((dir, name))
}

fn resolved(path: &[u8]) -> Seen {
    text(fs::canonicalize(file::path(path)))
}

fn text(found: io::Result<PathBuf>) -> Seen {
    match found {
        Ok(path) => Seen::Text(path.into_os_string().into_encoded_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => Seen::Nothing,
        Err(_) => Seen::Unknown,
    }
}

fn names(path: &[u8], found: &Stat) -> Seen {
    let Ok(entries) = fs::read_dir(file::path(path)) else { return Seen::Unknown };
    let Ok(mut names) = entries
        .map(|entry| entry.and_then(|it| Ok((it.file_name(), kind_in_dir(&it)?))))
        .collect::<Result<Vec<_>, _>>()
    else {
        return Seen::Unknown;
    };
    names.sort_unstable();
    let mut text = Vec::new();
    for (name, kind) in names {
        text.extend_from_slice(name.as_bytes());
        text.extend([0, kind]);
    }
    // A name that was added meanwhile changes the time.
    match stat(path) {
        Ok(Some(after)) if after == *found => Seen::Directory { names: Digest::of(&text), stat: after },
        _ => Seen::Unknown,
    }
}

/// Programs learn the kinds of files together with their names.
fn kind_in_dir(entry: &fs::DirEntry) -> io::Result<u8> {
    let kind = entry.file_type()?;
    Ok(match (kind.is_dir(), kind.is_symlink(), kind.is_file()) {
        (true, ..) => b'd',
        (_, true, _) => b'l',
        (.., true) => b'f',
        _ => b'o',
    })
}

#[cfg(test)]
mod tests;
