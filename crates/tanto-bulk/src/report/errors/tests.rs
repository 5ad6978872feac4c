//! Logs of real tools and their errors.

use tanto_testing::Random;

use super::*;

fn found(log: &str) -> (ErrorKind, Vec<String>) {
    let found = find(log.as_bytes()).expect("there is something");
    (found.kind, found.lines)
}

fn is(log: &str, kind: ErrorKind, lines: &[&str]) {
    assert_eq!(found(log), (kind, lines.iter().map(|&line| line.to_owned()).collect()), "{log}");
}

#[test]
fn process_list_is_not_an_error() {
    let list = "tanto: build hung: no output for 5s\nin /src, its processes were:\n    7 sleeps  sh -c cat\n    8 sleeps  cat\n";
    is(&format!("building x\nTerminated\n{list}"), ErrorKind::Unknown, &["building x", "Terminated"]);
    is(&format!("x.c:1:1: error: no\n{list}"), ErrorKind::Compiler, &["x.c:1:1: error: no"]);
    assert_eq!(find(list.as_bytes()), None);
}

#[test]
fn compilers_are_understood() {
    is(
        "gcc -Werror -c error.c -o error.o\nerror.c: In function 'main':\nerror.c:3:5: error: unknown type name 'foo'\n    \
         3 |     foo x;\n      |     ^~~\nerror.c:9:2: error: expected ';'\ngmake[2]: *** [Makefile:12: error.o] Error 1\n\
         gmake[1]: *** [Makefile:5: all] Error 2\n*** Error code 2\n\nStop.\nbmake: stopped in /usr/pkgsrc/devel/x\n",
        ErrorKind::Compiler,
        &["error.c:3:5: error: unknown type name 'foo'", "error.c:9:2: error: expected ';'"],
    );
    for line in [
        "x.c:1:10: fatal error: png.h: No such file or directory",
        "cc1: error: unrecognized command-line option '-Wfoo'",
        "{standard input}:12: Error: no such instruction: `foo'",
        "error[E0308]: mismatched types",
        "Foo.hs:1:2: error:",
        "./cmd/x.go:12:3: undefined: y",
        "Fatal Error: Cannot open module file 'mpi.mod' for reading at (1)",
        "error: unknown target CPU 'x'",
        "src/a.ts(1,2): error TS2304: Cannot find name 'x'.",
        "yacc: e - line 3 of \"x.y\", syntax error",
    ] {
        is(&format!("cc x\n{line}\nmake: *** [x.o] Error 1\n"), ErrorKind::Compiler, &[line]);
    }
}

#[test]
fn linkers_are_understood() {
    for line in [
        "x.c:(.text+0x5): undefined reference to `foo'",
        "/usr/bin/ld: cannot find -lpng",
        "ld: x.o: in function `f': multiple definition of `f'; y.o: first defined here",
        "ld.lld: error: undefined symbol: foo",
        "/usr/bin/ld: x.o: relocation R_X86_64_32 against `.rodata' can not be used when making a PIE object",
    ] {
        let log = format!("cc -o x x.o\n{line}\ncollect2: error: ld returned 1 exit status\n*** Error code 1\n");
        is(&log, ErrorKind::Linker, &[line]);
    }
}

#[test]
fn configure_scripts_are_understood() {
    is(
        "checking for gcc... cc\nchecking for error: no\nchecking for GLIB... no\nconfigure: error: Package requirements \
         (glib-2.0 >= 2.40) were not met:\n\nNo package 'glib-2.0' found\n\nConsider adjusting PKG_CONFIG_PATH\n*** Error \
         code 1\n",
        ErrorKind::Configure,
        &[
            "configure: error: Package requirements (glib-2.0 >= 2.40) were not met:",
            "No package 'glib-2.0' found",
            "Consider adjusting PKG_CONFIG_PATH",
        ],
    );
    is(
        "-- ErrorLines PNG\nCMake Error at CMakeLists.txt:5 (find_package):\n  By not providing \"FindQt5.cmake\" this \
         project has\n  asked CMake to find a package\n\n  more\n\n-- Configuring incomplete, errors occurred!\n",
        ErrorKind::Configure,
        &[
            "CMake Error at CMakeLists.txt:5 (find_package):",
            "  By not providing \"FindQt5.cmake\" this project has",
            "  asked CMake to find a package",
        ],
    );
    let meson = "../meson.build:12:0: ERROR: Dependency \"gtk4\" not found, tried pkgconfig";
    is(
        &format!("Run-time dependency gtk4 found: NO\n\n{meson}\n\nA full log can be found at x\n"),
        ErrorKind::Configure,
        &[meson],
    );
}

