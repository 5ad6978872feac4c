//! Unpacks a package into a layer: its files as pkg_add would install them, and its directory of the database.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use tanto_sys::fs::file;

use super::package_info::PackageInfo;
use super::store::make_dir;
use super::{DB, InstallRoot, LayerError};
use crate::package::archive::plist::{Entry, Word};
use crate::package::archive::{ArchiveError, Member, MemberKind, Metadata, Package};

/// Unpacks a package into an empty directory, which stays empty if pkg_add must install the package.
pub(super) fn unpack(root: &InstallRoot, path: &Path, dir: &Path) -> Result<PackageInfo, LayerError> {
    let mut package = Package::open(path).map_err(|bad| bad_package(path, bad))?;
    let metadata = package.metadata().clone();
    let mut info = PackageInfo::of(metadata.contents());
    info.needs_pkg_add = needs_pkg_add(root, &metadata);
    if info.needs_pkg_add.is_some() {
        return Ok(info);
    }
    let mut unpacking = Unpacking::new(root, dir);
    match unpacking.all(&mut package, &metadata) {
        Ok(()) => {
            info.bytes = unpacking.bytes;
            info.dirs = unpacking.dirs;
        }
        Err(LayerError::Unsupported(why)) => {
            info.needs_pkg_add = Some(why);
            fs::remove_dir_all(dir)?;
            make_dir(dir)?;
        }
        Err(error) => return Err(error),
    }
    Ok(info)
}

fn bad_package(path: &Path, bad: ArchiveError) -> LayerError {
    match bad {
        ArchiveError::Io(error) if error.raw_os_error().is_some() => LayerError::Io(error),
        bad => LayerError::Unsupported(format!("{}: {bad}", path.display())),
    }
}

/// Returns the reason why pkg_add must install a package, according to its metadata.
fn needs_pkg_add(root: &InstallRoot, metadata: &Metadata) -> Option<String> {
    let plist = metadata.contents();
    let name = metadata.name();
    if metadata.get("+INSTALL").is_some() || plist.values(Word::Exec).next().is_some() {
        return Some("it has an install script".into());
    }
    if ["+REQUIRED_BY", "+INSTALLED_INFO"].iter().any(|it| metadata.get(it).is_some()) {
        return Some("it contains data of an installed package".into());
    }
    if [Word::Mode, Word::Owner, Word::Group].iter().any(|&word| plist.values(word).any(|value| !value.is_empty())) {
        return Some("it sets modes or owners of files".into());
    }
    let mut prefixes = plist.values(Word::Cwd);
    if prefixes.next().map(file::path) != Some(&root.prefix) || prefixes.next().is_some() {
        return Some("it has another prefix".into());
    }
    (inside(name).is_none() || name.contains(&b'/')).then(|| "its name is malformed".into())
}

/// Returns a path if it is relative and normalized.
fn inside(path: &[u8]) -> Option<&Path> {
    let path = file::path(path);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    // `a//b` and `a/./b` are other keys for the same file.
    let length = path.components().map(|part| part.as_os_str().len() + 1).sum::<usize>();
    (plain && length == path.as_os_str().len() + 1).then_some(path)
}

struct Unpacking<'a> {
    root: &'a InstallRoot,
    dir: &'a Path,
    tree: PathBuf,
    /// Relative to the prefix, parents first.
    dirs: Vec<Vec<u8>>,
    made: HashSet<Vec<u8>>,
    files: HashSet<Vec<u8>>,
    bytes: u64,
}

/// Estimated disk usage of a directory, and the granularity of files.
const BLOCK: u64 = 4096;

