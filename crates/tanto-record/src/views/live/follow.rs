//! The output of a running command, as rows of the live view.

use super::text;

/// Maximum number of lines shown.
const MOST_LINES: usize = 5;

/// Returns the last lines of a command's output, oldest first, without control characters. For a line that was
/// overwritten, such as a progress bar, this is its latest text.
pub(super) fn last_lines(output: &[u8], unicode: bool) -> Vec<String> {
    let lines = output.split(|&byte| byte == b'\n').map(|line| text::clean(written_last(line), unicode));
    let lines: Vec<String> = lines.filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(MOST_LINES)..].to_vec()
}

fn written_last(line: &[u8]) -> &[u8] {
    line.split(|&byte| byte == b'\r').rfind(|part| !part.is_empty()).unwrap_or_default()
}

/// Returns which of `count` commands are shown if there is room for `room`: the first ones, and always the followed one.
pub(super) fn shown(count: usize, room: usize, followed: Option<usize>) -> impl Iterator<Item = usize> {
    let last = followed.filter(|&at| at >= room && room > 0);
    let first = room.min(count) - usize::from(last.is_some());
    (0..first).chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_like_on_a_terminal() {
        let cases: [(&[u8], &[&str]); 5] = [
            (b"", &[]),
            (b"one\ntwo\npar", &["one", "two", "par"]),
            (b"a\n\n  \nb\n", &["a", "b"]),
            (b"10%\r50%\r", &["50%"]),
            (b"\x1b[31mred\x1b[0m\tx\r\n1\n2\n3\n4\n5\n", &["1", "2", "3", "4", "5"]),
        ];
        for (output, expected) in cases {
            assert_eq!(last_lines(output, true), expected, "{}", String::from_utf8_lossy(output));
        }
    }

    #[test]
    fn the_followed_command_is_always_shown() {
        let cases = [
            (3, 3, Some(2), vec![0, 1, 2]),
            (5, 2, None, vec![0, 1]),
            (5, 2, Some(1), vec![0, 1]),
            (5, 2, Some(4), vec![0, 4]),
            (5, 1, Some(4), vec![4]),
            (5, 0, Some(4), vec![]),
        ];
        for (count, room, followed, expected) in cases {
            assert_eq!(shown(count, room, followed).collect::<Vec<_>>(), expected, "{count} {room} {followed:?}");
        }
    }
}
