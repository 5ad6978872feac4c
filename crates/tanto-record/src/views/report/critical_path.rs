//! The critical path: the longest chain of commands that waited for each other, which bounds the duration for any
//! number of cores.

use crate::session::Session;

/// Returns indices of its jobs, without groups, and its duration in milliseconds.
pub fn path(session: &Session) -> (Vec<usize>, i64) {
    let count = session.jobs.len();
    let mut heaviest: Vec<(i64, Option<usize>)> = Vec::with_capacity(count);
    for (at, job) in session.jobs.iter().enumerate() {
        // Only earlier jobs count, whatever the file says, so there is no cycle.
        let before = job.info.after.iter().filter_map(|&id| session.index_of(id)).filter(|&place| place < at);
        let longest = before.max_by_key(|&place| (heaviest[place].0, std::cmp::Reverse(place)));
        let behind = longest.map_or(0, |place| heaviest[place].0);
        heaviest.push((behind.saturating_add(job.wall_ms()), longest));
    }
    let end = (0..count).max_by_key(|&at| (heaviest[at].0, std::cmp::Reverse(at)));
    let total = end.map_or(0, |end| heaviest[end].0);
    let mut path: Vec<usize> = std::iter::successors(end, |&at| heaviest[at].1).collect();
    path.reverse();
    path.retain(|&at| !session.jobs[at].is_group);
    (path, total)
}
