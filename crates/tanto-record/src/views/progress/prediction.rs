//! ninja's prediction of the progress, from earlier and current durations of commands.

use tanto_exec::job::JobId;

/// Before this time, in milliseconds, durations of the current build are not used.
const ENOUGH_MS: i64 = 15_000;
/// Nor before this fraction of commands has finished.
const ENOUGH_PART: f64 = 0.05;
/// Earlier durations are ignored if they are wrong by this factor on average.
const WRONG_FACTOR: f64 = 10.0;

/// Progress of a build in commands and time.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    /// Commands in the plan.
    pub(crate) total: i64,
    pub(crate) finished: i64,
    /// Milliseconds since the start.
    pub(crate) time_ms: i64,
}

/// Earlier durations of a plan's commands, and current ones of those that ended.
///
/// Sums saturate, because earlier durations come from a file.
#[derive(Default)]
pub(crate) struct Prediction {
    /// By job: its earlier duration.
    expected: Vec<Option<i64>>,
    /// Of all finished commands.
    spent_ms: i64,
    known: i64,
    known_ms: i64,
    known_left: i64,
    known_left_ms: i64,
    unknown_left: i64,
}

impl Prediction {
    pub(crate) fn planned(&mut self, job: JobId, expected_ms: Option<i64>) {
        let at = job.0 as usize;
        if self.expected.len() <= at {
            self.expected.resize(at + 1, None);
        }
        self.expected[at] = expected_ms;
        match expected_ms {
            Some(ms) => {
                self.known += 1;
                self.known_ms = self.known_ms.saturating_add(ms);
                self.known_left += 1;
                self.known_left_ms = self.known_left_ms.saturating_add(ms);
            }
            None => self.unknown_left += 1,
        }
    }

    pub(crate) fn unplanned(&mut self, job: JobId) {
        if let Some(ms) = self.leave(job) {
            self.known -= 1;
            self.known_ms = self.known_ms.saturating_sub(ms);
        }
    }

    pub(crate) fn finished(&mut self, job: JobId, took_ms: i64) {
        self.spent_ms = self.spent_ms.saturating_add(took_ms);
        self.leave(job);
    }

    fn leave(&mut self, job: JobId) -> Option<i64> {
        let expected = self.expected.get(job.0 as usize).copied().flatten();
        match expected {
            Some(ms) => {
                self.known_left -= 1;
                self.known_left_ms = self.known_left_ms.saturating_sub(ms);
            }
            None => self.unknown_left -= 1,
        }
        expected
    }

    /// Returns the fraction of work that is done, from 0 to 1; 0 if unknown.
    pub(crate) fn done(&self, stand: Counts) -> f64 {
        let trusted = self.is_last_build_alike(stand);
        let (left, left_ms, unknown) = if trusted {
            (self.known_left, self.known_left_ms, self.unknown_left)
        } else {
            (0, 0, stand.total - stand.finished)
        };
        let samples = stand.finished + left;
        if samples == 0 {
            return 0.0;
        }
        let average_ms = self.spent_ms.saturating_add(left_ms) as f64 / samples as f64;
        let all_ms = self.spent_ms as f64 + (average_ms * unknown as f64 + left_ms as f64);
        if all_ms == 0.0 { 0.0 } else { self.spent_ms as f64 / all_ms }
    }

    /// Returns whether earlier durations can be used. One of the builds may have used a compiler cache.
    fn is_last_build_alike(&self, stand: Counts) -> bool {
        if self.known_left == 0 || self.known_left_ms == 0 {
            return false;
        }
        let is_early = stand.total == 0
            || stand.finished == 0
            || stand.time_ms < ENOUGH_MS
            || (stand.finished as f64 / stand.total as f64) < ENOUGH_PART;
        if is_early {
            return true;
        }
        let now = self.spent_ms as f64 / stand.finished as f64;
        let then = self.known_ms as f64 / self.known as f64;
        then.max(now) / then.min(now) < WRONG_FACTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(expected: &[Option<i64>]) -> Prediction {
        let mut prediction = Prediction::default();
        for (job, ms) in expected.iter().enumerate() {
            prediction.planned(JobId(job as u32), *ms);
        }
        prediction
    }

    fn stand(total: i64, finished: i64, time_ms: i64) -> Counts {
        Counts { total, finished, time_ms }
    }

    #[test]
    fn the_first_finished_command_gives_an_estimate() {
        assert_eq!(plan(&[None, None]).done(stand(2, 0, 10)), 0.0);
    }

    #[test]
    fn without_history_commands_count_alike() {
        let mut prediction = plan(&[None; 4]);
        prediction.finished(JobId(2), 200);
        assert_eq!(prediction.done(stand(4, 1, 200)), 0.25);
    }

    #[test]
    fn history_weighs_remaining_commands() {
        let mut prediction = plan(&[Some(100), Some(300)]);
        assert_eq!(prediction.done(stand(2, 0, 0)), 0.0);
        prediction.finished(JobId(0), 100);
        assert_eq!(prediction.done(stand(2, 1, 100)), 0.25);
    }

    #[test]
    fn unknown_commands_count_as_average() {
        let mut prediction = plan(&[Some(100), Some(300), None]);
        prediction.finished(JobId(0), 100);
        // 100 done, 300 left, and an unknown one: (100 + 300) / 2.
        assert_eq!(prediction.done(stand(3, 1, 100)), 100.0 / 600.0);
    }

    #[test]
    fn unplanned_commands_do_not_count() {
        let mut prediction = plan(&[Some(100), Some(300), Some(600)]);
        prediction.unplanned(JobId(2));
        prediction.finished(JobId(0), 100);
        assert_eq!(prediction.done(stand(2, 1, 100)), 0.25);
    }

    #[test]
    fn absurd_history_is_harmless() {
        let mut prediction = plan(&[Some(i64::MAX), Some(i64::MAX), Some(i64::MIN)]);
        prediction.unplanned(JobId(2));
        prediction.finished(JobId(0), 5);
        assert!(prediction.done(stand(2, 1, 5)) < 1.0);
    }

    #[test]
    fn history_that_is_ten_times_off_is_dropped_after_a_while() {
        let mut prediction = plan(&[Some(10_000), Some(10_000), Some(10_000)]);
        prediction.finished(JobId(0), 100);
        assert_eq!(prediction.done(stand(3, 1, 14_999)), 100.0 / 20_100.0);
        assert_eq!(prediction.done(stand(3, 1, 15_000)), 100.0 / 300.0);
        assert_eq!(prediction.done(stand(21, 1, 15_000)), 100.0 / 20_100.0, "under 5 %");
    }
}
