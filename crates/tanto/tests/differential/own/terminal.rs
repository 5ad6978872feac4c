//! Tests of the terminal state after an interrupted build.

use super::{alone, files};
use crate::harness::Run;

const ASK: &str = "rule ask\n  command = stty -echo; stty -g > $$B/during; barrier b\n  pool = console\nbuild b: ask\n";

/// The shell stays, and checks the terminal before and after.
const LOOK: &str = "trap : INT; stty -g > $B/before; ninja; echo ended with $?; stty -g > $B/after; exit;";

#[test]
fn an_interrupt_gives_the_terminal_back() {
    alone(|side| {
        files(side, &[("build.ninja", ASK)]);
        side.start(&Run::new("").terminal(60).shell(LOOK));
        side.wait_for("b");
        side.type_keys("\x03");
        let ended = side.end();
        assert!(ended.text().contains("ended with 130"), "{}", ended.text());
        let settings = |when| std::fs::read_to_string(side.base().join("b").join(when)).expect("stty wrote it");
        assert_ne!(settings("during"), settings("before"), "the command turned the echo off");
        assert_eq!(settings("after"), settings("before"));
    });
}
