//! Recognizes headers that cannot put their own name into an object, and sources that set their names.

use memchr::{memchr_iter, memmem};

use super::file_traits::begins_line;

/// Returns whether a source may have more than directives: `__FILE__`, alone or in a macro such as `assert`, is the name of the
/// file that uses it. In a directive, it is the name of the file that uses the macro, and nothing else follows from it.
pub(super) fn may_have_code(source: &[u8]) -> bool {
    // Clang ends a line there.
    let has_return = source.split(|&byte| byte == b'\n').any(|line| line[..line.len().max(1) - 1].contains(&b'\r'));
    // Trigraphs can change where a string ends.
    if has_return || memmem::find(source, b"??").is_some() {
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
            // In the name of a header, there are no comments.
            [b'/', b'/' | b'*', ..] if is_in_brackets(&text) => return None,
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
            [b'R', b'"', ..] => return None,
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

/// Returns whether the last `<` has no `>`.
fn is_in_brackets(text: &[u8]) -> bool {
    text.iter().rev().find(|byte| b"<>".contains(byte)) == Some(&b'<')
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

/// Returns whether a source may give itself an absolute name, which prefix maps change: by `#line`, by the same directive of
/// preprocessed sources, or by `.file` of assemblers; or whether a directive cannot be recognized.
pub(super) fn may_set_its_name(source: &[u8]) -> bool {
    let is_set = |at: usize, mark: usize| begins_line(&source[..at]) && may_set_name(&source[at + mark..]);
    memchr_iter(b'#', source).any(|at| is_set(at, 1))
        || memmem::find_iter(source, b"%:").any(|at| is_set(at, 2))
        || memmem::find_iter(source, b"??=").any(|at| is_set(at, 3))
        || memmem::find_iter(source, b".file").any(|at| is_file_directive(&source[at + 5..]))
}

fn is_file_directive(rest: &[u8]) -> bool {
    let operand = without_blanks(rest);
    let is_first = |byte: &u8| byte.is_ascii_digit() || *byte == b'"';
    operand.first().is_some_and(is_first) && has_absolute_string(operand)
}

/// `directive`: the text after the mark.
fn may_set_name(directive: &[u8]) -> bool {
    let text = without_blanks(directive);
    let word = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (word, rest) = text.split_at(word);
    let rest = without_blanks(rest);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match (word, digits) {
        (b"line", 1..) | (b"", 1..) => {
            !matches!(without_blanks(&rest[digits..]).first(), None | Some(b'\n' | b'\r' | b'"'))
                || has_absolute_string(rest)
        }
        (b"line", 0) => true,
        (_, 0) => is_beginning_of_name(word) && continues(rest),
        _ => false,
    }
}

/// Returns whether a word can become that of a directive about names.
fn is_beginning_of_name(word: &[u8]) -> bool {
    let names: [&[u8]; 4] = [b"line", b"include", b"import", b"embed"];
    names.iter().any(|name| name.starts_with(word) && *name != word)
}

/// Returns whether a directive may continue in the next line, or after a comment.
fn continues(rest: &[u8]) -> bool {
    let marks: [&[u8]; 3] = [b"\\", b"/", b"??/"];
    marks.iter().any(|mark| rest.starts_with(mark))
}

/// Returns whether a line has a string with an absolute path, or one that is not plain.
fn has_absolute_string(text: &[u8]) -> bool {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.contains(&b'\\') || memmem::find(line, b"\"/").is_some()
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &&u8| b" \t\x0b\x0c".contains(byte);
    &text[text.iter().take_while(is_blank).count()..]
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
    fn sources_that_set_their_names_are_recognized() {
        for source in [
            "#line 1 \"/a\"",
            "x\n# 7 \"/a\"",
            "#line N",
            "#line 1 N",
            "#\\\nline 1",
            "#li\\\nne 1",
            "#/**/line 1",
            "#/**/include X",
            "#inc\\\nlude X",
            "%:im??/\nport X",
            "%:line 1 \"/a\"",
            "#line 1 \"\\057a\"",
            "??=line 1 \"/a\"",
            ".file 1 \"/a\" \"b\"",
            "#line /**/ 1 \"/a\"",
            "#line 1 /**/ \"/a\"",
        ] {
            assert!(may_set_its_name(source.as_bytes()), "{source}");
        }
        for source in [
            "#line 1",
            "# 1 \"a.c\" 2\n",
            "#define A \"/a\"",
            "x.file = \"a\";",
            "# comment",
            "// see #123: it",
            "a(\"#12f\");",
            "x.file = \"/a\"; \\",
            "a = b ? 1 : 2",
            "#",
            "a ## b",
        ] {
            assert!(!may_set_its_name(source.as_bytes()), "{source}");
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
            "#include <a/*b.h>\nA\n#define B /* */\n",
            "#define A \"??/\" /* \"\nA\n#define B /* */\n",
            "#define A /\\\n* x\nA */\nA\n",
        ] {
            assert!(may_have_code(source.as_bytes()), "{source}");
        }
    }
}
