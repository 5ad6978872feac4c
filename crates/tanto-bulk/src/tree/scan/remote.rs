//! Directories of a scan that other machines scan. Each one can be scanned here at any time, so that no client can delay
//! the scan.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;

use tanto_exec::job::{Completion, Exit, JobId};
use tanto_exec::runner::Wakeup;
use tanto_exec::schedule::Schedule;

use super::commands::ScanCommand;
use super::{ScanError, output};

/// The result of a directory that a client got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RemoteResult {
    /// The output of `make pbulk-index`, and the duration in milliseconds.
    Scanned { output: Vec<u8>, wall_ms: u64 },
    /// The client could not scan it, or has gone.
    Failed,
}

/// Other machines that scan directories.
pub trait RemoteScanners {
    /// Directories are about to be scanned. Does nothing if it was called before.
    fn begin(&mut self) -> Result<(), ScanError>;

    /// Handles the messages of clients. Returns directories that they have got.
    fn serve(&mut self) -> Vec<(String, RemoteResult)>;

    /// Returns how many of the ready directories the next client gets; 0 if none waits.
    fn wanted(&self, ready: usize) -> usize;

    /// Gives directories to the client of `wanted`.
    fn give(&mut self, locations: Vec<String>);

    /// Returns a directory whose client has had it for long. The client's result does not count any more.
    fn take_back(&mut self) -> Option<String>;

    /// When the files of the clients were read, in nanoseconds since 1970.
    fn read_ns(&self) -> i64;
}

/// The jobs of a scan that run on other machines.
pub(super) struct RemoteJobs<'a> {
    scanners: &'a mut dyn RemoteScanners,
    asks: &'a [ScanCommand],
    away: HashMap<String, JobId>,
    /// Jobs that have to run here.
    back: VecDeque<JobId>,
    /// Jobs whose command starts here at their next completion.
    starting: HashSet<JobId>,
    /// The duration of jobs that have ended elsewhere, in milliseconds.
    wall_ms: HashMap<JobId, u64>,
    wakeups: VecDeque<Wakeup<Infallible>>,
}

impl<'a> RemoteJobs<'a> {
    pub fn new(scanners: &'a mut dyn RemoteScanners, asks: &'a [ScanCommand]) -> RemoteJobs<'a> {
        RemoteJobs {
            scanners,
            asks,
            away: HashMap::new(),
            back: VecDeque::new(),
            starting: HashSet::new(),
            wall_ms: HashMap::new(),
            wakeups: VecDeque::new(),
        }
    }

    /// Notes results. `idle`: so many more commands could run here, if no job is ready.
    pub fn poll(&mut self, idle: usize) {
        for (location, result) in self.scanners.serve() {
            let Some(job) = self.away.remove(&location) else { continue };
            match result {
                RemoteResult::Scanned { output, wall_ms } if is_valid(&location, &output) => {
                    self.wall_ms.insert(job, wall_ms);
                    self.wakeups.push_back(Wakeup::Completed(completion(job, 0, output)));
                }
                // If it fails here too, the log is that of this machine.
                RemoteResult::Scanned { .. } | RemoteResult::Failed => self.back.push_back(job),
            }
        }
        while self.starting.len() < idle {
            let Some(job) = self.back.pop_front().or_else(|| self.take_back()) else { return };
            self.starting.insert(job);
            self.wakeups.push_back(Wakeup::Completed(completion(job, 1, Vec::new())));
        }
    }

    fn take_back(&mut self) -> Option<JobId> {
        self.away.remove(&self.scanners.take_back()?)
    }

    /// Gives ready jobs to clients. Returns them.
    pub fn give(&mut self, schedule: &mut Schedule) -> Vec<JobId> {
        let mut given = Vec::new();
        loop {
            let ready = schedule.ready_jobs().count();
            let jobs: Vec<JobId> = schedule.ready_jobs().take(self.scanners.wanted(ready)).collect();
            if jobs.is_empty() {
                return given;
            }
            let locations: Vec<String> = jobs.iter().map(|job| self.asks[job.0 as usize].location.clone()).collect();
            for (&job, location) in jobs.iter().zip(&locations) {
                schedule.take_elsewhere(job);
                self.away.insert(location.clone(), job);
            }
            self.scanners.give(locations);
            given.extend(jobs);
        }
    }

    pub fn take_wakeup(&mut self) -> Option<Wakeup<Infallible>> {
        self.wakeups.pop_front()
    }

    /// Whether the completion stands for the start of the job here.
    pub fn starts_here(&mut self, job: JobId) -> bool {
        self.starting.remove(&job)
    }

    /// Returns the duration of a job that has ended elsewhere.
    pub fn take_wall_ms(&mut self, job: JobId) -> Option<u64> {
        self.wall_ms.remove(&job)
    }

    pub fn read_ns(&self) -> i64 {
        self.scanners.read_ns()
    }
}

/// Whether these are records of this directory, which do not name another one.
fn is_valid(location: &str, output: &[u8]) -> bool {
    let names_location = output.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"PKG_LOCATION="));
    !names_location && output::complete(location, output).is_ok()
}

fn completion(job: JobId, code: i32, output: Vec<u8>) -> Completion {
    Completion::new(job, Exit::Code(code), output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_other_directories_are_refused() {
        assert!(is_valid("a/b", b"PKGNAME=one-1\nX=\n"));
        for bad in ["", "PKGNAME=one-1\nPKG_LOCATION=c/d\n", "PKG_LOCATION=a/b\nPKGNAME=one-1\n", "PKGNAME=one-1"] {
            assert!(!is_valid("a/b", bad.as_bytes()), "{bad}");
        }
    }
}
