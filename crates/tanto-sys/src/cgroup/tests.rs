//! Tests of parsers of cgroup files, and of real groups where this machine allows them.

use super::*;
use std::process::{Command, Stdio};
use std::time::Duration;

fn own_name(number: u32) -> String {
    group_name(ProcessId::current().unwrap(), number)
}

/// Creates a group; `None` if this machine does not allow it.
fn group(number: u32) -> Option<Cgroup> {
    let home = OwnCgroups::find();
    if home.obstacle().is_some() {
        return None;
    }
    Some(Cgroup::below(&home, &own_name(number)).unwrap())
}

#[test]
fn values_are_found_by_name() {
    let stat = "anon 4096\nfile 9999999\nshmem 2048\nanon_thp 1\n";
    assert_eq!(held(stat), Some(6));
    assert_eq!(held("cache 5\nrss 8192\nrss_huge 1\nshmem 0\n"), Some(8));
    assert_eq!(held("file 1\n"), None);
    assert_eq!(value("usage_usec 12\nuser_usec x\n", "usage_usec"), Some(12));
    let io = "8:0 rbytes=10 wbytes=7 rios=1\n8:16 rbytes=5 wbytes=x rios=1\n";
    assert_eq!((total(io, "rbytes="), total(io, "wbytes="), total("", "rbytes=")), (Some(15), Some(7), None));
}

#[test]
fn members_are_added_processes_and_their_children() {
    let Some(build) = group(1) else { return };
    let job = build.within("1").unwrap();
    let mut shell = Command::new("/bin/sh");
    let mut child = shell.args(["-c", "read go; sleep 1000 & sleep 1000"]).stdin(Stdio::piped()).spawn().unwrap();
    job.add(child.id()).unwrap();
    drop(child.stdin.take());
    while job.members().unwrap().len() < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(job.members().unwrap().contains(&child.id()));
    let own = ProcessId::current().unwrap();
    assert!(members_of(own).contains(&child.id()));
    assert!(
        members_of(ProcessId::new(own.pid(), own.start_ticks() - 1)).is_empty(),
        "one that had our number before us"
    );
    assert!(job.usage().user_us + job.usage().system_us > 0);
    assert_eq!(job.usage().memory_kib.is_some(), build.counts_memory());
    job.kill().unwrap();
    child.wait().unwrap();
    while !job.members().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let dir = build.unified.clone();
    drop(job);
    drop(build);
    assert!(!dir.exists());
}

#[test]
fn stall_times_include_ended_processes() {
    let text = "some avg10=1.00 avg60=0.10 avg300=0.00 total=4711\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
    assert_eq!((stalled(text), stalled("full avg10=0.00 total=5\n"), stalled("")), (Some(4711), None, None));
    let Some(build) = group(8) else { return };
    let job = build.within("1").unwrap();
    let Some(before) = job.stall_times() else {
        assert!(!job.unified.join("cpu.pressure").exists() || fs::read(job.unified.join("cpu.pressure")).is_err());
        return;
    };
    // Each runs for longer than a scheduler turn on the shared processor, and ends.
    let busy = "read go; for i in 1 2; do sh -c 'i=0; while test $i -lt 100000; do i=$((i+1)); done' & done; wait";
    let mut child = Command::new("/bin/sh").args(["-c", busy]).stdin(Stdio::piped()).spawn().unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first = allowed.split([',', '-']).next().unwrap();
    let pinned = Command::new("taskset").args(["-pc", first, &child.id().to_string()]).stdout(Stdio::null()).status();
    job.add(child.id()).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    let after = job.stall_times().unwrap();
    if pinned.is_ok_and(|status| status.success()) {
        assert!(after.cpu_us > before.cpu_us, "{before:?} {after:?}");
    }
    assert!(after.io_us >= before.io_us);
}

