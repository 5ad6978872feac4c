//! The values of progress lines.

mod prediction;

use std::collections::VecDeque;
use std::io::Write;

use tanto_exec::job::JobId;

use prediction::{Counts, Prediction};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProgressValue {
    /// Commands started.
    Started,
    /// Commands in the plan.
    Total,
    /// Running commands, including the one that just ended.
    Running,
    /// Commands not yet started.
    Remaining,
    /// Finished commands.
    Finished,
    /// Finished commands per second since the start.
    Rate,
    /// Finished commands per second over the last few, as many as run in parallel.
    CurrentRate,
    /// Finished commands, in percent.
    Percent,
    /// Elapsed part of the predicted time, in percent.
    PredictedPercent,
    /// Elapsed time, as on a clock.
    Elapsed,
    /// Elapsed time in seconds.
    ElapsedSeconds,
    /// Time left, as on a clock.
    Eta,
    /// Time left in seconds.
    EtaSeconds,
}

pub(crate) struct Progress {
    started: i64,
    finished: i64,
    running: i64,
    total: i64,
    time_ms: i64,
    recent: Recent,
    prediction: Prediction,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress {
            started: 0,
            finished: 0,
            running: 0,
            total: 0,
            time_ms: 0,
            recent: Recent::new(),
            prediction: Prediction::default(),
        }
    }

    pub(crate) fn planned(&mut self, job: JobId, expected_ms: Option<i64>) {
        self.total += 1;
        self.prediction.planned(job, expected_ms);
    }

    pub(crate) fn unplanned(&mut self, job: JobId) {
        self.total -= 1;
        self.prediction.unplanned(job);
    }

    /// A build begins, with about `parallelism` commands at a time. As in ninja, the plan includes the preceding build
    /// of the manifest.
    pub(crate) fn build_started(&mut self, parallelism: usize) {
        self.recent.limit = parallelism.max(1);
        self.started = 0;
        self.finished = 0;
        self.running = 0;
    }

    /// Time passes without an event.
    pub(crate) fn time_is(&mut self, at_ms: i64) {
        self.time_ms = at_ms;
    }

    pub(crate) fn started(&mut self, at_ms: i64) {
        self.started += 1;
        self.running += 1;
        self.time_ms = at_ms;
    }

    /// A command ended; it counts as running until `ended` is called.
    pub(crate) fn finished(&mut self, job: JobId, start_ms: i64, end_ms: i64) {
        self.finished += 1;
        self.time_ms = end_ms;
        self.prediction.finished(job, end_ms - start_ms);
    }

    pub(crate) fn ended(&mut self) {
        self.running -= 1;
    }

    /// Appends the text of `value`. Changes only the state of `CurrentRate`.
    pub(crate) fn append(&mut self, value: ProgressValue, out: &mut Vec<u8>) {
        let seconds = self.time_ms as f64 / 1e3;
        match value {
            ProgressValue::Started => put(out, format_args!("{}", self.started)),
            ProgressValue::Total => put(out, format_args!("{}", self.total)),
            ProgressValue::Running => put(out, format_args!("{}", self.running)),
            ProgressValue::Remaining => put(out, format_args!("{}", self.total - self.started)),
            ProgressValue::Finished => put(out, format_args!("{}", self.finished)),
            ProgressValue::Rate => put_rate(out, Some(self.finished as f64 / seconds)),
            ProgressValue::CurrentRate => put_rate(out, self.recent.rate(self.finished, self.time_ms)),
            ProgressValue::Percent => put(out, format_args!("{:3}%", self.percent())),
            ProgressValue::PredictedPercent => put(out, format_args!("{:3}%", (100.0 * self.predicted()) as i64)),
            ProgressValue::Elapsed => put_clock(out, Some(seconds), self.has_hours()),
            ProgressValue::ElapsedSeconds => put(out, format_args!("{seconds:.3}")),
            ProgressValue::Eta => put_clock(out, self.eta_seconds(), self.has_hours()),
            ProgressValue::EtaSeconds => match self.eta_seconds() {
                Some(left) => put(out, format_args!("{left:.3}")),
                None => out.push(b'?'),
            },
        }
    }

    fn percent(&self) -> i64 {
        if self.total == 0 { 0 } else { 100 * self.finished / self.total }
    }

    fn predicted(&self) -> f64 {
        self.prediction.done(Counts { total: self.total, finished: self.finished, time_ms: self.time_ms })
    }

    fn eta_seconds(&self) -> Option<f64> {
        let done = self.predicted();
        let passed = self.time_ms as f64;
        let left = (passed / done - passed) / 1e3;
        (done != 0.0 && left >= 0.0).then_some(left)
    }

    /// Both clocks show hours as soon as one of them has to.
    fn has_hours(&self) -> bool {
        self.time_ms >= 3_600_000 || self.eta_seconds().is_some_and(|left| left >= 3600.0)
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes everything");
}

