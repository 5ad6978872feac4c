//! HTML pages made from the output of `-t query`.

use tanto_exec::text::html::escape_bytes;

/// A path, and the kind of input (empty: explicit).
type Link<'a> = (&'a [u8], &'static str);

/// The parsed output of `-t query`.
#[derive(Default, PartialEq, Eq, Debug)]
struct Answer<'a> {
    target: &'a [u8],
    rule: &'a [u8],
    inputs: Vec<Link<'a>>,
    outputs: Vec<Link<'a>>,
}

const STYLE: &str = "<!DOCTYPE html>\n<meta charset=utf-8>\n<style>\n\
    body { font: 0.9em sans-serif; margin: 3em; }\n\
    h1 { font-size: 1.4em; font-weight: normal; text-align: center; }\n\
    h2 { font-size: 1.1em; font-weight: normal; }\n\
    ul { columns: 2; list-style: none; padding: 0; }\n\
    code { white-space: nowrap; }\n\
    </style>\n";

pub(super) fn target(query: &[u8]) -> Vec<u8> {
    let mut answer = parse(query);
    let mut page = headed(answer.target);
    if !answer.inputs.is_empty() {
        page.extend(b"<h2>target is built using rule <code>");
        escape_bytes(answer.rule, &mut page);
        page.extend(b"</code> of</h2>\n");
        list(&mut answer.inputs, &mut page);
    }
    if !answer.outputs.is_empty() {
        page.extend(b"<h2>dependent edges build:</h2>\n");
        list(&mut answer.outputs, &mut page);
    }
    page
}

pub(super) fn message(text: &[u8]) -> Vec<u8> {
    headed(text)
}

fn headed(title: &[u8]) -> Vec<u8> {
    let mut page = STYLE.as_bytes().to_vec();
    page.extend(b"<h1><code>");
    escape_bytes(title, &mut page);
    page.extend(b"</code></h1>\n");
    page
}

fn parse(text: &[u8]) -> Answer<'_> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let mut answer = Answer { target: first.strip_suffix(b":").unwrap_or(first), ..Answer::default() };
    let mut heading: &[u8] = b"";
    for line in lines {
        if let Some(rule) = line.strip_prefix(b"  input: ") {
            (heading, answer.rule) = (b"  input:", rule);
        } else if let Some(item) = line.strip_prefix(b"    ") {
            match heading {
                b"  input:" => answer.inputs.push(input(item)),
                b"  outputs:" => answer.outputs.push((item, "")),
                _ => {}
            }
        } else {
            heading = line;
        }
    }
    answer
}

fn input(item: &[u8]) -> Link<'_> {
    match item {
        [b'|', b'|', b' ', path @ ..] => (path, "order-only"),
        [b'|', b' ', path @ ..] => (path, "implicit"),
        path => (path, ""),
    }
}

fn list(links: &mut [Link<'_>], page: &mut Vec<u8>) {
    links.sort_unstable();
    page.extend(b"<ul>\n");
    for (path, kind) in links {
        page.extend(b"<li><code><a href=\"/?");
        percent_encode(path, page);
        page.extend(b"\">");
        escape_bytes(path, page);
        page.extend(b"</a></code>");
        if !kind.is_empty() {
            page.extend(format!(" ({kind})").bytes());
        }
        page.push(b'\n');
    }
    page.extend(b"</ul>\n");
}

pub(super) fn percent_encode(text: &[u8], url: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' | b'/' => url.push(byte),
            _ => url.extend(format!("%{byte:02X}").bytes()),
        }
    }
}

pub(super) fn percent_decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        let hex = after
            .get(..2)
            .filter(|digits| *byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = &after[2..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_output_is_parsed() {
        let text = b"a b:\n  input: cc\n    x.c\n    | y.h\n    || z\n  validations:\n    v\n  outputs:\n    all\n";
        let expected = Answer {
            target: b"a b",
            rule: b"cc",
            inputs: vec![(b"x.c", ""), (b"y.h", "implicit"), (b"z", "order-only")],
            outputs: vec![(b"all", "")],
        };
        assert_eq!(parse(text), expected);
        assert_eq!(parse(b""), Answer::default());
    }

    #[test]
    fn hostile_path_is_escaped() {
        let page = String::from_utf8(target(b"<b>:\n  outputs:\n    \"><script>&\n")).unwrap();
        assert!(page.contains("<h1><code>&lt;b&gt;</code></h1>"), "{page}");
        assert!(page.contains("href=\"/?%22%3E%3Cscript%3E%26\">&quot;&gt;&lt;script&gt;&amp;</a>"), "{page}");
    }

    #[test]
    fn percent_encoding_round_trips() {
        let path = b"a b/\xc3\xa9%+?";
        let mut url = Vec::new();
        percent_encode(path, &mut url);
        assert_eq!(url, b"a%20b/%C3%A9%25%2B%3F");
        assert_eq!(percent_decode(&url), path);
        assert_eq!(percent_decode(b"%zz%4"), b"%zz%4");
        assert_eq!(percent_decode(b"%+1"), b"%+1");
    }
}
