//! Properties of terminals.

pub mod cursor;
pub mod stop_flag;

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetpgrp};

pub fn is_terminal(fd: impl AsFd) -> bool {
    fd.as_fd().is_terminal()
}

/// Returns whether this process is in the foreground of its controlling terminal. False without one.
pub fn is_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    tcgetpgrp(terminal) == Ok(getpgrp())
}

/// Returns the width in columns; `None` if unknown or not a terminal.
pub fn columns(fd: impl AsFd) -> Option<usize> {
    size(fd).map(|size| size.0).filter(|&columns| columns != 0)
}

/// Returns columns and rows, each 0 if unknown; `None` if not a terminal.
pub fn size(fd: impl AsFd) -> Option<(usize, usize)> {
    let size = tcgetwinsize(fd).ok()?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Returns whether another process group is in the foreground of this terminal. False if it is not the controlling
/// terminal.
pub fn is_in_background(fd: impl AsFd) -> bool {
    tcgetpgrp(fd).is_ok_and(|owner| owner != getpgrp())
}

/// Moves this process group to the foreground of the terminal on standard input, if that is the controlling terminal. A
/// shell with job control may have left another group there.
pub fn take_foreground() {
    let set_action = |action| {
        // SAFETY: the action is no code of ours.
        unsafe { libc::signal(libc::SIGTTOU, action) }
    };
    // SIGTTOU would stop this process.
    let before = set_action(libc::SIG_IGN);
    let _ = tcsetpgrp(io::stdin(), getpgrp());
    set_action(before);
}

/// The modes of a terminal: echo, line editing, special keys.
#[derive(Clone)]
pub struct TerminalSettings(Termios);

impl TerminalSettings {
    /// Returns the modes of standard input; `None` if it is not a terminal.
    pub fn of_stdin() -> Option<TerminalSettings> {
        tcgetattr(io::stdin()).ok().map(TerminalSettings)
    }

    /// Restores the modes on standard input. Ignores errors: the terminal may be gone.
    pub fn restore(&self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{FromRawFd, OwnedFd};

    /// Opens a pseudo-terminal of this width.
    fn pty(columns: u16) -> (OwnedFd, OwnedFd) {
        let size = libc::winsize { ws_row: 10, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut main, mut side) = (-1, -1);
        let none = std::ptr::null_mut();
        // SAFETY: both descriptors are places to write, no name is asked for, `size` outlives the call.
        let rc = unsafe { libc::openpty(&raw mut main, &raw mut side, none, std::ptr::null(), &raw const size) };
        assert_eq!(rc, 0);
        // SAFETY: the call succeeded, so both are open and ours.
        unsafe { (OwnedFd::from_raw_fd(main), OwnedFd::from_raw_fd(side)) }
    }

    #[test]
    fn a_terminal_has_a_size() {
        let (_main, side) = pty(93);
        assert!(is_terminal(&side));
        assert_eq!(size(&side), Some((93, 10)));
        assert!(!is_in_background(&side), "it is no controlling terminal");
        assert_eq!(columns(&side), Some(93));
        assert_eq!(columns(&pty(0).1), None);
    }

    #[test]
    fn a_file_has_no_size() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!is_terminal(&file));
        assert_eq!(columns(&file), None);
        assert_eq!(size(&file), None);
    }
}
