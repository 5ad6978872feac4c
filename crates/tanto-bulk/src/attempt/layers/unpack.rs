//! A package becomes a layer: its files as pkg_add would leave them, and its directory in the database. Does not know
//! what else is installed.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use tanto_sys::fs::file;

use super::facts::Facts;
use super::store::make_dir;
use super::{DB, Ground, Trouble};
use crate::package::archive::plist::{Entry, Word};
use crate::package::archive::{ArchiveError, Member, MemberKind, Metadata, Package};

/// Unpacks a package into an empty directory. One that pkg_add has to install leaves nothing there.
pub(super) fn unpack(ground: &Ground, path: &Path, dir: &Path) -> Result<Facts, Trouble> {
    let mut package = Package::open(path).map_err(|bad| bad_package(path, bad))?;
    let metadata = package.metadata().clone();
    let mut facts = Facts::of(metadata.contents());
    facts.through = through(ground, &metadata);
    if facts.through.is_some() {
        return Ok(facts);
    }
    let mut unpacking = Unpacking::new(ground, dir);
    match unpacking.all(&mut package, &metadata) {
        Ok(()) => {
            facts.bytes = unpacking.bytes;
            facts.dirs = unpacking.dirs;
        }
        Err(Trouble::Odd(why)) => {
            facts.through = Some(why);
            fs::remove_dir_all(dir)?;
            make_dir(dir)?;
        }
        Err(trouble) => return Err(trouble),
    }
    Ok(facts)
}

fn bad_package(path: &Path, bad: ArchiveError) -> Trouble {
    match bad {
        ArchiveError::Io(error) if error.raw_os_error().is_some() => Trouble::Machine(error),
        bad => Trouble::Odd(format!("{}: {bad}", path.display())),
    }
}

/// Why pkg_add has to install it, as far as that can be seen from what it says.
fn through(ground: &Ground, metadata: &Metadata) -> Option<String> {
    let plist = metadata.contents();
    let name = metadata.name();
    if metadata.get("+INSTALL").is_some() || plist.values(Word::Exec).next().is_some() {
        return Some("it runs a script when it is installed".into());
    }
    if ["+REQUIRED_BY", "+INSTALLED_INFO"].iter().any(|it| metadata.get(it).is_some()) {
        return Some("it says how it was installed elsewhere".into());
    }
    if [Word::Mode, Word::Owner, Word::Group].iter().any(|&word| plist.values(word).any(|value| !value.is_empty())) {
        return Some("it says in words whose its files are".into());
    }
    let mut prefixes = plist.values(Word::Cwd);
    if prefixes.next().map(file::path) != Some(&ground.prefix) || prefixes.next().is_some() {
        return Some("it is installed in another prefix".into());
    }
    (inside(name).is_none() || name.contains(&b'/')).then(|| "its name makes no sense".into())
}

/// A path that stays below where it begins.
fn inside(path: &[u8]) -> Option<&Path> {
    let path = file::path(path);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    // `a//b` and `a/./b` are other keys for the same file.
    let told = path.components().map(|part| part.as_os_str().len() + 1).sum::<usize>();
    (plain && told == path.as_os_str().len() + 1).then_some(path)
}

struct Unpacking<'a> {
    ground: &'a Ground,
    dir: &'a Path,
    tree: PathBuf,
    /// Below the prefix, in their order.
    dirs: Vec<Vec<u8>>,
    made: HashSet<Vec<u8>>,
    files: HashSet<Vec<u8>>,
    bytes: u64,
}

/// What a directory, and the end of a file, take on the disk.
const BLOCK: u64 = 4096;

