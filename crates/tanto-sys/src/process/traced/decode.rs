//! Reads the arguments of a traced call.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;

use super::table::{CallKind, Follow, OpenFlags, PathArgument, kind_of};
use super::{Call, NEW_NAMESPACES};

/// The offset of `resolve` in `struct open_how`.
const RESOLVE: u64 = 16;

/// What a call is about to do. Paths are absolute, but may contain `..`; `None`: a file that is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TracedCall {
    Open {
        path: Vec<u8>,
        mode: OpenMode,
    },
    /// Size and other metadata of a file. `follow`: of the target of a symbolic link.
    Stat {
        path: Option<Vec<u8>>,
        follow: bool,
    },
    /// Whether a file exists, and its permissions.
    Access {
        path: Option<Vec<u8>>,
        follow: bool,
    },
    ReadLink {
        path: Option<Vec<u8>>,
    },
    /// Changes the working directory.
    Enter {
        path: Vec<u8>,
    },
    /// The names in a directory.
    List {
        path: Vec<u8>,
    },
    Execute {
        path: Vec<u8>,
    },
    /// Creates a directory or a special file.
    Create {
        path: Vec<u8>,
    },
    /// Creates a symbolic link.
    CreateLink {
        path: Vec<u8>,
    },
    Remove {
        path: Vec<u8>,
    },
    /// `replaces`: also if `to` exists.
    Rename {
        from: Vec<u8>,
        to: Vec<u8>,
        replaces: bool,
    },
    /// Both exist, and get each other's name.
    Exchange,
    HardLink {
        from: Option<Vec<u8>>,
        follow: bool,
        to: Vec<u8>,
    },
    /// Changes metadata or the size.
    Change {
        path: Vec<u8>,
        follow: bool,
    },
    /// Uses a socket for another machine or for the kernel.
    Network,
    /// Connects to a socket of this machine; `None`: without a path.
    Connect {
        path: Option<Vec<u8>>,
    },
    /// Exchanges data with other processes.
    Communicates,
    /// Changes which files paths lead to.
    ChangesView,
    /// Gives access to files that is not traced.
    Untraceable,
    /// A call of another architecture or ABI.
    Foreign,
    Harmless,
}

/// The flags of `open`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpenMode {
    pub writes: bool,
    pub creates: bool,
    pub exclusive: bool,
    pub truncates: bool,
    /// Only the path is used, not the content.
    pub path_only: bool,
    pub no_follow: bool,
    /// Creates a file without a name.
    pub unnamed: bool,
}

impl OpenMode {
    fn of(flags: u64) -> OpenMode {
        let has = |flag: libc::c_int| flags & flag as u64 == flag as u64;
        OpenMode {
            writes: flags & libc::O_ACCMODE as u64 != libc::O_RDONLY as u64 || has(libc::O_TRUNC),
            creates: has(libc::O_CREAT),
            exclusive: has(libc::O_CREAT | libc::O_EXCL),
            truncates: has(libc::O_TRUNC),
            path_only: has(libc::O_PATH),
            no_follow: has(libc::O_NOFOLLOW),
            unnamed: has(libc::O_TMPFILE),
        }
    }
}

