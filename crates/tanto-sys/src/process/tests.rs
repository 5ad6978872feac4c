//! Tests of children: output, exit, process groups.

use super::*;
use crate::ipc::poll;

fn plain() -> Launcher {
    Launcher::new(Environment::inherit_with(&[]))
}

fn spawn(line: &str) -> Child {
    plain().spawn_piped(Program::Shell(line.as_bytes())).unwrap()
}

/// Runs a line until its output and the process have ended.
fn run(line: &str) -> (Vec<u8>, ExitStatus) {
    end(spawn(line))
}

fn end(mut child: Child) -> (Vec<u8>, ExitStatus) {
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
    let (output, status) = run("echo a; echo b >&2; echo c");
    assert_eq!(output, b"a\nb\nc\n");
    assert_eq!(status, ExitStatus::Code(0));
}

#[test]
fn exit_codes_and_signals_are_reported() {
    assert_eq!(run("exit 3").1, ExitStatus::Code(3));
    let killed = |signal| ExitStatus::Killed { signal, dumped: false };
    assert_eq!(run("kill -9 $$").1, killed(9));
    assert_eq!(run("kill -15 $$").1, killed(15));
}

#[test]
fn input_is_empty() {
    assert_eq!(run("cat; readlink /proc/self/fd/0").0, b"/dev/null\n");
}

#[test]
fn children_inherit_no_descriptors() {
    let other = spawn("sleep 100");
    let ours = format!("/proc/self/fd/{}", other.output().unwrap().as_raw_fd());
    let ours = std::fs::read_link(ours).unwrap().into_os_string().into_string().unwrap();
    let (output, _) = run("for f in /proc/$$/fd/*; do readlink $f; done");
    other.signal_group(libc::SIGKILL);
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("pipe:[") && !output.contains(&ours), "{ours} in {output}");
}

#[test]
fn signals_reach_the_process_group() {
    let mut child = spawn("sleep 100 & echo $$; sleep 100; wait");
    let mut buffer = [0; 100];
    let length = child.read_output(&mut buffer).unwrap();
    assert_eq!(buffer[..length], *format!("{}\n", child.pid()).as_bytes());
    child.signal_group(libc::SIGTERM);
    // The pipe ends when both sleepers have.
    assert_eq!(child.read_output(&mut buffer).unwrap(), 0);
    assert!(child.output().is_none());
    assert_eq!(child.wait().unwrap().status, ExitStatus::Killed { signal: libc::SIGTERM, dumped: false });
    child.signal_group(libc::SIGTERM);
}

#[test]
fn a_console_child_shares_the_process_group() {
    let mut child =
        plain().spawn_console(Program::Shell(b"test $(ps -o pgid= -p $$) = $(ps -o pgid= -p $PPID)")).unwrap();
    assert!(child.output().is_none());
    child.signal_group(libc::SIGKILL);
    assert_eq!(child.wait().unwrap().status, ExitStatus::Code(0));
}

#[test]
fn the_end_can_be_polled() {
    let mut child = spawn("exec >&- 2>&-; read x");
    assert_eq!(read_all(&mut child), b"");
    let fd = child.exit_fd().unwrap();
    assert_eq!(child.exit_fd().unwrap(), fd);
    poll::wait(&mut [poll::Watch::new(&fd)], None).unwrap();
    let ended = child.try_wait().unwrap().unwrap();
    assert_eq!(ended.status, ExitStatus::Code(1));
    assert_eq!(child.try_wait().unwrap(), Some(ended));
}

#[test]
fn a_running_child_has_no_report() {
    let mut child = spawn("sleep 100");
    assert_eq!(child.try_wait().unwrap(), None);
    child.signal_group(libc::SIGKILL);
    child.wait().unwrap();
}

