//! Controls of an experiment's environment, and their effects on the machine.

use std::path::Path;
use std::time::Duration;

use tanto_sys::cgroup::memory_limit::MemoryLimit;
use tanto_sys::fs::page_cache::{self, ReadAhead, WriteThrough};
use tanto_sys::machine::affinity::CpuMask;

use crate::Error;
use crate::error::cause;

/// Each field is an option of the command line.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Controls {
    pub cpus: Option<CpuMask>,
    pub drop_caches: bool,
    pub write_through: bool,
    pub read_ahead_kib: Option<u64>,
    pub cgroup_memory_kib: Option<u64>,
    /// The longest wait before a run; zero for none.
    pub settle: Duration,
    pub count_sync: bool,
}

impl Controls {
    /// Returns names and values, to record and compare experiments.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let yes_or_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let mut values = vec![
            ("cpus", self.cpus.as_ref().map_or("all".into(), CpuMask::to_string)),
            ("drop-caches", yes_or_no(self.drop_caches)),
            ("write-through", yes_or_no(self.write_through)),
            ("cgroup-memory", self.cgroup_memory_kib.map_or("no limit".into(), |kib| format!("{kib} KiB"))),
            ("settle", format!("{} ms", self.settle.as_millis())),
            ("count-sync", yes_or_no(self.count_sync)),
        ];
        values.extend(self.read_ahead_kib.map(|kib| ("read-ahead", format!("{kib} KiB"))));
        values
    }
}

/// Controls in effect during the experiment. Dropping them restores the machine.
pub struct ActiveControls {
    _memory: Option<MemoryLimit>,
    _write_through: Option<WriteThrough>,
    _read_ahead: Option<ReadAhead>,
}

impl ActiveControls {
    /// Applies the controls; fails if one of them is not possible.
    pub fn apply(controls: &Controls) -> Result<ActiveControls, Error> {
        let failed = |option, hint| move |error| Error::Control { option, cause: cause(&error), hint };
        if let Some(cpus) = &controls.cpus {
            check_available(cpus)?;
        }
        if controls.drop_caches {
            page_cache::drop_caches().map_err(failed("drop-caches", "requires root"))?;
        }
        let memory = controls.cgroup_memory_kib.map(|kib| MemoryLimit::to(kib.saturating_mul(1024))).transpose();
        let read_ahead = controls.read_ahead_kib.map(|kib| ReadAhead::set(Path::new("."), kib)).transpose();
        let write_through = controls.write_through.then(|| WriteThrough::begin(Path::new("."))).transpose();
        Ok(ActiveControls {
            _read_ahead: read_ahead.map_err(failed("read-ahead", "requires root and a disk"))?,
            _memory: memory
                .map_err(failed("cgroup-memory", "requires a writable control group, see 'tanto doctor'"))?,
            _write_through: write_through
                .map_err(failed("write-through", "mount this file system with the option sync instead"))?,
        })
    }
}

fn check_available(cpus: &CpuMask) -> Result<(), Error> {
    let own = CpuMask::current()?;
    match cpus.without(&own) {
        missing if missing.count() == 0 => Ok(()),
        missing => Err(Error::UnavailableCpus {
            wanted: cpus.to_string(),
            missing: missing.to_string(),
            allowed: own.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_controls_are_described() {
        let controls = Controls {
            cpus: CpuMask::parse(b"0,2"),
            cgroup_memory_kib: Some(1 << 20),
            settle: Duration::from_secs(60),
            ..Controls::default()
        };
        assert_eq!(controls.describe()[0], ("cpus", "0,2".to_owned()));
        assert_eq!(Controls::default().describe().len(), controls.describe().len());
        let with_read_ahead = Controls { read_ahead_kib: Some(4), ..controls };
        assert!(with_read_ahead.describe().contains(&("read-ahead", "4 KiB".to_owned())));
    }

    #[test]
    fn unavailable_processors_are_named() {
        let controls = Controls { cpus: CpuMask::parse(b"1000"), ..Controls::default() };
        let error = ActiveControls::apply(&controls).err().expect("no such processor").to_string();
        assert!(error.starts_with("--cpus 1000: 1000 not available to this process, only "), "{error}");
    }
}
