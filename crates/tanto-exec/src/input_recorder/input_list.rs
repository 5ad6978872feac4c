//! The list of the inputs of a command.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::obstacle::Obstacle;
use super::record::{Record, RecordKind, records};

/// Errors that mean that there is no such file.
const ABSENT: [u8; 2] = [2, 20];

/// An observation of a command. Paths are absolute, but may contain `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Input {
    /// A program that ran.
    Program(Vec<u8>),
    /// Its content was read.
    Read(Vec<u8>),
    /// It exists.
    Exists(Vec<u8>),
    /// It does not exist.
    Absent(Vec<u8>),
    /// It cannot be used, with this `errno`.
    Failed(Vec<u8>, u8),
    /// Its names were read, or files in it by their names.
    Directory(Vec<u8>),
    /// A symbolic link and its target.
    Link(Vec<u8>, Vec<u8>),
    /// A path and the same path without symbolic links.
    Resolved(Vec<u8>, Vec<u8>),
    /// It was written. The command may have read it afterwards. If its content was kept, it is in `Read`, too.
    Written(Vec<u8>),
    /// A variable and its value; `None` if it is not set.
    Variable(Vec<u8>, Option<Vec<u8>>),
    /// A library that the dynamic loader loaded.
    Library(Vec<u8>),
    /// The date or the time of day.
    Calendar,
    /// An output did not exist before it was written.
    OutputAbsent,
    /// Kind, permissions and owner of a file, in the form of [`permissions`].
    Permissions(Vec<u8>, Vec<u8>),
}

impl Input {
    /// Returns the observation of a record; `None` for records of processes.
    fn of(record: &Record<'_>) -> Option<Input> {
        let (name, value) = (record.name.to_vec(), record.value.map(<[u8]>::to_vec));
        if record.kind == RecordKind::Variable {
            return Some(Input::Variable(name, value));
        }
        let is_path = matches!(
            record.kind,
            RecordKind::Looked
                | RecordKind::Read
                | RecordKind::Wrote
                | RecordKind::Listed
                | RecordKind::Link
                | RecordKind::Resolved
        );
        match (record.kind, record.error) {
            (RecordKind::Begun, _) => Some(Input::Program(name)),
            (RecordKind::Loaded, _) => Some(Input::Library(name)),
            (RecordKind::Calendar, _) => Some(Input::Calendar),
            (RecordKind::Permissions, _) => Some(Input::Permissions(name, value?)),
            (RecordKind::OutputAbsent, _) => Some(Input::OutputAbsent),
            (_, error) if is_path && ABSENT.contains(&error) => Some(Input::Absent(name)),
            // readlink of a file that is no link.
            (RecordKind::Link, 22) => Some(Input::Exists(name)),
            (_, error @ 1..) if is_path => Some(Input::Failed(name, error)),
            (RecordKind::Looked, _) => Some(Input::Exists(name)),
            (RecordKind::Read, _) => Some(Input::Read(name)),
            (RecordKind::Wrote, _) => Some(Input::Written(name)),
            (RecordKind::Listed, _) => Some(Input::Directory(name)),
            (RecordKind::Link, _) => Some(Input::Link(name, value?)),
            (RecordKind::Resolved, _) => Some(Input::Resolved(name, value?)),
            _ => None,
        }
    }

    /// The line in a list: a word, and a name and a value if there are any.
    fn line(&self) -> String {
        let (word, name, value) = match self {
            Input::Calendar => return "calendar\n".to_string(),
            Input::OutputAbsent => return "no-output\n".to_string(),
            Input::Library(name) => ("library", name, None),
            Input::Program(name) => ("program", name, None),
            Input::Read(name) => ("read", name, None),
            Input::Exists(name) => ("exists", name, None),
            Input::Absent(name) => ("absent", name, None),
            Input::Failed(name, error) => ("failed", name, Some(error.to_string())),
            Input::Directory(name) => ("directory", name, None),
            Input::Link(name, target) => ("link", name, Some(escaped(target))),
            Input::Resolved(name, result) => ("resolved", name, Some(escaped(result))),
            Input::Written(name) => ("written", name, None),
            Input::Permissions(name, text) => ("permissions", name, Some(escaped(text))),
            Input::Variable(name, Some(value)) => ("variable", name, Some(escaped(value))),
            Input::Variable(name, None) => ("unset", name, None),
        };
        let value = value.map(|value| format!("\t{value}")).unwrap_or_default();
        format!("{word}\t{}{value}\n", escaped(name))
    }
}

