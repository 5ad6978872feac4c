//! Quotes words for a shell.

/// Bytes without a meaning for a shell.
const SAFE: [bool; 256] = {
    let mut safe = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        safe[byte] = b.is_ascii_alphanumeric() || matches!(b, b'_' | b'+' | b'-' | b'.' | b'/');
        byte += 1;
    }
    safe
};

/// Appends `text` as one word of a shell's command line, quoted only where necessary, like ninja.
pub fn quote_into(text: &[u8], out: &mut Vec<u8>) {
    // No branch for each byte: nearly all of them are safe.
    if text.iter().fold(true, |safe, &b| safe & SAFE[b as usize]) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'\'');
    for (number, part) in text.split(|&b| b == b'\'').enumerate() {
        if number > 0 {
            out.extend_from_slice(b"'\\''");
        }
        out.extend_from_slice(part);
    }
    out.push(b'\'');
}
