//! Tests of groups: what their files say, and real groups where this machine lets us make some.

use super::*;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A group of ours, where that can be had; else the test has nothing to test.
fn group(number: u32) -> Option<Group> {
    let home = Home::find();
    if home.obstacle().is_some() {
        return None;
    }
    Some(Group::below(&home, &name(number)).unwrap())
}

#[test]
fn numbers_are_found_by_their_names() {
    let stat = "anon 4096\nfile 9999999\nshmem 2048\nanon_thp 1\n";
    assert_eq!(held(stat), Some(6));
    assert_eq!(held("cache 5\nrss 8192\nrss_huge 1\nshmem 0\n"), Some(8));
    assert_eq!(held("file 1\n"), None);
    assert_eq!(value("usage_usec 12\nuser_usec x\n", "usage_usec"), Some(12));
    let io = "8:0 rbytes=10 wbytes=7 rios=1\n8:16 rbytes=5 wbytes=x rios=1\n";
    assert_eq!((total(io, "rbytes="), total(io, "wbytes="), total("", "rbytes=")), (Some(15), Some(7), None));
}

#[test]
fn members_are_those_put_there_and_what_they_start() {
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
    assert!(job.used().user_us + job.used().system_us > 0);
    assert_eq!(job.used().memory_kib.is_some(), build.counts_memory());
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
fn who_is_left_in_a_group_comes_to_us() {
    let Some(build) = group(3) else { return };
    let job = build.within("1").unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    job.add(child.id()).unwrap();
    let dir = build.unified.clone();
    drop(job);
    drop(build);
    assert!(!dir.exists());
    let groups = |who: &str| fs::read_to_string(format!("/proc/{who}/cgroup")).unwrap();
    assert_eq!(groups(&child.id().to_string()), groups("self"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_the_dead_have_left_is_swept_away() {
    let home = Home::find();
    if home.obstacle().is_some() {
        return;
    }
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let dir = home.unified().unwrap().join(format!("{PREFIX}{}-0", dead.id()));
    fs::create_dir_all(dir.join("1")).unwrap();
    drop(group(4));
    assert!(!dir.exists());
}

#[test]
fn what_cannot_be_is_said() {
    let home = Home::find();
    if home.unified().is_none() {
        return;
    }
    assert!(Group::below(&home, "no/such").is_err());
    if let Some(group) = group(2) {
        assert!(group.add(u32::MAX / 4).is_err(), "there is no such process");
    }
}
