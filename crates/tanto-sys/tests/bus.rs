//! What ends a process that maps files, and what does not: each test runs this program again, as that process.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::ptr;

use tanto_sys::map::Map;
use tanto_sys::signals;
use tanto_testing::Scratch;

fn run(role: &str) -> ExitStatus {
    let this = std::env::current_exe().unwrap();
    // No core file.
    let line = format!("ulimit -c 0; exec \"$0\" --exact {role} --ignored --nocapture >/dev/null");
    Command::new("/bin/sh").args(["-c", &line]).arg(this).status().unwrap()
}

fn mapped(dir: &Scratch) -> Map {
    dir.write("f", "content");
    Map::new(&File::open(dir.at("f")).unwrap(), 7).unwrap()
}

#[test]
#[ignore = "a role that other tests start"]
fn reader_of_another_mapping() {
    let dir = Scratch::new("bus");
    let map = mapped(&dir);
    assert_eq!(map[0], b'c');
    let file = File::options().write(true).read(true).open(dir.at("f")).unwrap();
    // SAFETY: a new mapping; reading it beyond the file's end is what this is for.
    unsafe {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let place = libc::mmap(ptr::null_mut(), 1 << 20, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0);
        drop(dir);
        ptr::read_volatile(place.cast::<u8>().add(1 << 19));
    }
}

#[test]
#[ignore = "a role that other tests start"]
fn receiver() {
    let dir = Scratch::new("bus");
    let _map = mapped(&dir);
    drop(dir);
    signals::send(std::process::id(), libc::SIGBUS).unwrap();
    // Another thread may be the one that handles it, and later.
    std::thread::sleep(std::time::Duration::from_secs(20));
}

#[test]
fn a_fault_that_is_none_of_ours_kills() {
    assert_eq!(run("reader_of_another_mapping").signal(), Some(libc::SIGBUS));
}

#[test]
fn a_signal_that_was_sent_kills() {
    assert_eq!(run("receiver").signal(), Some(libc::SIGBUS));
}
