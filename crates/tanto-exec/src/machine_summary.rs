//! The state of the machine that builds depend on, for `tanto doctor`.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

use tanto_sys::cgroup::{Hierarchy, OwnCgroups};
use tanto_sys::machine::cpu;
use tanto_sys::machine::pressure::PressureMonitor;
use tanto_sys::process::{Environment, procs};

use crate::runner::process::wants_the_shell;

/// Returns names and values.
pub fn rows() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("commands have a shell", shell()),
        ("processors", cpu::count().to_string().into()),
        ("control groups", control_groups(&OwnCgroups::find())),
        ("process trees", process_trees().into()),
        ("free memory", free_memory().into()),
        ("pressure", pressure().into()),
        ("MAKEFLAGS' jobserver", jobserver(std::env::var_os("MAKEFLAGS").as_deref())),
    ]
}

fn shell() -> Vec<u8> {
    match wants_the_shell(&Environment::inherit_with(&[])) {
        Some(name) => [b"all of them, because of ", name, b" in the environment"].concat(),
        None => b"if they need one".to_vec(),
    }
}

fn control_groups(home: &OwnCgroups) -> Vec<u8> {
    let layout = match home.hierarchy() {
        Hierarchy::Unified => "version 2",
        Hierarchy::Hybrid => "versions 1 and 2",
        Hierarchy::Legacy => return "version 1 only: not used".into(),
        Hierarchy::None => return "none".into(),
    };
    let usable = match home.obstacle() {
        Some(error) if error.kind() == ErrorKind::PermissionDenied => {
            "; not delegated: run Tanto under systemd-run --user --scope -p Delegate=yes".into()
        }
        Some(error) => [b"; unusable: ", &tanto_sys::error::text(&error)[..]].concat(),
        None if home.could_count_memory() => b"; delegated, with memory".to_vec(),
        None => b"; delegated, without memory".to_vec(),
    };
    [layout.as_bytes(), &usable].concat()
}

fn process_trees() -> &'static str {
    match (procs::lists_children(), procs::pidfd(std::process::id()).is_some()) {
        (true, true) => "lists of children, pidfd",
        (false, true) => "scan of all processes (no CONFIG_PROC_CHILDREN), pidfd",
        (true, false) => "lists of children; no pidfd (before Linux 5.3)",
        (false, false) => "scan of all processes; no pidfd (before Linux 5.3)",
    }
}

fn free_memory() -> String {
    let free = PressureMonitor::open().sample().free_kib;
    free.map_or_else(|| "unknown".into(), |kib| format!("{} MiB", kib >> 10))
}

fn pressure() -> String {
    let headroom = PressureMonitor::open();
    if !headroom.has_pressure() {
        return "not measured by this kernel".into();
    }
    let now = headroom.sample();
    format!("memory {:.0} %, processors {:.0} % of the last ten seconds", now.memory_some, now.cpu_some)
}

/// The jobserver in `MAKEFLAGS`; the last one counts.
fn jobserver(makeflags: Option<&OsStr>) -> Vec<u8> {
    let words = makeflags.unwrap_or_default().as_bytes().split(|&byte| byte == b' ');
    let named = |word: &[u8]| {
        let auth = word.strip_prefix(b"--jobserver-auth=").or_else(|| word.strip_prefix(b"--jobserver-fds="))?;
        Some(auth.to_vec())
    };
    words.filter_map(named).next_back().unwrap_or_else(|| "none".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_jobserver_counts() {
        assert_eq!(jobserver(None), b"none");
        assert_eq!(jobserver(Some(OsStr::new(" -j4 --jobserver-auth=3,4"))), b"3,4");
        let two = " -j --jobserver-fds=3,4 --jobserver-auth=fifo:/tmp/x -- A=b";
        assert_eq!(jobserver(Some(OsStr::new(two))), b"fifo:/tmp/x");
    }
}
