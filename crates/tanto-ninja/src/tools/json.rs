//! Text as JSON has it between quotes. Bytes that are no ASCII pass as they are.

/// Appends the escaped text.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'\x08' => out.extend(b"\\b"),
            b'\x0c' => out.extend(b"\\f"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            b'\\' | b'"' => out.extend([b'\\', byte]),
            0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn escapes_what_json_forbids_and_nothing_else() {
        let mut out = Vec::new();
        super::escape(b"a\"b\\c\n\t\r\x08\x0c\x01\x1f\x7f/\xc3\xa9", &mut out);
        assert_eq!(out, b"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\x7f/\xc3\xa9");
    }
}
