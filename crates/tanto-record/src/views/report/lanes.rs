//! Assigns commands to lanes: each gets the first free one, as if lanes were cores.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::session::Session;

pub struct Lanes {
    /// By index in the session; `None` for a group.
    pub of: Vec<Option<u32>>,
    pub count: u32,
}

pub fn lanes(session: &Session) -> Lanes {
    let mut order: Vec<usize> = (0..session.jobs.len()).filter(|&at| !session.jobs[at].is_group).collect();
    order.sort_by_key(|&at| session.jobs[at].start_ms);
    let mut lanes = Lanes { of: vec![None; session.jobs.len()], count: 0 };
    let mut free = BinaryHeap::new();
    let mut busy: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
    for at in order {
        let job = &session.jobs[at];
        while let Some(&Reverse((end, lane))) = busy.peek()
            && end <= job.start_ms
        {
            busy.pop();
            free.push(Reverse(lane));
        }
        let lane = free.pop().map_or(lanes.count, |Reverse(lane)| lane);
        lanes.count = lanes.count.max(lane + 1);
        lanes.of[at] = Some(lane);
        busy.push(Reverse((end_ms(session, at), lane)));
    }
    lanes
}

/// Returns the end of a job, or of the build if the job did not end.
pub fn end_ms(session: &Session, at: usize) -> i64 {
    let job = &session.jobs[at];
    let end = job.end.as_ref().map_or(session.end_ms(), |end| end.end_ms);
    end.max(job.start_ms)
}
