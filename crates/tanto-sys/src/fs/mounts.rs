//! Mounts in the mount namespace of this process.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, StatVfsMountFlags, openat2, statvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::error::call_error;

/// A virtual file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VirtualFs {
    /// Files in memory.
    Tmpfs,
    /// The processes of the current PID namespace.
    Proc,
    /// A private set of pseudo-terminals.
    Devpts,
    /// POSIX message queues.
    Mqueue,
}

impl VirtualFs {
    fn name(self) -> &'static str {
        match self {
            VirtualFs::Tmpfs => "tmpfs",
            VirtualFs::Proc => "proc",
            VirtualFs::Devpts => "devpts",
            VirtualFs::Mqueue => "mqueue",
        }
    }
}

/// Hides later mounts of this namespace from others; mounts of others still propagate here.
pub fn make_all_slave() -> io::Result<()> {
    change_all(MountPropagationFlags::DOWNSTREAM)
}

/// Stops propagation of mounts in both directions.
pub fn make_all_private() -> io::Result<()> {
    change_all(MountPropagationFlags::PRIVATE)
}

/// Mounts a virtual file system with options such as `size=1m`.
pub fn mount_virtual(kind: VirtualFs, at: &Path, options: &str) -> io::Result<()> {
    let flags = match kind {
        VirtualFs::Proc | VirtualFs::Mqueue => MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        VirtualFs::Devpts => MountFlags::NOSUID | MountFlags::NOEXEC,
        VirtualFs::Tmpfs => MountFlags::NODEV,
    };
    mount(kind.name(), at, flags, options)
}

/// Mounts a file, or a directory with all mounts below it, in a second place.
pub fn bind(from: &Path, at: &Path) -> io::Result<()> {
    rustix::mount::mount_bind_recursive(from, at).map_err(|error| mount_error("mount", at, error))
}

/// Mounts an overlay of the directories `lowers`, uppermost first; changes go to `upper`. `upper` and `work` must be
/// empty and on one file system. With `own_marks`, removed files are marked by attributes that ordinary users may set.
/// The contents of `upper` may be lost in a crash of the machine.
pub fn overlay(lowers: &[&Path], upper: &Path, work: &Path, at: &Path, own_marks: bool) -> io::Result<()> {
    let mut options = String::from("lowerdir=");
    for (number, lower) in lowers.iter().enumerate() {
        if number > 0 {
            options.push(':');
        }
        options += option(lower)?;
    }
    options += &format!(",upperdir={},workdir={}", option(upper)?, option(work)?);
    options += ",volatile,index=off,xino=off,nfs_export=off";
    options += if own_marks { ",userxattr" } else { ",redirect_dir=off,metacopy=off" };
    mount("overlay", at, MountFlags::empty(), &options)
}

/// Checks that a path can stand in an option.
fn option(path: &Path) -> io::Result<&str> {
    path.to_str().filter(|text| !text.contains([':', ',', '\\', '"'])).ok_or_else(|| {
        let why = io::Error::new(io::ErrorKind::InvalidInput, "the path contains a colon, comma, quote or backslash");
        call_error("mount", Some(path.as_os_str().as_bytes()), why)
    })
}

/// Makes this mount and all mounts below it read-only.
pub fn set_read_only(at: &Path) -> io::Result<()> {
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_RECURSIVE;
    set_attributes(libc::AT_FDCWD, at, flags, libc::MOUNT_ATTR_RDONLY, 0)
}

/// Makes the mount at `inside`, relative to the root directory `root`, writable. Fails if the path contains symbolic
/// links, which an untrusted process could have created.
pub fn set_writable(root: &Path, inside: &Path) -> io::Result<()> {
    let root = fs::File::open(root)?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let found = openat2(&root, inside, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve);
    let found = found.map_err(|error| mount_error("openat2", inside, error))?;
    set_attributes(found.as_raw_fd(), Path::new(""), libc::AT_EMPTY_PATH, 0, libc::MOUNT_ATTR_RDONLY)
}

fn set_attributes(dir: RawFd, at: &Path, flags: libc::c_int, set: u64, clear: u64) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    let place = CString::new(at.as_os_str().as_bytes())?;
    let size = size_of::<libc::mount_attr>();
    // SAFETY: the path ends with a NUL, and `attributes` is as long as is said.
    let rc = unsafe { libc::syscall(libc::SYS_mount_setattr, dir, place.as_ptr(), flags, &raw const attributes, size) };
    match rc {
        0 => Ok(()),
        _ => Err(call_error("mount_setattr", Some(at.as_os_str().as_bytes()), io::Error::last_os_error())),
    }
}

/// Unmounts lazily, with all mounts below.
pub fn unmount(at: &Path) -> io::Result<()> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    rustix::mount::unmount(at, flags).map_err(|error| mount_error("umount", at, error))
}

/// Makes the mount at `root` the root directory of this process and unmounts the old root.
pub fn pivot_root(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root).map_err(|error| call_error("chdir", Some(root.as_os_str().as_bytes()), error))?;
    // The old root is stacked above the new one, and then unmounted.
    rustix::process::pivot_root(c".", c".").map_err(|error| mount_error("pivot_root", root, error))?;
    let unmounted = rustix::mount::unmount(c".", UnmountFlags::DETACH);
    unmounted.map_err(|error| mount_error("umount", Path::new("the old root"), error))?;
    std::env::set_current_dir("/")
}

/// Returns whether programs and libraries on the mount of this file cannot be used (`noexec`).
pub fn forbids_programs(path: &Path) -> bool {
    statvfs(path).is_ok_and(|answer| answer.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

fn change_all(flags: MountPropagationFlags) -> io::Result<()> {
    let root = Path::new("/");
    rustix::mount::mount_change(root, flags | MountPropagationFlags::REC)
        .map_err(|error| mount_error("mount", root, error))
}

/// Mounts a file system whose source is its own name.
fn mount(kind: &str, at: &Path, flags: MountFlags, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    rustix::mount::mount(kind, at, kind, flags, options.as_c_str()).map_err(|error| mount_error("mount", at, error))
}

fn mount_error(call: &'static str, about: &Path, error: Errno) -> io::Error {
    call_error(call, Some(about.as_os_str().as_bytes()), error.into())
}
