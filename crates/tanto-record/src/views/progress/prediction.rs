//! How much of a build is done, in time: from what commands took last time and take now. Does not know what they are.

use tanto_exec::job::JobId;

/// Below this much wall time the present build says nothing about the next commands, in milliseconds.
const ENOUGH_MS: i64 = 15_000;
/// Below this part of all commands it says nothing either.
const ENOUGH_PART: f64 = 0.05;
/// Times of the last build that are wrong by this factor on average are of no use.
const WRONG_FACTOR: f64 = 10.0;

/// How many commands the build has, and how far it is.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    /// Commands in the plan.
    pub(crate) total: i64,
    /// Commands that ended.
    pub(crate) finished: i64,
    /// Milliseconds since the start.
    pub(crate) time_ms: i64,
}

/// What the commands of a plan took in the last build, and what those that ended took in this one.
///
/// Sums saturate, because the times of the last build come from a file.
#[derive(Default)]
pub(crate) struct Prediction {
    /// By job: how long it took last time.
    expected: Vec<Option<i64>>,
    /// Sum over all commands that ended, in milliseconds.
    spent_ms: i64,
    known: i64,
    known_ms: i64,
    known_left: i64,
    known_left_ms: i64,
    unknown_left: i64,
}

impl Prediction {
    /// A command joined the plan.
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

    /// A command left the plan.
    pub(crate) fn unplanned(&mut self, job: JobId) {
        if let Some(ms) = self.leave(job) {
            self.known -= 1;
            self.known_ms = self.known_ms.saturating_sub(ms);
        }
    }

    /// A command ended after `took_ms`.
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

    /// The part of all work that is done, from 0 to 1; 0 where nothing can be said.
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

    /// Are the last build's times of use? The one may have come from a compiler cache and the other not.
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
    fn nothing_is_known_before_the_first_end() {
        assert_eq!(plan(&[None, None]).done(stand(2, 0, 10)), 0.0);
    }

    #[test]
    fn without_history_commands_count_alike() {
        let mut prediction = plan(&[None; 4]);
        prediction.finished(JobId(2), 200);
        assert_eq!(prediction.done(stand(4, 1, 200)), 0.25);
    }

    #[test]
    fn history_weighs_what_is_left() {
        let mut prediction = plan(&[Some(100), Some(300)]);
        assert_eq!(prediction.done(stand(2, 0, 0)), 0.0);
        prediction.finished(JobId(0), 100);
        assert_eq!(prediction.done(stand(2, 1, 100)), 0.25);
    }

    #[test]
    fn unknown_commands_are_taken_for_average_ones() {
        let mut prediction = plan(&[Some(100), Some(300), None]);
        prediction.finished(JobId(0), 100);
        // 100 done, 300 left, and one that is unknown: (100 + 300) / 2.
        assert_eq!(prediction.done(stand(3, 1, 100)), 100.0 / 600.0);
    }

    #[test]
    fn a_command_that_leaves_the_plan_counts_no_more() {
        let mut prediction = plan(&[Some(100), Some(300), Some(600)]);
        prediction.unplanned(JobId(2));
        prediction.finished(JobId(0), 100);
        assert_eq!(prediction.done(stand(2, 1, 100)), 0.25);
    }

    #[test]
    fn absurd_history_is_survived() {
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
