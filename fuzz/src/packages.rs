//! Fuzz targets for the formats of package trees.

use std::io::{self, Cursor, Read, Write};
use std::path::Path;

use tanto_bulk::package::archive::plist::{Entry, Plist};
use tanto_bulk::package::archive::{MemberKind, Package};
use tanto_bulk::package::name::Name;
use tanto_bulk::package::pattern::Pattern;
use tanto_bulk::package::records;
use tanto_bulk::publish::sign::signer;
use tanto_bulk::report::errors;
use tanto_bulk::resolve::resolve;
use tanto_protocol::{AttemptResult, AttemptSpec, ClientRequest, Message, ToCoordinator, ToServer};

/// Records cover the whole text. A resolved package depends on each other package once, and on none if it is broken.
pub(crate) fn scan(input: &[u8], _: &Path) {
    let records = match records::read(input) {
        Ok(records) => records,
        Err(bad) => return assert!(bad.line > 0 && bad.line <= 1 + input.iter().filter(|&&it| it == b'\n').count()),
    };
    assert_eq!(records.iter().map(|record| record.text).collect::<Vec<_>>().concat(), input);
    let resolution = resolve(&records, records.len());
    for (package, resolved) in resolution.packages() {
        assert!(resolved.wanted && (!resolved.broken || resolved.depends.is_empty()));
        assert_eq!(resolution.name(package).text(), records[package as usize].name);
        let mut depends = resolved.depends.clone();
        depends.sort_unstable();
        depends.dedup();
        assert_eq!(depends.len(), resolved.depends.len(), "a package is needed twice");
        assert!(depends.iter().all(|&needed| (needed as usize) < records.len()));
    }
}

/// Input: pairs of lines, a pattern and a name. A matching name begins with the pattern's literal prefix.
pub(crate) fn pattern(input: &[u8], _: &Path) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let (text, name) = (&input[..end], Name::new(input.get(end + 1..).unwrap_or_default()));
    let Ok(pattern) = Pattern::parse(text) else { return assert!(text.contains(&b'{')) };
    if pattern.matches(&name) {
        assert!(pattern.prefixes().any(|prefix| name.text().starts_with(prefix)));
    }
    let plain = !text.iter().any(|byte| b"{}<>*?[]".contains(byte));
    assert!(!plain || pattern.matches(&name) == (text == name.text()));
}

/// The content of a package is limited by its archive, and its number of files by the entries read.
pub(crate) fn package(input: &[u8], _: &Path) {
    list(input);
    let mut input = input.to_vec();
    input.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar").for_each(sum_up);
    let Ok(mut package) = Package::read(&input[..]) else { return };
    assert!(!package.metadata().name().is_empty());
    let bare = !input.starts_with(b"\x1f\x8b");
    let metadata: usize = package.metadata().members().map(|(_, content)| content.len()).sum();
    assert!(!bare || metadata < input.len());
    list(package.metadata().get("+CONTENTS").unwrap_or_default());
    while let Ok(Some(member)) = package.next_file() {
        assert!(!member.path.is_empty() && (member.kind == MemberKind::File || member.size == 0));
        let mut content = Vec::new();
        if package.content().read_to_end(&mut content).is_ok() {
            assert_eq!(content.len() as u64, member.size);
        }
    }
}

/// Lines equal those of the text, and files are lines that count.
fn list(text: &[u8]) {
    let plist = Plist::new(text);
    let is_line = |line: &[u8]| !line.contains(&b'\n') && holds(text, line);
    for entry in plist.entries() {
        let (Entry::File(line) | Entry::Word(_, line) | Entry::Unknown(line)) = entry;
        assert!(is_line(line) && !line.ends_with(b" "));
    }
    let files = plist.obeyed().filter(|entry| matches!(entry, Entry::File(_))).count();
    assert_eq!(plist.files().count(), files);
}

fn holds(text: &[u8], line: &[u8]) -> bool {
    line.is_empty() || text.windows(line.len()).any(|window| window == line)
}

/// An invalid checksum in a header would hide everything after it.
fn sum_up(head: &mut [u8]) {
    head[148..156].fill(b' ');
    let sum: u32 = head.iter().map(|&byte| u32::from(byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// An accepted message encodes to itself, and its names do not escape their directory.
pub(crate) fn message(input: &[u8], _: &Path) {
    if let Ok(spec) = AttemptSpec::decode(input) {
        assert!(!spec.name.contains('/') && !spec.location.split('/').any(|part| part == ".."));
        assert_eq!(AttemptSpec::decode(&spec.encode().unwrap()), Ok(spec));
    }
    if let Ok(result) = AttemptResult::decode(input) {
        assert_eq!(AttemptResult::decode(&result.encode().unwrap()), Ok(result));
    }
    for name in ClientRequest::NAMES {
        if let Some(Ok(request)) = ClientRequest::from_body(name, input) {
            assert_eq!(ClientRequest::from_body(name, &request.to_body().unwrap()), Some(Ok(request)));
        }
    }
    if let Ok(message) = ToServer::decode(input) {
        assert_eq!(ToServer::decode(&message.encode().unwrap()), Ok(message));
    }
    if let Ok(message) = ToCoordinator::decode(input) {
        assert_eq!(ToCoordinator::decode(&message.encode().unwrap()), Ok(message));
    }
}

/// The reported error of a log is not empty, limited in size, and free of terminal control codes.
pub(crate) fn failure(input: &[u8], _: &Path) {
    let Some(found) = errors::find(input) else {
        // Text that was overwritten or that contains control codes cannot be displayed.
        let is_seen = input.len() <= errors::TAIL_BYTES && !input.iter().any(|byte| b"\r\x1b".contains(byte));
        return assert!(!is_seen || !input.iter().any(u8::is_ascii_alphanumeric));
    };
    assert!((1..=5).contains(&found.lines.len()));
    assert!(found.lines.iter().all(|line| line.chars().count() < 500 && !line.contains(char::is_control)));
}

/// Only the text of a package with the requested name is signed.
pub(crate) fn signer(input: &[u8], _: &Path) {
    let mut signed = Vec::new();
    let sign = |text: &[u8]| {
        signed.push(text.to_vec());
        Ok(b"signature".to_vec())
    };
    let _ = signer::serve(Dialogue(Cursor::new(input)), sign);
    for text in signed {
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = text.lines().find_map(|line| line.strip_prefix("pkgname: "));
        assert!(name.is_some_and(|name| input.windows(name.len()).any(|part| part == name.as_bytes())), "{text}");
    }
}

/// A stream that provides this input and discards output.
struct Dialogue<'a>(Cursor<&'a [u8]>);

impl Read for Dialogue<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.read(room)
    }
}

impl Write for Dialogue<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
