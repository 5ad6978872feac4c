//! The output of a followed attempt for heartbeats.

use tanto_protocol::LeaseProgress;

/// Most bytes of output in a heartbeat. As text, they may be three times as long.
pub const MAX_OUTPUT: usize = 16 << 10;

/// Adds the output after the last part that arrived, unless a part is on its way. `size` is that of the whole output, and
/// `tail` its end.
pub fn add(progress: &mut LeaseProgress, size: u64, tail: &[u8]) {
    if progress.output_bytes > 0 {
        return;
    }
    if size < progress.output_at {
        // The stage has started another command.
        progress.output_at = 0;
    }
    let new = usize::try_from(size - progress.output_at).unwrap_or(usize::MAX).min(tail.len());
    let new = &tail[tail.len() - new..];
    let whole = &new[..new.len() - incomplete(new)];
    progress.output_at = size - new.len() as u64;
    progress.output_bytes = whole.len() as u64;
    progress.output = String::from_utf8_lossy(whole).into_owned();
}

/// A heartbeat with the output until `end` was answered.
pub fn arrived(progress: &mut LeaseProgress, end: u64) {
    if progress.output_bytes > 0 && progress.output_at + progress.output_bytes == end {
        (progress.output_at, progress.output_bytes) = (end, 0);
        progress.output.clear();
    }
}

/// A stage begins without output.
pub fn clear(progress: &mut LeaseProgress) {
    (progress.output_at, progress.output_bytes) = (0, 0);
    progress.output.clear();
}

/// The bytes of a character that has not ended.
fn incomplete(text: &[u8]) -> usize {
    const LONGEST: usize = 4;
    let end = &text[text.len().saturating_sub(LONGEST - 1)..];
    let ended = |at: &usize| {
        std::str::from_utf8(&end[*at..]).is_err_and(|it| it.valid_up_to() == 0 && it.error_len().is_none())
    };
    (0..end.len()).find(ended).map_or(0, |at| end.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanto_protocol::LeaseId;

    /// Sends all output in parts, and returns them.
    fn sent(output: &[u8], window: usize) -> Vec<(u64, u64, String)> {
        let mut progress = LeaseProgress::new(LeaseId([0; 16]));
        let mut parts = Vec::new();
        for end in (window..=output.len()).step_by(window) {
            let known = &output[..end];
            add(&mut progress, end as u64, &known[known.len().saturating_sub(MAX_OUTPUT)..]);
            if progress.output_bytes > 0 {
                parts.push((progress.output_at, progress.output_bytes, progress.output.clone()));
                let part_end = progress.output_at + progress.output_bytes;
                arrived(&mut progress, part_end);
            }
        }
        parts
    }

    #[test]
    fn characters_are_not_cut() {
        let text = "é\u{10ffff}€ab".repeat(50);
        for window in 1..9 {
            let parts = sent(text.as_bytes(), window);
            let all: String = parts.iter().map(|(_, _, text)| text.as_str()).collect();
            assert!(text.starts_with(&all) && text.len() - all.len() < window + 4, "{window}");
            assert!(parts.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0), "without gaps");
        }
        assert_eq!(sent(b"a\xffb\xff", 2), [(0, 2, "a\u{fffd}".into()), (2, 2, "b\u{fffd}".into())]);
    }

    #[test]
    fn a_part_that_did_not_arrive_is_kept() {
        let mut progress = LeaseProgress::new(LeaseId([0; 16]));
        add(&mut progress, 3, b"abc");
        add(&mut progress, 6, b"abcdef");
        assert_eq!((progress.output_at, &*progress.output), (0, "abc"));
        arrived(&mut progress, 2);
        assert_eq!(progress.output, "abc", "another part was answered");
        arrived(&mut progress, 3);
        add(&mut progress, 6, b"abcdef");
        assert_eq!((progress.output_at, progress.output_bytes, &*progress.output), (3, 3, "def"));
        arrived(&mut progress, 6);
        add(&mut progress, 1_000_000, &[b'x'; MAX_OUTPUT]);
        assert_eq!(progress.output_at, 1_000_000 - MAX_OUTPUT as u64, "the gap shows in the offset");
        clear(&mut progress);
        add(&mut progress, 1, b"y");
        assert_eq!((progress.output_at, &*progress.output), (0, "y"));
    }
}
