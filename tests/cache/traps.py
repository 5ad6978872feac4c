#!/usr/bin/env python3
"""Changes of files and variables that a compile may have looked at: a cached result must not hide them.

    tests/cache/traps.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import os
import shutil
import subprocess
import time

from tree import CLANG, CLANG_FORK, GCC, Tree, main, make_wrapper, of_each

FILES = {"a.c": '#include "h.h"\nint f(void) { return H; }\n', "inc/h.h": "#define H 1\n"}


def keep_times(path, edit):
    times = path.stat()
    edit()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@of_each()
def equal_size_and_mtime(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    tree.trap(lambda: keep_times(tree.path("inc/h.h"), lambda: tree.write("inc/h.h", "#define H 2\n")), "changed")
    tree.trap(lambda: keep_times(tree.path("a.c"), lambda: tree.write("a.c", FILES["a.c"].replace("H;", "7;"))))


@of_each()
def a_large_file_of_equal_size_and_mtime(tanto, place, kind):
    """The digests of large files are kept between builds."""
    files = {"a.c": '__asm__(".incbin \\"../data\\"");\n', "data": b"x" * (3 << 20)}
    tree = Tree(tanto, place, files, kind)
    tree.trap(lambda: keep_times(tree.path("data"), lambda: tree.write("data", b"x" * (2 << 20) + b"y" * (1 << 20))), "changed")


@of_each(GCC, CLANG)
def two_edits_within_a_tick(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    tree.fill()
    for number in range(8):
        for text in (f"#define H {number}1\n", f"#define H {number}2\n"):
            tree.write("inc/h.h", text)
            tree.build()
        tree.judge()
        tree.write("inc/h.h", f"#define H {number}3\n")
        # Restored or compiled in the same tick as the edit.
        tree.judge(empty=False)


@of_each()
def an_older_file_takes_the_place_of_a_header(tanto, place, kind):
    tree = Tree(tanto, place, FILES | {"old.h": "#define H 2\n"}, kind)
    os.utime(tree.path("old.h"), (1_000_000_000, 1_000_000_000))
    tree.trap(lambda: tree.path("old.h").rename(tree.path("inc/h.h")), "changed")


@of_each()
def a_header_found_earlier(tanto, place, kind):
    edits = {"inc/h.h": "#define H 1\n", "first/other.h": ""}
    tree = Tree(tanto, place, FILES | edits, kind, flags="-I../missing -I../first -I../inc")
    tree.trap(lambda: tree.write("first/h.h", "#define H 2\n"), "changed")
    # The directory does not exist yet.
    tree.trap(lambda: tree.write("missing/h.h", "#define H 3\n"), "changed")
    # Beside the source.
    tree.trap(lambda: tree.write("h.h", "#define H 4\n"), "changed")
    tree.trap(lambda: tree.path("h.h").unlink(), "hit")


@of_each()
def a_header_is_removed(tanto, place, kind):
    tree = Tree(tanto, place, FILES | {"last/h.h": "#define H 9\n"}, kind, flags="-I../inc -idirafter ../last")
    tree.trap(lambda: tree.path("inc/h.h").unlink(), "changed")
    tree.trap(lambda: tree.path("last/h.h").unlink(), "changed")
    # Failed: stored nothing.
    assert tree.judge("changed").code != 0


@of_each(GCC)
def a_precompiled_header_appears(tanto, place, kind):
    tree = Tree(tanto, place, FILES | {"other.h": "#define H 2\n"}, kind)
    make = ["gcc", "-x", "c-header", "other.h", "-o", "inc/h.h.gch"]
    tree.trap(lambda: subprocess.run(make, cwd=place, check=True), "changed")
    # A directory of precompiled headers.
    tree.path("inc/h.h.gch").unlink()
    tree.path("inc/h.h.gch").mkdir()
    make[-1] += "/one"
    tree.trap(lambda: subprocess.run(make, cwd=place, check=True))


@of_each(CLANG, CLANG_FORK)
def precompiled_headers_of_clang_are_not_cached(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind, flags="-include ../inc/h.h")
    make = [kind[0], "-x", "c-header", "inc/h.h", "-o", "inc/h.h.pch"]
    subprocess.run(make, cwd=place, check=True)
    for _ in range(2):
        assert tree.judge().hits() == []
    tree.plan("", "build h.h.gch: cc ../inc/h.h\n")
    assert tree.judge("not cacheable").hits() == []


@of_each()
def included_binary_files(tanto, place, kind):
    kind = CLANG if kind == CLANG_FORK else kind
    tree = Tree(tanto, place, {"a.S": '.incbin "data"\n', "inc/data": "one", "first/x": ""}, kind)
    tree.plan("-Wa,-I../inc" if kind == GCC else "-I../inc", "build a.o: cc ../a.S\n")
    tree.plan("-I../first -I../inc", "build a.o: cc ../a.S\n")
    tree.trap(lambda: keep_times(tree.path("inc/data"), lambda: tree.write("inc/data", "two")), "changed")
    tree.trap(lambda: tree.write("first/data", "six"), "changed")
    tree.trap(lambda: tree.write("build/data", "ten"), "changed")


@of_each()
def has_include_of_a_file_that_appears(tanto, place, kind):
    source = '#if __has_include("b.h") || __has_include(<c.h>)\nint b;\n#endif\n#if __has_include("d")\nint d;\n#endif\n'
    tree = Tree(tanto, place, {"a.c": source, "inc/x.h": ""}, kind)
    tree.trap(lambda: tree.write("inc/b.h", ""), "changed")
    tree.trap(lambda: tree.path("inc/b.h").unlink(), "hit")
    tree.trap(lambda: tree.write("inc/c.h", ""), "changed")
    tree.trap(lambda: tree.path("inc/d").mkdir(), changes=False)
    tree.path("inc/d").rmdir()
    tree.trap(lambda: tree.write("inc/d", ""))


@of_each(GCC, CLANG)
def directories_and_files_take_each_others_place(tanto, place, kind):
    files = {"a.c": FILES["a.c"], "one/h.h": "#define H 1\n", "two/h.h": "#define H 2\n", "three/h.h": "#define H 3\n"}
    tree = Tree(tanto, place, files, kind, flags="-I../one -I../two -I../three")

    def directory():
        tree.path("one/h.h").unlink()
        tree.path("one/h.h").mkdir()

    def file():
        shutil.rmtree(tree.path("two"))
        tree.write("two", "")

    tree.trap(directory, "changed")
    tree.trap(file, "changed")
    # A pipe is not waited for.
    tree.path("one/h.h").rmdir()
    tree.path("one/h.h").symlink_to("/dev/null")
    assert tree.judge("changed").code != 0


@of_each()
def links_to_headers_are_retargeted(tanto, place, kind):
    tree = Tree(tanto, place, FILES | {"v1.h": "#define H 1\n", "v2.h": "#define H 2\n", "d/h.h": "#define H 3\n"}, kind)
    tree.link("inc/h.h", "../v1.h")
    tree.trap(lambda: tree.link("inc/h.h", "../v2.h"), "changed")
    tree.path("inc/h.h").unlink()
    tree.path("inc").rename(tree.path("real"))
    tree.write("real/h.h", "#define H 1\n")
    tree.link("inc", "real")
    tree.trap(lambda: tree.link("inc", "d"), "changed")


@of_each()
def a_link_to_a_directory_that_was_searched_before(tanto, place, kind):
    """Compilers search a directory once, whatever its names are. The second name now leads elsewhere."""
    files = {"a.c": '#include "h.h"\n#include "only.h"\nint f(void) { return H + O; }\n', "one/h.h": "#define H 1\n",
             "last/only.h": "#define O 1\n", "other/only.h": "#define O 2\n"}
    tree = Tree(tanto, place, files, kind, flags="-I../one -I../two -I../last")
    tree.link("two", "one")
    tree.trap(lambda: tree.link("two", "other"), "changed")
    tree.trap(lambda: tree.link("two", "one"), "hit")


@of_each()
def a_link_to_a_directory_becomes_a_copy(tanto, place, kind):
    """Then #include_next finds the header once more."""
    text = "#ifndef H\n#define H 1\n#include_next <h.h>\n#else\nint twice;\n#endif\n"
    files = {"a.c": '#include "h.h"\nint f(void) { return H; }\n', "one/h.h": text, "three/h.h": "int three;\n"}
    tree = Tree(tanto, place, files, kind, flags="-I../one -I../two -I../three")
    tree.link("two", "one")

    def copy():
        tree.path("two").unlink()
        shutil.copytree(tree.path("one"), tree.path("two"))

    tree.trap(copy, "changed")


