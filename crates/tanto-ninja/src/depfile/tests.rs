//! Tests of depfiles.

use super::*;
use tanto_testing::each_variant;

fn names(list: &[Cow<'_, [u8]>]) -> Vec<String> {
    list.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[track_caller]
fn check(text: &str, outs: &[&str], ins: &[&str]) {
    let found = parse(text.as_bytes()).unwrap();
    assert_eq!(names(&found.outs), outs, "targets of {text:?}");
    assert_eq!(names(&found.ins), ins, "prerequisites of {text:?}");
}

#[track_caller]
fn refuse(text: &str, why: &str) {
    assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), why, "of {text:?}");
}

#[test]
fn rules_and_continued_lines() {
    check("a.o: a.c a.h\n", &["a.o"], &["a.c", "a.h"]);
    check(" \\\n  out: in\n", &["out"], &["in"]);
    check("a.o: \\\n  b.h c.h\n", &["a.o"], &["b.h", "c.h"]);
    check("a.o: \\\r\n  b.h c.h\r\n", &["a.o"], &["b.h", "c.h"]);
    check("a.o: b\\\n c\\\r\n d", &["a.o"], &["b", "c", "d"]);
    check("a.o : b.c", &["a.o"], &["b.c"]);
    check("a.o:\tb.c\tc.c", &["a.o"], &["b.c", "c.c"]);
}

#[test]
fn empty_depfile_is_valid() {
    for text in ["", "\n\n", "  \t\n", "\r\n", "\\\n", "\0", ":", ": :\n"] {
        check(text, &[], &[]);
    }
    refuse("a.o a.c\n", "expected ':' in depfile");
    refuse("a", "expected ':' in depfile");
}

#[test]
fn rules_are_merged() {
    check("a a: x y\n", &["a"], &["x", "y"]);
    check("a b: x y", &["a", "b"], &["x", "y"]);
    check("a: x\na: \na:\n", &["a"], &["x"]);
    check("a: x\na: y\na \\\na: z\n", &["a"], &["x", "y", "z"]);
    check("a: x\r\na: y\r\na \\\r\na: z\r\n", &["a"], &["x", "y", "z"]);
    check(" a: x\n b: x y\n", &["a", "b"], &["x", "y"]);
}

#[test]
fn targets_that_are_prerequisites_are_dropped() {
    check("a: x y\nx:\ny:\n", &["a"], &["x", "y"]);
    check("a: x\nx:\na: y\ny:\n", &["a"], &["x", "y"]);
    check("a: x\nx: x\n", &["a"], &["x"]);
    refuse("a: x y\nx: z\ny:\n", "inputs may not also have inputs");
    refuse("a: x\nx b: z\n", "inputs may not also have inputs");
    // A line end resets the error state.
    check("a: x\nx:\nb: z\n", &["a", "b"], &["x", "z"]);
}

#[test]
fn escapes() {
    check("a\\ b\\ c:   d\\ e f", &["a b c"], &["d e", "f"]);
    check("a\\ b\\#c.h: \\\\\\\\\\  \\\\\\\\ \\\\s\\i\\\\#1", &["a b#c.h"], &["\\\\ ", "\\\\\\\\", "\\\\s\\i\\#1"]);
    check("\\!\\@\\#$$\\%\\^\\&\\[\\]\\\\:", &["\\!\\@#$\\%\\^\\&\\[\\]\\\\"], &[]);
    check("a: b$$c $d", &["a"], &["b$c", "d"]);
    check("a: b$c", &["a"], &["b", "c"]);
    check("a: \\$$", &["a"], &["\\$"]);
    check("a: b#c", &["a"], &["b", "c"]);
    check("a: b\\", &["a"], &["b"]);
    check("a: b\\\\", &["a"], &["b\\\\"]);
    check("a: b\\\\\nc:", &["a", "c"], &["b\\\\"]);
    check("a: b\\\rc", &["a"], &["b", "c"]);
    check("a: b\\\tc", &["a"], &["b\\\tc"]);
}

#[test]
fn colons() {
    check("a.o: //?/c:/b.h\n", &["a.o"], &["//?/c:/b.h"]);
    check("c\\:\\g\\a.o: \\\n c:\\g\\a.h \n", &["c:\\g\\a.o"], &["c:\\g\\a.h"]);
    check("a\\: x\na\\:\na\\:\r\na\\:\t\na\\:", &["a\\"], &["x"]);
    check("a\\\\:b: c", &["a\\:b"], &["c"]);
    check("a: b: c", &["a"], &["b", "c"]);
    check("a:: b", &["a:"], &["b"]);
    check("a\\:\nb: c", &["a\\", "b"], &["c"]);
}

#[test]
fn bytes_that_compilers_do_not_escape() {
    check(
        "C:/P\\ F\\ (x86)/M.h: e@q.h~ t+t-x!=1 {0},a[1]b@2%c",
        &["C:/P F (x86)/M.h"],
        &["e@q.h~", "t+t-x!=1", "{0},a[1]b@2%c"],
    );
    check("a&b.o a'b.o a\"b.o: F\u{e4}", &["a&b.o", "a'b.o", "a\"b.o"], &["F\u{e4}"]);
    check("a: b;c<d>e^f|g*h`i", &["a"], &["b", "c", "d", "e", "f", "g", "h", "i"]);
    check("a: b\0c", &["a"], &["b", "c"]);
}

#[test]
fn mutated_text_does_not_panic() {
    let seeds = ["a.o: b.h c\\ d.h \\\n  e\\#f.h $$g\\:h\n", "a\\: x\r\nx:\r\n", "\\\\\\ \\\\: \\", "a: b\n\nb: \n"];
    each_variant(&seeds, b"\\ :#$\n\r\0ab\t%", 20_000, |text| {
        if let Ok(found) = parse(text) {
            assert!(found.ins.iter().chain(&found.outs).all(|name| !name.is_empty()));
        }
    });
}
