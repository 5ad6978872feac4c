//! Ninja's flags, the status line, and colors.

use crate::harness::{Case, Run};

const PLAIN: &str = "rule r\n  command = cp $in $out\n  description = COPY $out\nbuild a: r in\nbuild b: r a\n";

fn plain() -> Case {
    Case::manifest(PLAIN).file("in", "")
}

#[test]
fn version() {
    plain().run("--version").run("--version -x").run("-v --version").check();
}

#[test]
fn help_goes_to_stderr() {
    fn head(text: &str) -> String {
        let known = |line: &&str| ["usage:", "if targets", "options:", "  -j N"].iter().any(|k| line.starts_with(k));
        text.lines().filter(known).collect::<Vec<_>>().join("\n")
    }
    plain().run(Run::new("-h").plain().view(head)).run(Run::new("--help").plain().view(head)).check();
}

#[test]
fn unknown_options() {
    fn first(text: &str) -> String {
        text.lines().next().unwrap_or("").replace('@', "").replace("/bin/", "")
    }
    for option in ["-x", "--nope", "-j", "-t", "--version=3", "--verbos"] {
        plain().run(Run::new(option).plain().view(first)).check();
    }
}

#[test]
fn numbers_that_are_none() {
    for option in ["-jx", "-j-1", "-j3x", "-kx", "-k1x", "-lx", "-l1x", "-j99999999999", "-k99999999999", "-l-1"] {
        plain().run(Run::new(option).plain()).check();
    }
}

#[test]
fn options_after_targets() {
    plain()
        .run("a -v")
        .run("b --quiet -n")
        .run("-- -v")
        .run("-n -- b")
        .run("-vn b")
        .run("-nv -d explain b -j2")
        .check();
}

#[test]
fn options_apart_and_joined() {
    plain()
        .run("-C .")
        .run("-C. -j 2 -k 3 -l 9 -f build.ninja")
        .run("-l0 -fbuild.ninja")
        .run("-w phonycycle=err")
        .check();
}

#[test]
fn verbose_and_quiet() {
    plain()
        .run("-v")
        .touch("in")
        .run("--verbose")
        .touch("in")
        .run("--quiet")
        .run("--quiet")
        .touch("in")
        .run("-n --quiet")
        .check();
}

#[test]
fn quiet_failures() {
    let text =
        "rule r\n  command = echo hi; test $out = a && touch $out\n  description = D $out\nbuild a: r\nbuild b: r a\n";
    Case::manifest(text).run("--quiet").run("--quiet").run("--quiet --verbose").check();
}

#[test]
fn another_directory() {
    let case = Case::new().file("d e/build.ninja", PLAIN).file("d e/in", "");
    let there = || Run::default().arg("-C").arg("d e");
    let case =
        case.run(there()).run(there().arg("--quiet")).run(there().arg("-n")).run(there().arg("-t").arg("targets"));
    case.run("-C nope").run("-C nope -t targets").without_answers().check();
}

#[test]
fn another_manifest() {
    let case = Case::new().file("x.ninja", PLAIN).file("in", "").run("-f x.ninja").run("-f nope").run("");
    case.run("-f ./x.ninja").flags("-f x.ninja").check();
}

#[test]
fn an_empty_manifests_name() {
    plain().run(Run::default().arg("-f").arg("")).check();
}

#[test]
fn debug_modes() {
    plain().run("-d list").run("-d nope").run("-d explai").run("-d nostatcache -d keeprsp -d keepdepfile").check();
}

#[test]
fn stats() {
    fn names(text: &str) -> String {
        let word = |line: &str| line.split_whitespace().next().unwrap_or("").to_owned();
        let skip = |word: &String| !word.starts_with("path->node");
        let mut words: Vec<String> = text.lines().map(word).filter(skip).collect();
        words.sort();
        words.retain(|word| word == "ninja:" || word == "metric" || word.starts_with('['));
        words.join("\n")
    }
    plain().run(Run::new("-d stats").view(names)).run(Run::new("-d stats").view(names)).check();
}

#[test]
fn keeprsp_keeps_it() {
    let text = "rule r\n  command = cat $out.rsp > $out; test $out = a\n  rspfile = $out.rsp\n  rspfile_content = c $in d\n\
                build a: r in\nbuild b: r a\n";
    Case::manifest(text)
        .file("in", "")
        .run("a")
        .run("b")
        .run("b")
        .touch("in")
        .run("-d keeprsp a")
        .run("a")
        .run("-t clean")
        .check();
}

#[test]
fn warnings() {
    plain()
        .run("-w list")
        .run("-w nope")
        .run("-w phonycycle=er")
        .run("-w dupbuild=err")
        .run("-w dupbuild=warn -w depfilemulti=err")
        .run("-w depfilemulti=warn -w phonycycle=warn")
        .run("-w dupbuild=x")
        .check();
}

#[test]
fn status_counts() {
    let status = |text: &str| Run::new("").env("NINJA_STATUS", text);
    let case = plain().run(status("[%s/%t/%r/%u/%f/%p/%%] ")).touch("in").run(status("")).touch("in").run(status("%f"));
    case.touch("in").run(status("no place ")).check();
}

#[test]
fn status_times() {
    fn shape(text: &str) -> String {
        let mut shape = String::new();
        for c in text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }) {
            if c != '9' || !shape.ends_with('9') {
                shape.push(c);
            }
        }
        shape
    }
    for place in ["%e", "%w", "%o"] {
        plain().run(Run::new("").env("NINJA_STATUS", &format!("<{place}> ")).view(shape)).check();
    }
}

#[test]
fn status_estimates_are_there() {
    fn only_rest(text: &str) -> String {
        text.lines().map(|line| line.split_once("> ").map_or(line, |(_, rest)| rest)).collect::<Vec<_>>().join("\n")
    }
    for place in ["%E", "%W", "%P", "%c"] {
        let run = || Run::new("").env("NINJA_STATUS", &format!("<{place}> ")).view(only_rest);
        plain().run(run()).touch("in").run(run()).check();
    }
}

/// In a dry run, the reference ninja notices the error only after the first command.
#[test]
fn status_that_is_wrong() {
    for status in ["%x", "%", "%f %"] {
        plain().run(Run::new("-n").env("NINJA_STATUS", status)).without_answers().check();
    }
}

const RED: &str = "rule r\n  command = printf '\\033[31mred\\033[0m \\033[1;2Kx\\033]0;t\\007\\n'; touch $out; test $out = a\nbuild a: r\nbuild b: r a\n";

#[test]
fn colours_are_stripped_in_a_file() {
    Case::manifest(RED).run("").check();
}

#[test]
fn colours_may_be_forced() {
    Case::manifest(RED).run(Run::new("").env("CLICOLOR_FORCE", "1")).check();
    Case::manifest(RED).run(Run::new("").env("CLICOLOR_FORCE", "0")).check();
    Case::manifest(RED).run(Run::new("").env("CLICOLOR_FORCE", "")).check();
}

#[test]
fn the_load_limit_lets_one_run() {
    plain().run(Run::new("-l 0.0001").plain()).run(Run::new("-l 1000").plain()).check();
}

#[test]
fn load_and_jobs_that_are_zero() {
    plain().run("-j0 -k0 -l0").check();
}

#[test]
fn the_same_target_twice() {
    plain().run("b b ./a a").run("b b").check();
}

#[test]
fn a_closed_stdout() {
    let text = "rule r\n  command = touch $out; echo x\nbuild a: r\n";
    Case::manifest(text).run("").run(Run::new("a")).check();
}