/// Describes kind, permissions and owner of a file.
pub fn permissions(data: &Metadata) -> String {
    format!("{:o} {} {}", data.mode(), data.uid(), data.gid())
}

/// Text in which a tab, a newline, a backslash or a byte that is no UTF-8 is escaped.
pub fn escaped(bytes: &[u8]) -> String {
    // The usual case.
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains(['\t', '\n', '\\'])
    {
        return text.to_string();
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\t' => text += "\\t",
                '\n' => text += "\\n",
                '\\' => text += "\\\\",
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// All that a command has looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputList {
    inputs: BTreeSet<Input>,
    missing: Option<&'static str>,
    obstacle: Option<String>,
}

impl InputList {
    /// Reads the records of a command.
    pub fn of(bytes: &[u8]) -> InputList {
        let Some(all) = records(bytes) else { return InputList::lost("the record is damaged") };
        let obstacle = all.iter().find(|record| record.kind == RecordKind::Obstacle);
        let obstacle = obstacle.map(|record| Obstacle::describe(record.error, record.name));
        InputList { inputs: all.iter().filter_map(Input::of).collect(), missing: missing(&all), obstacle }
    }

    /// The list of a command without a readable record.
    pub fn lost(why: &'static str) -> InputList {
        InputList { inputs: BTreeSet::new(), missing: Some(why), obstacle: None }
    }

    pub fn inputs(&self) -> &BTreeSet<Input> {
        &self.inputs
    }

    /// Why inputs may be missing; `None` if the list is complete.
    pub fn missing(&self) -> Option<&'static str> {
        self.missing
    }

    /// Why the result of a traced command must not be reused.
    pub fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// A line for each input, sorted.
    pub fn text(&self) -> String {
        self.inputs.iter().map(Input::line).collect()
    }
}