/// Formats a rate like C's `%.1f`, including `inf` and `nan`, which occur in the first millisecond of a build.
fn put_rate(out: &mut Vec<u8>, rate: Option<f64>) {
    match rate {
        None => out.push(b'?'),
        // The sign of 0/0 depends on the processor; Rust does not guarantee it.
        Some(rate) if rate.is_nan() => {
            out.extend_from_slice(if cfg!(target_arch = "x86_64") { b"-nan" } else { b"nan" })
        }
        Some(rate) => put(out, format_args!("{rate:.1}")),
    }
}

fn put_clock(out: &mut Vec<u8>, seconds: Option<f64>, with_hours: bool) {
    let Some(seconds) = seconds.map(|seconds| seconds as i64) else { return out.push(b'?') };
    if with_hours {
        put(out, format_args!("{}:{:02}:{:02}", seconds / 3600, seconds % 3600 / 60, seconds % 60));
    } else {
        put(out, format_args!("{:02}:{:02}", seconds / 60, seconds % 60));
    }
}

/// Times of the last finished commands, recorded when the rate is shown.
struct Recent {
    ends_ms: VecDeque<i64>,
    limit: usize,
    at_finished: Option<i64>,
    rate: Option<f64>,
}

impl Recent {
    fn new() -> Recent {
        Recent { ends_ms: VecDeque::new(), limit: 1, at_finished: None, rate: None }
    }

    /// Returns the rate; `None` if unknown.
    fn rate(&mut self, finished: i64, time_ms: i64) -> Option<f64> {
        if self.at_finished != Some(finished) {
            self.at_finished = Some(finished);
            if self.ends_ms.len() == self.limit {
                self.ends_ms.pop_front();
            }
            self.ends_ms.push_back(time_ms);
            let first = self.ends_ms.front().copied().unwrap_or(time_ms);
            if time_ms != first {
                self.rate = Some(self.ends_ms.len() as f64 / ((time_ms - first) as f64 / 1e3));
            }
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(progress: &mut Progress, value: ProgressValue) -> String {
        let mut out = Vec::new();
        progress.append(value, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    fn planned(commands: u32) -> Progress {
        let mut progress = Progress::new();
        for job in 0..commands {
            progress.planned(JobId(job), None);
        }
        progress.build_started(2);
        progress
    }

    #[test]
    fn rates_and_times_of_a_real_run() {
        use ProgressValue::{CurrentRate, Elapsed, ElapsedSeconds, Eta, EtaSeconds, PredictedPercent, Rate};
        let values = [Rate, CurrentRate, ElapsedSeconds, EtaSeconds, Elapsed, Eta, PredictedPercent];
        let mut progress = planned(3);
        let all = |progress: &mut Progress| values.map(|value| shown(progress, value)).join(" ");
        let nan = if cfg!(target_arch = "x86_64") { "-nan" } else { "nan" };
        progress.started(0);
        assert_eq!(all(&mut progress), format!("{nan} ? 0.000 ? 00:00 ?   0%"));
        progress.started(0);
        progress.finished(JobId(1), 0, 202);
        assert_eq!(all(&mut progress), "5.0 9.9 0.202 0.404 00:00 00:00  33%");
        progress.ended();
        progress.started(202);
        assert_eq!(all(&mut progress), "5.0 9.9 0.202 0.404 00:00 00:00  33%");
        progress.finished(JobId(0), 0, 203);
        assert_eq!(all(&mut progress), "9.9 2000.0 0.203 0.102 00:00 00:00  66%");
        progress.ended();
        progress.finished(JobId(2), 202, 305);
        assert_eq!(all(&mut progress), "9.8 19.6 0.305 0.000 00:00 00:00 100%");
    }

    #[test]
    fn a_rate_in_no_time_is_infinite() {
        let mut progress = planned(1);
        progress.finished(JobId(0), 0, 0);
        assert_eq!(shown(&mut progress, ProgressValue::Rate), "inf");
    }

    #[test]
    fn both_clocks_show_hours_if_one_must() {
        let mut progress = planned(10);
        progress.started(0);
        progress.finished(JobId(0), 0, 600_000);
        assert_eq!(shown(&mut progress, ProgressValue::Eta), "1:30:00");
        assert_eq!(shown(&mut progress, ProgressValue::Elapsed), "0:10:00");
        assert_eq!(shown(&mut progress, ProgressValue::EtaSeconds), "5400.000");
    }

    #[test]
    fn percent_of_nothing_is_nothing() {
        assert_eq!(shown(&mut planned(0), ProgressValue::Percent), "  0%");
        let mut progress = planned(3);
        progress.finished(JobId(0), 0, 1);
        assert_eq!(shown(&mut progress, ProgressValue::Percent), " 33%");
    }
}
