//! Tests of `tanto build --watch`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{alone, files, tanto_does};
use crate::harness::{Ended, Run, Running, Side, send_signal};

/// Each output contains the text of all files it depends on; every file is found in a different way.
const TEXT: &str = "include rules.ninja\nbuild all: phony logged found\nbuild logged: logged src/in | src/implicit\n\
                    build found: found src/in\n";
const RULES: &str = "rule logged\n  command = cat $in src/implicit inc/logged.h $more > $out; \
                     echo '$out: inc/logged.h' > $out.d\n  depfile = $out.d\n  deps = gcc\n\
                     rule found\n  command = cat inc/found.h > $out; echo '$out: inc/found.h' > $out.d\n  \
                     depfile = $out.d\n";

struct Watched {
    running: Running,
    root: PathBuf,
}

impl Watched {
    fn start(side: &Side, words: &str) -> Watched {
        let run = Run::new(&format!("build --watch {words}")).plain();
        let running = Running::start(&mut side.command_of(env!("CARGO_BIN_EXE_tanto").as_ref(), &run));
        Watched { running, root: side.root.clone() }
    }

    fn until(&mut self, path: &str, text: &str) {
        let read = || fs::read_to_string(self.root.join(path)).unwrap_or_default();
        let until = Instant::now() + Duration::from_secs(30);
        while read() != text && Instant::now() < until {
            assert!(self.running.runs(), "it has ended");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(read(), text, "{path}");
    }

    /// Waits until a build has failed.
    fn until_failed(&mut self) {
        self.until("failed", "failed\n");
        fs::remove_file(self.root.join("failed")).expect("a file");
    }

    fn file_of(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.running.id().to_string()).join(name)
    }