/// Returns why inputs may be missing.
fn missing(all: &[Record<'_>]) -> Option<&'static str> {
    if !all.iter().any(|it| it.kind == RecordKind::Begun) {
        return Some("the command ran without the recorder: it is static, or has other rights");
    }
    missing_program(all).or_else(|| missing_end(all))
}

/// Matches the programs that have begun with those that were started, by process.
fn missing_program(all: &[Record<'_>]) -> Option<&'static str> {
    let mut started: HashMap<u32, i64> = HashMap::new();
    for record in all {
        match record.kind {
            RecordKind::Executed | RecordKind::Spawned => *started.entry(record.process).or_default() += 1,
            RecordKind::Begun | RecordKind::Failed => *started.entry(record.process).or_default() -= 1,
            _ => {}
        }
    }
    // Programs in unknown processes, and the command itself.
    let unknown = 1 + started.remove(&0).unwrap_or(0);
    let found: i64 = started.values().filter(|&&count| count < 0).map(|count| -count).sum();
    if started.values().any(|&count| count > 0) || found < unknown {
        Some("a program that it started ran without the recorder")
    } else if found > unknown {
        Some("a program was started in a way that is not recorded")
    } else {
        None
    }
}

/// Matches the begins and ends of programs and forks. A program that follows `execve` in the same process is another image.
fn missing_end(all: &[Record<'_>]) -> Option<&'static str> {
    let mut images: HashMap<u64, (usize, usize)> = HashMap::new();
    for record in all {
        let (begins, ends) = images.entry(record.image).or_default();
        match record.kind {
            RecordKind::Begun | RecordKind::Forked => *begins += 1,
            RecordKind::Ended | RecordKind::Executed => *ends += 1,
            // It takes back the record before it.
            RecordKind::Failed => *ends = ends.saturating_sub(1),
            _ => {}
        }
    }
    let is_lost = images.values().any(|&(begins, ends)| begins != 1 || ends == 0);
    is_lost.then_some("a process was killed or asked another one, or its record could not be written")
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{encode, encode_of};
    use super::*;

    fn list(all: &[Vec<u8>]) -> InputList {
        InputList::of(&all.concat())
    }

    #[test]
    fn records_become_a_sorted_list() {
        let read = |error| encode(1, RecordKind::Read, error, "/a\tb", None);
        let all = list(&[
            encode(1, RecordKind::Begun, 0, "/bin/cc", None),
            read(0),
            read(0),
            encode(1, RecordKind::Looked, 2, "/none", None),
            encode(1, RecordKind::Listed, 20, "/bin/cc/x", None),
            encode(1, RecordKind::Read, 13, "/secret", None),
            encode(1, RecordKind::Link, 22, "/plain", None),
            encode(1, RecordKind::Link, 0, "/l", Some("t")),
            encode(1, RecordKind::Variable, 0, "A", Some("x\ny")),
            encode(1, RecordKind::Variable, 2, "B", None),
            encode(1, RecordKind::Wrote, 0, "/out", None),
            encode(1, RecordKind::Calendar, 0, "", None),
            encode(1, RecordKind::Loaded, 0, "/lib/c.so", None),
            encode(1, RecordKind::Ended, 0, "", None),
        ]);
        assert_eq!(all.missing(), None);
        assert_eq!(
            all.text(),
            "program\t/bin/cc\nread\t/a\\tb\nexists\t/plain\nabsent\t/bin/cc/x\nabsent\t/none\nfailed\t/secret\t13\n\
             link\t/l\tt\nwritten\t/out\nvariable\tA\tx\\ny\nunset\tB\nlibrary\t/lib/c.so\ncalendar\n"
        );
    }

    #[test]
    fn a_list_is_complete_if_all_programs_and_forks_have_ended() {
        let of = |process, image, kind| encode_of(process, image, kind, 0, "/bin/cc", None);
        let begun = |process, image| of(process, image, RecordKind::Begun);
        let forked = |process, image| of(process, image, RecordKind::Forked);
        let ended = |process, image| of(process, image, RecordKind::Ended);
        let executed = |process, image| of(process, image, RecordKind::Executed);
        let spawned = |process, image| of(process, image, RecordKind::Spawned);
        let failed = |process, image| of(process, image, RecordKind::Failed);
        let complete = [
            vec![begun(7, 1), ended(7, 1)],
            vec![begun(7, 1), forked(8, 2), ended(8, 2), ended(7, 1)],
            vec![begun(7, 1), executed(7, 1), begun(7, 2), ended(7, 2)],
            vec![begun(7, 1), forked(8, 2), executed(8, 2), begun(8, 3), ended(8, 3), ended(7, 1)],
            vec![begun(7, 1), begun(8, 2), ended(8, 2), spawned(8, 1), ended(7, 1)],
            // The process of `system` is unknown.
            vec![begun(7, 1), begun(8, 2), ended(8, 2), spawned(0, 1), ended(7, 1)],
            vec![begun(7, 1), executed(7, 1), failed(7, 1), ended(7, 1)],
            // The child of vfork cannot execute a program, and ends.
            vec![begun(7, 1), spawned(8, 1), failed(8, 1), ended(7, 1)],
        ];
        for all in complete {
            assert_eq!(list(&all).missing(), None, "{all:?}");
            for left_out in 0..all.len() {
                let rest = [&all[..left_out], &all[left_out + 1..]].concat();
                assert!(list(&rest).missing().is_some(), "without {left_out} of {all:?}");
            }
        }
        // The numbers agree, but not the processes: 8 ran without the recorder, and nobody has started 9.
        let other = [begun(7, 1), spawned(8, 1), begun(9, 2), ended(9, 2), ended(7, 1)];
        assert!(list(&other).missing().is_some());
        let unseen = [begun(7, 1), begun(9, 2), ended(9, 2), ended(7, 1)];
        assert_eq!(list(&unseen).missing(), Some("a program was started in a way that is not recorded"));
        assert!(InputList::of(b"\x03\0\x01").missing().is_some());
    }
}
