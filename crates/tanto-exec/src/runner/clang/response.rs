//! Words of response files (`@FILE`), split as clang and gcc split them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum size of one file. Only links, with thousands of objects, have longer ones.
const MOST_BYTES: u64 = 1 << 20;
/// Maximum number of files of one command: response files can name others, and themselves.
const MOST_FILES: usize = 16;

/// Returns whether this response file, or one that it names, has the word. Unreadable files have no words.
pub(super) fn contains(path: &[u8], wanted: &[u8]) -> bool {
    let mut files = vec![path.to_vec()];
    let mut next = 0;
    while next < files.len().min(MOST_FILES) {
        let words = split(&read(&files[next]).unwrap_or_default());
        if words.iter().any(|word| word == wanted) {
            return true;
        }
        files.extend(words.iter().filter_map(|word| word.strip_prefix(b"@")).map(<[u8]>::to_vec));
        next += 1;
    }
    false
}

/// Reads the beginning of a regular file; opening a named pipe would block.
fn read(path: &[u8]) -> Option<Vec<u8>> {
    let path = Path::new(OsStr::from_bytes(path));
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut text = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Splits at blanks. Single and double quotes group, and a backslash escapes the next byte in and out of quotes.
fn split(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => word.get_or_insert_default().push(bytes.next().unwrap_or(byte)),
            _ if quote == Some(byte) => quote = None,
            b'\'' | b'"' if quote.is_none() => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            b' ' | b'\t' | b'\r' | b'\n' if quote.is_none() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_testing::Scratch;

    fn at(dir: &Scratch, name: &str, text: &[u8]) -> Vec<u8> {
        fs::write(dir.at(name), text).unwrap();
        dir.bytes(name)
    }

    #[test]
    fn words_are_split_like_clang() {
        let words = split(b"-O2 '-DA=\"b c\"'\t\"-DX='d'\"\r\n  a\\ b.c \"x\\\"y\" '' e'f 'g\\");
        let expected: [&[u8]; 7] = [b"-O2", b"-DA=\"b c\"", b"-DX='d'", b"a b.c", b"x\"y", b"", b"ef g\\"];
        assert_eq!(words, expected);
    }

    #[test]
    fn nested_response_files_are_read() {
        let dir = Scratch::new("response-files");
        let inner = at(&dir, "inner", b"'-c'");
        let outer = at(&dir, "outer", &[b"-O2\n@", &inner[..]].concat());
        assert!(contains(&outer, b"-c"));
        assert!(!contains(&outer, b"-g"));
        let quoted = at(&dir, "quoted", b"'a -c b' -cc1 \"-c");
        assert!(contains(&quoted, b"-c"));
        assert!(!contains(&at(&dir, "one", b"'a -c b' -cc1"), b"-c"));
    }

    #[test]
    fn unreadable_response_files_have_no_words() {
        let dir = Scratch::new("bad-response-files");
        let own = dir.bytes("own");
        at(&dir, "own", &[b"@", &own[..], b" @", &own[..]].concat());
        assert!(!contains(&own, b"-c"));
        assert!(!contains(&dir.bytes("nowhere"), b"-c"));
        assert!(!contains(b"/dev/zero", b"-c"));
        assert!(!contains(b"/", b"-c"));
        let mut long = vec![b' '; 1 << 20];
        long.extend(b"-c");
        assert!(!contains(&at(&dir, "long", &long), b"-c"));
        assert!(contains(&at(&dir, "long", &long[2..]), b"-c"));
    }
}