impl Call {
    /// Reads the arguments. Fails if the memory of the process cannot be read.
    pub fn decode(&self) -> io::Result<TracedCall> {
        if self.is_foreign {
            return Ok(TracedCall::Foreign);
        }
        let follows = |follow: Follow| match follow {
            Follow::Yes => true,
            Follow::No => false,
            Follow::Unless(flags) => self.arguments[flags] & libc::AT_SYMLINK_NOFOLLOW as u64 == 0,
            Follow::If(flags) => self.arguments[flags] & libc::AT_SYMLINK_FOLLOW as u64 != 0,
        };
        Ok(match kind_of(self.number) {
            None => TracedCall::Untraceable,
            Some(CallKind::Other(call)) => call,
            Some(CallKind::Open(_, OpenFlags::How(at))) if self.number_at(self.arguments[at] + RESOLVE)? != 0 => {
                TracedCall::Untraceable
            }
            Some(CallKind::Open(path, flags)) => {
                let mode = OpenMode::of(self.open_flags(flags)?);
                self.path(path)?.map_or(TracedCall::Harmless, |path| TracedCall::Open { path, mode })
            }
            Some(CallKind::Stat(path, follow)) => TracedCall::Stat { path: self.path(path)?, follow: follows(follow) },
            Some(CallKind::Access(path, follow)) => {
                TracedCall::Access { path: self.path(path)?, follow: follows(follow) }
            }
            Some(CallKind::ReadLink(path)) => TracedCall::ReadLink { path: self.path(path)? },
            Some(CallKind::Enter(path)) => TracedCall::Enter { path: self.path_or_descriptor(path)? },
            Some(CallKind::List) => TracedCall::List { path: self.descriptor(self.arguments[0])? },
            Some(CallKind::Execute(path)) => TracedCall::Execute { path: self.path_or_descriptor(path)? },
            Some(CallKind::Create(path)) => TracedCall::Create { path: self.path_or_descriptor(path)? },
            Some(CallKind::CreateLink(path)) => TracedCall::CreateLink { path: self.path_or_descriptor(path)? },
            Some(CallKind::Remove(path)) => TracedCall::Remove { path: self.path_or_descriptor(path)? },
            Some(CallKind::Rename { from, to, flags }) => {
                let has = |flag: u32| flags.is_some_and(|at| self.arguments[at] & u64::from(flag) != 0);
                if has(libc::RENAME_EXCHANGE) {
                    return Ok(TracedCall::Exchange);
                }
                let replaces = !has(libc::RENAME_NOREPLACE);
                TracedCall::Rename { from: self.path_or_descriptor(from)?, to: self.path_or_descriptor(to)?, replaces }
            }
            Some(CallKind::HardLink { from, follow, to }) => TracedCall::HardLink {
                from: self.path(from)?,
                follow: follows(follow),
                to: self.path_or_descriptor(to)?,
            },
            Some(CallKind::Change(path, follow)) => {
                TracedCall::Change { path: self.path_or_descriptor(path)?, follow: follows(follow) }
            }
            Some(CallKind::ChangeOpen) => {
                TracedCall::Change { path: self.descriptor(self.arguments[0])?, follow: true }
            }
            Some(CallKind::Socket) => self.socket(),
            Some(CallKind::Connect) => self.connect()?,
            Some(CallKind::Clone) => match self.number_at(self.arguments[0])? & u64::from(NEW_NAMESPACES) {
                0 => TracedCall::Harmless,
                _ => TracedCall::ChangesView,
            },
        })
    }

    fn open_flags(&self, flags: OpenFlags) -> io::Result<u64> {
        match flags {
            OpenFlags::Create => Ok((libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) as u64),
            OpenFlags::Argument(at) => Ok(self.arguments[at] & u64::from(u32::MAX)),
            OpenFlags::How(at) => self.number_at(self.arguments[at]),
        }
    }

