//! Tests of features adopted from ninja's master branch.

use super::{alone, files, good, idle, log};
use crate::harness::{Run, Side};

const CHAIN: &str = "rule cp\n  command = cp $in $out\n  description = COPY $out\nbuild a: cp in\nbuild b: cp a\n";

fn chain(side: &Side) {
    files(side, &[("build.ninja", CHAIN), ("in", "")]);
}

/// The output of a dry run with this `--status`.
fn status(format: &str) -> Option<String> {
    let mut said = None;
    alone(|side| {
        chain(side);
        said = Some(side.run(&Run::new("-n").arg("--status").arg(format)).text());
    });
    said
}

fn says(format: &str, expected: &str) {
    if let Some(said) = status(format) {
        assert_eq!(said, expected, "--status {format:?}");
    }
}

#[test]
fn status_counts() {
    says("[$finished/$total] $description", "[1/2] COPY a\n[2/2] COPY b\n");
    says("<${started}|${running}|${remaining}|$progress>", "<1|1|1| 50%>\n<2|1|0|100%>\n");
    says("$$ $description", "$ COPY a\n$ COPY b\n");
}

#[test]
fn status_that_is_wrong() {
    let Some(said) = status("$nope") else { return };
    assert!(said.contains("ninja: fatal: unknown variable 'nope' in --status format"), "{said}");
    let said = status("${open").expect("Tanto plays");
    assert!(said.contains("ninja: fatal: invalid --status: "), "{said}");
}

#[test]
fn status_goes_before_the_environment() {
    alone(|side| {
        chain(side);
        let ended = side.run(&Run::new("-n").arg("--status=$finished|$description").env("NINJA_STATUS", "no "));
        assert_eq!(ended.text(), "1|COPY a\n2|COPY b\n");
    });
}

const RED: &str = "rule r\n  command = printf '\\033[31mred\\033[0m\\n'; touch $out\n  description = D\nbuild a: r\n";

#[test]
fn colours_forced_and_forbidden() {
    let cases: [(&[(&str, &str)], bool); 6] = [
        (&[("FORCE_COLOR", "1")], true),
        (&[("FORCE_COLOR", "0")], false),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], true),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "0")], true),
        (&[], false),
    ];
    for (env, coloured) in cases {
        alone(|side| {
            files(side, &[("build.ninja", RED)]);
            let run = env.iter().fold(Run::new(""), |run, (name, value)| run.env(name, value));
            assert_eq!(side.run(&run).text().contains("\x1b[31m"), coloured, "{env:?}");
        });
    }
}

#[test]
fn no_color_on_a_terminal() {
    alone(|side| {
        files(side, &[("build.ninja", RED)]);
        let ended = side.run(&Run::new("").terminal(60).env("NO_COLOR", "1"));
        assert!(!ended.text().contains("\x1b[31m"), "{}", ended.text());
        assert!(ended.text().contains('\r'), "it is a terminal still: {}", ended.text());
    });
}

#[test]
fn a_target_in_the_builddir() {
    alone(|side| {
        let text = "builddir = out\nrule t\n  command = touch $out\nbuild out/a: t\nbuild out/b: t\nbuild b: t\n";
        files(side, &[("build.ninja", text)]);
        assert!(good(side, "a").text().contains("touch out/a"));
        assert!(good(side, "b").text().contains("touch b"));
        assert!(good(side, "-t query a").text().starts_with("out/a:"));
        let ended = side.run(&Run::new("c"));
        assert!(ended.text().contains("unknown target 'c'"), "{}", ended.text());
    });
}

#[test]
fn restat_in_another_builddir() {
    alone(|side| {
        files(side, &[("build.ninja", "builddir = out\nrule t\n  command = touch $out\nbuild a: t\n")]);
        good(side, "");
        side.touch("a", Some(1_234_567_890));
        good(side, "-t restat");
        assert!(!side.root.join(".ninja_log").exists());
        good(side, "-t restat --builddir=out a");
        let text = std::fs::read_to_string(side.root.join("out/.ninja_log")).expect("a log");
        assert!(text.contains("\t1234567890000000000\ta\t"), "{text}");
        good(side, "-t restat --builddir out");
        assert!(log(side).records.is_empty());
    });
}

#[test]
fn several_dyndep_files_of_one_build() {
    alone(|side| {
        let text = "rule dd\n  command = cp dd1.in dd1; cp dd2.in dd2\nrule t\n  command = touch $out\nrule cp\n  command = cp $in $out\n\
                    build dd1 dd2: dd dd1.in dd2.in\nbuild a: t || dd1\n  dyndep = dd1\nbuild b: t || dd2\n  dyndep = dd2\nbuild x: cp x.in\nbuild all: phony a b\n";
        files(
            side,
            &[
                ("build.ninja", text),
                ("x.in", ""),
                ("dd1.in", "ninja_dyndep_version = 1\nbuild a: dyndep | x\n"),
                ("dd2.in", "ninja_dyndep_version = 1\nbuild b: dyndep | a\n"),
            ],
        );
        good(side, "all");
        idle(side, "-d explain all");
        side.touch("x.in", None);
        assert!(good(side, "-n all").text().contains("[3/3]"));
        side.touch("dd1.in", None);
        good(side, "all");
        idle(side, "-d explain all");
    });
}

#[test]
fn explain_tells_of_dyndep_files() {
    alone(|side| {
        let text = "rule cp\n  command = cp $in $out\nrule t\n  command = touch $out\nbuild dd: cp dd.in\nbuild a: t || dd\n  dyndep = dd\n";
        files(side, &[("build.ninja", text), ("dd.in", "ninja_dyndep_version = 1\nbuild a: dyndep\n")]);
        assert!(good(side, "-d explain a").text().contains("ninja explain: loading dyndep file 'dd'"));
        side.delete("a");
        assert!(good(side, "-d explain a").text().contains("ninja explain: loading dyndep file 'dd'"));
    });
}

#[test]
fn a_validation_of_a_newly_wanted_build_is_built() {
    alone(|side| {
        let text = "rule cp\n  command = cp $in $out\nrule t\n  command = touch $out\nbuild dd: cp dd.in\nbuild out: t || dd\n  dyndep = dd\n\
                    build a: t |@ v\nbuild v: t\n";
        files(side, &[("build.ninja", text), ("dd.in", "ninja_dyndep_version = 1\nbuild out: dyndep | a\n")]);
        good(side, "out");
        assert!(side.root.join("v").exists());
    });
}