#[test]
fn exceeding_the_limit_is_reported() {
    let Some(build) = group(7) else { return };
    let job = build.within("1").unwrap();
    if let Err(error) = job.limit_memory(32 << 20) {
        assert!(!build.counts_memory(), "{error}");
        return;
    }
    let mut shell = Command::new("/bin/sh");
    let line = "read go; x=$(head -c 128m /dev/zero | tr '\\0' x); echo done";
    let mut child = shell.args(["-c", line]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    job.add(child.id()).unwrap();
    assert!(!job.exceeded_limit() && !job.had_oom_kill());
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(job.exceeded_limit() && job.had_oom_kill());
}

#[test]
fn members_of_a_dropped_group_move_here() {
    let Some(build) = group(3) else { return };
    let job = build.within("1").unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    job.add(child.id()).unwrap();
    let dir = build.unified.clone();
    drop(job);
    drop(build);
    assert!(!dir.exists());
    let groups = |process: &str| fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
    assert_eq!(groups(&child.id().to_string()), groups("self"));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A build that is killed leaves its groups with their members.
#[test]
fn child_groups_are_removed_too() {
    let Some(build) = group(6) else { return };
    let job = build.within("1").unwrap();
    let inner = job.unified.join("tanto-1-0");
    fs::create_dir_all(&inner).unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    write(&inner.join(MEMBERS), &child.id().to_string()).unwrap();
    let dir = build.unified.clone();
    drop(job);
    drop(build);
    assert!(!dir.exists());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn groups_of_killed_processes_are_removed() {
    let home = OwnCgroups::find();
    if home.obstacle().is_some() {
        return;
    }
    let own = ProcessId::current().unwrap();
    // An earlier process with our process id.
    let dead = ProcessId::new(own.pid(), own.start_ticks() - 1);
    let [left, used] = [dead, own].map(|maker| home.unified().unwrap().join(group_name(maker, 3)));
    fs::create_dir_all(left.join("1/2")).unwrap();
    fs::create_dir(&used).unwrap();
    drop(group(4));
    assert!(!left.exists() && used.exists());
    fs::remove_dir(used).unwrap();
}

#[test]
fn impossible_operations_fail() {
    let home = OwnCgroups::find();
    if home.unified().is_none() {
        return;
    }
    assert!(Cgroup::below(&home, "no/such").is_err());
    if let Some(group) = group(2) {
        assert!(group.add(u32::MAX / 4).is_err(), "there is no such process");
    }
}

/// A process that is alone in its group gets a group with controllers enabled; dropping it restores everything.
#[test]
#[ignore = "a role that another test starts"]
fn alone() {
    let above = OwnCgroups::find().unified().unwrap().to_owned();
    let unified = make(&above, &own_name(0)).unwrap();
    let opened = enable_controller(&above, &unified, "hugetlb");
    assert!(opened.is_some(), "it is alone");
    let group = Cgroup { home: OwnCgroups::find(), unified, memory: None, opened };
    assert!(OwnCgroups::find().unified().unwrap().starts_with(&group.unified), "it went out of the way");
    let job = group.within("1").unwrap();
    assert!(job.unified.join("hugetlb.2MB.current").exists());
    assert!(enable_controller(&above, &group.unified, "hugetlb").is_none(), "it is not there any more");
    drop(job);
    drop(group);
    assert_eq!(OwnCgroups::find().unified().unwrap(), above);
    assert_eq!(fs::read_dir(&above).unwrap().flatten().filter(|it| it.path().is_dir()).count(), 0);
}

#[test]
fn a_lone_process_moves_away_and_back() {
    let home = OwnCgroups::find();
    let offers = |dir: &Path| fs::read_to_string(dir.join("cgroup.controllers")).is_ok_and(|it| it.contains("hugetlb"));
    let Some(above) = home.unified().filter(|above| home.obstacle().is_none() && offers(above)) else { return };
    let before = fs::read_to_string(above.join(SWITCHES)).unwrap();
    if write(&above.join(SWITCHES), "+hugetlb").is_err() {
        return;
    }
    let place = make(above, &own_name(5)).unwrap();
    let line = "echo 0 > \"$1/cgroup.procs\" && exec \"$0\" --exact cgroup::tests::alone --ignored";
    let this = std::env::current_exe().unwrap();
    let output = Command::new("/bin/sh").args(["-c", line]).arg(this).arg(&place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    fs::remove_dir(&place).unwrap();
    if !before.contains("hugetlb") {
        write(&above.join(SWITCHES), "-hugetlb").unwrap();
    }
}
