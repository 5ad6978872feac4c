//! Finds and kills the processes of a build that was itself killed: those with its marker in the environment or in its
//! control groups, and their descendants.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use tanto_sys::cgroup;
use tanto_sys::process::pid_identity::ProcessId;
use tanto_sys::process::procs::{self, ProcessStat};

use super::process_trees::{self, MARK};
use crate::job::report::ProcessInfo;

/// Time for processes to exit after SIGKILL; a disk can block them.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(5);
const SIGKILL: i32 = 9;

/// Returns whether this process belongs to a job of another Tanto, which treats its leftover processes as leftovers of
/// the job.
pub fn are_looked_for() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Kills all leftover processes of a build, given the process of that build, which must have ended or be about to end.
/// Returns the processes that ended, and those that did not.
pub fn end(owner: ProcessId) -> io::Result<(Vec<ProcessInfo>, Vec<ProcessInfo>)> {
    end_within(owner, PATIENCE)
}

fn end_within(owner: ProcessId, patience: Duration) -> io::Result<(Vec<ProcessInfo>, Vec<ProcessInfo>)> {
    let mut known = BTreeMap::new();
    let until = Instant::now() + patience;
    loop {
        if is_still(owner) {
            if Instant::now() < until {
                std::thread::sleep(STEP);
                continue;
            }
            // The build is still running.
            return Ok((Vec::new(), Vec::new()));
        }
        let living = find(owner)?;
        for one in process_trees::process_infos(&living) {
            known.entry(one.pid).or_insert(one);
        }
        for (_, look) in &living {
            // An error means that the process is gone.
            let _ = procs::signal(look.process, SIGKILL);
        }
        if living.is_empty() || Instant::now() >= until {
            let remain: BTreeSet<u32> = living.iter().map(|(_, look)| look.process.pid()).collect();
            let (remain, ended) = known.into_values().partition(|process_infos| remain.contains(&process_infos.pid));
            return Ok((ended, remain));
        }
        std::thread::sleep(STEP);
    }
}

fn is_still(process: ProcessId) -> bool {
    procs::stat(process.pid()).is_some_and(|look| look.process == process && !look.is_gone())
}

/// Returns the living processes of the build, without this process and its ancestors. Process IDs may be reused
/// meanwhile, so facts about a process count only if it is the same one before and after.
fn find(owner: ProcessId) -> io::Result<Vec<(u32, ProcessStat)>> {
    let mark = format!("{owner}.");
    let all = procs::all()?;
    let (members, above) = (cgroup::members_of(owner), above(&all));
    let is_its = |pid: u32| {
        let given = || procs::initial_env_var(pid, MARK.as_bytes()).is_some_and(|its| its.starts_with(mark.as_bytes()));
        members.contains(&pid) || given()
    };
    let mut ahead: Vec<(u32, &ProcessStat)> =
        all.iter().filter(|look| is_its(look.process.pid())).map(|look| (0, look)).collect();
    let (mut met, mut found) = (BTreeSet::new(), Vec::new());
    while let Some((depth, look)) = ahead.pop() {
        let process = look.process;
        if !is_still(process) || !met.insert(process) {
            continue;
        }
        let below =
            all.iter().filter(|it| it.parent == process.pid() && it.process.start_ticks() >= process.start_ticks());
        ahead.extend(below.map(|it| (depth + 1, it)));
        if !above.contains(&process.pid()) {
            found.push((depth, look.clone()));
        }
    }
    Ok(found)
}

/// Returns this process and its ancestors.
fn above(all: &[ProcessStat]) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    let mut next = Some(std::process::id());
    while let Some(pid) = next.filter(|&pid| numbers.insert(pid)) {
        next = all.iter().find(|look| look.process.pid() == pid).map(|look| look.parent);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// A process that has ended.
    fn gone() -> ProcessId {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = procs::stat(child.id()).unwrap().process;
        child.kill().unwrap();
        child.wait().unwrap();
        process
    }

    #[test]
    fn marked_processes_and_descendants_are_killed() {
        let owner = gone();
        let mut shell = Command::new("/bin/sh");
        let line = "env -i sleep 1011 & sleep 1012 & echo; wait";
        shell.args(["-c", line]).env(MARK, format!("{owner}.0.7")).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let mut other = Command::new("sleep").arg("1013").env(MARK, format!("{owner}1.0.7")).spawn().unwrap();
        let waits = std::thread::spawn(move || child.wait());
        let (ended, remain) = end(owner).unwrap();
        waits.join().unwrap().unwrap();
        assert!(remain.is_empty());
        let lines: Vec<String> =
            ended.iter().map(|process_infos| String::from_utf8_lossy(&process_infos.command).into_owned()).collect();
        assert!(lines.len() == 3 && lines.iter().any(|line| line.contains("sleep 1012")), "{lines:?}");
        assert!(other.try_wait().unwrap().is_none(), "it belongs to another build");
        assert_eq!(end(owner).unwrap(), (vec![], vec![]));
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_running_build_has_no_leftovers() {
        let own = ProcessId::current().unwrap();
        let mut child = Command::new("sleep").arg("1000").env(MARK, format!("{own}.0.1")).spawn().unwrap();
        assert_eq!(end_within(own, STEP).unwrap(), (vec![], vec![]));
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
