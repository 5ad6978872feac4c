//! Parses the output of Microsoft's compiler with `/showIncludes`.

use std::collections::BTreeSet;

use crate::canon::canonicalize_into;

const ENGLISH_PREFIX: &[u8] = b"Note: including file: ";

/// Removes include notes from `output`, and returns the headers, canonical and sorted, without system headers. `prefix`
/// begins each note; if empty, the English one is used.
pub fn take_includes(output: &mut Vec<u8>, prefix: &[u8]) -> Vec<Vec<u8>> {
    let prefix = if prefix.is_empty() { ENGLISH_PREFIX } else { prefix };
    let mut headers = BTreeSet::new();
    let mut rest = Vec::with_capacity(output.len());
    let mut noted = false;
    for line in lines(output) {
        if let Some(header) = included(line, prefix) {
            noted = true;
            let mut path = Vec::new();
            canonicalize_into(header, &mut path);
            if !is_system(&path) {
                headers.insert(path);
            }
        } else if noted || !is_source_name(line) {
            rest.extend_from_slice(line);
            rest.push(b'\n');
        }
    }
    *output = rest;
    headers.into_iter().collect()
}

/// Splits at CR, LF or CR LF.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|&c| c == b'\r' || c == b'\n').unwrap_or(rest.len());
        let (line, mut after) = rest.split_at(end);
        after = after.strip_prefix(b"\r").unwrap_or(after);
        rest = after.strip_prefix(b"\n").unwrap_or(after);
        Some(line)
    })
}

fn included<'a>(line: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(prefix)?;
    // Deeper includes have more leading blanks.
    let start = rest.iter().position(|&c| c != b' ')?;
    Some(&rest[start..])
}

fn is_system(header: &[u8]) -> bool {
    let lower = header.to_ascii_lowercase();
    let contains = |part: &[u8]| lower.windows(part.len()).any(|window| window == part);
    contains(b"program files") || contains(b"microsoft visual studio")
}

/// The compiler prints the name of the source file first.
fn is_source_name(line: &[u8]) -> bool {
    let lower = line.to_ascii_lowercase();
    [b".c".as_slice(), b".cc", b".cxx", b".cpp", b".c++"].iter().any(|ending| lower.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(output: &[u8], prefix: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut output = output.to_vec();
        let headers = take_includes(&mut output, prefix);
        (headers, output)
    }

    #[test]
    fn notes_and_the_echoed_source_are_removed() {
        let text = b"foo.cc\r\nNote: including file:   b.h\r\nNote: including file: a.h\r\nwarning\r\n";
        assert_eq!(taken(text, b""), (vec![b"a.h".to_vec(), b"b.h".to_vec()], b"warning\n".to_vec()));
    }

    #[test]
    fn system_headers_are_not_inputs() {
        let text =
            b"Note: including file: C:\\Program Files\\x.h\nNote: including file: d:\\Microsoft Visual Studio\\y.h\n";
        assert_eq!(taken(text, b""), (vec![], vec![]));
    }

    #[test]
    fn equivalent_paths_are_merged() {
        let text = b"Note: including file: ./b.h\nNote: including file: x/../b.h\nNote: including file: a.h\n";
        assert_eq!(taken(text, b""), (vec![b"a.h".to_vec(), b"b.h".to_vec()], vec![]));
    }

    #[test]
    fn another_prefix_and_a_source_name_after_the_first_note() {
        let text = b"Hinweis: Einlesen: x.h\nother.c\nlast";
        assert_eq!(taken(text, b"Hinweis: Einlesen: "), (vec![b"x.h".to_vec()], b"other.c\nlast\n".to_vec()));
    }
}
