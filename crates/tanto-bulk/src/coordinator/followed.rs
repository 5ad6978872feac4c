//! The output of running packages that users follow. That of a package on a client comes with its heartbeats.

use std::collections::BTreeMap;

use tanto_exec::job::JobId;
use tanto_exec::runner::Runner;
use tanto_protocol::LeaseProgress;

use super::control_socket::Response;
use super::dispatch::ClientIndex;
use super::frontend::Coordinator;
use crate::attempt::runner::{AttemptEvent, Task};
use crate::resolve::PackageId;

/// Most bytes that are kept of a package's text.
const MAX_TEXT: usize = 256 << 10;
/// A client sends output for this long after the last question, in milliseconds.
const PATIENCE_MS: i64 = 30_000;

/// The packages that are followed.
pub type Followed = BTreeMap<PackageId, FollowedOutput>;

/// The text that users see of an attempt, with a line for each stage and for each gap.
#[derive(Clone, Default, Debug)]
pub struct FollowedOutput {
    attempt: u32,
    stage: String,
    /// Bytes of the stage's output until the end of the text.
    end: u64,
    /// Where the last part began.
    last_at: u64,
    text: Vec<u8>,
    /// Bytes of the text that are no longer kept.
    dropped: u64,
    asked_ms: i64,
}

/// A part of a stage's output.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    /// Where it begins in the output.
    at: u64,
    /// Its length there: `text` may be longer.
    bytes: u64,
    text: &'a [u8],
}

impl FollowedOutput {
    fn add(&mut self, stage: &str, part: Part<'_>) {
        if part.bytes == 0 {
            return;
        }
        if self.stage != stage {
            if !self.stage.is_empty() {
                let line = format!("... the end of stage {} may be missing\n", self.stage);
                self.push(line.as_bytes());
            }
            self.push(format!("==> stage {stage}\n").as_bytes());
            (self.end, self.last_at, self.stage) = (0, 0, stage.to_owned());
        }
        if part.at < self.last_at {
            // The stage has started another command.
            (self.end, self.last_at) = (0, 0);
        }
        if part.at > self.end {
            self.push(format!("... {} bytes left out\n", part.at - self.end).as_bytes());
        }
        let end = part.at.saturating_add(part.bytes);
        // A part that was sent twice is known.
        if end > self.end {
            self.push(part.text);
            (self.end, self.last_at) = (end, part.at);
        }
    }

    fn push(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        let surplus = self.text.len().saturating_sub(MAX_TEXT);
        self.text.drain(..surplus);
        self.dropped += surplus as u64;
    }

    /// Returns the text after a position, and the position of its end.
    fn after(&self, position: u64) -> (u64, Vec<u8>) {
        let end = self.dropped + self.text.len() as u64;
        let known = usize::try_from(position.saturating_sub(self.dropped)).unwrap_or(usize::MAX);
        let text = &self.text[known.min(self.text.len())..];
        match self.dropped.checked_sub(position).filter(|&left_out| left_out > 0) {
            Some(left_out) => (end, [format!("... {left_out} bytes left out\n").as_bytes(), text].concat()),
            None => (end, text.to_vec()),
        }
    }
}

impl Coordinator<'_> {
    /// Answers with the position of the end of a running package's text, as 8 bytes, little endian, and the text after
    /// `position`.
    pub(super) fn followed_output(
        &mut self,
        package: PackageId,
        position: u64,
        runner: &dyn Runner<Task, AttemptEvent>,
    ) -> Response {
        self.followed.retain(|package, _| self.running.contains_key(package));
        let (now_ms, current) = (self.clock.now_ms(), self.current(package).clone());
        let followed = self.followed.entry(package).or_default();
        if followed.attempt != current.attempt {
            *followed = FollowedOutput { attempt: current.attempt, ..FollowedOutput::default() };
        }
        followed.asked_ms = now_ms;
        match (current.client, self.dispatch.current(package)) {
            (ClientIndex::Remote(_), Some(lease)) => self.dispatch.follow(lease, true),
            (ClientIndex::Remote(_), None) => {}
            (ClientIndex::Local(_), _) => {
                let (job, stage) = (JobId(package), self.running[&package].stage.name());
                let size = runner.output_size(job).unwrap_or(0);
                let wanted = if followed.stage == stage && followed.end <= size { size - followed.end } else { size };
                let most = usize::try_from(wanted).unwrap_or(MAX_TEXT).min(MAX_TEXT);
                let text = runner.output_tail(job, most).unwrap_or_default();
                let bytes = text.len() as u64;
                followed.add(stage, Part { at: size.saturating_sub(bytes), bytes, text });
            }
        }
        let (end, text) = followed.after(position);
        Response::ok([&end.to_le_bytes()[..], &text].concat())
    }

    /// Keeps the output of a heartbeat, if somebody follows it.
    pub(super) fn keep_output(&mut self, package: PackageId, progress: &LeaseProgress) {
        let Some(followed) = self.followed.get_mut(&package) else { return };
        if followed.asked_ms.saturating_add(PATIENCE_MS) < self.clock.now_ms() {
            self.dispatch.follow(progress.lease, false);
            self.followed.remove(&package);
            return;
        }
        let LeaseProgress { output_at, output_bytes, output, .. } = progress;
        followed.add(&progress.stage, Part { at: *output_at, bytes: *output_bytes, text: output.as_bytes() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(to: &mut FollowedOutput, stage: &str, at: u64, text: &str) {
        to.add(stage, Part { at, bytes: text.len() as u64, text: text.as_bytes() });
    }

    fn text(of: &FollowedOutput) -> String {
        String::from_utf8(of.after(0).1).unwrap()
    }

    #[test]
    fn gaps_are_told_and_repeats_are_not_shown_twice() {
        let mut output = FollowedOutput::default();
        add(&mut output, "build", 0, "one\n");
        add(&mut output, "build", 0, "one\n");
        add(&mut output, "build", 4, "two\n");
        add(&mut output, "build", 108, "three\n");
        assert_eq!(text(&output), "==> stage build\none\ntwo\n... 100 bytes left out\nthree\n");
        let (end, _) = output.after(0);
        add(&mut output, "install", 0, "four\n");
        let (_, more) = output.after(end);
        assert_eq!(more, b"... the end of stage build may be missing\n==> stage install\nfour\n");
        add(&mut output, "install", 5, "five\n");
        add(&mut output, "install", 0, "another command\n");
        assert!(text(&output).ends_with("five\nanother command\n"));
    }

    #[test]
    fn text_is_bounded() {
        let mut output = FollowedOutput::default();
        add(&mut output, "build", 0, "first\n");
        let (end, _) = output.after(0);
        add(&mut output, "build", 6, &"x".repeat(MAX_TEXT + 10));
        let (_, more) = output.after(end);
        assert!(more.starts_with(b"... 10 bytes left out\nxxx"), "{:?}", String::from_utf8_lossy(&more[..40]));
        assert_eq!(output.text.len(), MAX_TEXT);
        let (end, _) = output.after(0);
        assert_eq!(output.after(end).1, b"");
        assert_eq!(output.after(u64::MAX).1, b"", "positions of other attempts are harmless");
    }
}
