//! GNU make's jobserver: taking and returning tokens.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use crate::harness::{Case, Run, Side};

const O_NONBLOCK: i32 = 0o4000;

const WIDE: &str = "rule r\n  command = barrier $out; touch $out\nbuild a: r\nbuild b: r\nbuild c: r\nbuild d: r\n";

/// A fifo with tokens beside the tree. It exists while the shell that becomes the program has it open.
fn fifo(side: &mut Side) {
    let path = side.base().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
    assert!(made.success());
}

fn with(args: &str, tokens: &str, flags: &str) -> Run {
    Run::new(args).plain().shell(&format!("exec 7<>../fifo; printf %s '{tokens}' >&7; export MAKEFLAGS=\"{flags}\";"))
}

/// The tokens in the fifo, while the program still has it open.
fn tokens(side: &Side) -> String {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(O_NONBLOCK)
        .open(side.base().join("fifo"))
        .expect("a fifo");
    let mut bytes = [0; 64];
    let count = file.read(&mut bytes).unwrap_or(0);
    file.write_all(&bytes[..count]).expect("room for what was there");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn expect_tokens(count: usize) -> impl Fn(&mut Side) {
    move |side| {
        side.pause();
        assert_eq!(tokens(side).len(), count, "{}: tokens in the fifo", side.name());
    }
}

const FIFO: &str = "--jobserver-auth=fifo:../fifo";

#[test]
fn fifo_limits_running_commands() {
    let case = Case::manifest(WIDE).act(fifo).act(hold).start(with("", "+", FIFO).any_order());
    let case = case.wait_for("a").wait_for("b").act(|side| side.absent("c")).act(expect_tokens(0)).open("a");
    let case = case.wait_for("c").open("b").wait_for("d").open("c").open("d").end();
    case.act(expect_tokens(1)).act(release).check();
}

#[test]
fn without_tokens_one_runs() {
    let case = Case::manifest(WIDE).act(fifo).start(with("", "", FIFO)).wait_for("a").act(|side| side.absent("b"));
    case.open("a").wait_for("b").open("b").open("c").open("d").end().check();
}

#[test]
fn an_explicit_j_switches_it_off() {
    let case = Case::manifest(WIDE)
        .act(fifo)
        .start(with("-j4", "", FIFO).any_order())
        .wait_for("a")
        .wait_for("b")
        .wait_for("c")
        .wait_for("d");
    case.open("a").open("b").open("c").open("d").end().check();
}

#[test]
fn a_dry_run_switches_it_off() {
    Case::manifest(WIDE).act(fifo).run(with("-n", "", FIFO)).check();
}

#[test]
fn tokens_come_back_after_a_failure() {
    let text = "rule bad\n  command = barrier bad; false\nrule r\n  command = barrier $out; touch $out\n\
                build x: bad\nbuild a: r\nbuild b: r\n";
    let case = Case::manifest(text).act(fifo).act(hold).start(with("", "++", FIFO).any_order());
    let case =
        case.wait_for("a").wait_for("b").wait_for("bad").open("bad").act(|side| side.pause()).open("a").open("b");
    case.end().act(expect_tokens(2)).act(release).check();
}

#[test]
fn makeflags_forms() {
    let text = "rule r\n  command = touch $out\nbuild a: r\n";
    let flags = [
        "",
        " ",
        "n",
        "kn -j2 --jobserver-auth=fifo:../fifo",
        "ks -j2 --jobserver-auth=fifo:../fifo",
        " -j2 --jobserver-auth=fifo:../fifo",
        "-j2 --jobserver-auth=fifo:../nope",
        "--jobserver-auth=fifo:../t",
        "--jobserver-auth=semaphore",
        "--jobserver-auth=7,7",
        "--jobserver-fds=7,7",
        "--jobserver-auth=-1,-1",
        "--jobserver-auth=-2,7",
        "--jobserver-fds=x",
        "--jobserver-auth=x,y",
        "--jobserver-auth=",
        "--jobserver-auth=fifo:",
        "--jobserver-auth=fifo:../nope --jobserver-auth=fifo:../fifo",
        "--jobserver-auth=40,41",
        "--jobserver-auth=fifo:../fifo -- x=y",
    ];
    for flags in flags {
        let case = Case::manifest(text).act(fifo).run(with("", "+", flags)).touch("a").run(with("-v", "+", flags));
        case.run(with("-t clean", "+", flags)).run(with("--quiet", "+", flags)).without_answers().check();
    }
}

#[test]
fn pipe_limits_running_commands() {
    let case = Case::manifest(WIDE)
        .act(fifo)
        .start(with("", "+", "-j2 --jobserver-auth=7,7").any_order())
        .wait_for("a")
        .wait_for("b");
    let case = case.open("a").open("b").open("c").open("d");
    case.end().check();
}

#[test]
fn commands_see_makeflags() {
    let text = "rule r\n  command = echo \"$$MAKEFLAGS\" > $out\nbuild a: r\n";
    Case::manifest(text).act(fifo).run(with("", "+", FIFO)).check();
}

#[test]
fn an_interrupt_gives_tokens_back() {
    let case =
        Case::manifest(WIDE).act(fifo).act(hold).start(with("", "++", FIFO)).wait_for("a").wait_for("b").wait_for("c");
    case.signal("INT").end().act(expect_tokens(2)).act(release).check();
}

/// Keeps the fifo open after the program's end.
fn hold(side: &mut Side) {
    side.keep(OpenOptions::new().read(true).write(true).open(side.base().join("fifo")).expect("a fifo"));
}

fn release(side: &mut Side) {
    side.let_go();
}
