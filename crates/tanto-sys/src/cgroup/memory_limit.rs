//! Limits the memory of this process and its descendants.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::{MEMBERS, SWITCHES, can_enable, group_name, make, own::OwnCgroups, sweep, write};
use crate::process::pid_identity::ProcessId;

/// A memory limit for this process and its descendants, until it is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    /// The group of this process before.
    above: PathBuf,
    group: PathBuf,
    /// This limit has enabled the memory controller in `above`.
    opened: bool,
}

impl MemoryLimit {
    /// Sets a limit in bytes. Fails if no group with a memory controller can be created.
    pub fn to(bytes: u64) -> io::Result<MemoryLimit> {
        let home = OwnCgroups::find();
        let above = home.memory().or(home.unified()).ok_or(io::ErrorKind::Unsupported)?;
        sweep(above);
        let group = make(above, &(group_name(ProcessId::current()?, u32::MAX) + "-limit"))?;
        let mut limit = MemoryLimit { above: above.into(), group, opened: false };
        if home.memory().is_none() {
            limit.open()?;
        }
        let file = if home.memory().is_some() { "memory.limit_in_bytes" } else { LIMIT };
        write(&limit.group.join(file), &bytes.to_string())?;
        write(&limit.group.join(MEMBERS), "0")?;
        Ok(limit)
    }

    /// Enables the memory controller of version 2, if necessary. A group with enabled controllers cannot have processes
    /// of its own, so this process must be the only one.
    fn open(&mut self) -> io::Result<()> {
        if self.group.join(LIMIT).exists() {
            return Ok(());
        }
        if !can_enable(&self.above, "memory") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.opened = true;
        write(&self.group.join(MEMBERS), "0")?;
        write(&self.above.join(SWITCHES), "+memory")
    }
}

/// Present only where the memory controller is enabled.
const LIMIT: &str = "memory.max";

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if self.opened {
            // Before processes come back to the group.
            let _ = write(&self.above.join(SWITCHES), "-memory");
        }
        // Processes that are still running move along with this one.
        for pid in super::members(&self.group).unwrap_or_default() {
            let _ = write(&self.above.join(MEMBERS), &pid.to_string());
        }
        let _ = fs::remove_dir(&self.group);
    }
}
