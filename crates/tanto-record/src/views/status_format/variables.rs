//! Parses `--status`: text with variables, like the value of a binding in a manifest.

use super::{FormatError, Piece, ProgressFormat, VALUES};

/// Limit of the quoted line in a message, in bytes.
const QUOTED: usize = 72;

const BAD_ESCAPE: &[u8] = b"bad $-escape (literal $ must be written as $$)";
const NEEDS_VERSION: &[u8] =
    b"using $^ escape requires specifying 'ninja_required_version' with version greater or equal 1.14";

/// Parses up to the end of the text or the first line end.
pub(super) fn parse(text: &[u8]) -> Result<ProgressFormat, FormatError> {
    let mut reader = Reader { text, at: 0, format: ProgressFormat::empty() };
    while reader.step()? {}
    Ok(reader.format)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    format: ProgressFormat,
}

impl Reader<'_> {
    /// Returns the byte at an offset. The text ends with an implicit line end.
    fn peek(&self, ahead: usize) -> Option<u8> {
        let at = self.at + ahead;
        self.text.get(at).copied().or((at == self.text.len()).then_some(b'\n'))
    }

    /// Parses the next token; false at the end.
    fn step(&mut self) -> Result<bool, FormatError> {
        match (self.peek(0), self.peek(1)) {
            (Some(b'\n'), _) | (Some(b'\r'), Some(b'\n')) => Ok(false),
            (Some(b'\r'), _) => Err(self.bad(b"lexing error")),
            (Some(b'$'), _) => self.escape().map(|()| true),
            (Some(byte), _) => {
                self.at += 1;
                self.format.text(&[byte]);
                Ok(true)
            }
            (None, _) => Err(self.bad(b"unexpected EOF")),
        }
    }

    fn escape(&mut self) -> Result<(), FormatError> {
        match (self.peek(1), self.peek(2)) {
            (Some(byte @ (b'$' | b' ' | b':')), _) => {
                self.at += 2;
                self.format.text(&[byte]);
            }
            (Some(b'\n'), _) => self.continue_line(2),
            (Some(b'\r'), Some(b'\n')) => self.continue_line(3),
            (Some(b'{'), _) => self.braced()?,
            (Some(byte), _) if is_simple_name(byte) => {
                let end = self.name_end(self.at + 1, is_simple_name);
                self.variable(self.at + 1..end, end);
            }
            // No manifest has been read that could require a version; ninja points nowhere here.
            (Some(b'^'), _) => return Err(complain(&[b"--status:1: ", NEEDS_VERSION, b"\n"])),
            _ => return Err(self.bad(BAD_ESCAPE)),
        }
        Ok(())
    }

    fn continue_line(&mut self, skip: usize) {
        self.at += skip;
        while self.peek(0) == Some(b' ') {
            self.at += 1;
        }
    }

    fn braced(&mut self) -> Result<(), FormatError> {
        let start = self.at + 2;
        let end = self.name_end(start, |byte| is_simple_name(byte) || byte == b'.');
        if end == start || self.text.get(end) != Some(&b'}') {
            return Err(self.bad(BAD_ESCAPE));
        }
        self.variable(start..end, end + 1);
        Ok(())
    }

    fn name_end(&self, start: usize, is_part: fn(u8) -> bool) -> usize {
        let length = self.text[start..].iter().position(|&byte| !is_part(byte));
        length.map_or(self.text.len(), |length| start + length)
    }

    fn variable(&mut self, name: std::ops::Range<usize>, next: usize) {
        let name = &self.text[name];
        match VALUES.iter().find(|it| it.1 == name) {
            Some(it) => self.format.pieces.push(Piece::Value(it.2)),
            None if name == b"description" => self.format.pieces.push(Piece::Description),
            None => self.format.unknown(&[b"unknown variable '", name, b"' in --status format"]),
        }
        self.at = next;
    }

    /// Returns an error that points at the next byte.
    fn bad(&self, message: &[u8]) -> FormatError {
        let text = [self.text, b"\n"].concat();
        let before = &text[..self.at];
        let number = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let head = format!("--status:{number}: ");
        let column = self.at - start;
        if column == 0 || column >= QUOTED {
            return complain(&[head.as_bytes(), message, b"\n"]);
        }
        let line = text[start..].split(|&byte| byte == b'\n').next().unwrap_or_default();
        let (quoted, more): (_, &[u8]) = if line.len() < QUOTED { (line, b"") } else { (&line[..QUOTED], b"...") };
        let pad = " ".repeat(column);
        complain(&[head.as_bytes(), message, b"\n", quoted, more, b"\n", pad.as_bytes(), b"^ near here"])
    }
}

