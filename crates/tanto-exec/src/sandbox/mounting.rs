//! Mounts sandbox plans.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tanto_sys::fs::dir_tree;
use tanto_sys::fs::mounts::{self, VirtualFs};

use super::{Mount, MountKind, Plan, SandboxDir};

/// Options of the root file system, which holds only mount points and links.
const ROOT: &str = "size=16m,mode=755";
/// Options of a mount that hides a path, which may hold mount points.
const HIDDEN: &str = "size=1m,mode=755";
/// Options of /dev/shm and /dev/mqueue.
const SHARED: &str = "mode=1777";

/// Mounts a plan in place of earlier mounts. Everything is writable until `close`.
pub fn mount(place: &SandboxDir, plan: &Plan) -> io::Result<()> {
    unmount(place)?;
    for dir in [place.root(), place.scratch()] {
        fs::create_dir_all(dir)?;
    }
    if let Some(bytes) = plan.memory {
        mounts::mount_virtual(VirtualFs::Tmpfs, &place.scratch(), &format!("size={bytes},mode=755"))?;
    }
    mounts::mount_virtual(VirtualFs::Tmpfs, &place.root(), ROOT)?;
    for (number, mount) in plan.mounts.iter().enumerate() {
        Mounting { place, plan, scratch: place.scratch().join(number.to_string()), mount }.act()?;
    }
    fs::create_dir_all(place.root().join("proc"))
}

/// Makes a mounted sandbox read-only if its plan says so, except private and shared mounts.
pub fn close(place: &SandboxDir, plan: &Plan) -> io::Result<()> {
    if !plan.read_only {
        return Ok(());
    }
    mounts::set_read_only(&place.root())?;
    let is_open = |mount: &&Mount| matches!(mount.kind, MountKind::Private(_) | MountKind::Writable(_));
    plan.mounts.iter().filter(is_open).try_for_each(|mount| mounts::set_writable(&place.root(), &mount.at))
}

/// Unmounts everything, and removes all changes.
pub fn unmount(place: &SandboxDir) -> io::Result<()> {
    for dir in [place.root(), place.scratch()] {
        // An error means that nothing is mounted there.
        while mounts::unmount(&dir).is_ok() {}
    }
    dir_tree::remove(&place.scratch())
}

/// Adds directories, the first uppermost, on top of the lower layers of these overlays in a mounted sandbox, below its
/// changes. Returns false without any effect if a path is no overlay, or something is mounted inside.
pub fn cover(place: &SandboxDir, all: &[(&Path, &[PathBuf])]) -> io::Result<bool> {
    let plan = place.read_plan()?;
    let mut covered = Vec::new();
    for (at, layers) in all {
        let found = plan.mounts.iter().enumerate().find(|(_, mount)| mount.at == *at);
        let within = plan.mounts.iter().any(|mount| mount.at != *at && mount.at.starts_with(at));
        let Some((number, mount)) = found.filter(|(_, mount)| !within && matches!(mount.kind, MountKind::Overlay(_)))
        else {
            return Ok(false);
        };
        let scratch = place.scratch().join(number.to_string());
        covered.push((Mounting { place, plan: &plan, scratch, mount }, layers));
    }
    covered.iter().try_for_each(|(mounting, layers)| mounting.cover(layers))?;
    Ok(true)
}

struct Mounting<'a> {
    place: &'a SandboxDir,
    plan: &'a Plan,
    /// Directory for changes to this mount.
    scratch: PathBuf,
    mount: &'a Mount,
}