@of_each(GCC, CLANG)
def files_named_by_options(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind, flags="-I../inc -include ../pre.h")
    tree.write("pre.h", "int one;\n")
    tree.trap(lambda: tree.write("pre.h", "int two;\n"), "changed")
    # It is looked for in the working directory first.
    tree.write("inc/pre.h", "int ten;\n")
    tree.plan("-I../inc -include pre.h")
    tree.trap(lambda: tree.write("build/pre.h", "int six;\n"), "changed")
    tree.write("macros.h", "#define H_ 1\n")
    tree.write("a.c", FILES["a.c"] + "int h[H_ + 1];\n")
    tree.plan("-I../inc -imacros ../macros.h")
    tree.trap(lambda: tree.write("macros.h", "#define H_ 2\n"), "changed")
    tree.write("build/list", "-DH=1\n")
    for flags in ("@list", "-specs=../specs", "--specs=../specs", "-B../bin -wrapper env"):
        tree.plan("-I../inc " + flags)
        assert tree.judge("not cacheable").hits() == []


@of_each(GCC, CLANG)
def odd_names(tanto, place, kind):
    """Of sources, headers and directories. Some need a shell, and are not cached."""
    for name in ("a b", "ä", "a'b", "a,b", "a=b", "a%b", "-a", "a#b", "a@b", "@a", "a~b", "a\xff"):
        tree = Tree(tanto, place / str(len(list(place.iterdir()))), {}, kind, flags="-I../inc")
        escaped = name.replace(" ", "$ ")
        tree.write(f"src/{name}.c", f'#include "{name}.h"\nint f(void) {{ return H; }}\n')
        tree.write(f"inc/{name}.h", "#define H 1\n")
        tree.plan("-I../inc", f"build out/{escaped}.o: cc ../src/{escaped}.c\n")
        try:
            tree.judge()
            uses = tree.judge().uses
            tree.write(f"inc/{name}.h", "#define H 2\n")
            tree.judge()
        except AssertionError as error:
            raise AssertionError(f"{name!r} ({uses}): {error}") from error


