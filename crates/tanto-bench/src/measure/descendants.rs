//! Signals to all descendants of this process. During a measurement, all of them belong to measured commands.

use tanto_sys::process::pid_identity::ProcessId;
use tanto_sys::process::procs;

const SIGKILL: i32 = 9;
const SIGCONT: i32 = 18;
/// Each round kills the processes that exist at its start. Processes that survive this many rounds fork too fast.
const MAX_ROUNDS: usize = 100;

/// Sends a signal to each descendant and resumes stopped ones, which could not handle it otherwise.
pub fn signal_all(signal: i32) {
    for stat in living() {
        // A process may have ended in the meantime.
        let _ = procs::signal(stat.process, signal);
        if stat.is_stopped() {
            let _ = procs::signal(stat.process, SIGCONT);
        }
    }
}

/// Kills all descendants, including those forked in the meantime.
pub fn kill_all() {
    let mut killed: Vec<ProcessId> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let new: Vec<ProcessId> =
            living().into_iter().map(|stat| stat.process).filter(|process| !killed.contains(process)).collect();
        if new.is_empty() {
            return;
        }
        for &process in &new {
            let _ = procs::signal(process, SIGKILL);
        }
        killed.extend(new);
    }
}

fn living() -> Vec<procs::ProcessStat> {
    let all = procs::trees(&[std::process::id()]).into_iter();
    all.filter(|(depth, stat)| *depth > 0 && !stat.is_gone()).map(|(_, stat)| stat).collect()
}