impl Mounting<'_> {
    fn act(&self) -> io::Result<()> {
        let at = self.at();
        match &self.mount.kind {
            MountKind::ReadOnlyEntry(from) if fs::symlink_metadata(from).is_err() => Ok(()),
            MountKind::ReadOnly(from) | MountKind::ReadOnlyEntry(from) => {
                make_point(from, &at)?;
                mounts::bind(from, &at)?;
                mounts::set_read_only(&at)
            }
            MountKind::Writable(from) => {
                make_point(from, &at)?;
                mounts::bind(from, &at)
            }
            MountKind::Private(mode) => {
                self.private(*mode)?;
                fs::create_dir_all(&at)?;
                mounts::bind(&self.scratch, &at)
            }
            MountKind::Overlay(lowers) => self.over(lowers, &at),
            MountKind::Copy(lowers) => {
                lowers.iter().rev().try_for_each(|from| dir_tree::copy(from, &self.scratch))?;
                fs::create_dir_all(&at)?;
                mounts::bind(&self.scratch, &at)
            }
            MountKind::Symlink(to) => {
                make_parent(&at)?;
                symlink(to, &at)
            }
            MountKind::Hidden if fs::symlink_metadata(&at).is_ok() => {
                mounts::mount_virtual(VirtualFs::Tmpfs, &at, HIDDEN)
            }
            MountKind::Hidden => Ok(()),
            MountKind::Devices => devices(&at),
        }
    }

    /// Returns the mount point on the host.
    fn at(&self) -> PathBuf {
        self.place.root().join(self.mount.at.strip_prefix("/").unwrap_or(&self.mount.at))
    }

    fn private(&self, mode: u32) -> io::Result<()> {
        DirBuilder::new().create(&self.scratch)?;
        // Explicitly, because of the umask.
        fs::set_permissions(&self.scratch, fs::Permissions::from_mode(mode))
    }

    fn over(&self, lowers: &[PathBuf], at: &Path) -> io::Result<()> {
        self.private(0o755)?;
        let upper = self.scratch.join("upper");
        fs::create_dir(&upper)?;
        if let Some(lowest) = lowers.first() {
            dir_tree::copy_mode(lowest, &upper)?;
        }
        fs::create_dir_all(at)?;
        self.overlay(lowers, &upper, at)
    }

    fn overlay(&self, lowers: &[PathBuf], upper: &Path, at: &Path) -> io::Result<()> {
        let work = self.scratch.join("work");
        fs::create_dir(&work)?;
        let lowers: Vec<&Path> = lowers.iter().map(PathBuf::as_path).collect();
        mounts::overlay(&lowers, upper, &work, at, self.plan.as_user)
    }

    fn cover(&self, layers: &[PathBuf]) -> io::Result<()> {
        let MountKind::Overlay(lowers) = &self.mount.kind else { return Ok(()) };
        let at = self.at();
        mounts::unmount(&at)?;
        // It belonged to the old overlay.
        dir_tree::remove(&self.scratch.join("work"))?;
        self.overlay(&[layers, lowers].concat(), &self.scratch.join("upper"), &at)
    }
}

fn make_parent(at: &Path) -> io::Result<()> {
    at.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Creates a mount point: a directory for a directory, else a file.
fn make_point(from: &Path, at: &Path) -> io::Result<()> {
    if fs::metadata(from)?.is_dir() {
        return fs::create_dir_all(at);
    }
    if fs::symlink_metadata(at).is_ok() {
        return Ok(());
    }
    make_parent(at)?;
    OpenOptions::new().write(true).create_new(true).open(at).map(drop)
}

const SHOWN: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

fn devices(at: &Path) -> io::Result<()> {
    fs::create_dir_all(at)?;
    mounts::mount_virtual(VirtualFs::Tmpfs, at, "size=64k,mode=755")?;
    for name in SHOWN {
        let (from, at) = (Path::new("/dev").join(name), at.join(name));
        make_point(&from, &at)?;
        mounts::bind(&from, &at)?;
    }
    LINKS.iter().try_for_each(|(name, to)| symlink(to, at.join(name)))?;
    for dir in ["pts", "shm"] {
        fs::create_dir(at.join(dir))?;
    }
    mounts::mount_virtual(VirtualFs::Devpts, &at.join("pts"), "newinstance,ptmxmode=666,mode=620")?;
    mounts::mount_virtual(VirtualFs::Tmpfs, &at.join("shm"), SHARED)
}