    /// Waits until no build runs and the process has left the tree.
    fn until_idle(&mut self) {
        let until = Instant::now() + Duration::from_secs(30);
        while fs::read_link(self.file_of("cwd")).expect("a process") != Path::new("/") {
            assert!(Instant::now() < until && self.running.runs());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(mut self) -> Ended {
        self.until_idle();
        send_signal("INT", self.running.id(), true);
        let ended = self.running.end();
        assert_eq!(ended.code, 130, "{}", ended.text());
        ended
    }
}

fn start(side: &Side) {
    files(side, &[("build.ninja", TEXT), ("rules.ninja", RULES), ("src/in", "in "), ("src/implicit", "implicit ")]);
    files(side, &[("inc/logged.h", "logged"), ("inc/found.h", "found"), ("src/other", "other")]);
}

#[test]
fn a_change_of_anything_that_a_target_depends_on_builds_it() {
    alone(|side| {
        start(side);
        let mut watched = Watched::start(side, "");
        watched.until("logged", "in implicit logged");
        watched.until("found", "found");
        for (path, text, output, expected) in [
            ("src/in", "IN ", "logged", "IN implicit logged"),
            ("src/implicit", "IMPLICIT ", "logged", "IN IMPLICIT logged"),
            ("inc/logged.h", "LOGGED", "logged", "IN IMPLICIT LOGGED"),
            ("inc/found.h", "FOUND", "found", "FOUND"),
        ] {
            side.tick();
            side.write(path, text.as_bytes(), None);
            watched.until(output, expected);
        }
        side.write("build.ninja", format!("more = src/other\n{TEXT}").as_bytes(), None);
        watched.until("logged", "IN IMPLICIT LOGGEDother");
        side.write("rules.ninja", RULES.replace("$more", "").as_bytes(), None);
        watched.until("logged", "IN IMPLICIT LOGGED");
        // Editors save files like this.
        side.tick();
        side.write("src/in~", b"new ", None);
        fs::rename(side.root.join("src/in~"), side.root.join("src/in")).expect("a rename");
        watched.until("logged", "new IMPLICIT LOGGED");
        let text = watched.end().text();
        for line in ["'inc/found.h' changed", "'rules.ninja' changed", "directories for changes; Ctrl-C ends it"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    });
}

#[test]
fn a_change_of_another_file_does_not() {
    alone(|side| {
        start(side);
        let mut watched = Watched::start(side, "logged");
        watched.until("logged", "in implicit logged");
        watched.until_idle();
        side.write("src/other", b"OTHER", None);
        side.write("inc/found.h", b"FOUND", None);
        side.write("src/in", b"IN ", None);
        watched.until("logged", "IN implicit logged");
        let text = watched.end().text();
        assert!(text.contains("tanto: 'src/in' changed\n") && !text.contains("inc/found.h"), "{text}");
        assert!(!side.root.join("found").exists());
    });
}

#[test]
fn a_change_during_a_build_is_not_lost() {
    alone(|side| {
        let text = "rule slow\n  command = cat in h > $out.tmp; echo '$out: h' > $out.d; barrier read; mv $out.tmp $out\n  \
                    depfile = $out.d\n  deps = gcc\nbuild out: slow in\n";
        files(side, &[("build.ninja", text), ("in", "old"), ("h", "old")]);
        let mut watched = Watched::start(side, "");
        side.wait_for("read");
        side.write("in", b"new", None);
        side.open("read");
        watched.until("out", "newold");
        watched.until_idle();
        // A header that was unknown before this build.
        side.reset_barriers();
        side.delete("out");
        side.write("in", b"two", None);
        side.wait_for("read");
        side.write("h", b"new", None);
        side.open("read");
        watched.until("out", "twonew");
        watched.end();
    });
}

#[test]
fn a_header_that_changes_during_the_first_build_is_not_lost() {
    alone(|side| {
        let text = "rule slow\n  command = cat h/h > $out.tmp; echo '$out: h/h' > $out.d; barrier read; mv $out.tmp $out\n  \
                    depfile = $out.d\n  deps = gcc\nbuild out: slow\n";
        files(side, &[("build.ninja", text), ("h/h", "old")]);
        let mut watched = Watched::start(side, "");
        side.wait_for("read");
        side.write("h/h", b"new", None);
        side.open("read");
        watched.until("out", "new");
        watched.end();
    });
}

#[test]
fn a_build_that_fails_does_not_end_it() {
    alone(|side| {
        files(side, &[("build.ninja", "include rules\nbuild out: run in\n"), ("rules", "rule run\n"), ("in", "one")]);
        let mut watched = Watched::start(side, "");
        watched.until_idle();
        // The first error is in a file that only the broken manifest includes.
        side.write(
            "rules",
            b"rule run\n  command = if grep bad in; then echo failed > failed; false; else cp in $out; fi\n",
            None,
        );
        watched.until("out", "one");
        side.tick();
        side.write("in", b"bad", None);
        watched.until_failed();
        side.write("in", b"two", None);
        watched.until("out", "two");
        // Removes an input and restores it.
        side.delete("in");
        side.tick();
        side.write("in", b"three", None);
        watched.until("out", "three");
        let text = watched.end().text();
        assert!(text.contains("tanto: error: rules:"), "{text}");
    });
}

#[test]
fn a_build_that_fails_before_it_knows_its_sources_does_not_end_it() {
    alone(|side| {
        // The log directory cannot be created.
        let rule = "rule cp\n  command = cp $in $out\nbuild out: cp in\n";
        files(side, &[("build.ninja", &format!("builddir = in/logs\n{rule}")), ("in", "one")]);
        let mut watched = Watched::start(side, "");
        watched.until_idle();
        side.tick();
        side.write("build.ninja", rule.as_bytes(), None);
        watched.until("out", "one");
        side.write("in", b"two", None);
        watched.until("out", "two");
        watched.end();
    });
}

#[test]
fn a_directory_may_be_replaced() {
    alone(|side| {
        files(side, &[("build.ninja", "rule cp\n  command = cp $in $out\nbuild out: cp a/b/in\n"), ("a/b/in", "one")]);
        files(side, &[("next/b/in", "two")]);
        let mut watched = Watched::start(side, "");
        watched.until("out", "one");
        watched.until_idle();
        side.delete("a");
        side.touch("next/b/in", None);
        fs::rename(side.root.join("next"), side.root.join("a")).expect("a rename");
        watched.until("out", "two");
        side.tick();
        side.write("a/b/in", b"three", None);
        watched.until("out", "three");
        watched.end();
    });
}

#[test]
fn nothing_is_held_while_it_waits() {
    alone(|side| {
        start(side);
        // Snapshots are mapped and sessions open during a build.
        for _ in 0..2 {
            let run = Run::new("build").plain().env("TANTO_SNAPSHOT", "always");
            assert_eq!(Running::start(&mut side.command_of(env!("CARGO_BIN_EXE_tanto").as_ref(), &run)).end().code, 0);
        }
        let mut watched = Watched::start(side, "");
        watched.until_idle();
        let fds = fs::read_dir(watched.file_of("fd")).expect("descriptors");
        let open: Vec<PathBuf> = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
        assert!(open.iter().all(|path| !path.starts_with(&side.root)), "{open:?}");
        let maps = fs::read_to_string(watched.file_of("maps")).expect("maps");
        assert!(!maps.contains(&side.root.display().to_string()), "{maps}");
        // Another build does not wait, and does not cause a build of up-to-date targets.
        side.write("src/in", b"IN ", None);
        let other = tanto_does(side, "build");
        assert!(other.code == 0 && !other.text().contains("waiting"), "{}", other.text());
        watched.until("logged", "IN implicit logged");
        watched.end();
    });
}

#[test]
fn an_interrupt_of_a_command_ends_it() {
    alone(|side| {
        files(side, &[("build.ninja", "rule run\n  command = barrier here\nbuild out: run\n")]);
        let watched = Watched::start(side, "");
        side.wait_for("here");
        send_signal("INT", watched.running.id(), true);
        let ended = watched.running.end();
        assert_eq!(ended.code, 130, "{}", ended.text());
        assert!(ended.text().contains("build stopped: interrupted by user"), "{}", ended.text());
        // The same for a build of the manifest, which uses different code.
        side.reset_barriers();
        files(
            side,
            &[("build.ninja", "rule run\n  command = barrier here\nbuild build.ninja: run new\n"), ("new", "")],
        );
        side.touch("new", None);
        let watched = Watched::start(side, "");
        side.wait_for("here");
        send_signal("INT", watched.running.id(), true);
        assert_eq!(watched.running.end().code, 130);
    });
}

#[test]
fn the_limit_of_watches_is_named() {
    alone(|side| {
        start(side);
        // The limit belongs to the user namespace.
        let script = "echo 1 > /proc/sys/user/max_inotify_watches && exec \"$0\" build --watch";
        let mut limited = side.command_of("unshare".as_ref(), &Run::new("").plain());
        limited.args(["-Ur", "sh", "-c", script, env!("CARGO_BIN_EXE_tanto")]);
        if !Command::new("unshare").args(["-Ur", "true"]).stderr(Stdio::null()).status().is_ok_and(|it| it.success()) {
            println!("skipped: no user namespaces here");
            return;
        }
        let ended = Running::start(&mut limited).end();
        assert_eq!(ended.code, 1, "{}", ended.text());
        let text = ended.text();
        assert!(text.contains("tanto: fatal: watching 'inc': the limit fs.inotify.max_user_watches ("), "{text}");
        assert!(text.contains("is reached; to raise it: sysctl fs.inotify.max_user_watches=524288\n"), "{text}");
    });
}