#[test]
fn fatal_check_has_its_error_in_the_line() {
    let size = "checking size of short... configure: error: cannot compute sizeof (short), 77";
    is(
        &format!(
            "checking for error... no\nconfigure: WARNING: png.h: not found\n{size}\nSee `config.log' for more details.\n\
             *** Error code 77\n\nStop.\n"
        ),
        ErrorKind::Configure,
        &[size],
    );
    let within = "checking size of short... configure: error: in `/scratch/x':";
    is(
        &format!("{within}\nconfigure: error: cannot compute sizeof (short)\nSee `config.log'\n*** Error code 77\n"),
        ErrorKind::Configure,
        &[within, "configure: error: cannot compute sizeof (short)", "See `config.log'"],
    );
}

#[test]
fn errors_go_before_warnings() {
    for warning in [
        "x.c:3:2: warning: 'error: ' looks like a syntax error [-Wformat]",
        "configure: WARNING: png.h: not found",
        "bmake: \"/usr/pkgsrc/mk/bsd.pkg.mk\" line 3: warning: duplicate script",
        "pkg_create: Warning: no symlink",
        "/usr/bin/ld: warning: cannot find -lpng; undefined symbol",
    ] {
        let missing = "install: bin/x: Permission denied";
        is(&format!("{warning}\n{missing}\n{warning}\n*** Error code 1\n"), ErrorKind::Missing, &[missing]);
        let error = "x.c:4:1: error: no such thing; warning: none";
        is(&format!("{warning}\n{error}\n{warning}\n*** Error code 1\n"), ErrorKind::Compiler, &[error]);
        assert_eq!(found(&format!("{warning}\na\n*** Error code 1\n")).1, [warning], "there is nothing else");
    }
}

#[test]
fn pkgsrc_is_understood() {
    is(
        "=> Checksum SHA1 OK for a.tgz\n=> Checksum SHA512 mismatch for a.tgz\nERROR: Make sure the Makefile and \
         checksum file (/x/distinfo)\nERROR: are up to date.\n*** Error code 1\n",
        ErrorKind::Checksum,
        &[
            "=> Checksum SHA512 mismatch for a.tgz",
            "ERROR: Make sure the Makefile and checksum file (/x/distinfo)",
            "ERROR: are up to date.",
        ],
    );
    is(
        "=> Checking file-check results for x-1\nERROR: ****************\nERROR: The following files are in the PLIST but \
         not in /d:\nERROR:         /d/bin/x\n*** Error code 1\n",
        ErrorKind::Pkgsrc,
        &["ERROR: The following files are in the PLIST but not in /d:", "ERROR:         /d/bin/x"],
    );
    is(
        "pkg_add: Warning: package `x-1' was built for a platform:\npkg_add: no pkg found for 'lib-1', sorry.\npkg_add: 1 \
         package addition failed\n",
        ErrorKind::Package,
        &["pkg_add: no pkg found for 'lib-1', sorry."],
    );
    is(
        "=> Applying pkgsrc patches for x-1\n1 out of 2 hunks FAILED -- saving rejects to file x.rej\nERROR: Patch \
         patches/patch-aa failed\n",
        ErrorKind::Patch,
        &["1 out of 2 hunks FAILED -- saving rejects to file x.rej", "ERROR: Patch patches/patch-aa failed"],
    );
}