#[test]
fn resource_usage_is_reported() {
    let mut child = spawn("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    let ended = child.wait().unwrap();
    assert!(ended.user_us + ended.system_us > 0);
    assert!(ended.max_rss_kib > 100);
}

#[test]
fn variables_are_added_and_replaced() {
    let extra = [("TANTO_TEST".into(), "x y".into()), ("PATH".into(), "/none".into())];
    let mut launcher = Launcher::new(Environment::inherit_with(&extra));
    assert_eq!(launcher.environment().get(b"TANTO_TEST"), Some(b"x y".as_slice()));
    let child = launcher.spawn_piped(Program::Shell(b"echo \"$TANTO_TEST $PATH\"")).unwrap();
    assert_eq!(end(child).0, b"x y /none\n");
    assert_eq!(run("echo $TANTO_TEST").0, b"\n");
}

#[test]
fn a_line_that_cannot_be_run_is_an_error() {
    let error = plain().spawn_piped(Program::Shell(&vec![b'x'; 3 << 20])).unwrap_err();
    assert_eq!(crate::error::text(&error), b"posix_spawn: Argument list too long");
    assert_eq!(error.kind(), io::ErrorKind::ArgumentListTooLong);
    assert_eq!(plain().spawn_piped(Program::Shell(b"a\0b")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

fn words(all: &[&str]) -> Argv {
    let mut words = Argv::default();
    for word in all {
        words.begin();
        word.bytes().for_each(|byte| words.push(byte));
        words.end();
    }
    words
}

/// Runs a command without a shell.
fn run_words(launcher: &mut Launcher, all: &[&str]) -> io::Result<(Vec<u8>, ExitStatus)> {
    Ok(end(launcher.spawn_piped(Program::Argv(&words(all)))?))
}

#[test]
fn argv_is_passed_unchanged() {
    let (output, status) = run_words(&mut plain(), &["printf", "<%s>", "", "a b", "$x", "'"]).unwrap();
    assert_eq!((output.as_slice(), status), (b"<><a b><$x><'>".as_slice(), ExitStatus::Code(0)));
    assert_eq!(run_words(&mut plain(), &["/bin/sh", "-c", "exit 7"]).unwrap().1, ExitStatus::Code(7));
}

#[test]
fn programs_are_searched_in_the_childs_path() {
    let dir = tanto_testing::Scratch::new("path");
    std::fs::create_dir(dir.at("bin")).unwrap();
    std::os::unix::fs::symlink("/bin/echo", dir.at("bin/speak")).unwrap();
    let path = |path: String| Launcher::new(Environment::inherit_with(&[("PATH".into(), path.into())]));
    let mut found = path(format!("/none:{}", dir.at("bin").display()));
    assert_eq!(run_words(&mut found, &["speak", "x"]).unwrap().0, b"x\n");
    let not_found = run_words(&mut path("/none".into()), &["speak"]).unwrap_err();
    assert_eq!(not_found.kind(), io::ErrorKind::NotFound);
    // A file that is not a program ends the search.
    let mut refused = path(format!("{}:{}", dir.at("").display(), dir.at("bin").display()));
    std::fs::write(dir.at("speak"), "").unwrap();
    assert_eq!(run_words(&mut refused, &["speak"]).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_child_inherits_signal_actions() {
    let (output, _) = run_words(&mut plain(), &["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]).unwrap();
    let output = String::from_utf8(output).unwrap();
    assert_eq!(output.lines().next(), Some("SigBlk:\t0000000000000000"), "{output}");
    let ignored = output.lines().nth(1).unwrap().strip_prefix("SigIgn:\t").unwrap();
    let pipe = u64::from_str_radix(ignored, 16).unwrap() >> (libc::SIGPIPE - 1) & 1;
    assert_eq!(pipe == 1, crate::signals::sigpipe_ignored_at_start());
}

#[test]
fn pwd_names_the_current_directory() {
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        run_words(&mut plain(), &["printenv", "PWD"]).unwrap().0,
        [here.as_os_str().as_encoded_bytes(), b"\n"].concat()
    );
    assert_eq!(run("printenv PWD").0, run_words(&mut plain(), &["printenv", "PWD"]).unwrap().0);
}

#[test]
fn a_variable_can_change_between_children() {
    let mut launcher = Launcher::new(Environment::inherit_with(&[("A".into(), "1".into())]));
    let output = |launcher: &mut Launcher| {
        let mut child = launcher.spawn_piped(Program::Shell(b"echo $A $AB")).unwrap();
        let mut text = [0; 64];
        let length = child.read_output(&mut text).unwrap();
        child.wait().unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    assert_eq!(output(&mut launcher), "1\n");
    launcher.set("AB", "2");
    assert_eq!(output(&mut launcher), "1 2\n");
    launcher.set("A", "3");
    launcher.set("AB", "x\0y");
    assert_eq!(output(&mut launcher), "3 2\n");
    launcher.remove("A");
    launcher.remove("NONE");
    assert_eq!(output(&mut launcher), "2\n");
    launcher.set("A", "4");
    assert_eq!(output(&mut launcher), "4 2\n");
}
