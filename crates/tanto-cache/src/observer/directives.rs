//! Recognizes headers that cannot put their own name into an object.

/// Returns whether a source may have more than directives: `__FILE__`, alone or in a macro such as `assert`, is the name of the
/// file that uses it. In a directive, it is the name of the file that uses the macro, and nothing else follows from it.
pub(super) fn may_have_code(source: &[u8]) -> bool {
    // Clang ends a line there.
    let has_return = source.split(|&byte| byte == b'\n').any(|line| line[..line.len().max(1) - 1].contains(&b'\r'));
    if has_return {
        return true;
    }
    let mut rest = Spliced { rest: source };
    let mut line = Vec::new();
    while rest.take_line(&mut line) {
        match without_comments(&line, &mut rest) {
            Some(text) if is_harmless(text.trim_ascii()) => {}
            _ => return true,
        }
    }
    false
}

/// Directives that leave nothing in an object.
const DIRECTIVES: [&[u8]; 13] = [
    b"define",
    b"undef",
    b"if",
    b"ifdef",
    b"ifndef",
    b"elif",
    b"elifdef",
    b"elifndef",
    b"else",
    b"endif",
    b"include",
    b"error",
    b"warning",
];

/// Returns whether a line without comments is empty or such a directive.
fn is_harmless(line: &[u8]) -> bool {
    let Some(directive) = line.strip_prefix(b"#") else { return line.is_empty() };
    let directive = directive.trim_ascii_start();
    let end =
        directive.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(directive.len());
    let (name, rest) = directive.split_at(end);
    DIRECTIVES.contains(&name) || directive.is_empty() || name == b"pragma" && rest.trim_ascii() == b"once"
}

/// A source whose lines may continue after a backslash.
struct Spliced<'s> {
    rest: &'s [u8],
}

impl Spliced<'_> {
    /// Takes the next line, with those that continue it. Returns false at the end.
    fn take_line(&mut self, line: &mut Vec<u8>) -> bool {
        line.clear();
        if self.rest.is_empty() {
            return false;
        }
        loop {
            let end = self.rest.iter().position(|&byte| byte == b'\n');
            let (part, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest.get(1..).unwrap_or_default();
            match part.trim_ascii_end().strip_suffix(b"\\") {
                Some(part) => line.extend_from_slice(part),
                None => line.extend_from_slice(part),
            }
            if self.rest.is_empty() || !part.trim_ascii_end().ends_with(b"\\") {
                return true;
            }
        }
    }
}

/// Removes the comments of a line; one that continues takes more lines. `None` if this needs more than quotes and escapes.
fn without_comments(line: &[u8], more: &mut Spliced<'_>) -> Option<Vec<u8>> {
    let (mut line, mut at, mut text) = (line.to_vec(), 0, Vec::new());
    while at < line.len() {
        match &line[at..] {
            [b'/', b'/', ..] => break,
            [b'/', b'*', ..] => {
                at = end_of_comment(&mut line, at + 2, more)?;
                text.push(b' ');
            }
            [quote @ (b'"' | b'\''), ..] => {
                let end = end_of_quote(&line, at, *quote)?;
                text.extend_from_slice(&line[at..end]);
                at = end;
            }
            [b'R', b'"', ..] | [b'?', b'?', ..] => return None,
            [byte, ..] if !byte.is_ascii() || byte.is_ascii_control() && !byte.is_ascii_whitespace() => return None,
            [byte, ..] => {
                text.push(*byte);
                at += 1;
            }
            [] => break,
        }
    }
    Some(text)
}

fn end_of_comment(line: &mut Vec<u8>, start: usize, more: &mut Spliced<'_>) -> Option<usize> {
    let mut start = start;
    loop {
        if let Some(at) = line[start..].windows(2).position(|pair| pair == b"*/") {
            return Some(start + at + 2);
        }
        start = 0;
        if !more.take_line(line) {
            return None;
        }
    }
}

fn end_of_quote(line: &[u8], start: usize, quote: u8) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match line.get(at)? {
            b'\\' => at += 2,
            byte if *byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_nothing_but_directives_are_recognized() {
        for source in [
            "",
            "#define A 1\n/* #undef B */\n#ifndef C // it's\n# define C \"a/*b\" '\"'\n#endif",
            "/* one\n two */ #define X /* \n */ __FILE__ \\\n  + more\n",
            "#pragma once\n#include <a.h>\n \t\r\n#error \"no\"\r\n#\n",
            "#define A \\\n",
        ] {
            assert!(!may_have_code(source.as_bytes()), "{source}");
        }
    }

    #[test]
    fn all_other_headers_may_have_code() {
        for source in [
            "int x;\n",
            "#define A 1 /* \n */ \\\n\nx",
            "/* */ x\n",
            "#define A /* */\nA // \\\n",
            "#define A // \\\n B\nA",
            "#define A '\nA",
            "#define A R\"(\n)\"\n",
            "#define A \"\\\"\nA\n",
            "#ident A\n",
            "#line 1 __FILE__\n",
            "#pragma message A\n",
            "#define \u{e9} 1\n",
            "??=define A\n",
            "%:define A\n",
            "/* never ends",
            "gpch\0",
            "#define A 1\rA\n",
            "// \r A\n",
            "#define A /\\\n* x\nA */\nA\n",
        ] {
            assert!(may_have_code(source.as_bytes()), "{source}");
        }
    }
}
