//! SIGBUS in processes with mapped files: each test runs this program again as such a process.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::ptr;

use tanto_sys::memory;
use tanto_sys::memory::map::Map;
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
    // SAFETY: a new mapping; reading it beyond the file's end is intended.
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
    // Another thread may handle the signal, and later.
    std::thread::sleep(std::time::Duration::from_secs(20));
}

#[test]
#[ignore = "a role that other tests start"]
fn hoarder() {
    let dir = Scratch::new("bus");
    dir.write("f", "content");
    let file = File::open(dir.at("f")).unwrap();
    let new = || Map::new(&file, 7).map_err(|error| error.kind());
    let mut maps: Vec<Map> = std::iter::from_fn(|| new().ok()).collect();
    assert!(maps.len() >= 1000);
    assert_eq!(new().err(), Some(ErrorKind::StorageFull));
    maps.swap_remove(500);
    assert_eq!(&*new().unwrap(), b"content");
}

#[test]
#[ignore = "a role that other tests start"]
fn crowd() {
    let page = memory::page_size();
    let dir = Scratch::new("bus");
    dir.write("f", vec![1; page]);
    let file = File::open(dir.at("f")).unwrap();
    // Half of the mappings extend beyond the end of the file, and only those are torn.
    std::thread::scope(|scope| {
        for pages in [1, 2, 1, 2] {
            let file = &file;
            scope.spawn(move || {
                for _ in 0..2000 {
                    let map = Map::new(file, (pages * page) as u64).unwrap();
                    assert_eq!(map.iter().map(|&byte| usize::from(byte)).sum::<usize>(), page);
                    assert_eq!(map.is_torn(), pages == 2);
                }
            });
        }
    });
}

#[test]
fn mappings_are_limited() {
    assert!(run("hoarder").success());
}

#[test]
fn threads_tear_only_their_own_mappings() {
    assert!(run("crowd").success());
}

#[test]
fn a_fault_outside_our_mappings_kills() {
    assert_eq!(run("reader_of_another_mapping").signal(), Some(libc::SIGBUS));
}

#[test]
fn a_sent_sigbus_kills() {
    assert_eq!(run("receiver").signal(), Some(libc::SIGBUS));
}