    fn number_at(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read_exactly(address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Returns the absolute path; `None` if it is empty, which means the descriptor.
    fn path(&self, argument: PathArgument) -> io::Result<Option<Vec<u8>>> {
        let address = self.arguments[argument.path];
        if address == 0 {
            return Ok(None);
        }
        let path = self.with_own_id(without_doubles(&self.read_text(address)?));
        if path.is_empty() || path.starts_with(b"/") {
            return Ok(Some(path).filter(|path| !path.is_empty()));
        }
        let dir = argument.dir.map_or(libc::AT_FDCWD as u64, |at| self.arguments[at]);
        let mut absolute = self.descriptor(dir)?;
        if absolute != b"/" {
            absolute.push(b'/');
        }
        absolute.extend_from_slice(&path);
        Ok(Some(absolute))
    }

    /// `/proc/self` is another directory in this process.
    fn with_own_id(&self, path: Vec<u8>) -> Vec<u8> {
        /// Directories of each process, and theirs in `/proc/PID`.
        const OWN: [(&[u8], &str); 6] = [
            (b"/proc/self", ""),
            (b"/proc/thread-self", ""),
            (b"/dev/fd", "/fd"),
            (b"/dev/stdin", "/fd/0"),
            (b"/dev/stdout", "/fd/1"),
            (b"/dev/stderr", "/fd/2"),
        ];
        let below = |own: &[u8]| path.strip_prefix(own).filter(|rest| matches!(rest.first(), None | Some(b'/')));
        let found = OWN.iter().find_map(|(own, real)| Some((real, below(own)?)));
        match found {
            Some((real, rest)) => [format!("/proc/{}{real}", self.thread).as_bytes(), rest].concat(),
            None => path,
        }
    }

    fn path_or_descriptor(&self, argument: PathArgument) -> io::Result<Vec<u8>> {
        match (self.path(argument)?, argument.dir) {
            (Some(path), _) => Ok(path),
            (None, Some(dir)) => self.descriptor(self.arguments[dir]),
            // The call fails.
            (None, None) => Ok(b"/".to_vec()),
        }
    }

    /// Returns the path of an open file, or of the working directory.
    fn descriptor(&self, number: u64) -> io::Result<Vec<u8>> {
        let thread = self.thread;
        let number = number as u32 as i32;
        let link = if number == libc::AT_FDCWD {
            format!("/proc/{thread}/cwd")
        } else {
            format!("/proc/{thread}/fd/{number}")
        };
        let path = fs::read_link(link)?.into_os_string().into_vec();
        // A removed directory has no path.
        if path.ends_with(b" (deleted)") { Err(io::ErrorKind::NotFound.into()) } else { Ok(path) }
    }

    fn socket(&self) -> TracedCall {
        let [domain, kind] = [self.arguments[0], self.arguments[1]].map(|it| it as u32 as i32);
        /// The bits of the type without its flags.
        const KIND: i32 = 0xf;
        match (domain, kind & KIND) {
            // Each packet can have another address.
            (libc::AF_UNIX, libc::SOCK_DGRAM) => TracedCall::Communicates,
            (libc::AF_UNIX, _) => TracedCall::Harmless,
            _ => TracedCall::Network,
        }
    }

    fn connect(&self) -> io::Result<TracedCall> {
        let mut address = [0; size_of::<libc::sockaddr_un>()];
        let given = usize::try_from(self.arguments[2]).unwrap_or(usize::MAX);
        let length = given.min(address.len());
        self.read_exactly(self.arguments[1], &mut address[..length])?;
        let Some((family, path)) = address[..length].split_first_chunk::<2>() else {
            return Ok(TracedCall::Harmless);
        };
        if i32::from(u16::from_ne_bytes(*family)) != libc::AF_UNIX {
            return Ok(TracedCall::Network);
        }
        let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
        let path = Some(&path[..end]).filter(|path| path.starts_with(b"/"));
        Ok(TracedCall::Connect { path: path.map(<[u8]>::to_vec) })
    }

    fn read_exactly(&self, address: u64, room: &mut [u8]) -> io::Result<()> {
        let length = self.read(address, room)?;
        if length == room.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// Removes repeated slashes, and the components `.` between others.
fn without_doubles(path: &[u8]) -> Vec<u8> {
    let mut short: Vec<u8> = Vec::with_capacity(path.len());
    for &byte in path {
        if byte == b'/' && short.ends_with(b"/.") {
            short.pop();
        } else if byte != b'/' || !short.ends_with(b"/") {
            short.push(byte);
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shortened() {
        for (path, short) in [
            ("//proc///self", "/proc/self"),
            ("/a/./b/././c/", "/a/b/c/"),
            ("../x", "../x"),
            ("./x", "./x"),
            ("/.", "/."),
            ("", ""),
        ] {
            assert_eq!(without_doubles(path.as_bytes()), short.as_bytes(), "{path}");
        }
    }
}
