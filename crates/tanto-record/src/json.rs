//! Writes JSON field by field, with strings of bytes.
//!
//! JSON strings are Unicode; paths, commands and output are bytes. A byte that is not part of valid UTF-8 is written as
//! a private-use character, `RAW` plus the byte. Such a character in the text is escaped the same way, byte by byte, so
//! the encoding is reversible.

/// Offset of characters that stand for bytes.
const RAW: u32 = 0x10_f700;

/// The first byte of such characters in UTF-8.
const RAW_LEAD: u8 = 0xf4;

/// Bytes that need no escape in a JSON string.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 256 {
        plain[byte] = !matches!(byte as u8, b'"' | b'\\' | 0x7f | RAW_LEAD);
        byte += 1;
    }
    plain
};

/// Writes an object; `end` closes it.
pub struct Object<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Object<'o> {
    pub fn new(out: &'o mut Vec<u8>) -> Object<'o> {
        out.push(b'{');
        Object { out, empty: true }
    }

    /// Adds a key; the caller writes the value.
    pub fn field(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub fn text(&mut self, key: &str, text: &[u8]) {
        string(self.field(key), text);
    }

    pub fn number(&mut self, key: &str, number: impl Into<i128>) {
        integer(self.field(key), number.into());
    }

    /// Adds a number, or nothing for `None`.
    pub fn optional(&mut self, key: &str, number: Option<impl Into<i128>>) {
        if let Some(number) = number {
            self.number(key, number);
        }
    }

    pub fn texts(&mut self, key: &str, texts: &[Vec<u8>]) {
        list(self.field(key), texts, |out, text| string(out, text));
    }

    pub fn numbers(&mut self, key: &str, numbers: impl IntoIterator<Item: Into<i128>>) {
        list(self.field(key), numbers, |out, number| integer(out, number.into()));
    }

    /// Adds `true`, or nothing for false.
    pub fn mark(&mut self, key: &str, is: bool) {
        if is {
            self.field(key).extend_from_slice(b"true");
        }
    }

    /// Closes the object.
    pub fn end(self) {
        self.out.push(b'}');
    }

    /// Closes the object and the line.
    pub fn end_line(self) {
        self.out.extend_from_slice(b"}\n");
    }
}

/// Writes a list.
pub fn list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut one: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        one(out, item);
    }
    out.push(b']');
}

/// Writes an integer.
pub fn integer(out: &mut Vec<u8>, number: i128) {
    let mut digits = [0; 40];
    let mut at = digits.len();
    // Fast path: dividing 64-bit numbers is much faster.
    let mut rest = u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a string.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    match std::str::from_utf8(text) {
        Ok(_) => unicode(out, text),
        Err(_) => {
            for chunk in text.utf8_chunks() {
                unicode(out, chunk.valid().as_bytes());
                chunk.invalid().iter().for_each(|&byte| raw(out, byte));
            }
        }
    }
    out.push(b'"');
}

/// Writes valid UTF-8.
fn unicode(out: &mut Vec<u8>, text: &[u8]) {
    let mut from = 0;
    while let Some(length) = text[from..].iter().position(|&byte| !PLAIN[byte as usize]) {
        out.extend_from_slice(&text[from..from + length]);
        from += length + odd(out, &text[from + length..]);
    }
    out.extend_from_slice(&text[from..]);
}

/// Writes the first character of `text` with an escape; returns its length.
fn odd(out: &mut Vec<u8>, text: &[u8]) -> usize {
    match text[0] {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\r' => out.extend_from_slice(b"\\r"),
        RAW_LEAD => {
            let character = &text[..4];
            if matches!(character, [RAW_LEAD, 0x8f, 0x9e | 0x9f, _]) {
                character.iter().for_each(|&byte| raw(out, byte));
            } else {
                out.extend_from_slice(character);
            }
            return 4;
        }
        byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    }
    1
}

/// Writes a byte that is not UTF-8: 0x80 or more.
fn raw(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(&[RAW_LEAD, 0x8f, 0x9c | byte >> 6, 0x80 | byte & 0x3f]);
}

/// Decodes a string into bytes.
pub(crate) fn bytes(string: &str) -> Vec<u8> {
    if !string.as_bytes().contains(&RAW_LEAD) {
        return string.as_bytes().to_vec();
    }
    let mut bytes = Vec::with_capacity(string.len());
    for character in string.chars() {
        match u32::from(character).checked_sub(RAW) {
            Some(byte @ 0x80..=0xff) => bytes.push(byte as u8),
            _ => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use tanto_testing::Random;

    fn written(text: &[u8]) -> String {
        let mut out = Vec::new();
        string(&mut out, text);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    fn back(json: &str) -> Vec<u8> {
        let Ok(Value::String(string)) = serde_json::from_str(json) else { panic!("no string: {json}") };
        bytes(&string)
    }

    #[test]
    fn plain_text_needs_no_escapes() {
        assert_eq!(written(b"a b/c.o"), r#""a b/c.o""#);
        assert_eq!(written("\u{e4}\u{1f980}\u{10ffff}".as_bytes()), "\"\u{e4}\u{1f980}\u{10ffff}\"");
        assert_eq!(written(b"\"\\\n\t\r\0\x1b\x7f"), r#""\"\\\n\t\r\u0000\u001b\u007f""#);
        assert_eq!(written(b"x\xffy\x80"), "\"x\u{10f7ff}y\u{10f780}\"");
        assert_eq!(written("\u{10f77f}\u{10f800}".as_bytes()), "\"\u{10f77f}\u{10f800}\"");
    }

    #[test]
    fn all_bytes_round_trip() {
        const PIECES: [&[u8]; 12] = [
            b"a",
            b"\xff",
            b"\xc3",
            b"\xa9",
            b"\xf4\x8f\x9e\x80",
            b"\xf4\x8f\x9f\xbf",
            b"\xf4\x8f",
            b"\xed\xa0\x80",
            b"\"",
            b"\\u0000",
            b"\n",
            b"\xf4\x80\x80\x80",
        ];
        for seed in 0..5000 {
            let mut random = Random::new(seed);
            let text = (0..random.below(12)).map(|_| *random.pick(&PIECES)).collect::<Vec<_>>().concat();
            assert_eq!(back(&written(&text)), text, "{:?}", text.escape_ascii().to_string());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(back(&written(&all)), all);
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, -1, 10, i128::from(i64::MIN), i128::from(i64::MAX), i128::from(u64::MAX)] {
            let mut out = Vec::new();
            integer(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }

    #[test]
    fn fields_are_separated_by_commas() {
        let mut out = Vec::new();
        let mut object = Object::new(&mut out);
        object.text("a", b"x");
        object.number("b", 1);
        object.mark("no", false);
        object.mark("yes", true);
        object.numbers("c", [1, 2]);
        object.texts("d", &[]);
        object.end_line();
        assert_eq!(out, b"{\"a\":\"x\",\"b\":1,\"yes\":true,\"c\":[1,2],\"d\":[]}\n");
    }
}
