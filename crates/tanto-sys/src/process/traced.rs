//! Starts a program whose system calls wait until this process has seen them (seccomp user notification).

mod decode;
mod table;

use std::ffi::CString;
use std::io::{self, IoSliceMut, PipeWriter};
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
    /// The signals that this process blocked before.
    pub signals: SignalMask,
}

#[derive(Clone, Copy, Debug)]
pub struct SignalMask(libc::sigset_t);

/// Starts the first of these programs that exists, each given with its arguments. Traces the calls by which they and their
/// descendants use files or other processes. This process must have one thread and no other child, and gets no signals from
/// then on.
pub fn spawn(programs: &[Vec<&[u8]>]) -> io::Result<TracedChild> {
    let programs = texts(programs)?;
    let (own, other) = SeqpacketSocket::pair()?;
    let (end, keep) = io::pipe()?;
    // They are for the child.
    let signals = SignalMask(lifecycle::block_signals());
    if let Some(keeper) = lifecycle::fork()? {
        drop((other, end));
        let (pid, listener) = receive(&own)?;
        let calls = listener.map(|listener| CallListener { listener, keeper, keep: Some(keep) });
        return Ok(TracedChild { pid, calls, signals });
    }
    drop((own, keep));
    // Without a filter, the command runs untraced.
    let listener = install(&filter()).ok();
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: like `fork`, but the new process is a sibling: this one must not be a child of the command. There is
    // no other thread.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        0 => {
            drop((other, end, listener));
            eprintln!("tanto: {}", execute_texts(&programs, &signals));
            std::process::exit(127)
        }
        pid => {
            let pid = u32::try_from(pid).unwrap_or(0).to_ne_bytes();
            let descriptors: Vec<_> = listener.iter().map(AsFd::as_fd).collect();
            let _ = other.send(&pid, &descriptors);
            drop((other, listener));
            keep_filter(&end)
        }
    }
}

/// Replaces this process by the first of these programs that exists, and its signal mask by this one. Returns only if that
/// fails.
pub fn execute(programs: &[Vec<&[u8]>], signals: &SignalMask) -> io::Error {
    texts(programs).map_or_else(|error| error, |programs| execute_texts(&programs, signals))
}

fn texts(programs: &[Vec<&[u8]>]) -> io::Result<Vec<Vec<CString>>> {
    let texts = |words: &Vec<&[u8]>| words.iter().map(|word| CString::new(*word)).collect::<Result<Vec<_>, _>>();
    Ok(programs.iter().map(texts).collect::<Result<_, _>>()?)
}

fn execute_texts(programs: &[Vec<CString>], signals: &SignalMask) -> io::Error {
    // SAFETY: the mask is initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &signals.0, null_mut()) };
    for words in programs {
        let pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([null()]).collect();
        // SAFETY: the list ends with a null pointer, and its texts with NULs.
        unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
    }
    io::Error::last_os_error()
}