impl<'a> Unpacking<'a> {
    fn new(root: &'a InstallRoot, dir: &'a Path) -> Unpacking<'a> {
        let tree = InstallRoot::tree(dir);
        let (made, files) = (HashSet::new(), HashSet::new());
        Unpacking { root, dir, tree, dirs: Vec::new(), made, files, bytes: 0 }
    }

    fn all(&mut self, package: &mut Package<'_>, metadata: &Metadata) -> Result<(), LayerError> {
        make_dir(&self.tree)?;
        let entries = metadata.contents().obeyed();
        for entry in entries {
            match entry {
                Entry::File(path) => self.file(package, path)?,
                Entry::Word(Word::Directory, path) => self.make_dirs(inside(path).ok_or_else(malformed_path)?)?,
                _ => {}
            }
        }
        if package.next_file().map_err(|bad| bad_package(self.dir, bad))?.is_some() {
            return Err(unsupported("it has files outside its packing list"));
        }
        self.register(metadata)
    }

    fn file(&mut self, package: &mut Package<'_>, path: &[u8]) -> Result<(), LayerError> {
        let member = package.next_file().map_err(|bad| bad_package(self.dir, bad))?;
        let Some(member) = member.filter(|member| member.path == path) else {
            return Err(unsupported("its files differ from its packing list"));
        };
        let relative = inside(path).ok_or_else(malformed_path)?;
        self.check_owner(&member)?;
        if let Some(parent) = relative.parent() {
            self.make_dirs(parent)?;
        }
        let at = self.tree.join(relative);
        match member.kind {
            MemberKind::File => self.write(&at, &member, &mut package.content())?,
            MemberKind::Symlink => no_conflict(symlink(file::path(&member.link), &at))?,
            MemberKind::Hard if self.files.contains(&member.link) => {
                no_conflict(fs::hard_link(self.tree.join(file::path(&member.link)), &at))?;
            }
            MemberKind::Hard => return Err(unsupported("it has a hard link to another package's file")),
            MemberKind::Directory | MemberKind::Special => {
                return Err(unsupported("it has a special file"));
            }
        }
        self.files.insert(member.path);
        Ok(())
    }

    /// Refuses files of other users: pkg_add resolves their names.
    fn check_owner(&self, member: &Member) -> Result<(), LayerError> {
        let is_root = |name: &[u8], id| id == 0 && matches!(name, b"" | b"root");
        let is_ours = match self.root.as_user {
            true => member.mode & 0o6000 == 0,
            false => is_root(&member.user, member.uid) && is_root(&member.group, member.gid),
        };
        match (is_ours, member.more) {
            (true, false) => Ok(()),
            (false, _) => Err(unsupported("it has files of another user")),
            (true, true) => Err(unsupported("it has files with attributes")),
        }
    }

    fn write(&mut self, at: &Path, member: &Member, content: &mut dyn io::Read) -> Result<(), LayerError> {
        let mut options = OpenOptions::new();
        let mut file = no_conflict(options.write(true).create_new(true).mode(0o600).open(at))?;
        io::copy(content, &mut file).map_err(|error| bad_package(at, error.into()))?;
        file.set_permissions(fs::Permissions::from_mode(member.mode))?;
        if let Some(time) = time(member.mtime) {
            file.set_modified(time)?;
        }
        self.bytes += member.size.next_multiple_of(BLOCK) + BLOCK / 8;
        Ok(())
    }

    /// Creates a directory and its parents. Fails if one is a link: its target depends on other packages.
    fn make_dirs(&mut self, dir: &Path) -> Result<(), LayerError> {
        let bytes = dir.as_os_str().as_encoded_bytes();
        if bytes.is_empty() || self.made.contains(bytes) {
            return Ok(());
        }
        if let Some(parent) = dir.parent() {
            self.make_dirs(parent)?;
        }
        no_conflict(make_dir(&self.tree.join(dir)))?;
        self.bytes += BLOCK;
        self.made.insert(bytes.to_vec());
        self.dirs.push(bytes.to_vec());
        Ok(())
    }

    /// Writes the package's directory of the database.
    fn register(&mut self, metadata: &Metadata) -> Result<(), LayerError> {
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

/// Maps errors caused by conflicts within the package.
fn no_conflict<T>(done: io::Result<T>) -> Result<T, LayerError> {
    done.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            unsupported("conflicting entries in the package")
        }
        _ => LayerError::Io(error),
    })
}

fn time((seconds, ns): (i64, u32)) -> Option<SystemTime> {
    let epoch = SystemTime::UNIX_EPOCH;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
    time?.checked_add(Duration::from_nanos(ns.into()))
}

fn unsupported(why: &str) -> LayerError {
    LayerError::Unsupported(why.into())
}

fn malformed_path() -> LayerError {
    unsupported("it has a malformed path")
}
