//! A confined process can use its open descriptors, and nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::process::Command;

use tanto_sys::process::confine::confine;

/// Set in the process that is confined.
const CONFINED: &str = "TANTO_TEST_CONFINED";

#[test]
fn files_network_and_processes_are_out_of_reach() {
    if std::env::var_os(CONFINED).is_some() {
        return try_everything();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "files_network_and_processes_are_out_of_reach", "--nocapture"]).env(CONFINED, "1");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("all of it is refused"), "{text}\n{output:?}");
}

fn try_everything() {
    let mut opened = File::open("/proc/self/status").unwrap();
    confine(4 << 30).unwrap();
    let denied = |result: io::Result<()>| result.is_err_and(|error| error.raw_os_error() == Some(1));
    assert!(denied(File::open("/etc/passwd").map(drop)), "a file was opened");
    assert!(denied(File::create("/tmp/tanto-confined").map(drop)), "a file was created");
    assert!(denied(TcpListener::bind("127.0.0.1:0").map(drop)), "a socket was made");
    assert!(Command::new("/bin/true").status().is_err(), "a program was run");
    let mut text = vec![0; 1 << 20];
    assert!(opened.read(&mut text).unwrap() > 0, "an open file cannot be read");
    io::stdout().write_all(b"all of it is refused\n").unwrap();
}
