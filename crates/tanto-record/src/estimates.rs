//! Estimates how much of a build is done and the time left, from earlier and current durations of its commands and the
//! longest chain of remaining ones.

use std::collections::BinaryHeap;

use tanto_exec::job::JobId;

/// Time that both sides of the speed ratio get added, so that it starts at 1 and changes slowly, in milliseconds.
const INERTIA_MS: f64 = 3000.0;
/// A command that exceeds its estimate is assumed to need this fraction of it longer.
const MIN_REST: f64 = 0.1;
/// Limit of the speed ratio. Greater ones mean that one of the builds used a compiler cache.
const MAX_SCALE: f64 = 20.0;

/// The work of a build. Times are in milliseconds.
#[derive(Default)]
pub struct TimeLeftEstimator {
    /// By job.
    jobs: Vec<Job>,
    /// By job: duration of the longest chain that depends on it, if known.
    downstream_ms: Vec<u64>,
    /// Chains that begin with a waiting job, the longest first. Others are dropped when they reach the top.
    longest: BinaryHeap<(i64, JobId)>,
    /// Unfinished commands with and without an estimate.
    known_left: i64,
    unknown_left: i64,
    known_left_ms: f64,
    finished: i64,
    spent_ms: f64,
    /// Time now and then of finished commands with an estimate.
    known_spent_ms: f64,
    known_then_ms: f64,
    /// Commands that left the plan because of a failure.
    pub not_run: usize,
}

#[derive(Clone, Copy, Default)]
struct Job {
    expected_ms: Option<i64>,
    waits: bool,
    state: PlanState,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PlanState {
    /// In the plan and unfinished.
    #[default]
    Planned,
    /// Removed from the plan.
    Removed,
    Ended,
}

#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct TimeLeft {
    /// The fraction of all work that is done, from 0 to 1.
    pub done: f64,
    /// `None` if unknown.
    pub left_ms: Option<i64>,
    /// The time left for the longest chain of commands.
    pub longest_chain_ms: i64,
}

impl TimeLeftEstimator {
    pub fn planned(&mut self, job: JobId, expected_ms: Option<i64>) {
        let at = job.0 as usize;
        if self.jobs.len() <= at {
            self.jobs.resize(at + 1, Job::default());
        }
        self.jobs[at] = Job { expected_ms, waits: true, state: PlanState::Planned };
        match expected_ms {
            Some(ms) => {
                self.known_left += 1;
                self.known_left_ms += ms as f64;
            }
            None => self.unknown_left += 1,
        }
        self.longest.push((expected_ms.unwrap_or(0).saturating_add(self.behind(job)), job));
    }

    /// Returns whether it has ended and was not planned again.
    pub fn has_ended(&self, job: JobId) -> bool {
        self.jobs.get(job.0 as usize).is_some_and(|it| it.state == PlanState::Ended)
    }

    /// A job was skipped because of a failure.
    pub fn skipped(&mut self, job: JobId) {
        let has_left = self.jobs.get(job.0 as usize).is_some_and(|it| it.state == PlanState::Removed);
        self.not_run += usize::from(has_left);
    }

    /// The build begins. `downstream_ms` is, by job, the duration of the longest chain that depends on it.
    pub fn build_started(&mut self, downstream_ms: &[u64]) {
        self.downstream_ms = downstream_ms.to_vec();
        let waiting = (0..).map(JobId).zip(&self.jobs).filter(|(_, it)| it.waits);
        let chain = |(job, it): (JobId, &Job)| (it.expected_ms.unwrap_or(0).saturating_add(self.behind(job)), job);
        self.longest = waiting.map(chain).collect();
    }

    fn behind(&self, job: JobId) -> i64 {
        let ms = self.downstream_ms.get(job.0 as usize).copied().unwrap_or(0);
        i64::try_from(ms).unwrap_or(i64::MAX)
    }

    pub fn started(&mut self, job: JobId) {
        if let Some(it) = self.jobs.get_mut(job.0 as usize) {
            it.waits = false;
        }
    }

    pub fn unplanned(&mut self, job: JobId) {
        self.started(job);
        self.leave(job, PlanState::Removed);
    }

    pub fn finished(&mut self, job: JobId, took_ms: i64) {
        self.finished += 1;
        self.spent_ms += took_ms as f64;
        if let Some(then_ms) = self.leave(job, PlanState::Ended) {
            self.known_spent_ms += took_ms as f64;
            self.known_then_ms += then_ms as f64;
        }
    }