#[test]
fn make_scripts_and_crashes_are_understood() {
    for (kind, line) in [
        (ErrorKind::Make, "gmake[1]: *** No rule to make target 'x', needed by 'all'.  Stop."),
        (ErrorKind::Make, "bmake: don't know how to make x. Stop"),
        (ErrorKind::Make, "ninja: error: 'x', needed by 'all', missing and no known rule to make it"),
        (ErrorKind::Script, "ModuleNotFoundError: No module named 'setuptools'"),
        (ErrorKind::Script, "Can't locate XML/Parser.pm in @INC (you may need to install it)"),
        (ErrorKind::Missing, "./configure: line 3: foo: command not found"),
        (ErrorKind::Crash, "x.c:1:1: internal compiler error: Segmentation fault"),
        (ErrorKind::Crash, "cp: writing 'x': No space left on device"),
    ] {
        is(&format!("doing\n{line}\nmake: *** [x] Error 1\n"), kind, &[line]);
    }
}

#[test]
fn possible_errors_are_a_fallback() {
    let harmless = "cat: VERSION: No such file or directory\n";
    is(
        &format!("{harmless}install: bin/x: Permission denied\n*** Error code 1\n"),
        ErrorKind::Missing,
        &["install: bin/x: Permission denied"],
    );
    is(&format!("{harmless}x.c:1:1: error: no\n*** Error code 1\n"), ErrorKind::Compiler, &["x.c:1:1: error: no"]);
    is("a\nb\n\nc\nd\n*** Error code 1\n\nStop.\n", ErrorKind::Unknown, &["b", "c", "d"]);
    is("only this", ErrorKind::Unknown, &["only this"]);
    assert_eq!((find(b""), find(b"\n \n")), (None, None));
}

#[test]
fn ignored_errors_are_skipped() {
    let ignored = "make: [Makefile:3: x] Error 1 (ignored)\n*** Error code 1 (ignored)\n";
    let far = "early.c:1:1: error: of a test program\n".to_owned() + &"cc x\n".repeat(500);
    is(
        &format!("{far}{ignored}late.c:1:1: error: why\n*** Error code 1\n"),
        ErrorKind::Compiler,
        &["late.c:1:1: error: why"],
    );
    // Output of parallel commands.
    is(
        "make: *** [a] Error 1\nb.c:1:1: error: why\nmake: *** [b] Error 1\n",
        ErrorKind::Compiler,
        &["b.c:1:1: error: why"],
    );
}

#[test]
fn colors_and_long_lines_are_handled() {
    is(
        "\x1b[1mx.c:1:1: \x1b[0m\x1b[0;1;31merror: \x1b[0mno\r\n*** Error code 1\n",
        ErrorKind::Compiler,
        &["x.c:1:1: error: no"],
    );
    is("[1/2] a\r[2/2] b\rx.c:1:1: error: no\n", ErrorKind::Compiler, &["x.c:1:1: error: no"]);
    let long = "x: error: ".to_owned() + &"y".repeat(1 << 21);
    assert_eq!(found(&long).1[0].len(), MAX_LINE_BYTES + 3);
    let same =
        "x.c:1:1: error: no\n".repeat(9) + &(0..9).map(|at| format!("y{at}: error: \u{7}\n")).collect::<String>();
    assert_eq!(found(&same).1, ["x.c:1:1: error: no", "y0: error:", "y1: error:", "y2: error:", "y3: error:"]);
}

#[test]
fn arbitrary_logs_do_not_panic() {
    const PIECES: [&[u8]; 14] = [
        b"\x1b[",
        b"\x1b",
        b"m",
        b"\n",
        b"\r",
        b"x.go:",
        b"1:2: ",
        b"rror: ",
        b"^ERROR: ",
        b"\xff\xfe",
        b":",
        b"make",
        b": *** [",
        b"] Error 1",
    ];
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let log = (0..random.below(30)).map(|_| *random.pick(&PIECES)).collect::<Vec<_>>().concat();
        if let Some(found) = find(&log) {
            assert!(!found.lines.is_empty() && found.lines.len() <= MAX_LINES, "{}", log.escape_ascii());
        }
    }
}
