//! Starts a program whose system calls wait until this process has seen them (seccomp user notification).

mod decode;
mod table;

use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::lifecycle;
use super::seccomp::{ARCHITECTURE, Filter, program};
use crate::error::call_error;
use crate::ipc::seqpacket::SeqpacketSocket;

pub use decode::{OpenMode, TracedCall};

/// Flags of `clone` that create namespaces.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// A child whose system calls are traced.
#[derive(Debug)]
pub struct TracedChild {
    pub pid: u32,
    /// `None`: the system does not permit it, and the child is not traced.
    pub calls: Option<CallListener>,
}

/// Starts the first of these programs that exists, each given with its arguments. Traces the calls by which they and their
/// descendants use files or other processes. This process must have one thread.
pub fn spawn(programs: &[Vec<&[u8]>]) -> io::Result<TracedChild> {
    let texts = |words: &Vec<&[u8]>| words.iter().map(|word| CString::new(*word)).collect::<Result<Vec<_>, _>>();
    let programs: Vec<Vec<CString>> = programs.iter().map(texts).collect::<Result<_, _>>()?;
    let (own, other) = SeqpacketSocket::pair()?;
    // They are for the child.
    let mask = lifecycle::block_signals();
    if let Some(pid) = lifecycle::fork()? {
        drop(other);
        return Ok(TracedChild { pid, calls: receive_listener(&own)? });
    }
    drop(own);
    // Without a filter, the child runs untraced.
    if let Ok(listener) = install(&filter()) {
        let _ = other.send(b"x", &[listener.as_fd()]);
    }
    drop(other);
    // SAFETY: the mask is initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut()) };
    for words in &programs {
        let pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([null()]).collect();
        // SAFETY: the list ends with a null pointer, and its texts with NULs.
        unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
    }
    eprintln!("tanto: {}", io::Error::last_os_error());
    std::process::exit(127)
}

fn filter() -> Vec<libc::sock_filter> {
    let traced = libc::SECCOMP_RET_USER_NOTIF;
    let mut filter = Filter::new(traced, traced);
    table::numbers().for_each(|number| filter.answer(number, traced));
    filter.answer_if_first_has(libc::SYS_clone, NEW_NAMESPACES, traced);
    filter.end(libc::SECCOMP_RET_ALLOW)
}

/// Installs a filter in this process. Returns the descriptor that receives its calls.
fn install(steps: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let steps = program(steps);
    let set = |flags: libc::c_ulong| {
        let flags = flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        // SAFETY: the program outlives the call, which only reads it.
        let fd = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const steps) };
        // SAFETY: the kernel has just opened it, for this process.
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }) }
    };
    // Since Linux 5.19, signals do not interrupt a call that is being examined.
    let best = || set(libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).or_else(|_| set(0));
    best().or_else(|error| {
        if error.raw_os_error() != Some(libc::EACCES) {
            return Err(error);
        }
        // Only root may filter programs that get other rights.
        rustix::thread::set_no_new_privs(true)?;
        best()
    })
}

/// Receives the descriptor from the child; `None` if it has none.
fn receive_listener(socket: &SeqpacketSocket) -> io::Result<Option<CallListener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received =
        retry_on_intr(|| recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC));
    received.map_err(|error| call_error("recvmsg", None, error.into()))?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().next().map(CallListener))
}

/// Receives the system calls of a child and its descendants.
#[derive(Debug)]
pub struct CallListener(OwnedFd);

/// A system call that has not been made yet.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    id: u64,
    /// The thread that makes it.
    thread: u32,
    number: libc::c_long,
    arguments: [u64; 6],
    /// It is one of another architecture or ABI.
    is_foreign: bool,
}

/// `_IOWR('!', 0, struct seccomp_notif)`
const RECEIVE: libc::Ioctl = ioctl::<libc::seccomp_notif>(0);
/// `_IOWR('!', 1, struct seccomp_notif_resp)`
const ANSWER: libc::Ioctl = ioctl::<libc::seccomp_notif_resp>(1);

const fn ioctl<T>(number: u32) -> libc::Ioctl {
    libc::_IOWR::<T>(b'!' as u32, number)
}

impl CallListener {
    /// Waits for the next call; `None` if it ended before it was received. Check that there is one with `poll` first.
    pub fn receive(&self) -> io::Result<Option<Call>> {
        // SAFETY: all zero is a valid `seccomp_notif`, and the call requires it.
        let mut it: libc::seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the kernel writes one `seccomp_notif`.
        let received = unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE, &raw mut it) };
        if received != 0 {
            let error = io::Error::last_os_error();
            let is_over = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR));
            return if is_over { Ok(None) } else { Err(call_error("ioctl", None, error)) };
        }
        let is_foreign = it.data.arch != ARCHITECTURE || it.data.nr >= 0x4000_0000;
        let number = libc::c_long::from(it.data.nr);
        Ok(Some(Call { id: it.id, thread: it.pid, number, arguments: it.data.args, is_foreign }))
    }

    /// Returns whether all traced processes have ended.
    pub fn is_closed(&self) -> bool {
        let mut watch = libc::pollfd { fd: self.0.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: the pointer is to one `pollfd`. With a timeout of 0 the call does not wait.
        unsafe { libc::poll(&raw mut watch, 1, 0) };
        watch.revents & libc::POLLHUP != 0
    }

    /// Lets the process make the call. Returns false if it was killed.
    pub fn resume(&self, call: &Call) -> io::Result<bool> {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        // SAFETY: the kernel reads one `seccomp_notif_resp`.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), ANSWER, &raw mut answer) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOENT) { Ok(false) } else { Err(call_error("ioctl", None, error)) }
    }
}

impl AsRawFd for CallListener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Call {
    /// Reads memory of the process. Returns the number of bytes, which is smaller at the end of its memory.
    fn read(&self, address: u64, room: &mut [u8]) -> io::Result<usize> {
        let local = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: room.len() };
        // SAFETY: `local` is the room; the other range is that of another process.
        let read =
            unsafe { libc::process_vm_readv(self.thread.cast_signed(), &raw const local, 1, &raw const remote, 1, 0) };
        usize::try_from(read).map_err(|_| call_error("process_vm_readv", None, io::Error::last_os_error()))
    }

    /// Reads a text that ends with a NUL; without it.
    fn read_text(&self, address: u64) -> io::Result<Vec<u8>> {
        /// Each read stays within a page, since the next one may not exist.
        const PAGE: u64 = 4096;
        let mut text = Vec::new();
        while text.len() <= libc::PATH_MAX as usize {
            let from = address.wrapping_add(text.len() as u64);
            let mut page = [0; PAGE as usize];
            let most = (PAGE - from % PAGE) as usize;
            let length = self.read(from, &mut page[..most])?;
            if length == 0 {
                return Err(Errno::FAULT.into());
            }
            if let Some(end) = page[..length].iter().position(|&byte| byte == 0) {
                text.extend_from_slice(&page[..end]);
                return Ok(text);
            }
            text.extend_from_slice(&page[..length]);
        }
        Err(Errno::NAMETOOLONG.into())
    }
}
