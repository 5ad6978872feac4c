//! Tests of features that the reference ninja lacks: Tanto alone, or beside an older ninja. Skipped if another program
//! replaces Tanto, unless `TANTO_OWN` is set.

use std::path::{Path, PathBuf};

use crate::harness::{Ended, NinjaLog, Program, Run, Running, Side, fresh_dir, remove_dir, tanto};

mod bench;
mod format;
mod master;
mod monitor;
mod patterns;
mod recovery;
mod run;
mod sessions;
mod shortages;
mod snapshots;
mod state;
mod terminal;
mod threads;
mod turns;
mod versions;
mod watch;
mod writes;

fn alone(play: impl FnOnce(&mut Side)) {
    let is_set = |name| std::env::var_os(name).is_some();
    if is_set("TANTO_SUBJECT") && !is_set("TANTO_OWN") {
        return;
    }
    let dir = fresh_dir();
    play(&mut Side::new(&tanto(), dir.join("s")));
    remove_dir(&dir);
}

/// Runs beside ninja 1.11.1, if available, in the same tree.
fn beside_ninja_1_11(play: impl FnOnce(&mut Side, &Program)) {
    let Some(path) = std::env::var_os("TANTO_NINJA_1_11") else { return };
    let ninja = Program { name: "ninja 1.11.1", path: PathBuf::from(path) };
    alone(|side| play(side, &ninja));
}

fn good(side: &mut Side, args: &str) -> Ended {
    let ended = side.run(&Run::new(args));
    assert_eq!(ended.code, 0, "ninja {args}: {}", ended.text());
    ended
}

fn idle(side: &mut Side, args: &str) {
    let ended = good(side, args);
    assert!(ended.text().contains("no work to do"), "ninja {args}: {}", ended.text());
}

/// Runs `tanto` in the same environment as `ninja`.
fn tanto_does(side: &Side, words: &str) -> Ended {
    Running::start(&mut side.command_of(Path::new(env!("CARGO_BIN_EXE_tanto")), &Run::new(words).plain())).end()
}

fn other(side: &mut Side, program: &Program, run: &Run) -> Ended {
    side.tick();
    let ended = Running::start(&mut side.command_of(&program.path, run)).end();
    side.tick();
    ended
}

fn log(side: &Side) -> NinjaLog {
    NinjaLog::parse(&std::fs::read(side.root.join(".ninja_log")).unwrap_or_default())
}

/// Files with an old mtime.
fn files(side: &Side, files: &[(&str, &str)]) {
    for (path, text) in files {
        side.write(path, text.as_bytes(), Some(1_000_000_000));
    }
}
