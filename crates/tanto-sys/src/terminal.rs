//! What stands at the other end of a descriptor. Does not know what is shown there.

pub mod cursor;
pub mod stop_flag;

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetpgrp};

/// Is it a terminal?
pub fn is_terminal(fd: impl AsFd) -> bool {
    fd.as_fd().is_terminal()
}

/// Does what is typed at our terminal, Ctrl-C included, come to our process group? False if we have none.
pub fn is_foreground() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    tcgetpgrp(terminal) == Ok(getpgrp())
}

/// The terminal's width in columns; none if it is no terminal or does not know.
pub fn columns(fd: impl AsFd) -> Option<usize> {
    size(fd).map(|size| size.0).filter(|&columns| columns != 0)
}

/// The terminal's columns and rows, each 0 if it does not know; none if it is no terminal.
pub fn size(fd: impl AsFd) -> Option<(usize, usize)> {
    let size = tcgetwinsize(fd).ok()?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Is another process group in the terminal's foreground? Not so where it is not the terminal that controls us.
pub fn is_in_background(fd: impl AsFd) -> bool {
    tcgetpgrp(fd).is_ok_and(|owner| owner != getpgrp())
}

/// Puts our process group into the foreground of the terminal that is our standard input. Does nothing if that is no
/// terminal of ours. A shell with job control that ended may have left another one there.
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

/// How a terminal treats what is typed and shown: echo, lines, special keys.
#[derive(Clone)]
pub struct TerminalSettings(Termios);

impl TerminalSettings {
    /// Those of the terminal that is our standard input; none if that is no terminal.
    pub fn of_stdin() -> Option<TerminalSettings> {
        tcgetattr(io::stdin()).ok().map(TerminalSettings)
    }

    /// Gives them back to our standard input. That the terminal is gone is no error.
    pub fn restore(&self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{FromRawFd, OwnedFd};

    /// A pseudo-terminal of this width: its two ends.
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
    fn a_terminal_has_columns() {
        let (_main, side) = pty(93);
        assert!(is_terminal(&side));
        assert_eq!(size(&side), Some((93, 10)));
        assert!(!is_in_background(&side), "it controls nobody");
        assert_eq!(columns(&side), Some(93));
        assert_eq!(columns(&pty(0).1), None);
    }

    #[test]
    fn a_file_has_none() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!is_terminal(&file));
        assert_eq!(columns(&file), None);
        assert_eq!(size(&file), None);
    }
}
