//! Tests of processes: their output, their ends, their groups.

use super::*;
use crate::poll;

fn plain() -> Environment {
    Environment::ours_and(&[])
}

/// Runs a line to the end of its output and of itself.
fn run(line: &str, environment: &Environment) -> (Vec<u8>, Status) {
    let mut child = spawn_piped(line.as_bytes(), environment).unwrap();
    let output = read_all(&mut child);
    (output, child.wait().unwrap().status)
}

fn read_all(child: &mut Child) -> Vec<u8> {
    let (mut output, mut buffer) = (Vec::new(), [0; 100]);
    loop {
        match child.read_output(&mut buffer).unwrap() {
            0 => return output,
            length => output.extend_from_slice(&buffer[..length]),
        }
    }
}

#[test]
fn output_and_errors_come_in_order() {
    let (output, status) = run("echo a; echo b >&2; echo c", &plain());
    assert_eq!(output, b"a\nb\nc\n");
    assert_eq!(status, Status::Code(0));
}

#[test]
fn exit_codes_and_signals_are_told() {
    assert_eq!(run("exit 3", &plain()).1, Status::Code(3));
    let killed = |signal| Status::Killed { signal, dumped: false };
    assert_eq!(run("kill -9 $$", &plain()).1, killed(9));
    assert_eq!(run("kill -15 $$", &plain()).1, killed(15));
}

#[test]
fn there_is_nothing_to_read() {
    assert_eq!(run("cat; readlink /proc/self/fd/0", &plain()).0, b"/dev/null\n");
}

#[test]
fn no_descriptor_of_ours_is_handed_on() {
    let other = spawn_piped(b"sleep 100", &plain()).unwrap();
    let ours = format!("/proc/self/fd/{}", other.output().unwrap().as_raw_fd());
    let ours = std::fs::read_link(ours).unwrap().into_os_string().into_string().unwrap();
    let (output, _) = run("for f in /proc/$$/fd/*; do readlink $f; done", &plain());
    other.signal_group(libc::SIGKILL);
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("pipe:[") && !output.contains(&ours), "{ours} in {output}");
}

#[test]
fn a_job_has_a_group_and_it_is_told_as_one() {
    let mut child = spawn_piped(b"sleep 100 & echo $$; sleep 100; wait", &plain()).unwrap();
    let mut buffer = [0; 100];
    let length = child.read_output(&mut buffer).unwrap();
    assert_eq!(buffer[..length], *format!("{}\n", child.pid()).as_bytes());
    child.signal_group(libc::SIGTERM);
    // The pipe ends only when both sleepers are gone too.
    assert_eq!(child.read_output(&mut buffer).unwrap(), 0);
    assert!(child.output().is_none());
    assert_eq!(child.wait().unwrap().status, Status::Killed { signal: libc::SIGTERM, dumped: false });
    child.signal_group(libc::SIGTERM);
}

#[test]
fn a_console_job_shares_our_group() {
    let mut child = spawn_console(b"test $(ps -o pgid= -p $$) = $(ps -o pgid= -p $PPID)", &plain()).unwrap();
    assert!(child.output().is_none());
    child.signal_group(libc::SIGKILL);
    assert_eq!(child.wait().unwrap().status, Status::Code(0));
}

#[test]
fn the_end_can_be_polled_for() {
    let mut child = spawn_piped(b"exec >&- 2>&-; read x", &plain()).unwrap();
    assert_eq!(read_all(&mut child), b"");
    let fd = child.exit_fd().unwrap();
    assert_eq!(child.exit_fd().unwrap(), fd);
    poll::wait(&mut [poll::Watch::new(&fd)], None).unwrap();
    let ended = child.try_wait().unwrap().unwrap();
    assert_eq!(ended.status, Status::Code(1));
    assert_eq!(child.try_wait().unwrap(), Some(ended));
}

#[test]
fn a_living_child_has_not_ended() {
    let mut child = spawn_piped(b"sleep 100", &plain()).unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    child.signal_group(libc::SIGKILL);
    child.wait().unwrap();
}

#[test]
fn usage_is_counted() {
    let mut child = spawn_piped(b"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done", &plain()).unwrap();
    let ended = child.wait().unwrap();
    assert!(ended.user_us + ended.system_us > 0);
    assert!(ended.max_rss_kib > 100);
}

#[test]
fn names_are_added_and_replaced() {
    let extra = [("TANTO_TEST".into(), "x y".into()), ("PATH".into(), "/none".into())];
    let environment = Environment::ours_and(&extra);
    let (output, _) = run("echo \"$TANTO_TEST $PATH\"", &environment);
    assert_eq!(output, b"x y /none\n");
    assert_eq!(run("echo $TANTO_TEST", &plain()).0, b"\n");
}

#[test]
fn a_line_that_cannot_be_run_is_an_error() {
    let error = spawn_piped(&vec![b'x'; 3 << 20], &plain()).unwrap_err();
    assert_eq!(crate::error::text(&error), b"posix_spawn: Argument list too long");
    assert_eq!(error.kind(), io::ErrorKind::ArgumentListTooLong);
    assert_eq!(spawn_piped(b"a\0b", &plain()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}
