//! What a user wants to hold still while something is measured: flags, and what they do to the machine. Does not know
//! what is measured.

use std::path::Path;
use std::time::Duration;

use tanto_sys::cgroup::memory_limit::MemoryLimit;
use tanto_sys::fs::page_cache::{self, ReadAhead, WriteThrough};
use tanto_sys::machine::affinity::CpuMask;

use crate::bench::args::{Flag, wrong};
use crate::flags::number;

/// `--cpus`
pub const CPUS: Flag = Flag::new("cpus", Some("LIST"), "let the commands use these processors only, such as 0 or 2-3");
/// `--drop-caches`
pub const DROP_CACHES: Flag =
    Flag::new("drop-caches", None, "before each run, forget what was read from disks (only root may)");
/// `--write-through`
pub const WRITE_THROUGH: Flag = Flag::new(
    "write-through",
    None,
    "let each write to the files of the current directory wait for the disk, as the mount option sync does",
);
/// `--read-ahead`
pub const READ_AHEAD: Flag = Flag::new(
    "read-ahead",
    Some("KIB"),
    "let the kernel read so many KiB ahead on the disk of the current directory (read_ahead_kb; only root may)",
);
/// `--cgroup-memory`
pub const MEMORY: Flag =
    Flag::new("cgroup-memory", Some("SIZE"), "let the commands hold no more memory together, such as 2G");
/// `--settle`
pub const SETTLE: Flag =
    Flag::new("settle", Some("TIME"), "wait before each run until other programs rest, for TIME at most, such as 1m");
/// `--count-sync`
pub const COUNT_SYNC: Flag =
    Flag::new("count-sync", None, "a run ends when what it wrote is on the disk, not before that");

/// A larger read-ahead is a mistake, in KiB.
const MOST_READ_AHEAD: i64 = 1 << 20;

/// What is to be held still.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Controls {
    /// `--cpus`
    pub cpus: Option<CpuMask>,
    /// `--drop-caches`
    pub drop_caches: bool,
    /// `--write-through`
    pub write_through: bool,
    /// `--read-ahead`, in KiB.
    pub read_ahead: Option<u64>,
    /// `--cgroup-memory`, in KiB.
    pub memory_kib: Option<u64>,
    /// `--settle`: the longest wait before a run; zero for none.
    pub settle: Duration,
    /// `--count-sync`
    pub count_sync: bool,
}

