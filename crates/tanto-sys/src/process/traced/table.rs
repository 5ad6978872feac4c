//! The system calls that are traced, and the meaning of their arguments.

use libc::c_long;

use super::TracedCall;

/// A path argument. The numbers are those of arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathArgument {
    /// The directory of a relative path; `None`: the working directory.
    pub(super) dir: Option<usize>,
    pub(super) path: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OpenFlags {
    /// Those of `creat`.
    Create,
    Argument(usize),
    /// In a `struct open_how`.
    How(usize),
}

/// Whether a call follows a symbolic link in the last component.
#[derive(Clone, Copy, Debug)]
pub(super) enum Follow {
    Yes,
    No,
    /// Unless this argument has `AT_SYMLINK_NOFOLLOW`.
    Unless(usize),
    /// If this argument has `AT_SYMLINK_FOLLOW`.
    If(usize),
}

#[derive(Clone, Debug)]
pub(super) enum CallKind {
    Open(PathArgument, OpenFlags),
    /// Size and other metadata of a file.
    Stat(PathArgument, Follow),
    /// Only whether it exists, and its permissions.
    Access(PathArgument, Follow),
    ReadLink(PathArgument),
    /// Changes the working directory.
    Enter(PathArgument),
    /// The names in an open directory.
    List,
    Execute(PathArgument),
    /// Creates a directory or a special file.
    Create(PathArgument),
    /// Creates a symbolic link.
    CreateLink(PathArgument),
    Remove(PathArgument),
    /// `flags`: an argument.
    Rename {
        from: PathArgument,
        to: PathArgument,
        flags: Option<usize>,
    },
    HardLink {
        from: PathArgument,
        follow: Follow,
        to: PathArgument,
    },
    /// Changes metadata or the size.
    Change(PathArgument, Follow),
    /// Changes metadata of an open file.
    ChangeOpen,
    Socket,
    Connect,
    /// With a `struct clone_args`.
    Clone,
    /// It has no path.
    Other(TracedCall),
}

/// A path relative to the working directory.
const fn path(path: usize) -> PathArgument {
    PathArgument { dir: None, path }
}

/// A path relative to the directory in the argument before it.
const fn at(path: usize) -> PathArgument {
    PathArgument { dir: Some(path - 1), path }
}

const OTHER_VIEW: CallKind = CallKind::Other(TracedCall::ChangesView);
const OTHER_PROCESS: CallKind = CallKind::Other(TracedCall::Communicates);
const UNSEEN: CallKind = CallKind::Other(TracedCall::Untraceable);

/// Calls of all architectures.
const COMMON: &[(c_long, CallKind)] = &[
    (libc::SYS_openat, CallKind::Open(at(1), OpenFlags::Argument(2))),
    (libc::SYS_openat2, CallKind::Open(at(1), OpenFlags::How(2))),
    (libc::SYS_newfstatat, CallKind::Stat(at(1), Follow::Unless(3))),
    (libc::SYS_statx, CallKind::Stat(at(1), Follow::Unless(2))),
    (libc::SYS_faccessat, CallKind::Access(at(1), Follow::Yes)),
    (libc::SYS_faccessat2, CallKind::Access(at(1), Follow::Unless(3))),
    (libc::SYS_chdir, CallKind::Enter(path(0))),
    (libc::SYS_statfs, CallKind::Access(path(0), Follow::Yes)),
    (libc::SYS_getxattr, CallKind::Access(path(0), Follow::Yes)),
    (libc::SYS_lgetxattr, CallKind::Access(path(0), Follow::No)),
    (libc::SYS_listxattr, CallKind::Access(path(0), Follow::Yes)),
    (libc::SYS_llistxattr, CallKind::Access(path(0), Follow::No)),
    (libc::SYS_readlinkat, CallKind::ReadLink(at(1))),
    (libc::SYS_getdents64, CallKind::List),
    (libc::SYS_execve, CallKind::Execute(path(0))),
    (libc::SYS_execveat, CallKind::Execute(at(1))),
    (libc::SYS_mkdirat, CallKind::Create(at(1))),
    (libc::SYS_mknodat, CallKind::Create(at(1))),
    (libc::SYS_symlinkat, CallKind::CreateLink(at(2))),
    (libc::SYS_unlinkat, CallKind::Remove(at(1))),
    (libc::SYS_renameat2, CallKind::Rename { from: at(1), to: at(3), flags: Some(4) }),
    (libc::SYS_linkat, CallKind::HardLink { from: at(1), follow: Follow::If(4), to: at(3) }),
    (libc::SYS_truncate, CallKind::Change(path(0), Follow::Yes)),
    (libc::SYS_fchmodat, CallKind::Change(at(1), Follow::Yes)),
    (libc::SYS_fchmodat2, CallKind::Change(at(1), Follow::Unless(3))),
    (libc::SYS_fchownat, CallKind::Change(at(1), Follow::Unless(4))),
    (libc::SYS_utimensat, CallKind::Change(at(1), Follow::Unless(3))),
    (libc::SYS_setxattr, CallKind::Change(path(0), Follow::Yes)),
    (libc::SYS_lsetxattr, CallKind::Change(path(0), Follow::No)),
    (libc::SYS_removexattr, CallKind::Change(path(0), Follow::Yes)),
    (libc::SYS_lremovexattr, CallKind::Change(path(0), Follow::No)),
    (libc::SYS_fchmod, CallKind::ChangeOpen),
    (libc::SYS_fchown, CallKind::ChangeOpen),
    (libc::SYS_fsetxattr, CallKind::ChangeOpen),
    (libc::SYS_fremovexattr, CallKind::ChangeOpen),
    (libc::SYS_socket, CallKind::Socket),
    (libc::SYS_connect, CallKind::Connect),
    (libc::SYS_bind, OTHER_PROCESS),
    (libc::SYS_clone3, CallKind::Clone),
    // Otherwise only with flags for namespaces.
    (libc::SYS_clone, OTHER_VIEW),
    (libc::SYS_unshare, OTHER_VIEW),
    (libc::SYS_setns, OTHER_VIEW),
    (libc::SYS_chroot, OTHER_VIEW),
    (libc::SYS_pivot_root, OTHER_VIEW),
    (libc::SYS_mount, OTHER_VIEW),
    (libc::SYS_move_mount, OTHER_VIEW),
    (libc::SYS_open_tree, OTHER_VIEW),
    (libc::SYS_umount2, OTHER_VIEW),
    (libc::SYS_open_by_handle_at, UNSEEN),
    (libc::SYS_io_uring_setup, UNSEEN),
    (libc::SYS_inotify_init1, UNSEEN),
    (libc::SYS_fanotify_init, UNSEEN),
    (libc::SYS_ptrace, OTHER_PROCESS),
    (libc::SYS_pidfd_getfd, OTHER_PROCESS),
    (libc::SYS_process_vm_readv, OTHER_PROCESS),
    (libc::SYS_process_vm_writev, OTHER_PROCESS),
    (libc::SYS_shmget, OTHER_PROCESS),
    (libc::SYS_msgget, OTHER_PROCESS),
    (libc::SYS_semget, OTHER_PROCESS),
    (libc::SYS_mq_open, OTHER_PROCESS),
    (libc::SYS_add_key, OTHER_PROCESS),
    (libc::SYS_request_key, OTHER_PROCESS),
    (libc::SYS_keyctl, OTHER_PROCESS),
];

