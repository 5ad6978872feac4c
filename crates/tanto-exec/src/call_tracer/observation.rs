//! Collects what a command observes and changes, in the order of its calls. Each call is examined before it is made.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use tanto_sys::fs::file;
use tanto_sys::process::traced::{OpenMode, TracedCall};
use tanto_sys::user;

use super::interpreter::{self, Format};
use super::own_files::{OwnFiles, Owner, identity};
use super::system_files::{Place, place};
use crate::input_recorder::input_list::permissions;
use crate::input_recorder::obstacle::Obstacle;
use crate::input_recorder::record::{Record, RecordKind};

/// Devices whose use is an input like any other.
const DEVICES: [&[u8]; 5] = [b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/urandom", b"/dev/random"];
/// Maximum size of a record.
const MAX_BYTES: usize = 64 << 20;
/// Interpreters of scripts that are scripts.
const MAX_INTERPRETERS: u32 = 5;
const SETUID_OR_SETGID: u32 = 0o6000;

#[derive(Debug)]
pub(super) struct Observation {
    own: OwnFiles,
    records: Vec<u8>,
    /// All records, to write each once.
    known: HashSet<Vec<u8>>,
    has_begun: bool,
    /// The permissions that new files do not get.
    mask: u32,
    /// Nothing is recorded after the first obstacle.
    has_obstacle: bool,
    was_interrupted: bool,
}

/// The rest of an examination is skipped.
#[derive(Debug)]
struct Stop;

type Step<T = ()> = Result<T, Stop>;

impl Observation {
    pub(super) fn new(cwd: &Path, outputs: &[Vec<u8>]) -> Observation {
        Observation {
            own: OwnFiles::new(cwd, outputs),
            records: Vec::new(),
            known: HashSet::new(),
            has_begun: false,
            mask: user::file_mode_mask().unwrap_or_default(),
            has_obstacle: false,
            was_interrupted: false,
        }
    }

    /// Notes a call that is about to be made.
    pub(super) fn note(&mut self, call: &TracedCall) {
        if !self.has_obstacle {
            let _ = self.examine(call);
        }
    }

    pub(super) fn give_up(&mut self, obstacle: Obstacle) {
        let _: Step = self.stop(obstacle, b"");
    }

    /// Notes that a signal interrupted a call before it could be examined.
    pub(super) fn note_interruption(&mut self) {
        self.was_interrupted = true;
        self.give_up(Obstacle::Interrupted);
    }

    pub(super) fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    /// Ends the record.
    pub(super) fn into_record(mut self) -> Vec<u8> {
        if !self.has_obstacle {
            let remaining: Vec<Vec<u8>> = self.own.remaining().map(<[u8]>::to_vec).collect();
            for path in remaining {
                let _ = self.put(RecordKind::Wrote, 0, &path, None);
            }
        }
        self.put_always(RecordKind::Ended, 0, b"", None);
        self.records
    }

    fn examine(&mut self, call: &TracedCall) -> Step {
        match call {
            TracedCall::Open { path, mode } => self.open(path, *mode),
            TracedCall::Stat { path: Some(path), follow } => self.look(path, *follow, RecordKind::Read),
            TracedCall::Access { path: Some(path), follow } => self.look(path, *follow, RecordKind::Looked),
            TracedCall::ReadLink { path: Some(path) } => self.read_link(path),
            TracedCall::Enter { path } => self.use_dir(path, true),
            TracedCall::List { path } => self.list(path),
            TracedCall::Execute { path } => self.execute(path, MAX_INTERPRETERS),
            TracedCall::Create { path } => self.create(path),
            TracedCall::Remove { path } => self.remove(path),
            TracedCall::Rename { from, to, replaces } => self.rename(from, to, *replaces),
            TracedCall::HardLink { from, follow, to } => {
                // Without a path: a file that the command has opened.
                from.as_ref().map_or(Ok(()), |from| self.look(from, *follow, RecordKind::Read))?;
                match from {
                    Some(from) if metadata(from, *follow).is_err() => self.look(to, false, RecordKind::Looked),
                    _ => self.create(to),
                }
            }
            TracedCall::CreateLink { path } => self.stop(Obstacle::MakesLink, path),
            TracedCall::Change { path, follow } => self.change(path, *follow),
            TracedCall::Connect { path: Some(path) } if fs::symlink_metadata(file::path(path)).is_err() => {
                self.look(path, true, RecordKind::Looked)
            }
            TracedCall::Network => self.stop(Obstacle::Network, b""),
            TracedCall::Connect { .. } | TracedCall::Communicates => self.stop(Obstacle::OtherProcess, b""),
            TracedCall::Exchange => self.stop(Obstacle::RemovesFile, b""),
            TracedCall::ChangesView => self.stop(Obstacle::OtherView, b""),
            TracedCall::Untraceable => self.stop(Obstacle::UnseenInput, b""),
            TracedCall::Foreign => self.stop(Obstacle::Foreign, b""),
            // About files that the command has opened.
            TracedCall::Stat { .. } | TracedCall::Access { .. } | TracedCall::ReadLink { .. } => Ok(()),
            TracedCall::Harmless => Ok(()),
        }
    }

    fn open(&mut self, path: &[u8], mode: OpenMode) -> Step {
        if mode.unnamed {
            return Ok(());
        }
        let behind = opened_file(path);
        let path = behind.as_deref().unwrap_or(path);
        let follow = !mode.no_follow && !mode.exclusive;
        let found = metadata(path, follow);
        match &found {
            Ok(_) if mode.exclusive => self.look(path, false, RecordKind::Looked),
            Ok(data) if mode.writes && !data.is_dir() => self.open_for_writing(path, data, mode),
            Ok(data) if data.is_dir() => self.use_dir(path, follow),
            Ok(_) if mode.path_only => {
                self.look(path, follow, RecordKind::Read)?;
                self.resolve(path)
            }
            Ok(data) if data.is_file() || data.is_symlink() => self.look(path, follow, RecordKind::Read),
            Ok(_) if DEVICES.contains(&path) => self.put(RecordKind::Read, 0, path, None),
            Ok(_) if self.place(path, follow)? == Place::Ignored => Ok(()),
            Ok(_) => self.stop(Obstacle::Device, path),
            Err(_) if mode.creates && has_parent(path) && !path.ends_with(b"/") => self.create_file(path, mode),
            Err(_) => self.look(path, follow, RecordKind::Looked),
        }
    }

    fn open_for_writing(&mut self, path: &[u8], data: &Metadata, mode: OpenMode) -> Step {
        let kind = data.file_type();
        if kind.is_char_device() || kind.is_fifo() || kind.is_socket() || kind.is_block_device() {
            let is_harmless = DEVICES.contains(&path) || self.place(path, true)? == Place::Ignored;
            return if is_harmless { Ok(()) } else { self.stop(Obstacle::Device, path) };
        }
        if self.place(path, true)? == Place::Ignored {
            return Ok(());
        }
        let identity = identity(file::path(path), true);
        match self.own.owner(&identity) {
            Owner::Command => self.note_way(path, &identity),
            Owner::OldOutput if mode.truncates && mode.creates && kind.is_file() && self.has_usual_mode(data) => {
                self.write(path, &identity)
            }
            Owner::OldOutput => self.stop(Obstacle::OldOutput, path),
            Owner::Other => self.stop(Obstacle::ChangesFile, path),
        }
    }

    fn read_link(&mut self, path: &[u8]) -> Step {
        if is_descriptor(path)
            && let Ok(target) = fs::read_link(file::path(path))
            && target.is_absolute()
            && !target.starts_with("/dev")
        {
            // Where the links on the way to an open file have led is not recorded.
            return self.stop(Obstacle::SystemFile, path);
        }
        self.look(path, false, RecordKind::Looked)
    }

    /// Notes that other paths will be relative to a directory, or that its real path will be asked for.
    fn use_dir(&mut self, path: &[u8], follow: bool) -> Step {
        if self.place(path, follow)? == Place::Ignored {
            return Ok(());
        }
        self.look(path, follow, RecordKind::Looked)?;
        self.resolve(path)
    }

    /// Records where the links on the way to a file lead.
    fn resolve(&mut self, path: &[u8]) -> Step {
        match fs::canonicalize(file::path(path)) {
            Ok(real) if self.own.owner(&real) != Owner::Command => {
                self.put(RecordKind::Resolved, 0, path, Some(real.as_os_str().as_bytes()))
            }
            _ => Ok(()),
        }
    }

    /// A file that does not exist is created.
    fn create_file(&mut self, path: &[u8], mode: OpenMode) -> Step {
        if fs::symlink_metadata(file::path(path)).is_ok() {
            // A link whose target does not exist.
            return self.stop(Obstacle::ChangesFile, path);
        }
        let identity = identity(file::path(path), false);
        // An old output would be overwritten.
        if !mode.truncates || mode.exclusive || self.own.owner(&identity) != Owner::OldOutput {
            self.look(path, false, RecordKind::Looked)?;
        }
        self.write(path, &identity)
    }

    /// Returns whether a file has the permissions of a new one.
    fn has_usual_mode(&self, data: &Metadata) -> bool {
        data.permissions().mode() & 0o7777 == 0o666 & !self.mask
    }

    /// A directory, hard link or special file is created. This fails if there is something at its path.
    fn create(&mut self, path: &[u8]) -> Step {
        let fails = fs::symlink_metadata(file::path(path)).is_ok() || !has_parent(path);
        self.look(path, false, RecordKind::Looked)?;
        if fails { Ok(()) } else { self.write(path, &identity(file::path(path), false)) }
    }

    fn rename(&mut self, from: &[u8], to: &[u8], replaces: bool) -> Step {
        let device = |path: &Path| fs::metadata(path).map(|data| data.dev()).ok();
        let (source, target) = (file::path(from), file::path(to));
        let has_target = fs::symlink_metadata(target).is_ok();
        let fails = fs::symlink_metadata(source).is_err()
            || source.parent().and_then(device) != target.parent().and_then(device)
            || has_target && !replaces
            || fs::metadata(target).is_ok_and(|data| data.is_dir());
        if fails {
            self.look(from, false, RecordKind::Looked)?;
            return self.look(to, false, RecordKind::Looked);
        }
        self.remove(from)?;
        let identity = identity(target, false);
        if !has_target && self.own.owner(&identity) != Owner::OldOutput {
            self.look(to, false, RecordKind::Looked)?;
        }
        self.write(to, &identity)
    }

    fn remove(&mut self, path: &[u8]) -> Step {
        let name = identity(file::path(path), false);
        match self.own.owner(&name) {
            Owner::Command => Ok(()),
            Owner::OldOutput => self.look(path, false, RecordKind::Looked),
            Owner::Other if fs::symlink_metadata(file::path(path)).is_ok() => self.stop(Obstacle::RemovesFile, path),
            Owner::Other => self.look(path, false, RecordKind::Looked),
        }
    }

    fn change(&mut self, path: &[u8], follow: bool) -> Step {
        // Something without a path, such as a pipe.
        if !path.starts_with(b"/") || DEVICES.contains(&path) || self.place(path, follow)? == Place::Ignored {
            return Ok(());
        }
        match self.own.owner(&identity(file::path(path), follow)) {
            Owner::Command => Ok(()),
            _ if metadata(path, follow).is_err() => self.look(path, follow, RecordKind::Looked),
            Owner::OldOutput => self.stop(Obstacle::OldOutput, path),
            Owner::Other => self.stop(Obstacle::ChangesFile, path),
        }
    }

    /// Notes that a file is created or replaced.
    fn write(&mut self, path: &[u8], identity: &Path) -> Step {
        let is_new = fs::symlink_metadata(identity).is_err();
        match self.own.owner(identity) {
            Owner::Other if !is_new => return self.stop(Obstacle::ChangesFile, path),
            _ => self.note_way(path, identity)?,
        }
        let target = if is_new { identity.parent().unwrap_or(identity) } else { identity };
        if !file::may_write(target) {
            return self.stop(Obstacle::NotWritable, path);
        }
        if let Some(dir) = file::path(path).parent() {
            self.look(dir.as_os_str().as_bytes(), true, RecordKind::Looked)?;
        }
        self.own.note_written(identity.to_path_buf());
        Ok(())
    }

    /// Records where links lead on the way to a file that is no input itself.
    fn note_way(&mut self, path: &[u8], identity: &Path) -> Step {
        let path = file::path(path);
        if without_dots(path) == identity {
            return Ok(());
        }
        if let Some(dir) = path.parent() {
            self.resolve(dir.as_os_str().as_bytes())?;
        }
        match fs::read_link(path) {
            Ok(target) => {
                self.put(RecordKind::Link, 0, path.as_os_str().as_bytes(), Some(target.as_os_str().as_bytes()))
            }
            Err(_) => Ok(()),
        }
    }

    fn list(&mut self, path: &[u8]) -> Step {
        let place = if matches!(path, b"/proc" | b"/sys") { Place::Volatile } else { self.place(path, true)? };
        match place {
            Place::Ignored => Ok(()),
            Place::Volatile => self.stop(Obstacle::SystemFile, path),
            Place::Ordinary if self.own.owner(&identity(file::path(path), true)) == Owner::Command => Ok(()),
            Place::Ordinary => self.put(RecordKind::Listed, 0, path, None),
        }
    }

    fn execute(&mut self, path: &[u8], most: u32) -> Step {
        self.look(path, true, RecordKind::Read)?;
        let Ok(data) = metadata(path, true) else { return Ok(()) };
        let mode = data.permissions().mode();
        if !data.is_file() || mode & 0o111 == 0 {
            return Ok(());
        }
        if mode & SETUID_OR_SETGID != 0 {
            return self.stop(Obstacle::OtherRights, path);
        }
        if !self.has_begun {
            self.has_begun = true;
            self.put_always(RecordKind::Begun, 0, path, None);
        }
        // Programs look for files beside their own.
        self.resolve(path)?;
        match interpreter::format(file::path(path)) {
            Format::Program(None) => Ok(()),
            Format::Program(Some(loader)) => self.look(&loader, true, RecordKind::Read),
            Format::Script(name) if most > 0 && interpreter::absolute(&name).is_some() => self.execute(&name, most - 1),
            Format::Script(_) | Format::Unknown => self.stop(Obstacle::UnknownFormat, path),
        }
    }

    /// Notes that a command looks at a file. `kind`: `Read` if its content matters, or only `Looked`.
    fn look(&mut self, path: &[u8], follow: bool, kind: RecordKind) -> Step {
        if !path.starts_with(b"/") || self.place(path, follow)? == Place::Ignored {
            return Ok(());
        }
        let identity = identity(file::path(path), follow);
        match self.own.owner(&identity) {
            Owner::Command => return self.note_way(path, &identity),
            Owner::OldOutput if fs::symlink_metadata(file::path(path)).is_ok() => {
                return self.stop(Obstacle::OldOutput, path);
            }
            Owner::OldOutput => {
                self.note_way(path, &identity)?;
                return self.put(RecordKind::OutputAbsent, 0, b"", None);
            }
            Owner::Other => {}
        }
        let found = metadata(path, follow);
        if let Ok(data) = &found
            && !data.is_symlink()
        {
            self.put(RecordKind::Permissions, 0, path, Some(permissions(data).as_bytes()))?;
        }
        if !follow && let Ok(data) = &found {
            let target = fs::read_link(file::path(path)).map(PathBuf::into_os_string).unwrap_or_default();
            self.put(RecordKind::Link, 0, path, Some(target.as_bytes()))?;
            if data.is_symlink() {
                return Ok(());
            }
        }
        match found {
            Ok(data) if data.is_file() => self.put(kind, 0, path, None),
            Ok(_) => self.put(RecordKind::Looked, 0, path, None),
            Err(error) => {
                // Messages tell a missing directory from a file in its place.
                if error.kind() == io::ErrorKind::NotADirectory
                    && let Some(parent) = file::path(path).parent()
                {
                    self.look(parent.as_os_str().as_bytes(), true, RecordKind::Looked)?;
                }
                self.put(RecordKind::Looked, error_code(&error), path, None)
            }
        }
    }

    /// Returns how a path may be used; stops at one that may not.
    fn place(&mut self, path: &[u8], follow: bool) -> Step<Place> {
        let real = identity(file::path(path), follow);
        let real_place = place(real.as_os_str().as_bytes());
        if real_place == Place::Ignored {
            self.note_way(path, &real)?;
        }
        let named = match place(path) {
            Place::Ignored if has_parents(path) => real_place,
            named => named,
        };
        let real = if named == Place::Ordinary { real_place } else { named };
        if real == Place::Volatile || names_process_indirectly(path) {
            return self.stop(Obstacle::SystemFile, path);
        }
        Ok(real)
    }

    fn stop<T>(&mut self, obstacle: Obstacle, path: &[u8]) -> Step<T> {
        if !self.has_obstacle {
            self.has_obstacle = true;
            self.put_always(RecordKind::Obstacle, obstacle.code(), path, None);
        }
        Err(Stop)
    }

    fn put(&mut self, kind: RecordKind, error: u8, name: &[u8], value: Option<&[u8]>) -> Step {
        if self.records.len() > MAX_BYTES {
            return self.stop(Obstacle::TooLong, b"");
        }
        if !self.put_always(kind, error, name, value) {
            return self.stop(Obstacle::TooLong, b"");
        }
        Ok(())
    }

    /// Returns false if the record is too long.
    fn put_always(&mut self, kind: RecordKind, error: u8, name: &[u8], value: Option<&[u8]>) -> bool {
        let Some(record) = (Record { process: 0, image: 1, kind, error, name, value }).encode() else { return false };
        if !self.known.contains(&record) {
            self.records.extend_from_slice(&record);
            self.known.insert(record);
        }
        true
    }
}

fn metadata(path: &[u8], follow: bool) -> io::Result<Metadata> {
    if follow { fs::metadata(file::path(path)) } else { fs::symlink_metadata(file::path(path)) }
}

/// Returns the path of a regular file or directory that is open, if this is the name of its descriptor.
fn opened_file(path: &[u8]) -> Option<Vec<u8>> {
    let target = fs::read_link(file::path(path)).ok().filter(|_| is_descriptor(path))?;
    let data = fs::metadata(&target).ok().filter(|_| target.is_absolute())?;
    (data.is_file() || data.is_dir()).then(|| target.into_os_string().into_encoded_bytes())
}

/// Returns whether a path goes to parent directories.
fn has_parents(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|component| component == b"..")
}

/// Returns whether a path may lead through the own directory of a process in another way than by its beginning.
fn names_process_indirectly(path: &[u8]) -> bool {
    has_parents(path) && [&b"/proc/self"[..], b"/proc/thread-self"].iter().any(|name| contains(path, name))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The path without `.` and `..`, as if there were no links.
fn without_dots(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(short.pop()),
            Component::CurDir => {}
            other => short.push(other),
        }
    }
    short
}

/// Returns whether a path is that of an open file, `/proc/PID/fd/N`.
fn is_descriptor(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && path.windows(4).any(|part| part == b"/fd/")
}

/// Returns whether the directory of a path exists.
fn has_parent(path: &[u8]) -> bool {
    file::path(path).parent().is_some_and(Path::is_dir)
}

fn error_code(error: &io::Error) -> u8 {
    error.raw_os_error().and_then(|code| u8::try_from(code).ok()).filter(|code| *code > 0).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
