//! Problems of a build: terminated commands, processes left behind, and idle slots because of throttling.

use super::lanes::end_ms;
use crate::session::{Pause, Session, SessionJob};

/// Limit of processes named per command.
const NAMED: usize = 3;

/// Returns the problems of a command, a sentence each.
pub fn of_job(job: &SessionJob) -> Vec<Vec<u8>> {
    let stopped = job.stopped.as_ref().map(|stopped| {
        let how = if stopped.killed { "it had to be killed" } else { "it was ended" };
        format!("{}; {how}", stopped.reason).into_bytes()
    });
    let left = job.left.as_ref().filter(|left| !left.processes.is_empty()).map(|left| {
        let count = left.processes.len();
        let mut names: Vec<&[u8]> = left.processes.iter().map(|seen| &seen.command[..]).take(NAMED).collect();
        names.extend((count > NAMED).then_some(&b"..."[..]));
        let what = if count == 1 { "a process".to_owned() } else { format!("{count} processes") };
        let killed = if left.killed { ", killed by Tanto" } else { "" };
        [format!("left {what} behind{killed}: ").as_bytes(), &names.join(&b", "[..])].concat()
    });
    stopped.into_iter().chain(left).collect()
}

/// All pauses with the same reason.
pub struct Held {
    pub why: &'static str,
    pub times: usize,
    pub wall_ms: i64,
    /// Time of free slots during the pauses, in milliseconds; `None` without a limit of slots.
    pub idle_ms: Option<i64>,
}

/// Returns the reasons for throttling, the longest first.
pub fn held(session: &Session) -> Vec<Held> {
    let idle = Idle::new(session);
    let mut all: Vec<Held> = Vec::new();
    for pause in &session.pauses {
        let why = pause.why.summary();
        let at = all.iter().position(|held| held.why == why).unwrap_or_else(|| {
            all.push(Held { why, times: 0, wall_ms: 0, idle_ms: Some(0) });
            all.len() - 1
        });
        let held = &mut all[at];
        held.times += 1;
        held.wall_ms = held.wall_ms.saturating_add(until(session, pause) - pause.start_ms);
        held.idle_ms = held.idle_ms.zip(idle.within(pause)).map(|(sum, more)| sum.saturating_add(more));
    }
    all.sort_by_key(|held| std::cmp::Reverse(held.wall_ms));
    all
}

/// Returns the end of a pause.
pub fn until(session: &Session, pause: &Pause) -> i64 {
    pause.end_ms.unwrap_or(session.end_ms()).max(pause.start_ms)
}

/// Computes the time of idle slots.
pub struct Idle<'s> {
    session: &'s Session,
    starts: Moments,
    ends: Moments,
}

impl<'s> Idle<'s> {
    pub fn new(session: &'s Session) -> Idle<'s> {
        let places = || (0..session.jobs.len()).filter(|&at| !session.jobs[at].is_group);
        let starts = Moments::new(places().map(|at| session.jobs[at].start_ms).collect());
        Idle { session, starts, ends: Moments::new(places().map(|at| end_ms(session, at)).collect()) }
    }

    /// Returns the idle time of all slots during a pause, in milliseconds; `None` without a limit of slots.
    pub fn within(&self, pause: &Pause) -> Option<i64> {
        let slots = Some(i128::from(self.session.head.parallelism)).filter(|&slots| slots > 0)?;
        let (start, end) = (pause.start_ms, until(self.session, pause));
        let busy = |at| self.starts.passed(at) - self.ends.passed(at);
        let idle = slots * i128::from(end - start) - (busy(end) - busy(start));
        Some(i64::try_from(idle.max(0)).unwrap_or(i64::MAX))
    }
}

/// Sorted times, each with the sum of all up to it.
struct Moments(Vec<(i64, i128)>);

impl Moments {
    fn new(mut moments: Vec<i64>) -> Moments {
        moments.sort_unstable();
        let mut sum = 0;
        let summed = |at: i64| {
            sum += i128::from(at);
            (at, sum)
        };
        Moments(moments.into_iter().map(summed).collect())
    }

    /// Returns the sum of the times from each moment until `at`; later moments do not count.
    fn passed(&self, at: i64) -> i128 {
        let count = self.0.partition_point(|&(moment, _)| moment < at);
        let sum = count.checked_sub(1).map_or(0, |last| self.0[last].1);
        count as i128 * i128::from(at) - sum
    }
}
