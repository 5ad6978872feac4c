//! Unusual, damaged and overgrown logs. Where Tanto keeps more than the reference ninja, see `own`.

use crate::harness::{Case, Run, Side};

const CHAIN: &str = "rule cp\n  command = cp $in $out\nbuild a: cp in\nbuild b: cp a\nbuild c: cp b\n";

/// Builds a chain, edits the log's text, and builds again.
fn edited(edit: fn(String) -> String) -> Case {
    Case::manifest(CHAIN)
        .file("in", "")
        .run("")
        .act(move |side| rewrite(side, ".ninja_log", edit))
        .run("-d explain")
        .run("")
}

fn rewrite(side: &Side, name: &str, edit: fn(String) -> String) {
    let text = std::fs::read_to_string(side.root.join(name)).expect("a log");
    side.write(name, edit(text).as_bytes(), None);
}

#[test]
fn a_build_log_cut_to_its_first_line() {
    edited(|text| text.lines().next().expect("a head").to_owned() + "\n").check();
    edited(|_| String::new()).check();
}

#[test]
fn a_build_log_with_lines_that_are_none() {
    edited(|text| text.replace("\tb\t", "\t")).check();
    edited(|text| text + "rubbish\n\n\t\t\t\t\n").check();
    edited(|text| text + "x\ty\tz\tb\tw\n").check();
}

#[test]
fn a_build_log_with_odd_numbers() {
    edited(|text| text.replace("\tb\t", "x\tb\t")).check();
    edited(|text| text + "0\t0\t99999999999999999999\tb\t0\n").check();
    edited(|text| text + "-5\t-9\t-1\tb\tffffffffffffffffffff\n").check();
    edited(|text| text + "0\t0\t0\tb\t0\textra\n").check();
}

#[test]
fn a_build_log_from_the_future() {
    edited(|text| text.replace("v7", "v8")).check();
    edited(|text| text.replace("v7", "v99999")).check();
}

#[test]
fn a_build_log_from_long_ago() {
    edited(|text| text.replace("v7", "v4")).check();
    edited(|text| text.replace("# ninja log v7", "what is this")).check();
}

#[test]
fn the_last_record_counts() {
    edited(|text| {
        let line = text.lines().find(|line| line.contains("\tb\t")).expect("a record").to_owned();
        format!("{text}0\t0\t0\tb\tabc\n{line}\n")
    })
    .check();
    edited(|text| text + "0\t0\t1\tb\tabc\n").check();
}

#[test]
fn a_build_log_with_a_very_long_line() {
    edited(|text| {
        let at = text.find('\n').expect("a head") + 1;
        format!("{}0\t1\t2\t{}\tabc\n{}", &text[..at], "x".repeat(600_000), &text[at..])
    })
    .without_answers()
    .check();
}

/// Every record fifty times, and one of an obsolete output.
fn grown(text: String) -> String {
    let at = text.find('\n').expect("a head") + 1;
    format!("{}{}", &text[..at], format!("{}0\t1\t2\tdead\tabc\n", &text[at..]).repeat(50))
}

#[test]
fn a_grown_build_log_is_written_anew() {
    edited(grown).check();
}

#[test]
fn a_log_of_a_hundred_records_is_not() {
    edited(|text| text + &"0\t1\t2\tdead\tabc\n".repeat(97)).check();
    edited(|text| text + &"0\t1\t2\tdead\tabc\n".repeat(98)).check();
}

#[test]
fn read_only_tools_rewrite_nothing() {
    Case::manifest(CHAIN).file("in", "").run("").act(|side| rewrite(side, ".ninja_log", grown)).check();
    deps().run("").act(|side| grow_deps(side, 1200)).check();
}

#[test]
fn recompact_rewrites_logs_that_have_not_grown() {
    Case::manifest(CHAIN)
        .file("in", "")
        .run("")
        .act(|side| rewrite(side, ".ninja_log", |text| text + "0\t1\t2\tdead\tabc\n"))
        .run("-t recompact")
        .run("-t recompact")
        .run("")
        .check();
}

/// Two objects with deps, and a dependent.
fn deps() -> Case {
    let text = "rule cc\n  command = cat $in > $out; echo '$out: h1 h2' > $out.d\n  depfile = $out.d\n  deps = gcc\nrule cp\n  command = cat $in > $out\n\
                build o1: cc in\nbuild o2: cc in | o1\nbuild p: cp o1 o2\n";
    Case::manifest(text).file("in", "").file("h1", "").file("h2", "")
}

fn cut_deps(side: &Side, bytes: usize) {
    let log = std::fs::read(side.root.join(".ninja_deps")).expect("a log");
    side.write(".ninja_deps", &log[..log.len() - bytes], None);
}

/// Repeats the last record of the deps log.
fn grow_deps(side: &Side, times: usize) {
    let log = std::fs::read(side.root.join(".ninja_deps")).expect("a log");
    // The size, the output, the mtime in two words, and two inputs.
    let last = &log[log.len() - 24..];
    side.write(".ninja_deps", &[&log[..], &last.repeat(times)].concat(), None);
}

#[test]
fn a_deps_log_cut_in_a_record() {
    for bytes in [4, 8, 19] {
        deps()
            .run("")
            .act(move |side| cut_deps(side, bytes))
            .run("-d explain")
            .run("")
            .touch("h2")
            .run("")
            .run("")
            .check();
    }
}

#[test]
fn a_deps_log_cut_between_records() {
    deps().run("").act(|side| cut_deps(side, 24)).run("-d explain").run("").check();
}

#[test]
fn a_deps_log_with_a_bad_head() {
    let heads: [&[u8]; 6] = [
        b"",
        b"# ninja",
        b"# ninjadeps\n",
        b"# ninjadeps\n\x04\0\0",
        b"# ninjadeps\n\x03\0\0\0",
        b"rubbish rubbish rubbish",
    ];
    for head in heads {
        deps().run("").act(move |side| side.write(".ninja_deps", head, None)).run("-d explain").run("").check();
    }
}

#[test]
fn a_deps_log_with_a_record_too_large() {
    deps().run("").act(|side| append(side, &(1_u32 << 20).to_le_bytes())).run("-d explain").run("").check();
    deps().run("").act(|side| append(side, &0xffff_ffff_u32.to_le_bytes())).run("-d explain").run("").check();
}

fn append(side: &Side, bytes: &[u8]) {
    let log = std::fs::read(side.root.join(".ninja_deps")).expect("a log");
    side.write(".ninja_deps", &[&log[..], bytes].concat(), None);
}

#[test]
fn a_grown_deps_log_is_written_anew() {
    deps().run("").act(|side| grow_deps(side, 1200)).run("").run("").check();
    deps().run("").act(|side| grow_deps(side, 998)).run("").check();
    deps().run("").act(|side| grow_deps(side, 999)).run("").check();
}

#[test]
fn recompact_forgets_outputs_that_are_no_more() {
    let fewer = "rule cp\n  command = cat $in > $out\nbuild p: cp in\n";
    let case = deps().run("").file("build.ninja", fewer).delete("o1").delete("o2");
    case.run("-t recompact").run("").check();
}

#[test]
fn logs_that_are_gone() {
    deps().run("").delete(".ninja_log").run("-d explain").run("").check();
    deps().run("").delete(".ninja_deps").run("-d explain").run("").check();
    deps().run("").delete(".ninja_deps").delete(".ninja_log").run(Run::new("-n")).run("").check();
}

#[test]
fn deps_that_are_recorded_again_are_not_written() {
    deps().run("").touch("h1").run("").touch("h2").run("").touch("in").run("").check();
}