impl Controls {
    /// Takes one of the flags above; false if it is another. An error is a text for the user.
    pub fn take(&mut self, flag: &Flag, value: &[u8]) -> Result<bool, Vec<u8>> {
        let bad = |expected: &str| wrong(flag, expected);
        match flag {
            flag if *flag == CPUS => {
                self.cpus = Some(CpuMask::parse(value).ok_or_else(|| bad("processors such as 0 or 2-3,5"))?);
            }
            flag if *flag == DROP_CACHES => self.drop_caches = true,
            flag if *flag == WRITE_THROUGH => self.write_through = true,
            flag if *flag == READ_AHEAD => {
                let kib = number::integer(value).filter(|kib| !value.is_empty() && (0..=MOST_READ_AHEAD).contains(kib));
                let kib = kib.ok_or_else(|| bad(&format!("a number of KiB from 0 to {MOST_READ_AHEAD}")))?;
                self.read_ahead = Some(kib.unsigned_abs());
            }
            flag if *flag == MEMORY => {
                let size = number::size_kib(value).filter(|&kib| kib > 0);
                self.memory_kib = Some(size.ok_or_else(|| bad("a size such as 512M or 2G"))?);
            }
            flag if *flag == SETTLE => {
                let ms = number::milliseconds(value).ok_or_else(|| bad("a time such as 10s or 1m30s"))?;
                self.settle = Duration::from_millis(ms.unsigned_abs());
            }
            flag if *flag == COUNT_SYNC => self.count_sync = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Each of them with its value, for whoever compares two measurements or reads of one.
    pub fn told(&self) -> Vec<(&'static str, String)> {
        let yes_or_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let mut told = vec![
            (CPUS.name, self.cpus.as_ref().map_or("all".into(), CpuMask::to_string)),
            (DROP_CACHES.name, yes_or_no(self.drop_caches)),
            (WRITE_THROUGH.name, yes_or_no(self.write_through)),
            (MEMORY.name, self.memory_kib.map_or("no limit".into(), |kib| format!("{kib} KiB"))),
            (SETTLE.name, format!("{} ms", self.settle.as_millis())),
            (COUNT_SYNC.name, yes_or_no(self.count_sync)),
        ];
        told.extend(self.read_ahead.map(|kib| (READ_AHEAD.name, format!("{kib} KiB"))));
        told
    }
}

/// What lasts as long as the measuring does. When it is dropped the machine is as before.
pub struct Held {
    _memory: Option<MemoryLimit>,
    _write_through: Option<WriteThrough>,
    _read_ahead: Option<ReadAhead>,
}

impl Held {
    /// Does to the machine what is wanted, and finds out whether all of it can be done. An error is a text for the user.
    pub fn begin(controls: &Controls) -> Result<Held, Vec<u8>> {
        if let Some(cpus) = &controls.cpus {
            has_all(cpus)?;
        }
        if controls.drop_caches {
            page_cache::drop_caches().map_err(|error| cannot("--drop-caches", &error, "only root may"))?;
        }
        let memory = controls.memory_kib.map(|kib| MemoryLimit::to(kib.saturating_mul(1024))).transpose();
        let read_ahead = controls.read_ahead.map(|kib| ReadAhead::set(Path::new("."), kib)).transpose();
        let here = controls.write_through.then(|| WriteThrough::begin(Path::new("."))).transpose();
        Ok(Held {
            _read_ahead: read_ahead.map_err(|error| {
                cannot("--read-ahead", &error, "only root may, on a disk; run it with sudo, or leave it out")
            })?,
            _memory: memory.map_err(|error| {
                cannot(
                    "--cgroup-memory",
                    &error,
                    "it takes a control group that we may change; 'tanto doctor' says more",
                )
            })?,
            _write_through: here.map_err(|error| {
                cannot("--write-through", &error, "mount this file system with the option sync to measure that")
            })?,
        })
    }
}

fn has_all(cpus: &CpuMask) -> Result<(), Vec<u8>> {
    let own = CpuMask::current().map_err(|error| tanto_sys::error::text(&error))?;
    match cpus.without(&own) {
        lacking if lacking.count() == 0 => Ok(()),
        lacking => Err(format!("--cpus {cpus}: we may not use {lacking}, only {own}").into_bytes()),
    }
}

fn cannot(flag: &str, error: &std::io::Error, hint: &str) -> Vec<u8> {
    [flag.as_bytes(), b": ", &tanto_sys::error::text(error), b" (", hint.as_bytes(), b")"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(flag: &Flag, value: &str) -> String {
        let error = Controls::default().take(flag, value.as_bytes()).expect_err(value);
        String::from_utf8(error).expect("text")
    }

    #[test]
    fn flags_are_taken() {
        let mut controls = Controls::default();
        for (flag, value) in [(CPUS, "0,2"), (DROP_CACHES, ""), (MEMORY, "1G"), (SETTLE, "1m"), (COUNT_SYNC, "")] {
            assert_eq!(controls.take(&flag, value.as_bytes()), Ok(true), "{flag:?}");
        }
        assert_eq!(controls.take(&crate::bench::args::HELP, b""), Ok(false));
        assert_eq!((controls.memory_kib, controls.settle), (Some(1 << 20), Duration::from_secs(60)));
        assert_eq!(controls.told()[0], ("cpus", "0,2".to_owned()));
        assert_eq!(Controls::default().told().len(), controls.told().len());
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        assert!(complaint(&CPUS, "x").ends_with("--cpus parameter: expected processors such as 0 or 2-3,5"));
        assert!(complaint(&MEMORY, "0K").ends_with("expected a size such as 512M or 2G"));
        assert!(complaint(&READ_AHEAD, "-1").ends_with("expected a number of KiB from 0 to 1048576"));
        assert!(complaint(&SETTLE, "soon").ends_with("expected a time such as 10s or 1m30s"));
    }

    #[test]
    fn processors_that_are_not_there_are_named() {
        let controls = Controls { cpus: CpuMask::parse(b"1000"), ..Controls::default() };
        let why = Held::begin(&controls).err().expect("no such processor");
        assert!(why.starts_with(b"--cpus 1000: we may not use 1000, only "), "{}", String::from_utf8_lossy(&why));
    }
}
