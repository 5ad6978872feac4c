//! A limit for the memory of this process and of all that it starts. Does not know what they want it for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{MEMBERS, find::Home, make, name, sweep, write};

/// While it lives, this process and all that it starts hold no more memory together than it says.
#[derive(Debug)]
pub struct Confined {
    /// Where we were before.
    above: PathBuf,
    group: PathBuf,
}

impl Confined {
    /// To so many bytes, with what is swapped out on top where the kernel counts that apart. An error where no control
    /// group of ours could count memory.
    pub fn to(bytes: u64) -> io::Result<Confined> {
        let home = Home::find();
        match (home.memory(), home.unified()) {
            (Some(above), _) => Confined::within(above, "memory.limit_in_bytes", bytes),
            (None, Some(above)) => Confined::within(above, "memory.max", bytes),
            (None, None) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn within(above: &Path, limit: &str, bytes: u64) -> io::Result<Confined> {
        sweep(above);
        let group = make(above, &(name(u32::MAX) + "-limit"))?;
        let confined = Confined { above: above.into(), group };
        write(&confined.group.join(limit), &bytes.to_string())?;
        write(&confined.group.join(MEMBERS), "0")?;
        Ok(confined)
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // Whoever still runs goes where we go.
        for pid in super::members(&self.group).unwrap_or_default() {
            let _ = write(&self.above.join(MEMBERS), &pid.to_string());
        }
        let _ = fs::remove_dir(&self.group);
    }
}
