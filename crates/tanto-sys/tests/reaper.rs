//! Adopting orphans is a property of the whole process, so this test is a program of its own.

use std::io::Read;
use std::process::{Command, Stdio};

use tanto_sys::process::{procs, reaper};

#[test]
fn an_orphan_is_adopted_and_reaped() {
    let mut reaper = reaper::Reaper::begin().unwrap();
    let mut shell = Command::new("/bin/sh")
        .args(["-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    shell.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    shell.wait().unwrap();
    let orphan: u32 = text.trim().parse().unwrap();
    assert!(reaper.children().unwrap().contains(&orphan), "known at once when the parent was waited for");
    let look = procs::stat(orphan).unwrap();
    assert_eq!(look.parent, std::process::id());
    assert!(!reaper::reap(orphan), "it lives");
    procs::signal(look.process, 9).unwrap();
    while !reaper::reap(orphan) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(!reaper.children().unwrap().contains(&orphan));
    assert!(reaper::reap(orphan), "no child of ours");
}
