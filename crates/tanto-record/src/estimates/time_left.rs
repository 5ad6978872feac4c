//! How much of a build is done and how long it will go on: from what its commands took last time and take now, and from
//! the longest chain of those that are left. Does not know which command waits for which.

use std::collections::BinaryHeap;

use tanto_exec::job::JobId;

/// So much of known work has to be done before it says how this build's speed differs from the last one's, in
/// milliseconds.
const INERTIA_MS: f64 = 3000.0;
/// One that takes longer than expected is taken to have this part of its time before it, always.
const REST: f64 = 0.1;
/// Speeds further apart than this say nothing: the one came from a compiler cache, the other did not.
const MOST_SCALE: f64 = 20.0;

/// What is known of the work of a build. Times are in milliseconds.
#[derive(Default)]
pub struct Work {
    /// By job: how long it took last time, and whether it is still to be started.
    jobs: Vec<Job>,
    /// By job: how long the longest chain took that waits for it, as far as that was said.
    downstream_ms: Vec<u64>,
    /// The chains that begin with what is still to be started, the longest first; what is not any more is dropped when met.
    longest: BinaryHeap<(i64, JobId)>,
    /// Commands that have not ended, by whether they have run before.
    known_left: i64,
    unknown_left: i64,
    known_left_ms: f64,
    finished: i64,
    spent_ms: f64,
    /// Of those that ended and have run before: what they took, now and then.
    known_spent_ms: f64,
    known_then_ms: f64,
    /// So many left the plan because of a failure.
    pub missed: usize,
}

#[derive(Clone, Copy, Default)]
struct Job {
    expected_ms: Option<i64>,
    waits: bool,
    stands: Stands,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stands {
    /// In the plan, and it has not ended.
    #[default]
    Planned,
    /// Not in the plan any more.
    Left,
    Ended,
}

/// What can be said of the end.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Outlook {
    /// The part of all work that is done, from 0 to 1.
    pub done: f64,
    /// How long it will go on; `None` where nothing can be said.
    pub left_ms: Option<i64>,
}

impl Work {
    pub fn planned(&mut self, job: JobId, expected_ms: Option<i64>) {
        let at = job.0 as usize;
        if self.jobs.len() <= at {
            self.jobs.resize(at + 1, Job::default());
        }
        self.jobs[at] = Job { expected_ms, waits: true, stands: Stands::Planned };
        match expected_ms {
            Some(ms) => {
                self.known_left += 1;
                self.known_left_ms += ms as f64;
            }
            None => self.unknown_left += 1,
        }
        self.longest.push((expected_ms.unwrap_or(0).saturating_add(self.behind(job)), job));
    }

    /// It has ended, and was not planned again since.
    pub fn has_ended(&self, job: JobId) -> bool {
        self.jobs.get(job.0 as usize).is_some_and(|it| it.stands == Stands::Ended)
    }

    /// It was never started, because something failed.
    pub fn skipped(&mut self, job: JobId) {
        let has_left = self.jobs.get(job.0 as usize).is_some_and(|it| it.stands == Stands::Left);
        self.missed += usize::from(has_left);
    }

    /// The build begins; by job, what waits for it takes so long, one after the other.
    pub fn began(&mut self, downstream_ms: &[u64]) {
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
        self.leave(job, Stands::Left);
    }

    pub fn finished(&mut self, job: JobId, took_ms: i64) {
        self.finished += 1;
        self.spent_ms += took_ms as f64;
        if let Some(then_ms) = self.leave(job, Stands::Ended) {
            self.known_spent_ms += took_ms as f64;
            self.known_then_ms += then_ms as f64;
        }
    }

    /// How long the job took last time, if known.
    pub fn expected(&self, job: JobId) -> Option<i64> {
        self.jobs.get(job.0 as usize).and_then(|it| it.expected_ms)
    }