impl<'a> Unpacking<'a> {
    fn new(ground: &'a Ground, dir: &'a Path) -> Unpacking<'a> {
        let tree = Ground::tree(dir);
        let (made, files) = (HashSet::new(), HashSet::new());
        Unpacking { ground, dir, tree, dirs: Vec::new(), made, files, bytes: 0 }
    }

    fn all(&mut self, package: &mut Package<'_>, metadata: &Metadata) -> Result<(), Trouble> {
        make_dir(&self.tree)?;
        let entries = metadata.contents().obeyed();
        for entry in entries {
            match entry {
                Entry::File(path) => self.file(package, path)?,
                Entry::Word(Word::Directory, path) => self.make_dirs(inside(path).ok_or_else(odd_name)?)?,
                _ => {}
            }
        }
        if package.next_file().map_err(|bad| bad_package(self.dir, bad))?.is_some() {
            return Err(odd("it has files that it does not name"));
        }
        self.register(metadata)
    }

    fn file(&mut self, package: &mut Package<'_>, path: &[u8]) -> Result<(), Trouble> {
        let member = package.next_file().map_err(|bad| bad_package(self.dir, bad))?;
        let Some(member) = member.filter(|member| member.path == path) else {
            return Err(odd("its files are not those that it names"));
        };
        let relative = inside(path).ok_or_else(odd_name)?;
        self.may_own(&member)?;
        if let Some(parent) = relative.parent() {
            self.make_dirs(parent)?;
        }
        let at = self.tree.join(relative);
        match member.kind {
            MemberKind::File => self.write(&at, &member, &mut package.content())?,
            MemberKind::Symlink => known(symlink(file::path(&member.link), &at))?,
            MemberKind::Hard if self.files.contains(&member.link) => {
                known(fs::hard_link(self.tree.join(file::path(&member.link)), &at))?;
            }
            MemberKind::Hard => return Err(odd("it has a link to what is not its own")),
            MemberKind::Directory | MemberKind::Special => {
                return Err(odd("it has something that is neither file nor link"));
            }
        }
        self.files.insert(member.path);
        Ok(())
    }

    /// What others own is for pkg_add, which knows them by their names.
    fn may_own(&self, member: &Member) -> Result<(), Trouble> {
        let is_root = |name: &[u8], id| id == 0 && matches!(name, b"" | b"root");
        let is_ours = match self.ground.as_user {
            true => member.mode & 0o6000 == 0,
            false => is_root(&member.user, member.uid) && is_root(&member.group, member.gid),
        };
        match (is_ours, member.more) {
            (true, false) => Ok(()),
            (false, _) => Err(odd("it has files of another user")),
            (true, true) => Err(odd("it has files with attributes")),
        }
    }

    fn write(&mut self, at: &Path, member: &Member, content: &mut dyn io::Read) -> Result<(), Trouble> {
        let mut options = OpenOptions::new();
        let mut file = known(options.write(true).create_new(true).mode(0o600).open(at))?;
        io::copy(content, &mut file).map_err(|error| bad_package(at, error.into()))?;
        file.set_permissions(fs::Permissions::from_mode(member.mode))?;
        if let Some(time) = time(member.mtime) {
            file.set_modified(time)?;
        }
        self.bytes += member.size.next_multiple_of(BLOCK) + BLOCK / 8;
        Ok(())
    }

    /// Makes a directory below the prefix, with those above it. One that is a link is not followed: where it leads is
    /// known only when all packages are together.
    fn make_dirs(&mut self, dir: &Path) -> Result<(), Trouble> {
        let bytes = dir.as_os_str().as_encoded_bytes();
        if bytes.is_empty() || self.made.contains(bytes) {
            return Ok(());
        }
        if let Some(parent) = dir.parent() {
            self.make_dirs(parent)?;
        }
        known(make_dir(&self.tree.join(dir)))?;
        self.bytes += BLOCK;
        self.made.insert(bytes.to_vec());
        self.dirs.push(bytes.to_vec());
        Ok(())
    }

    /// Its directory in the database.
    fn register(&mut self, metadata: &Metadata) -> Result<(), Trouble> {
        let db = self.dir.join(DB);
        make_dir(&db)?;
        let own = db.join(file::path(metadata.name()));
        make_dir(&own)?;
        for (name, content) in metadata.members() {
            let mode = match name {
                b"+CONTENTS" => 0o644,
                b"+DEINSTALL" => 0o555,
                _ => 0o444,
            };
            let path = own.join(file::path(name));
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            self.bytes += (content.len() as u64).next_multiple_of(BLOCK) + BLOCK / 8;
        }
        Ok(())
    }
}

/// What is there already was put there by the package itself, in a way that is not foreseen.
fn known<T>(done: io::Result<T>) -> Result<T, Trouble> {
    done.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            odd("its files are in each other's way")
        }
        _ => Trouble::Machine(error),
    })
}

fn time((seconds, ns): (i64, u32)) -> Option<SystemTime> {
    let epoch = SystemTime::UNIX_EPOCH;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
    time?.checked_add(Duration::from_nanos(ns.into()))
}

fn odd(why: &str) -> Trouble {
    Trouble::Odd(why.into())
}

fn odd_name() -> Trouble {
    odd("it has a file whose name makes no sense")
}