    /// Returns the estimate for a job.
    pub fn expected(&self, job: JobId) -> Option<i64> {
        self.jobs.get(job.0 as usize).and_then(|it| it.expected_ms)
    }

    fn leave(&mut self, job: JobId, to: PlanState) -> Option<i64> {
        let expected = self.expected(job);
        if let Some(it) = self.jobs.get_mut(job.0 as usize) {
            it.state = to;
        }
        match expected {
            Some(ms) => {
                self.known_left -= 1;
                self.known_left_ms -= ms as f64;
            }
            None => self.unknown_left -= 1,
        }
        expected
    }

    /// Estimates the time left `passed_ms` after the beginning; `running` are the running jobs with their run time, of
    /// at most `parallelism` at a time.
    pub fn estimate(
        &mut self,
        passed_ms: i64,
        running: impl Iterator<Item = (JobId, i64)>,
        parallelism: usize,
    ) -> TimeLeft {
        let Some(typical_ms) = self.typical_ms() else { return TimeLeft::default() };
        let scale = self.scale();
        let mut left_ms = self.known_left_ms * scale + self.unknown_left as f64 * typical_ms;
        let mut spent_ms = self.spent_ms;
        let (mut longest_ms, mut is_late) = (self.longest_waiting() * scale, false);
        for (job, for_ms) in running {
            let for_ms = for_ms as f64;
            let whole_ms = self.expected(job).map_or(typical_ms, |ms| ms as f64 * scale);
            let rest_ms = (whole_ms - for_ms).max(whole_ms * MIN_REST);
            left_ms -= whole_ms - rest_ms;
            spent_ms += for_ms;
            let downstream_ms = self.behind(job) as f64 * scale;
            if rest_ms + downstream_ms > longest_ms {
                (longest_ms, is_late) = (rest_ms + downstream_ms, for_ms > whole_ms + downstream_ms);
            }
        }
        // The chains still contain jobs that left the plan.
        longest_ms = longest_ms.min(left_ms);
        let all_ms = spent_ms + left_ms;
        let at_a_time = self.effective_parallelism(spent_ms, passed_ms, parallelism);
        // If the job that everything waits for is late, its end is unknown.
        let is_known = !is_late || left_ms / at_a_time > longest_ms;
        TimeLeft {
            done: if all_ms > 0.0 { (spent_ms / all_ms).clamp(0.0, 1.0) } else { 0.0 },
            left_ms: is_known.then(|| (left_ms / at_a_time).max(longest_ms) as i64),
            longest_chain_ms: longest_ms as i64,
        }
    }

    /// Returns the longest chain that begins with a waiting job.
    fn longest_waiting(&mut self) -> f64 {
        while let Some(&(ms, job)) = self.longest.peek() {
            if self.jobs[job.0 as usize].waits {
                return ms as f64;
            }
            self.longest.pop();
        }
        0.0
    }

    /// Returns the estimate for commands without one; `None` while there are too few samples.
    fn typical_ms(&self) -> Option<f64> {
        let known = self.known_left_ms * self.scale() + self.spent_ms;
        let count = self.known_left + self.finished;
        // At the beginning, a few samples represent the others only if most commands have estimates.
        let is_telling = self.unknown_left == 0 || self.finished >= 3 || self.known_left > self.unknown_left;
        (count > 0 && is_telling).then(|| known / count as f64)
    }

    /// Returns the ratio of current to earlier durations.
    fn scale(&self) -> f64 {
        let scale = (self.known_spent_ms + INERTIA_MS) / (self.known_then_ms + INERTIA_MS);
        scale.clamp(1.0 / MAX_SCALE, MAX_SCALE)
    }

