//! Mounts: what is seen where, and what may be written there. Does not know what they are for.
//!
//! All calls change the mount namespace that this process is in.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use crate::error::call_error;

/// A file system that the kernel makes up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VirtualFs {
    /// Files in memory.
    Tmpfs,
    /// The processes of the namespace that we are in.
    Proc,
    /// Terminals of their own.
    Devpts,
    /// Messages between processes.
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

/// What is mounted from now on in this namespace is seen by no other; what others mount outside still comes in.
pub fn make_all_slave() -> io::Result<()> {
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_SLAVE, "")
}

/// Nothing comes in any more, and nothing goes out.
pub fn make_all_private() -> io::Result<()> {
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE, "")
}

/// Mounts one that is made up, with its own options (`size=1m`).
pub fn mount_virtual(what: VirtualFs, at: &Path, options: &str) -> io::Result<()> {
    let flags = match what {
        VirtualFs::Proc | VirtualFs::Mqueue => libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
        VirtualFs::Devpts => libc::MS_NOSUID | libc::MS_NOEXEC,
        VirtualFs::Tmpfs => libc::MS_NODEV,
    };
    mount(Some(Path::new(what.name())), at, Some(what.name()), flags, options)
}

/// Shows a file, or a directory with all that is mounted below it, in a second place.
pub fn bind(from: &Path, at: &Path) -> io::Result<()> {
    mount(Some(from), at, None, libc::MS_BIND | libc::MS_REC, "")
}

/// Shows the directories `lowers`, the first uppermost, as one; what is written goes to `upper`. Both `upper` and
/// `work` are empty, and of one file system. With `own_marks` what is removed is marked as ordinary users may. What is
/// written need not outlive the machine.
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
    mount(Some(Path::new("overlay")), at, Some("overlay"), 0, &options)
}

/// A path as one of several in an option.
fn option(path: &Path) -> io::Result<&str> {
    path.to_str().filter(|text| !text.contains([':', ',', '\\', '"'])).ok_or_else(|| {
        let why = io::Error::new(io::ErrorKind::InvalidInput, "a colon, comma, quote or backslash is in the path");
        call_error("mount", Some(path.as_os_str().as_bytes()), why)
    })
}

/// Nothing can be written any more in what is mounted here and below.
pub fn set_read_only(at: &Path) -> io::Result<()> {
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_RECURSIVE;
    set_attributes(libc::AT_FDCWD, at, flags, libc::MOUNT_ATTR_RDONLY, 0)
}

/// What is mounted at `inside`, if `root` were the root, can be written. No link on the way counts: whoever can write
/// there may have put it there.
pub fn set_writable(root: &Path, inside: &Path) -> io::Result<()> {
    let root = fs::File::open(root)?;
    let path = path(inside)?;
    // SAFETY: all-zero is a valid request: numbers only.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS;
    // SAFETY: the path ends with a NUL, and `how` is as long as is said.
    let fd = unsafe {
        libc::syscall(libc::SYS_openat2, root.as_raw_fd(), path.as_ptr(), &raw const how, size_of::<libc::open_how>())
    };
    done("openat2", inside, fd >= 0)?;
    // SAFETY: the call succeeded, so it is open and ours alone.
    let found = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    let nothing = Path::new("");
    set_attributes(found.as_raw_fd(), nothing, libc::AT_EMPTY_PATH, 0, libc::MOUNT_ATTR_RDONLY)
}

fn set_attributes(dir: RawFd, at: &Path, flags: libc::c_int, set: u64, clear: u64) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    let place = path(at)?;
    let size = size_of::<libc::mount_attr>();
    // SAFETY: the path ends with a NUL, and `attributes` is as long as is said.
    let rc = unsafe { libc::syscall(libc::SYS_mount_setattr, dir, place.as_ptr(), flags, &raw const attributes, size) };
    done("mount_setattr", at, rc == 0)
}

/// What is mounted here goes, with all below it; for those who still use it, when they no longer do.
pub fn unmount(at: &Path) -> io::Result<()> {
    let place = path(at)?;
    // SAFETY: the path ends with a NUL.
    let rc = unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
    done("umount", at, rc == 0)
}

/// What is mounted at `root` becomes the root of this process, and nothing else can be seen any more.
pub fn pivot_root(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root).map_err(|error| call_error("chdir", Some(root.as_os_str().as_bytes()), error))?;
    // The old root comes to lie above the new one, and is then taken away.
    // SAFETY: both paths end with a NUL.
    let rc = unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) };
    done("pivot_root", root, rc == 0)?;
    // SAFETY: the path ends with a NUL.
    let rc = unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) };
    done("umount", Path::new("the old root"), rc == 0)?;
    std::env::set_current_dir("/")
}

fn mount(from: Option<&Path>, at: &Path, kind: Option<&str>, flags: libc::c_ulong, data: &str) -> io::Result<()> {
    let target = path(at)?;
    let source = from.map(path).transpose()?;
    let kind = kind.map(CString::new).transpose()?;
    let data = CString::new(data)?;
    let or_null = |text: &Option<CString>| text.as_ref().map_or(null(), |text| text.as_ptr());
    // SAFETY: all texts end with a NUL and outlive the call.
    let rc = unsafe { libc::mount(or_null(&source), target.as_ptr(), or_null(&kind), flags, data.as_ptr().cast()) };
    done("mount", at, rc == 0)
}

fn path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn done(call: &'static str, about: &Path, is_done: bool) -> io::Result<()> {
    match is_done {
        true => Ok(()),
        false => Err(call_error(call, Some(about.as_os_str().as_bytes()), io::Error::last_os_error())),
    }
}