@of_each()
def many_directories_and_headers(tanto, place, kind):
    """More names than the recorder remembers."""
    files = {f"d11/h{number}.h": f"int h{number};\n" for number in range(900)}
    files |= {f"d{number}/x": "" for number in range(11)}
    files["a.c"] = "".join(f'#include "h{number}.h"\n' for number in range(900))
    tree = Tree(tanto, place, files, kind, flags=" ".join(f"-I../d{number}" for number in range(12)))
    tree.trap(lambda: tree.write("d7/h899.h", "int other;\n"), "changed")
    tree.trap(lambda: tree.write("d0/h450.h", "int another;\n"), "changed")
    tree.trap(lambda: tree.write("d11/h898.h", "int h8;\n"), "changed")


@of_each(GCC)
def the_specs_of_gcc(tanto, place, kind):
    """Gcc reads a file named specs if it finds one."""
    tree = Tree(tanto, place, FILES, kind, flags="-I../inc -B../specs.d")
    tree.path("specs.d").mkdir()
    dumped = subprocess.run(["gcc", "-dumpspecs"], capture_output=True, text=True, check=True).stdout
    specs = dumped.replace("*cc1_options:\n", "*cc1_options:\n-ftrapv -O1 ")
    assert specs != dumped
    tree.write("a.c", "int f(int a) { return a + 1; }\n")
    tree.trap(lambda: tree.write("specs.d/specs", specs), changes=True)


