//! All processes below this one, and how they are told to end. Does not know which of them is a command's: while
//! something is measured all are.

use tanto_sys::process::pid_identity::ProcessId;
use tanto_sys::process::procs;

const SIGKILL: i32 = 9;
const SIGCONT: i32 = 18;
/// Each round kills all that were there when it began: who outlives so many multiplies faster than we can look.
const MOST_ROUNDS: usize = 100;

/// Sends each of them a signal; one that is stopped goes on, for it could not hear it.
pub fn tell(signal: i32) {
    for look in living() {
        // Whoever is gone need not be told.
        let _ = procs::signal(look.process, signal);
        if look.is_stopped() {
            let _ = procs::signal(look.process, SIGCONT);
        }
    }
}

/// Kills them all, those too that they start meanwhile.
pub fn kill() {
    let mut told: Vec<ProcessId> = Vec::new();
    for _ in 0..MOST_ROUNDS {
        let fresh: Vec<ProcessId> =
            living().into_iter().map(|look| look.process).filter(|process| !told.contains(process)).collect();
        if fresh.is_empty() {
            return;
        }
        for &process in &fresh {
            let _ = procs::signal(process, SIGKILL);
        }
        told.extend(fresh);
    }
}

fn living() -> Vec<procs::ProcessStat> {
    let all = procs::trees(&[std::process::id()]).into_iter();
    all.filter(|(depth, look)| *depth > 0 && !look.is_gone()).map(|(_, look)| look).collect()
}
