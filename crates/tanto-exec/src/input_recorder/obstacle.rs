//! Why a traced command has no complete list of inputs, or does more than to write its outputs.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    NotTraced,
    Outlived,
    Killed,
    Interrupted,
    Unreadable,
    TooLong,
    Foreign,
    UnknownFormat,
    OtherRights,
    OtherView,
    OtherProcess,
    UnseenInput,
    Network,
    Device,
    SystemFile,
    OldOutput,
    ChangesFile,
    RemovesFile,
    NotWritable,
    MakesLink,
}

impl Obstacle {
    const ALL: [(Obstacle, &str); 20] = [
        (Obstacle::NotTraced, "system calls cannot be traced here"),
        (Obstacle::Outlived, "a process outlived it"),
        (Obstacle::Killed, "a process was killed during a system call"),
        (Obstacle::Interrupted, "a signal interrupted a system call while it was traced"),
        (Obstacle::Unreadable, "the memory of a process could not be read"),
        (Obstacle::TooLong, "its list of inputs is too long"),
        (Obstacle::Foreign, "it makes system calls of another architecture"),
        (Obstacle::UnknownFormat, "it starts a program of an unknown format"),
        (Obstacle::OtherRights, "it starts a program with other rights"),
        (Obstacle::OtherView, "it changes what it sees of the file system"),
        (Obstacle::OtherProcess, "it communicates with other processes"),
        (Obstacle::UnseenInput, "it uses a system call that cannot be traced"),
        (Obstacle::Network, "it uses the network"),
        (Obstacle::Device, "it opens a device, a pipe or a socket"),
        (Obstacle::SystemFile, "it reads the state of the system"),
        (Obstacle::OldOutput, "it reads its old output"),
        (Obstacle::ChangesFile, "it changes a file that it did not create"),
        (Obstacle::RemovesFile, "it removes a file that it did not create"),
        (Obstacle::NotWritable, "it could not write a file"),
        (Obstacle::MakesLink, "it creates a symbolic link"),
    ];

    /// The number in records.
    pub(crate) fn code(self) -> u8 {
        Obstacle::ALL.iter().zip(0..).find(|((it, _), _)| *it == self).map_or(u8::MAX, |(_, code)| code)
    }

    /// Describes the obstacle with this number, at a path or none.
    pub(crate) fn describe(code: u8, path: &[u8]) -> String {
        let text = Obstacle::ALL.get(usize::from(code)).map_or("its record is damaged", |(_, text)| text);
        if path.is_empty() { text.to_string() } else { format!("{text}: {}", String::from_utf8_lossy(path)) }
    }
}