def dates(kind):
    """Sources that use the date or the time."""
    paste = "#define J_(a, b) a##b\n#define J(a, b) J_(a, b)\n"
    texts = ["__DATE__", "__TIME__", "__TIMESTAMP__"]
    pasted = [paste + f"const char *t = J(__{text[2:5]}, {text[5:]});\n" for text in texts]
    return [f"const char *t = {text};\n" for text in texts] + pasted


@of_each()
def dates_are_not_cached(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    for text in dates(kind):
        for files in ({"a.c": text}, {"a.c": FILES["a.c"], "inc/h.h": "#define H 1\n" + text}):
            for name, content in files.items():
                tree.write(name, content)
            for _ in range(2):
                tree.empty()
                built = tree.build()
                assert built.code == 0 and built.hits() == [], f"{text}: {built.uses}"
                assert "date or the time" in built.reasons["a.o"], built.reasons
    tree.write("a.c", "const char *t = __DATE__;\n")
    tree.environment["SOURCE_DATE_EPOCH"] = "1000000000"
    tree.judge()
    tree.environment["SOURCE_DATE_EPOCH"] = "1200000000"
    assert tree.judge().hits() == []


@of_each(GCC)
def a_dependency_pragma_compares_times(tanto, place, kind):
    """Gcc warns if a file is newer than the source."""
    tree = Tree(tanto, place, {"a.c": '#pragma GCC dependency "inc/h.h"\nint f(void) { return 1; }\n', "inc/h.h": ""}, kind)
    os.utime(tree.path("inc/h.h"), (1_000_000_000, 1_000_000_000))
    os.utime(tree.path("a.c"), (1_100_000_000, 1_100_000_000))
    tree.trap(lambda: os.utime(tree.path("inc/h.h")), cached=False)


@of_each(GCC)
def dependency_pragmas_in_other_words(tanto, place, kind):
    do = "#define D_(a) _Pragma(#a)\n#define D(a) D_(a)\n#define J(a, b) a##b\n"
    forms = ['_Pragma("GCC dependency \\"inc/h.h\\"")', '#pragma GCC /* */ dependency "inc/h.h"',
             '#pragma GCC \\\n dependency "inc/h.h"',
             do + 'D(GCC J(depend, ency) "inc/h.h")', "#pragma GCC dependency <h.h>"]
    for number, form in enumerate(forms):
        tree = Tree(tanto, place / str(number), {"a.c": form + "\nint f(void) { return 1; }\n", "inc/h.h": ""}, kind)
        os.utime(tree.path("inc/h.h"), (1_000_000_000, 1_000_000_000))
        os.utime(tree.path("a.c"), (1_100_000_000, 1_100_000_000))
        try:
            tree.trap(lambda tree=tree: os.utime(tree.path("inc/h.h")), cached=False)
        except AssertionError as error:
            raise AssertionError(f"{form}: {error}") from error


@of_each()
def variables_that_add_directories(tanto, place, kind):
    files = {"a.c": '#include <v.h>\nint f(void) { return H; }\n', "one/v.h": "#define H 1\n", "two/v.h": "#define H 2\n"}
    tree = Tree(tanto, place, files, kind)
    for variable in ("CPATH", "C_INCLUDE_PATH"):
        tree.environment[variable] = "../one"
        tree.trap(lambda name=variable: tree.environment.update({name: "../two"}))
        tree.trap(lambda name=variable: tree.environment.update({name: "../one:../two"}))
        tree.trap(lambda name=variable: tree.write("empty/v.h", "") or tree.environment.update({name: ""}))
        del tree.environment[variable]
        assert tree.judge().code != 0
    tree.environment["CPATH"] = "../one"
    tree.trap(lambda: tree.environment.update({"CPLUS_INCLUDE_PATH": "../two"}), changes=False)
    # An empty entry is the current directory.
    tree.write("build/v.h", "#define H 3\n")
    tree.trap(lambda: tree.environment.update({"CPATH": ":../one"}))
    tree.fill()


@of_each()
def variables_that_add_options(tanto, place, kind):
    """And those that make compilers write more files."""
    files = {"a.c": '#include "h.h"\nint f(void) { return H; }\n', "inc/h.h": "#ifndef H\n#define H 1\n#endif\n"}
    tree = Tree(tanto, place, files, kind)
    tree.fill()
    more = place / "more"
    values = {"CCC_OVERRIDE_OPTIONS": "+-DH=2", "DEPENDENCIES_OUTPUT": str(more), "SUNPRO_OUTPUT": str(more),
              "CC_PRINT_HEADERS": "1", "CC_PRINT_OPTIONS": "1", "GCC_COMPARE_DEBUG": "1", "CC_PRINT_OPTIONS_FILE": str(more)}
    for name, value in values.items():
        tree.environment[name] = value
        found = []
        for mode in ("on", "off"):
            more.unlink(missing_ok=True)
            tree.empty()
            built = tree.build(mode)
            found.append((built.code, built.ends, built.files, more.exists()))
        assert found[0] == found[1], f"{name}: {found}"
        del tree.environment[name]


@of_each(CLANG)
def configuration_files_of_clang(tanto, place, kind):
    """Clang looks for them beside its program."""
    tree = Tree(tanto, place, {"a.c": "#ifndef H\n#define H 1\n#endif\nint f(void) { return H; }\n"}, ("clang", *kind[1:]))
    tree.path("bin").mkdir()
    shutil.copy(os.path.realpath(shutil.which(kind[0])), tree.path("bin/clang"))
    tree.environment["PATH"] = f"{tree.path('bin')}:{tree.environment['PATH']}"
    tree.trap(lambda: tree.write("bin/clang.cfg", "-DH=2\n"), "changed")
    tree.trap(lambda: tree.write("bin/clang.cfg", "-DH=3 -include x.h\n") or tree.write("build/x.h", "int x;\n"), "changed")
    tree.trap(lambda: tree.write("build/x.h", "int y;\n"), "changed")


@of_each(GCC)
def variables_that_name_programs(tanto, place, kind):
    """The assembler comes from another directory."""
    tree = Tree(tanto, place, FILES, kind)
    make_wrapper(tree.path("bin/as"), "as", "--defsym=added=1")
    tree.trap(lambda: tree.environment.update({"COMPILER_PATH": str(tree.path("bin"))}), "changed")
    tree.trap(lambda: tree.environment.pop("COMPILER_PATH"), "hit")
    tree.trap(lambda: tree.environment.update({"LIBRARY_PATH": "/elsewhere"}), changes=False)
    libraries = subprocess.run(["gcc", "-print-file-name="], capture_output=True, text=True, check=True).stdout
    tree.path("lib/gcc").mkdir(parents=True)
    prefix = libraries.split("/lib/gcc/")[0] + "/lib/gcc/"
    tree.trap(lambda: tree.environment.update({"GCC_EXEC_PREFIX": prefix}), changes=False)
    tree.environment["GCC_EXEC_PREFIX"] = "/nonexistent/"
    assert tree.judge("changed").code != 0


@of_each()
def the_language_of_messages(tanto, place, kind):
    source = '#warning look\nint f(void) { undeclared_thing(); return 1; }\n'
    tree = Tree(tanto, place, {"a.c": source}, kind, flags="-Wno-error -std=gnu89 -Wall")
    tree.environment["LC_ALL"] = "C"
    tree.trap(lambda: tree.environment.update({"LC_ALL": "C.UTF-8"}), changes=kind == GCC)
    tree.environment["LC_ALL"] = "C"
    tree.judge("hit")
    tree.trap(lambda: tree.environment.update({"LC_ALL": "", "LC_MESSAGES": "C.UTF-8", "LANG": "C"}), changes=False)


@of_each(GCC, CLANG)
def warnings_are_printed_again(tanto, place, kind):
    tree = Tree(tanto, place, {"a.c": "#warning look\nint f(void) { int unused; return 1; }\n"}, kind)
    for flags in ("-Wall", "-Wall -fdiagnostics-color=always"):
        tree.plan(flags)
        tree.fill()
        text = tree.judge("hit").ends["a.o"][1]
        assert "look" in text and ("\x1b[" in text) == ("color" in flags), text
    tree.environment["GCC_COLORS"] = "warning=01;36"
    tree.judge()
    lines = "".join(f"#warning number {number}\n" for number in range(3000))
    tree.write("a.c", lines + "int x;\n")
    tree.plan("-Wall")
    tree.fill()


@of_each(GCC, CLANG)
def failures_are_not_cached(tanto, place, kind):
    tree = Tree(tanto, place, {"a.c": "int f(void) { return }\n"}, kind)
    for _ in range(3):
        built = tree.judge("new")
        assert built.code == 1 and "error" in built.ends["a.o"][1]
    tree.write("a.c", "int f(void) { return 1; }\n")
    tree.fill()
    tree.write("a.c", "#warning look\nint f(void) { return 1; }\n")
    tree.trap(lambda: tree.plan("-Werror"), "new")


@of_each()
def the_name_of_the_working_directory(tanto, place, kind):
    """Compilers write PWD into debug information if it names the directory."""
    tree = Tree(tanto, place, FILES, kind, flags="-g -I../inc")
    tree.link("link", "build")
    tree.link("stale", "inc")
    tree.trap(lambda: tree.environment.update({"PWD": str(tree.path("link"))}))
    tree.environment["PWD"] = str(tree.path("stale"))
    # It names another directory, and then this one.
    tree.trap(lambda: tree.link("stale", "build"))
    tree.trap(lambda: tree.environment.pop("PWD"))


@of_each(GCC, CLANG)
def the_option_for_another_directory(tanto, place, kind):
    """`tanto build -C build` from elsewhere, also by another name of the directory."""
    tree = Tree(tanto, place, FILES, kind, flags="-g -I../inc")
    tree.fill()
    tree.link("link", "build")
    for directory in ("build", "link", "link/../build"):
        for pwd in (place, place / "link", place / "build"):
            tree.environment["PWD"] = str(pwd)
            results = []
            for mode in ("on", "off"):
                tree.empty()
                built = tree.build(mode, "-C", directory, cwd=place)
                assert built.code == 0, built.printed
                results.append((built.files, built.deps))
            assert results[0] == results[1], f"{directory} {pwd}"


@of_each(GCC)
def a_variable_that_is_set_twice(tanto, place, kind):
    """The first one counts for compilers."""
    files = {"a.c": '#include <v.h>\nint f(void) { return H; }\n', "one/v.h": "#define H 1\n", "two/v.h": "#define H 2\n"}
    tree = Tree(tanto, place, files, kind)
    program = place / "twice"
    source = """#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
  char *all[2000]; int count = 0, at = 2;
  for (; at < argc && strcmp(argv[at], "--"); at++) all[count++] = argv[at];
  for (char **it = environ; *it && count < 1990; it++) all[count++] = *it;
  all[count] = 0;
  return execve(argv[1], argv + at + 1, all);
}
"""
    subprocess.run(["gcc", "-x", "c", "-o", program, "-"], input=source.encode(), check=True)
    plain = tree.words
    for values in (("../one", "../two"), ("../two", "../one"), ("../one", "../nothing")):
        twice = [f"CPATH={value}" for value in values]
        tree.words = lambda *words, twice=twice: [str(program), tree.tanto, *twice, "--", *plain(*words)]
        tree.judge()
        tree.judge()


@of_each()
def variables_of_no_concern(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind, flags="-g -I../inc")
    tree.fill()
    (place / "temporary").mkdir()
    values = {"OLDPWD": "/usr", "SHLVL": "7", "_": "/usr/bin/x", "CI": "1", "TMPDIR": str(place / "temporary"), "TERM": "dumb",
              "COLUMNS": "33", "GITHUB_SHA": "abc", "HOME": "/", "USER": "x", "TZ": "Asia/Tokyo", "MAKEFLAGS": "-j2"}
    for name, value in values.items():
        tree.environment[name] = value
        built = tree.judge()
        assert built.hits() == ["a.o"], f"{name}: {built.uses}"


@of_each(GCC)
def equal_headers_that_are_included_once(tanto, place, kind):
    """Gcc takes two headers for one if their content and mtimes are equal."""
    once = "#pragma once\nint J(count, __COUNTER__);\n"
    join = "#define J_(a, b) a##b\n#define J(a, b) J_(a, b)\n"
    tree = Tree(tanto, place, {"a.c": join + '#include "x/h.h"\n#include "y/h.h"\n', "x/h.h": once, "y/h.h": once}, kind)
    set_time = lambda name, time: os.utime(tree.path(name), (time, time))
    set_time("x/h.h", 1_000_000_000)
    set_time("y/h.h", 1_000_000_000)
    tree.trap(lambda: set_time("y/h.h", 1_000_000_001), "changed")
    tree.trap(lambda: set_time("x/h.h", 1_000_000_001), "hit")
    # #import, and a third header.
    tree.write("a.c", join + '#import "x/h.h"\n#include "z/h.h"\n#import "y/h.h"\n')
    tree.write("z/h.h", once)
    set_time("z/h.h", 1_000_000_005)
    tree.trap(lambda: set_time("y/h.h", 1_000_000_007))
    tree.trap(lambda: set_time("y/h.h", 1_000_000_005))
    tree.trap(lambda: (set_time("x/h.h", 1_000_000_003), set_time("z/h.h", 1_000_000_003)))


@of_each(GCC, CLANG)
def names_of_one_file(tanto, place, kind):
    """Clang knows a file by its inode, gcc by its time and content."""
    once = "#pragma once\n#ifdef A\nint twice;\n#endif\n#define A 1\n"
    tree = Tree(tanto, place, {"a.c": '#include "x/h.h"\n#include "y/h.h"\n', "x/h.h": once, "y/h.h": once}, kind)
    os.utime(tree.path("y/h.h"), (1_000_000_000, 1_000_000_000))
    copy, other = tree.path("y/h.h"), tree.path("x/h.h")

    def relink(make):
        times = copy.stat()
        copy.unlink()
        make()
        if not copy.is_symlink() and copy.stat().st_nlink == 1:
            os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))

    links = [lambda: os.link(other, copy), lambda: copy.write_text(once) and os.utime(copy, (1, 1)),
             lambda: copy.symlink_to("../x/h.h"), lambda: copy.write_text(once)]
    for source in ('#include "x/h.h"\n#include "y/h.h"\n', '#import "x/h.h"\n#import "y/h.h"\n'):
        tree.write("a.c", source)
        for make in links:
            tree.trap(lambda make=make: relink(make), changes=False)
    # A link to a directory.
    shutil.rmtree(tree.path("y"))
    tree.link("y", "x")
    tree.trap(lambda: (tree.path("y").unlink(), tree.path("y").mkdir(), copy.write_text(once), os.utime(copy, (1, 1))))


if __name__ == "__main__":
    main(__doc__, globals())