/// Older calls.
#[cfg(target_arch = "x86_64")]
const OLD: &[(c_long, CallKind)] = &[
    (libc::SYS_open, CallKind::Open(path(0), OpenFlags::Argument(1))),
    (libc::SYS_creat, CallKind::Open(path(0), OpenFlags::Create)),
    (libc::SYS_stat, CallKind::Stat(path(0), Follow::Yes)),
    (libc::SYS_lstat, CallKind::Stat(path(0), Follow::No)),
    (libc::SYS_access, CallKind::Access(path(0), Follow::Yes)),
    (libc::SYS_readlink, CallKind::ReadLink(path(0))),
    (libc::SYS_getdents, CallKind::List),
    (libc::SYS_mkdir, CallKind::Create(path(0))),
    (libc::SYS_mknod, CallKind::Create(path(0))),
    (libc::SYS_symlink, CallKind::CreateLink(path(1))),
    (libc::SYS_unlink, CallKind::Remove(path(0))),
    (libc::SYS_rmdir, CallKind::Remove(path(0))),
    (libc::SYS_rename, CallKind::Rename { from: path(0), to: path(1), flags: None }),
    (libc::SYS_renameat, CallKind::Rename { from: at(1), to: at(3), flags: None }),
    (libc::SYS_link, CallKind::HardLink { from: path(0), follow: Follow::No, to: path(1) }),
    (libc::SYS_chmod, CallKind::Change(path(0), Follow::Yes)),
    (libc::SYS_chown, CallKind::Change(path(0), Follow::Yes)),
    (libc::SYS_lchown, CallKind::Change(path(0), Follow::No)),
    (libc::SYS_utime, CallKind::Change(path(0), Follow::Yes)),
    (libc::SYS_utimes, CallKind::Change(path(0), Follow::Yes)),
    (libc::SYS_futimesat, CallKind::Change(at(1), Follow::Yes)),
    (libc::SYS_inotify_init, UNSEEN),
    (libc::SYS_uselib, UNSEEN),
];
#[cfg(target_arch = "aarch64")]
const OLD: &[(c_long, CallKind)] = &[(libc::SYS_renameat, CallKind::Rename { from: at(1), to: at(3), flags: None })];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLD: &[(c_long, CallKind)] = &[];

/// The numbers of calls that are always traced: `clone` is traced for some flags.
pub(super) fn numbers() -> impl Iterator<Item = c_long> {
    COMMON.iter().chain(OLD).map(|(number, _)| *number).filter(|number| *number != libc::SYS_clone)
}

pub(super) fn kind_of(number: c_long) -> Option<CallKind> {
    COMMON.iter().chain(OLD).find(|(it, _)| *it == number).map(|(_, kind)| kind.clone())
}
