//! Translates reasons of `-d explain` into plain words. Unknown sentences stay as they are.

pub(super) fn plain(sentence: &[u8]) -> Vec<u8> {
    known(sentence).unwrap_or_else(|| sentence.to_vec())
}

fn known(sentence: &[u8]) -> Option<Vec<u8>> {
    let quoted = |text: &[u8]| [b"`", text, b"`"].concat();
    let after = |head: &[u8]| sentence.strip_prefix(head);
    let before = |text: &'_ [u8], tail: &[u8]| text.strip_suffix(tail).map(quoted);
    if let Some(input) = before(sentence, b" is dirty") {
        return Some([&input[..], b" is rebuilt"].concat());
    }
    if let Some(output) = after(b"command line not found in log for ") {
        return Some([b"no recorded command for ", &quoted(output)[..]].concat());
    }
    if let Some(output) = after(b"command line changed for ") {
        return Some([b"the command for ", &quoted(output)[..], b" has changed"].concat());
    }
    if let Some(output) = after(b"deps for '").and_then(|rest| before(rest, b"' are missing")) {
        return Some([b"no recorded dependencies of ", &output[..]].concat());
    }
    if let Some((output, _)) = after(b"stored deps info out of date for '").and_then(|rest| split(rest, b"' (")) {
        return Some([&quoted(output)[..], b" has changed since it was built"].concat());
    }
    if let Some(depfile) = after(b"depfile '").and_then(|rest| before(rest, b"' is missing")) {
        return Some([b"the depfile ", &depfile[..], b" does not exist"].concat());
    }
    if let Some((output, input)) = after(b"recorded mtime of ").and_then(older) {
        return Some([&quoted(input)[..], b" has changed since ", &quoted(output), b" was built"].concat());
    }
    if let Some((input, output)) = after(b"content of ").and_then(|rest| split(rest, b" changed since ")) {
        let output = before(output, b" was built")?;
        return Some([b"the content of ", &quoted(input)[..], b" has changed since ", &output, b" was built"].concat());
    }
    if let Some(output) = after(b"command for ").and_then(|rest| before(rest, b" is run again on request")) {
        return Some([b"--again was given for ", &output[..]].concat());
    }
    let rest = after(b"output ")?;
    if let Some((output, input)) = older(rest) {
        return Some([&quoted(input)[..], b" is newer than ", &quoted(output)].concat());
    }
    let output = before(rest, b" doesn't exist")?;
    Some([&output[..], b" does not exist"].concat())
}

/// `OUTPUT older than most recent input INPUT (ours vs theirs)`
fn older(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (output, rest) = split(text, b" older than most recent input ")?;
    let times = rest.windows(2).rposition(|pair| pair == b" (")?;
    Some((output, &rest[..times]))
}

fn split<'t>(text: &'t [u8], at: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let place = text.windows(at.len()).position(|window| window == at)?;
    Some((&text[..place], &text[place + at.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninja_reasons_are_translated() {
        let table = [
            ("gen.h is dirty", "`gen.h` is rebuilt"),
            ("output a.o doesn't exist", "`a.o` does not exist"),
            ("output a.o older than most recent input a (1).h (5 vs 7)", "`a (1).h` is newer than `a.o`"),
            (
                "recorded mtime of a.o older than most recent input a.h (5 vs 7)",
                "`a.h` has changed since `a.o` was built",
            ),
            ("command line changed for a.o", "the command for `a.o` has changed"),
            ("command line not found in log for a.o", "no recorded command for `a.o`"),
            ("deps for 'a.o' are missing", "no recorded dependencies of `a.o`"),
            ("stored deps info out of date for 'a.o' (1 vs 2)", "`a.o` has changed since it was built"),
            ("content of a.h changed since a.o was built", "the content of `a.h` has changed since `a.o` was built"),
            ("command for a.o is run again on request", "--again was given for `a.o`"),
            ("depfile 'a.d' is missing", "the depfile `a.d` does not exist"),
            ("something else", "something else"),
        ];
        for (sentence, expected) in table {
            assert_eq!(String::from_utf8_lossy(&plain(sentence.as_bytes())), expected);
        }
    }
}