    /// Returns the effective number of parallel commands, by the work done so far: some wait for each other or for a
    /// disk.
    fn effective_parallelism(&self, spent_ms: f64, passed_ms: i64, parallelism: usize) -> f64 {
        let commands = (self.known_left + self.unknown_left).max(1) as f64;
        let most = commands.min(parallelism as f64).max(1.0);
        let so_far = spent_ms / passed_ms.max(1) as f64;
        if (passed_ms as f64) < INERTIA_MS { most } else { so_far.clamp(1.0, most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(expected: &[Option<i64>]) -> TimeLeftEstimator {
        let mut work = TimeLeftEstimator::default();
        (0..).zip(expected).for_each(|(job, ms)| work.planned(JobId(job), *ms));
        work
    }

    /// The estimate while these jobs have run for so long.
    fn estimate(
        work: &mut TimeLeftEstimator,
        passed_ms: i64,
        running: &[(u32, i64)],
        parallelism: usize,
    ) -> (f64, Option<i64>) {
        running.iter().for_each(|it| work.started(JobId(it.0)));
        let outlook = work.estimate(passed_ms, running.iter().map(|it| (JobId(it.0), it.1)), parallelism);
        (outlook.done, outlook.left_ms)
    }

    fn finished(work: &mut TimeLeftEstimator, job: u32, took_ms: i64) {
        work.started(JobId(job));
        work.finished(JobId(job), took_ms);
    }

    #[test]
    fn there_is_no_estimate_without_samples() {
        let mut it = work(&[None; 9]);
        assert_eq!(estimate(&mut it, 1000, &[(0, 1000)], 1), (0.0, None));
        (0..3).for_each(|job| finished(&mut it, job, 2000));
        assert_eq!(estimate(&mut it, 6000, &[], 4), (1.0 / 3.0, Some(12_000)));
    }

    #[test]
    fn history_gives_an_estimate_from_the_beginning() {
        let mut it = work(&[Some(4000), Some(8000), Some(4000)]);
        assert_eq!(estimate(&mut it, 0, &[], 2), (0.0, Some(8000)));
        assert_eq!(estimate(&mut it, 2000, &[(0, 2000), (1, 2000)], 2), (0.25, Some(6000)));
    }

    #[test]
    fn the_longest_command_bounds_the_time_left() {
        let mut it = work(&[Some(1000), Some(100_000)]);
        assert_eq!(estimate(&mut it, 0, &[(0, 0)], 64).1, Some(100_000), "it is still to be started");
        assert_eq!(estimate(&mut it, 500, &[(0, 500), (1, 500)], 64).1, Some(99_500));
        finished(&mut it, 1, 100_000);
        assert!(estimate(&mut it, 100_000, &[(0, 100)], 64).1 < Some(2000));
    }

    #[test]
    fn the_longest_chain_bounds_the_time_left() {
        let mut it = work(&[Some(1000), Some(20_000), Some(9000), None, Some(1000)]);
        it.build_started(&[20_000, 0, 0, 5000]);
        assert_eq!(estimate(&mut it, 0, &[], 64).1, Some(21_000));
        assert_eq!(estimate(&mut it, 500, &[(0, 500), (2, 500)], 64).1, Some(20_500));
        finished(&mut it, 0, 1000);
        assert_eq!(estimate(&mut it, 1000, &[(2, 1000)], 64).1, Some(20_000), "the next one of the chain still waits");
        // Sequentially, it takes longer than any chain.
        assert!(estimate(&mut it, 1000, &[(2, 1000)], 1).1 > Some(30_000));
        it.unplanned(JobId(1));
        assert!(estimate(&mut it, 1000, &[(2, 1000)], 64).1 < Some(20_000));
    }

    #[test]
    fn jobs_after_a_late_one_count() {
        let mut it = work(&[Some(1000), Some(20_000)]);
        it.build_started(&[20_000, 0]);
        assert_eq!(estimate(&mut it, 2000, &[(0, 2000)], 2).1, Some(20_100));
        assert_eq!(estimate(&mut it, 30_000, &[(0, 30_000)], 2).1, None);
    }

    #[test]
    fn a_late_command_is_never_finished() {
        let mut it = work(&[Some(1000)]);
        assert_eq!(estimate(&mut it, 9900, &[(0, 9900)], 1), (0.99, None));
        // Others are on time, with more work.
        let mut it = work(&[Some(1000), Some(20_000)]);
        assert_eq!(estimate(&mut it, 2000, &[(0, 2000), (1, 2000)], 2).1, Some(18_000));
    }

    #[test]
    fn a_slower_build_is_expected_to_stay_slower() {
        let mut it = work(&[Some(3000); 4]);
        finished(&mut it, 0, 9000);
        assert_eq!(it.scale(), 2.0);
        assert_eq!(estimate(&mut it, 9000, &[], 1), (1.0 / 3.0, Some(18_000)));
    }

    #[test]
    fn unplanned_commands_are_subtracted() {
        let mut it = work(&[Some(1000), Some(5000), None]);
        it.unplanned(JobId(1));
        it.unplanned(JobId(2));
        assert_eq!(estimate(&mut it, 0, &[], 1).1, Some(1000));
        finished(&mut it, 0, 1000);
        assert_eq!(estimate(&mut it, 1000, &[], 1), (1.0, Some(0)));
    }
}
