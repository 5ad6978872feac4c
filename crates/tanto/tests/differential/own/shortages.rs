//! Tests with too few processes or file descriptors, and with very many commands at once: the build succeeds or fails
//! with a clear message, and the next one continues.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tanto_testing::Scratch;

use super::{alone, files, good, idle};
use crate::harness::{Ended, Running};

/// The number of commands; some limits are below it.
const COUNT: usize = 40;
/// A user id that nobody uses.
const NOBODY_ELSE: u32 = 2_000_000_000;

/// Commands that use only shell built-ins, take a moment, and record that they ran.
fn manifest() -> String {
    let line = "i=0; while [ $$i -lt 3000 ]; do i=$$((i+1)); done; echo $out >> ran; : > $out";
    let edges: String = (0..COUNT).map(|number| format!("build {number}: sh\n")).collect();
    format!("rule sh\n  command = {line}\n{edges}")
}

/// Builds under this limit of `prlimit`, optionally as another user.
fn build(root: &Path, tanto: &Path, limit: &str, user: Option<u32>) -> Ended {
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(tanto).args(["build", "-j20"]).current_dir(root);
    // Tests must not use the user's own cache.
    command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    Running::start(&mut command).end()
}

/// Builds under several limits, and finally without one. Finished commands must not run again.
fn suffers(root: &Path, tanto: &Path, name: &str, limits: &[usize], user: Option<u32>) {
    let mut refused = 0;
    for limit in limits {
        let _ = fs::remove_file(root.join("ran"));
        (0..COUNT).for_each(|number| drop(fs::remove_file(root.join(number.to_string()))));
        let ended = build(root, tanto, &format!("--{name}={limit}"), user);
        let text = ended.text();
        let is_clear = ["Resource temporarily unavailable", "Too many open files"].iter().any(|why| text.contains(why));
        assert!(ended.code == 0 || ended.code < 128 && is_clear, "{name} {limit}: {}, {text}", ended.code);
        refused += usize::from(ended.code != 0);
        let again = build(root, tanto, &format!("--{name}=1000"), user);
        assert_eq!(again.code, 0, "after {name} {limit}: {}", again.text());
        let ran = fs::read_to_string(root.join("ran")).expect("commands ran");
        let all: BTreeSet<&str> = ran.lines().collect();
        assert_eq!((all.len(), ran.lines().count()), (COUNT, COUNT), "{name} {limit}: {text}\n{}", again.text());
    }
    assert!((1..limits.len()).contains(&refused), "{refused} of {} were refused", limits.len());
}

#[test]
fn a_build_with_few_descriptors() {
    alone(|side| {
        files(side, &[("build.ninja", &manifest())]);
        let tanto = Path::new(env!("CARGO_BIN_EXE_tanto"));
        suffers(&side.root, tanto, "nofile", &[5, 8, 12, 16, 20, 24, 32, 48], None);
    });
}

/// The limit does not apply to root, and counts all processes of a user.
#[test]
fn a_build_with_few_processes() {
    alone(|_| {
        let place = Scratch::new("few-processes");
        place.write("build.ninja", manifest());
        // The same test may run concurrently.
        let user = NOBODY_ELSE + std::process::id();
        if chown(place.at("."), Some(user), Some(user)).is_err() {
            eprintln!("skipped: only root can become a user who runs nothing else");
            return;
        }
        // The program's own directory may not be accessible to other users.
        let tanto = place.at("tanto");
        fs::copy(env!("CARGO_BIN_EXE_tanto"), &tanto).expect("a copy");
        suffers(&place.at("."), &tanto, "nproc", &[1, 2, 3, 5, 9, 15], Some(user));
    });
}

/// Most commands wait for one command, which waits until all others have started; there is one slot for those.
#[test]
fn ten_thousand_commands_five_hundred_at_a_time() {
    const WAITING: usize = 499;
    alone(|side| {
        // Each reads one line of the pipe, which stays open until all have.
        let go = "exec 3<>go; yes '' | head -n 499 >&3; until [ $$(wc -l < ran) = 499 ]; do sleep 0.02; done";
        let mut text = format!(
            "rule wait\n  command = read line < go; echo >> ran\nrule true\n  command = true\nrule go\n  command = {go}\n"
        );
        (0..WAITING).for_each(|number| text += &format!("build w{number}: wait\n"));
        let quick: Vec<String> = (WAITING + 1..10_000).map(|number| format!("q{number}")).collect();
        quick.iter().for_each(|name| text += &format!("build {name}: true\n"));
        text += &format!("build end: go || {}\n", quick.join(" "));
        files(side, &[("build.ninja", &text)]);
        assert!(Command::new("mkfifo").arg(side.root.join("go")).status().expect("mkfifo").success());
        let ended = good(side, "-j500");
        assert!(ended.text().contains("[10000/10000] "), "{}", ended.text());
        (0..WAITING).map(|number| format!("w{number}")).chain(quick).for_each(|name| side.touch(&name, None));
        side.touch("end", None);
        idle(side, "");
    });
}
