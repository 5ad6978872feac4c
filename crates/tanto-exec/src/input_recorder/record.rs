//! The records of the preload library and of the call tracer. `preload/PROTOCOL.md` describes them.

/// Bytes before the name of a record.
const HEAD: usize = 16;

/// A record: an observation of a program or fork, or its own state.
#[derive(PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The process that it is about; 0: unknown.
    pub process: u32,
    /// The program or fork that wrote it.
    pub image: u64,
    pub kind: RecordKind,
    /// `errno` of the call; 0 if it succeeded.
    pub error: u8,
    pub name: &'a [u8],
    pub value: Option<&'a [u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    Begun,
    Forked,
    Ended,
    Executed,
    Spawned,
    Failed,
    Looked,
    Read,
    Wrote,
    Listed,
    Link,
    Resolved,
    Variable,
    Calendar,
    Loaded,
    /// Of a traced command; `error` is the number of an `Obstacle`.
    Obstacle,
    /// A traced command looked for an output before it had written it.
    OutputAbsent,
    /// Kind, permissions and owner of a file, seen by a traced command.
    Permissions,
}

const KINDS: [RecordKind; 18] = [
    RecordKind::Begun,
    RecordKind::Forked,
    RecordKind::Ended,
    RecordKind::Executed,
    RecordKind::Spawned,
    RecordKind::Failed,
    RecordKind::Looked,
    RecordKind::Read,
    RecordKind::Wrote,
    RecordKind::Listed,
    RecordKind::Link,
    RecordKind::Resolved,
    RecordKind::Variable,
    RecordKind::Calendar,
    RecordKind::Loaded,
    RecordKind::Obstacle,
    RecordKind::OutputAbsent,
    RecordKind::Permissions,
];

impl Record<'_> {
    /// Returns `None` if it is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let value = self.value.map_or(Vec::new(), |value| [b"\0", value].concat());
        let number = KINDS.iter().zip(1..).find(|(kind, _)| **kind == self.kind).map_or(0, |(_, number)| number);
        let length = u16::try_from(HEAD + self.name.len() + value.len()).ok()?;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([number, self.error]);
        bytes.extend(self.process.to_ne_bytes());
        bytes.extend(self.image.to_ne_bytes());
        bytes.extend_from_slice(self.name);
        bytes.extend(value);
        Some(bytes)
    }
}

/// Returns the records; `None` if the bytes are none.
pub fn records(mut bytes: &[u8]) -> Option<Vec<Record<'_>>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
        let (record, rest) = bytes.split_at_checked(length)?;
        all.push(one(record)?);
        bytes = rest;
    }
    Some(all)
}

fn one(bytes: &[u8]) -> Option<Record<'_>> {
    let (head, text) = bytes.split_at_checked(HEAD)?;
    let kind = *KINDS.get(usize::from(head[2]).checked_sub(1)?)?;
    let process = u32::from_ne_bytes(head[4..8].try_into().ok()?);
    let image = u64::from_ne_bytes(head[8..].try_into().ok()?);
    let (name, value) = match text.iter().position(|&byte| byte == 0) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    Some(Record { process, image, kind, error: head[3], name, value })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn encode(image: u64, kind: RecordKind, error: u8, name: &str, value: Option<&str>) -> Vec<u8> {
        encode_of(0, image, kind, error, name, value)
    }

    pub fn encode_of(
        process: u32,
        image: u64,
        kind: RecordKind,
        error: u8,
        name: &str,
        value: Option<&str>,
    ) -> Vec<u8> {
        let (name, value) = (name.as_bytes(), value.map(str::as_bytes));
        Record { process, image, kind, error, name, value }.encode().unwrap()
    }

    #[test]
    fn records_have_names_and_values() {
        let bytes = [
            encode_of(42, 7, RecordKind::Read, 2, "/a", None),
            encode(8, RecordKind::Variable, 0, "LANG", Some("")),
            encode(7, RecordKind::Ended, 0, "", None),
        ]
        .concat();
        let all = records(&bytes).unwrap();
        assert_eq!(
            all[0],
            Record { process: 42, image: 7, kind: RecordKind::Read, error: 2, name: b"/a", value: None }
        );
        assert_eq!(
            all[1],
            Record { process: 0, image: 8, kind: RecordKind::Variable, error: 0, name: b"LANG", value: Some(b"") }
        );
        assert_eq!((all[2].kind, all.len()), (RecordKind::Ended, 3));
        assert_eq!(records(b""), Some(Vec::new()));
    }

    #[test]
    fn damaged_records_are_refused() {
        let whole =
            [encode(7, RecordKind::Read, 0, "/a", None), encode(7, RecordKind::Link, 0, "/b", Some("c"))].concat();
        let first = encode(7, RecordKind::Read, 0, "/a", None).len();
        for end in (1..whole.len()).filter(|&end| end != first) {
            assert_eq!(records(&whole[..end]), None, "{end}");
        }
        let mut unknown = encode(7, RecordKind::Read, 0, "/a", None);
        for kind in [0, KINDS.len() as u8 + 1] {
            unknown[2] = kind;
            assert_eq!(records(&unknown), None);
        }
    }
}