    fn leave(&mut self, job: JobId, to: Stands) -> Option<i64> {
        let expected = self.expected(job);
        if let Some(it) = self.jobs.get_mut(job.0 as usize) {
            it.stands = to;
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

    /// The outlook `passed_ms` after the beginning, while those that run have run for so long; at most `parallelism`
    /// run at a time.
    pub fn outlook(
        &mut self,
        passed_ms: i64,
        running: impl Iterator<Item = (JobId, i64)>,
        parallelism: usize,
    ) -> Outlook {
        let Some(usual_ms) = self.usual_ms() else { return Outlook::default() };
        let scale = self.scale();
        let mut left_ms = self.known_left_ms * scale + self.unknown_left as f64 * usual_ms;
        let mut spent_ms = self.spent_ms;
        let (mut longest_ms, mut is_late) = (self.longest_waiting() * scale, false);
        for (job, for_ms) in running {
            let for_ms = for_ms as f64;
            let whole_ms = self.expected(job).map_or(usual_ms, |ms| ms as f64 * scale);
            let rest_ms = (whole_ms - for_ms).max(whole_ms * REST);
            left_ms -= whole_ms - rest_ms;
            spent_ms += for_ms;
            let downstream_ms = self.behind(job) as f64 * scale;
            if rest_ms + downstream_ms > longest_ms {
                (longest_ms, is_late) = (rest_ms + downstream_ms, for_ms > whole_ms + downstream_ms);
            }
        }
        // What has left the plan is still in the chains.
        longest_ms = longest_ms.min(left_ms);
        let all_ms = spent_ms + left_ms;
        let shared_ms = left_ms / self.at_a_time(spent_ms, passed_ms, parallelism);
        // When the one for which all wait should have ended, nobody knows when it will.
        let is_known = !is_late || shared_ms > longest_ms;
        Outlook {
            done: if all_ms > 0.0 { (spent_ms / all_ms).clamp(0.0, 1.0) } else { 0.0 },
            left_ms: is_known.then(|| shared_ms.max(longest_ms) as i64),
        }
    }

    /// What the longest chain takes that begins with one that is still to be started.
    fn longest_waiting(&mut self) -> f64 {
        while let Some(&(ms, job)) = self.longest.peek() {
            if self.jobs[job.0 as usize].waits {
                return ms as f64;
            }
            self.longest.pop();
        }
        0.0
    }

    /// How long a command takes of which nothing is known; `None` while that cannot be said.
    fn usual_ms(&self) -> Option<f64> {
        let known = self.known_left_ms * self.scale() + self.spent_ms;
        let count = self.known_left + self.finished;
        // A few say something of many only if they are of the same kind: then a build is at its beginning.
        let is_telling = self.unknown_left == 0 || self.finished >= 3 || self.known_left > self.unknown_left;
        (count > 0 && is_telling).then(|| known / count as f64)
    }

    /// How much longer commands take than last time.
    fn scale(&self) -> f64 {
        let scale = (self.known_spent_ms + INERTIA_MS) / (self.known_then_ms + INERTIA_MS);
        scale.clamp(1.0 / MOST_SCALE, MOST_SCALE)
    }

    /// How many commands ran at a time. It is the work in them that counts: some wait for each other, or for a disk.
    fn at_a_time(&self, spent_ms: f64, passed_ms: i64, parallelism: usize) -> f64 {
        let commands = (self.known_left + self.unknown_left).max(1) as f64;
        let most = commands.min(parallelism as f64).max(1.0);
        let so_far = spent_ms / passed_ms.max(1) as f64;
        if (passed_ms as f64) < INERTIA_MS { most } else { so_far.clamp(1.0, most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(expected: &[Option<i64>]) -> Work {
        let mut work = Work::default();
        (0..).zip(expected).for_each(|(job, ms)| work.planned(JobId(job), *ms));
        work
    }

    /// The outlook while these jobs have run for so long.
    fn look(work: &mut Work, passed_ms: i64, running: &[(u32, i64)], parallelism: usize) -> (f64, Option<i64>) {
        running.iter().for_each(|it| work.started(JobId(it.0)));
        let outlook = work.outlook(passed_ms, running.iter().map(|it| (JobId(it.0), it.1)), parallelism);
        (outlook.done, outlook.left_ms)
    }

    fn finished(work: &mut Work, job: u32, took_ms: i64) {
        work.started(JobId(job));
        work.finished(JobId(job), took_ms);
    }

    #[test]
    fn nothing_is_said_of_what_never_ran() {
        let mut it = work(&[None; 9]);
        assert_eq!(look(&mut it, 1000, &[(0, 1000)], 1), (0.0, None));
        (0..3).for_each(|job| finished(&mut it, job, 2000));
        assert_eq!(look(&mut it, 6000, &[], 4), (1.0 / 3.0, Some(12_000)));
    }

    #[test]
    fn history_speaks_from_the_beginning() {
        let mut it = work(&[Some(4000), Some(8000), Some(4000)]);
        assert_eq!(look(&mut it, 0, &[], 2), (0.0, Some(8000)));
        assert_eq!(look(&mut it, 2000, &[(0, 2000), (1, 2000)], 2), (0.25, Some(6000)));
    }

    #[test]
    fn the_longest_is_the_least() {
        let mut it = work(&[Some(1000), Some(100_000)]);
        assert_eq!(look(&mut it, 0, &[(0, 0)], 64).1, Some(100_000), "it is still to be started");
        assert_eq!(look(&mut it, 500, &[(0, 500), (1, 500)], 64).1, Some(99_500));
        finished(&mut it, 1, 100_000);
        assert!(look(&mut it, 100_000, &[(0, 100)], 64).1 < Some(2000));
    }

    #[test]
    fn the_longest_chain_is_the_least() {
        let mut it = work(&[Some(1000), Some(20_000), Some(9000), None, Some(1000)]);
        it.began(&[20_000, 0, 0, 5000]);
        assert_eq!(look(&mut it, 0, &[], 64).1, Some(21_000));
        assert_eq!(look(&mut it, 500, &[(0, 500), (2, 500)], 64).1, Some(20_500));
        finished(&mut it, 0, 1000);
        assert_eq!(look(&mut it, 1000, &[(2, 1000)], 64).1, Some(20_000), "the next one of the chain still waits");
        // One after the other it takes longer than any chain.
        assert!(look(&mut it, 1000, &[(2, 1000)], 1).1 > Some(30_000));
        it.unplanned(JobId(1));
        assert!(look(&mut it, 1000, &[(2, 1000)], 64).1 < Some(20_000));
    }

    #[test]
    fn what_is_late_has_others_behind_it() {
        let mut it = work(&[Some(1000), Some(20_000)]);
        it.began(&[20_000, 0]);
        assert_eq!(look(&mut it, 2000, &[(0, 2000)], 2).1, Some(20_100));
        assert_eq!(look(&mut it, 30_000, &[(0, 30_000)], 2).1, None);
    }

    #[test]
    fn what_is_late_is_never_quite_done() {
        let mut it = work(&[Some(1000)]);
        assert_eq!(look(&mut it, 9900, &[(0, 9900)], 1), (0.99, None));
        // Others are in time, and more.
        let mut it = work(&[Some(1000), Some(20_000)]);
        assert_eq!(look(&mut it, 2000, &[(0, 2000), (1, 2000)], 2).1, Some(18_000));
    }

    #[test]
    fn a_slower_build_is_expected_to_stay_slower() {
        let mut it = work(&[Some(3000); 4]);
        finished(&mut it, 0, 9000);
        assert_eq!(it.scale(), 2.0);
        assert_eq!(look(&mut it, 9000, &[], 1), (1.0 / 3.0, Some(18_000)));
    }

    #[test]
    fn what_leaves_the_plan_leaves_the_rest() {
        let mut it = work(&[Some(1000), Some(5000), None]);
        it.unplanned(JobId(1));
        it.unplanned(JobId(2));
        assert_eq!(look(&mut it, 0, &[], 1).1, Some(1000));
        finished(&mut it, 0, 1000);
        assert_eq!(look(&mut it, 1000, &[], 1), (1.0, Some(0)));
    }
}