/// Keeps the filter in use until the other end of the pipe is closed. Makes no traced call.
fn keep_filter(end: &io::PipeReader) -> ! {
    let end = end.as_raw_fd().cast_unsigned();
    let mut byte = [0_u8];
    // SAFETY: nothing uses the closed descriptors any more; `byte` has room for one byte.
    unsafe {
        libc::setsid();
        if end > 0 {
            libc::close_range(0, end - 1, 0);
        }
        libc::close_range(end + 1, libc::c_uint::MAX, 0);
        while libc::read(end.cast_signed(), byte.as_mut_ptr().cast(), 1) < 0 {}
        libc::_exit(0)
    }
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

/// Receives the process id of the command, and the descriptor for its calls if there is one.
fn receive(socket: &SeqpacketSocket) -> io::Result<(u32, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pid = [0; 4];
    let received =
        retry_on_intr(|| recvmsg(socket, &mut [IoSliceMut::new(&mut pid)], &mut control, RecvFlags::CMSG_CLOEXEC));
    received.map_err(|error| call_error("recvmsg", None, error.into()))?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let listener = descriptors.flatten().next();
    match u32::from_ne_bytes(pid) {
        0 => Err(call_error("clone", None, io::ErrorKind::Other.into())),
        pid => Ok((pid, listener)),
    }
}

/// Receives the system calls of a child and its descendants.
#[derive(Debug)]
pub struct CallListener {
    listener: OwnedFd,
    /// A process that keeps the filter in use.
    keeper: u32,
    keep: Option<PipeWriter>,
}

#[derive(Debug)]
pub enum Received {
    Call(Call),
    /// A signal interrupted a call before it was received. The call fails, or is made again.
    Interrupted,
    /// There was none.
    Nothing,
}

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
    /// Waits for the next call. Check that there is one with `poll` first.
    pub fn receive(&self) -> io::Result<Received> {
        // SAFETY: all zero is a valid `seccomp_notif`, and the call requires it.
        let mut it: libc::seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the kernel writes one `seccomp_notif`.
        let received = unsafe { libc::ioctl(self.listener.as_raw_fd(), RECEIVE, &raw mut it) };
        if received != 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(Received::Interrupted),
                Some(libc::EINTR) => Ok(Received::Nothing),
                _ => Err(call_error("ioctl", None, error)),
            };
        }
        let is_foreign = it.data.arch != ARCHITECTURE || it.data.nr >= 0x4000_0000;
        let number = libc::c_long::from(it.data.nr);
        let call = Call { id: it.id, thread: it.pid, number, arguments: it.data.args, is_foreign };
        Ok(Received::Call(call))
    }

    /// Like `receive`, but does not wait. Finds interrupted calls that `poll` does not show: the kernel counts them.
    pub fn receive_pending(&self) -> io::Result<Received> {
        let _alarm = Alarm::repeat()?;
        self.receive()
    }

    /// Wakes this process on the processor of the one that makes a call, which shortens the time in which a signal can
    /// interrupt a call. Since Linux 6.6.
    pub fn wake_at_once(&self) {
        const SYNC_WAKE_UP: libc::c_ulong = 1;
        /// `_IOW('!', 4, __u64)`
        const SET_FLAGS: libc::Ioctl = libc::_IOW::<u64>(b'!' as u32, 4);
        // SAFETY: takes a number.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
    }

    /// Ends the process that keeps the filter in use. Then the filter ends with the last traced process.
    pub fn release(&mut self) -> io::Result<()> {
        if self.keep.take().is_some() {
            lifecycle::wait_and_reap(self.keeper)?;
        }
        Ok(())
    }

    /// Returns whether all traced processes have ended; only after `release`.
    pub fn is_closed(&self) -> bool {
        let mut watch = libc::pollfd { fd: self.listener.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: the pointer is to one `pollfd`. With a timeout of 0 the call does not wait.
        unsafe { libc::poll(&raw mut watch, 1, 0) };
        watch.revents & libc::POLLHUP != 0
    }

    /// Lets the process make the call. Returns false if it was killed.
    pub fn resume(&self, call: &Call) -> io::Result<bool> {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        // SAFETY: the kernel reads one `seccomp_notif_resp`.
        if unsafe { libc::ioctl(self.listener.as_raw_fd(), ANSWER, &raw mut answer) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOENT) { Ok(false) } else { Err(call_error("ioctl", None, error)) }
    }
}

impl AsRawFd for CallListener {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

/// Interrupts waiting system calls every millisecond.
struct Alarm;

impl Alarm {
    fn repeat() -> io::Result<Alarm> {
        extern "C" fn ignore(_: libc::c_int) {}
        // SAFETY: all zero is a valid `sigaction`, the handler does nothing, and the sets are initialised.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = ignore as *const () as usize;
            libc::sigaction(libc::SIGALRM, &raw const action, null_mut());
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGALRM);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), null_mut());
        }
        Alarm::set(1_000).map(|()| Alarm)
    }

    fn set(microseconds: libc::suseconds_t) -> io::Result<()> {
        let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
        let timer = libc::itimerval { it_interval: time, it_value: time };
        // SAFETY: the timer is initialised; null asks for no old one.
        match unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) } {
            0 => Ok(()),
            _ => Err(call_error("setitimer", None, io::Error::last_os_error())),
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let _ = Alarm::set(0);
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