fn complain(parts: &[&[u8]]) -> FormatError {
    FormatError([b"invalid --status: ", parts.concat().as_slice()].concat())
}

fn is_simple_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::progress::Progress;

    fn line(format: &[u8]) -> String {
        let format = parse(format).expect("a good format");
        assert_eq!(format.check(), Ok(()));
        String::from_utf8(format.line(&mut Progress::new(), b"DESC")).expect("ASCII")
    }

    fn complaint(format: &[u8]) -> String {
        String::from_utf8(parse(format).expect_err("a bad format").0).expect("ASCII")
    }

    #[test]
    fn variables_and_escapes() {
        let cases: [(&[u8], &str); 13] = [
            (b"[$finished/$total] $description", "[0/0] DESC"),
            (b"", ""),
            (b"a $ b$:c$$d ${started}x|:y", "a  b:c$d 0x|:y"),
            (b"$started $total $running $remaining $finished $progress $predicted_progress|", "0 0 0 0 0   0%   0%|"),
            (b"$elapsed $elapsed_seconds $eta $eta_seconds $current_rate", "00:00 0.000 ? ? ?"),
            (b"z$description.d", "zDESC.d"),
            (b"x\nrest $", "x"),
            (b"x\r\nrest", "x"),
            (b"a$\n   b $description", "ab DESC"),
            (b"a$\r\n b", "ab"),
            (b"$\n    ", ""),
            (b"a$\n", "a"),
            (b"a\tb", "a\tb"),
        ];
        for (format, expected) in cases {
            assert_eq!(line(format), expected, "{}", format.escape_ascii());
        }
    }

    #[test]
    fn errors_point_like_ninja() {
        const ESCAPE: &str = "bad $-escape (literal $ must be written as $$)\n";
        let cases: [(&[u8], String); 14] = [
            (b"ab$%cd", format!("1: {ESCAPE}ab$%cd\n  ^ near here")),
            (b"$%cd", format!("1: {ESCAPE}")),
            (b"ab${cd", format!("1: {ESCAPE}ab${{cd\n  ^ near here")),
            (b"ab${a b}", format!("1: {ESCAPE}ab${{a b}}\n  ^ near here")),
            (b"${}", format!("1: {ESCAPE}")),
            (b"${started", format!("1: {ESCAPE}")),
            (b"x$\n y$%z", format!("2: {ESCAPE} y$%z\n  ^ near here")),
            (b"a$\n$\nb$%", format!("3: {ESCAPE}b$%\n ^ near here")),
            (b"x\ry", "1: lexing error\nx\ry\n ^ near here".into()),
            (b"x$", "2: unexpected EOF\n".into()),
            (b"a$\r", "2: unexpected EOF\n".into()),
            (b"ab$^", format!("1: {}\n", String::from_utf8_lossy(NEEDS_VERSION))),
            (&[b"y".repeat(72), b"$%".to_vec()].concat(), format!("1: {ESCAPE}")),
            (
                &[b"y".repeat(71), b"$%".to_vec()].concat(),
                format!("1: {ESCAPE}{}$...\n{}^ near here", "y".repeat(71), " ".repeat(71)),
            ),
        ];
        for (format, expected) in cases {
            assert_eq!(complaint(format), format!("invalid --status: --status:{expected}"));
        }
    }

    #[test]
    fn an_unknown_variable_is_not_a_syntax_error() {
        let check = |format: &[u8]| parse(format).expect("good syntax").check().map_err(|bad| bad.0);
        assert_eq!(check(b"$nope $nope2"), Err(b"unknown variable 'nope' in --status format".to_vec()));
        assert_eq!(check(b"${a.b}"), Err(b"unknown variable 'a.b' in --status format".to_vec()));
        assert_eq!(check(b"$a.b"), Err(b"unknown variable 'a' in --status format".to_vec()));
    }
}
