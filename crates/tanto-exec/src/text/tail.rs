//! The last lines of a command's output.

use std::collections::VecDeque;

const LINES: usize = 20;
const BYTES: usize = 8 << 10;

/// Keeps the last lines of the text pushed into it.
#[derive(Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
}

impl Tail {
    pub fn push(&mut self, text: &[u8]) {
        let text = &text[text.len().saturating_sub(BYTES)..];
        self.bytes.extend(text);
        let over = self.bytes.len().saturating_sub(BYTES);
        self.bytes.drain(..over);
    }

    /// Returns whole lines, each with its newline; a line beyond the limit is cut.
    pub fn lines(mut self) -> Vec<u8> {
        let text = self.bytes.make_contiguous();
        let mut lines: Vec<&[u8]> = text.strip_suffix(b"\n").unwrap_or(text).split(|&byte| byte == b'\n').collect();
        // The first line may be incomplete.
        if text.len() == BYTES && lines.len() > 1 {
            lines.remove(0);
        }
        let from = lines.len().saturating_sub(LINES);
        if text.is_empty() { Vec::new() } else { [&lines[from..].join(&b'\n'), &b"\n"[..]].concat() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<u8> {
        let mut tail = Tail::default();
        parts.iter().for_each(|part| tail.push(part));
        tail.lines()
    }

    #[test]
    fn the_tail_has_whole_lines() {
        assert_eq!(lines(&[]), b"");
        assert_eq!(lines(&[b"a", b"b\nc"]), b"ab\nc\n");
        assert_eq!(lines(&[b"\n"]), b"\n");
        let many: Vec<u8> = (0..5000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
        let end: Vec<u8> = (4980..5000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
        assert_eq!(lines(&[&many]), end);
        assert_eq!(lines(&[&vec![b'x'; 100_000]]).len(), BYTES + 1);
        assert_eq!(lines(&[&vec![b'x'; 100_000], b"\nend"]), b"end\n");
    }
}
