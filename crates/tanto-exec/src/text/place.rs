//! Messages about a place in a text file.

/// Returns the place, the message, the line, and a caret below the byte at the offset `at`.
pub fn message_at(path: &[u8], text: &[u8], at: usize, message: &[u8]) -> Vec<u8> {
    let before = &text[..at.min(text.len())];
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let line = text[start..].split(|&byte| byte == b'\n').next().unwrap_or_default();
    // Tabs stay tabs, so that the caret stands where the terminal puts the byte.
    let blank = before[start..].iter().map(|&byte| if byte == b'\t' { b'\t' } else { b' ' });
    let blank: Vec<u8> = blank.collect();
    let place = format!(":{}: ", line_number(text, at));
    [path, place.as_bytes(), message, b"\n", line.trim_ascii_end(), b"\n", &blank, b"^"].concat()
}

/// The line of this byte, counted from 1.
pub fn line_number(text: &[u8], at: usize) -> u32 {
    let ends = text[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count();
    u32::try_from(ends + 1).unwrap_or(u32::MAX)
}
