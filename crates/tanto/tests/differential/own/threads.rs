//! Tests that the number of threads does not change results.

use std::fmt::Write;

use crate::harness::{Run, Side};

use super::{alone, idle};

/// Enough edges for a prefetch with several threads.
const EDGES: usize = 1500;

/// A third of the sources is missing at first, and one has an impossible name.
fn start(side: &Side, bad: &str) {
    let mut text = "rule cp\n  command = cp $in $out\n".to_owned();
    for number in 0..EDGES {
        let _ = writeln!(text, "build o{number}: cp i{number}{}", if number == 1200 { bad } else { "" });
        if number % 3 != 0 {
            side.write(&format!("i{number}"), b"", Some(1_000_000_000));
        }
        if number % 5 == 0 {
            side.write(&format!("o{number}"), b"", Some(1_000_000_000));
        }
    }
    side.write("build.ninja", text.as_bytes(), None);
}

/// Runs with one thread, several, and the default; the output must be the same.
fn same(side: &mut Side, args: &str) -> String {
    let serial = side.run(&Run::new(args).env("TANTO_THREADS", "1"));
    for run in [Run::new(args), Run::new(args).env("TANTO_THREADS", "7")] {
        assert_eq!(side.run(&run), serial);
    }
    serial.text()
}

#[test]
fn plans_reasons_and_errors_are_the_same() {
    alone(|side| {
        start(side, "");
        let text = same(side, "-n -d explain -k0 o1 o2 o5 o10 o500 o499");
        assert!(text.contains("command line not found in log for o5"), "{text}");
        let text = same(side, "");
        assert!(text.contains("'i0', needed by 'o0', missing and no known rule to make it"), "{text}");
        start(side, &"x".repeat(300));
        let text = same(side, "");
        assert!(text.contains("'i0', needed by"), "{text}");
        (0..EDGES).step_by(3).for_each(|number| side.write(&format!("i{number}"), b"", Some(1_000_000_000)));
        let text = same(side, "-n -d explain");
        assert!(text.contains("ninja: error: stat(i1200x"), "{text}");
        start(side, "");
        let text = same(side, "-n -d explain");
        assert!(text.contains("[1500/1500]"), "{text}");
    });
}

#[test]
fn a_build_that_looked_ahead_is_done() {
    alone(|side| {
        let mut text = "rule touch\n  command = : > $out\n".to_owned();
        (0..40).for_each(|number| {
            let _ = write!(text, "build o{number}: touch");
            (0..20).for_each(|input| {
                side.write(&format!("i{number}.{input}"), b"", Some(1_000_000_000));
                let _ = write!(text, " i{number}.{input}");
            });
            text.push('\n');
        });
        side.write("build.ninja", text.as_bytes(), None);
        assert!(side.run(&Run::new("")).text().contains("[40/40]"));
        idle(side, "-d explain");
        side.write("i7.7", b"changed", None);
        let ended = side.run(&Run::new("-d explain"));
        assert!(ended.text().contains("[1/1]"), "{}", ended.text());
    });
}
