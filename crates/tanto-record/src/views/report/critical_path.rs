//! The chain of commands that takes longest, each of which waited for the one before: no number of cores makes a build
//! faster than that. Does not know why they wait.

use crate::session::Session;

/// The places of its jobs in the session, in order, groups left out; and how long it takes, in milliseconds.
pub fn path(session: &Session) -> (Vec<usize>, i64) {
    let count = session.jobs.len();
    let mut heaviest: Vec<(i64, Option<usize>)> = Vec::with_capacity(count);
    for (at, job) in session.jobs.iter().enumerate() {
        // What began later was not waited for, whatever the file says; so there is no cycle.
        let before = job.info.after.iter().filter_map(|&id| session.place(id)).filter(|&place| place < at);
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
