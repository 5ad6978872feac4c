//! A limit for the memory of this process and of all that it starts. Does not know what they want it for.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::{MEMBERS, SWITCHES, could_open, group_name, make, own::OwnCgroups, sweep, write};
use crate::process::pid_identity::ProcessId;

/// While it lives, this process and all that it starts hold no more memory together than it says.
#[derive(Debug)]
pub struct MemoryLimit {
    /// Where we were before.
    above: PathBuf,
    group: PathBuf,
    /// Version 2's tree counts memory there because of us.
    opened: bool,
}

impl MemoryLimit {
    /// To so many bytes. An error where no control group of ours could count memory.
    pub fn to(bytes: u64) -> io::Result<MemoryLimit> {
        let home = OwnCgroups::find();
        let above = home.memory().or(home.unified()).ok_or(io::ErrorKind::Unsupported)?;
        sweep(above);
        let group = make(above, &(group_name(ProcessId::own()?, u32::MAX) + "-limit"))?;
        let mut limit = MemoryLimit { above: above.into(), group, opened: false };
        if home.memory().is_none() {
            limit.open()?;
        }
        let file = if home.memory().is_some() { "memory.limit_in_bytes" } else { LIMIT };
        write(&limit.group.join(file), &bytes.to_string())?;
        write(&limit.group.join(MEMBERS), "0")?;
        Ok(limit)
    }

    /// Has version 2 count memory for the groups where we are, if it does not. A place that counts for those below it
    /// has no processes of its own: we go out of its way, which helps only if we are alone there.
    fn open(&mut self) -> io::Result<()> {
        if self.group.join(LIMIT).exists() {
            return Ok(());
        }
        if !could_open(&self.above, "memory") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.opened = true;
        write(&self.group.join(MEMBERS), "0")?;
        write(&self.above.join(SWITCHES), "+memory")
    }
}

/// Version 2's limit, which is there where memory is counted.
const LIMIT: &str = "memory.max";

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if self.opened {
            // Before anybody can come back.
            let _ = write(&self.above.join(SWITCHES), "-memory");
        }
        // Whoever still runs goes where we go.
        for pid in super::members(&self.group).unwrap_or_default() {
            let _ = write(&self.above.join(MEMBERS), &pid.to_string());
        }
        let _ = fs::remove_dir(&self.group);
    }
}
