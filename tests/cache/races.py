#!/usr/bin/env python3
"""Changes while commands run, commands that depend on each other, and outputs of all kinds.

    tests/cache/races.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import os
import shutil
import subprocess
import time

from compilers import hiding
from tree import CLANG, GCC, Tree, main, make_wrapper, of_each

FILES = {"a.c": '#include "h.h"\nint f(void) { return H; }\n', "inc/h.h": "#define H 1\n"}


class Meeting:
    """A tree whose compiler waits for the test before and after it compiles."""

    def __init__(self, tanto, place, files, flags="-I../inc", build="build", edges="build a.o: cc ../a.c\n"):
        self.tree = Tree(tanto, place, files, build=build)
        self.tree.plan(flags, edges)
        self.meeting = place / "meeting"
        make_wrapper(place / "bin/gcc", "gcc", meeting=self.meeting)
        self.tree.environment["PATH"] = f"{place / 'bin'}:{self.tree.environment['PATH']}"

    def build(self, before=lambda: None, after=lambda: None, mode="on"):
        """Builds; edits before the compiler has read anything, and after it has written everything."""
        self.meeting.mkdir()
        words = self.tree.words(mode, "--format=jsonl")
        running = subprocess.Popen(words, cwd=self.tree.build_dir, env=self.tree.environment, stdout=subprocess.PIPE, text=True)
        for moment, edit in (("before", before), ("after", after)):
            while not (self.meeting / f"{moment}.here").exists():
                assert running.poll() is None, running.communicate()
                time.sleep(0.002)
            edit()
            (self.meeting / f"{moment}.go").touch()
        printed = running.communicate()[0]
        shutil.rmtree(self.meeting)
        return printed

    def edit(self, edit, undo, **more):
        """An edit while it runs; then the files are as the cache may think that they were."""
        for moment in ("before", "after"):
            self.tree.empty()
            printed = self.build(**{moment: edit})
            self.tree.judge()
            undo()
            self.tree.judge()
            edit()
            self.tree.judge()
            undo()
            shutil.rmtree(self.tree.cache())
        return printed


def now_and_old(tree):
    """Old versions of the header, which keep their times when they are moved."""
    for name, value in (("v1", 1), ("v2", 2)):
        tree.write(f"{name}/h.h", f"#define H {value}\n")
        os.utime(tree.path(f"{name}/h.h"), (1_000_000_000, 1_000_000_000))
    # Their changes are older than the compile.
    time.sleep(0.02)


def an_edit_of_a_header_while_it_is_compiled(tanto, place):
    meeting = Meeting(tanto, place, FILES)
    write = meeting.tree.write
    meeting.edit(lambda: write("inc/h.h", "#define H 2\n"), lambda: write("inc/h.h", "#define H 1\n"))
    meeting.edit(lambda: write("a.c", "int f(void) { return 7; }\n"), lambda: write("a.c", FILES["a.c"]))


def a_link_to_a_directory_is_retargeted_while_it_is_compiled(tanto, place):
    for number, flags in enumerate(("-I../link", "-I{root}/link", "-Ilink")):
        meeting = Meeting(tanto, place / str(number), {"a.c": FILES["a.c"]}, flags)
        tree = meeting.tree
        now_and_old(tree)
        name, up = ("build/link", "../") if flags == "-Ilink" else ("link", "")
        tree.link(name, up + "v1")
        meeting.edit(lambda: tree.link(name, up + "v2"), lambda: tree.link(name, up + "v1"))


def a_link_to_a_header_is_retargeted_while_it_is_compiled(tanto, place):
    """Also in the build directory itself, and in those above it."""
    cases = (("-I../inc", "inc/h.h"), ("-I.", "build/h.h"), ("-I..", "h.h"), ("-I{root}", "h.h"))
    for number, (flags, name) in enumerate(cases):
        meeting = Meeting(tanto, place / str(number), {"a.c": FILES["a.c"].replace('"h.h"', "<h.h>")}, flags)
        tree = meeting.tree
        now_and_old(tree)
        up = "../" if "/" in name else ""
        tree.link(name, up + "v1/h.h")
        meeting.edit(lambda: tree.link(name, up + "v2/h.h"), lambda: tree.link(name, up + "v1/h.h"))


def a_directory_is_swapped_while_it_is_compiled(tanto, place):
    meeting = Meeting(tanto, place, {"a.c": FILES["a.c"]}, "-I../deep/inc")
    tree = meeting.tree
    now_and_old(tree)
    tree.path("deep/inc").mkdir(parents=True)
    shutil.copy2(tree.path("v1/h.h"), tree.path("deep/inc/h.h"))
    shutil.copytree(tree.path("deep"), tree.path("new"))
    shutil.copy2(tree.path("v2/h.h"), tree.path("new/inc/h.h"))

    def swap():
        tree.path("deep").rename(tree.path("gone"))
        tree.path("new").rename(tree.path("deep"))
        tree.path("gone").rename(tree.path("new"))

    meeting.edit(swap, swap)


def a_file_appears_and_vanishes_while_it_is_compiled(tanto, place):
    meeting = Meeting(tanto, place, FILES | {"first/x": ""}, "-I../first -I../inc")
    tree = meeting.tree
    appear, vanish = lambda: tree.write("first/h.h", "#define H 2\n"), lambda: tree.path("first/h.h").unlink()
    meeting.edit(appear, vanish)
    # It is there only for the compiler.
    tree.empty()
    meeting.build(before=appear, after=vanish)
    tree.judge()
    appear()
    tree.judge()
    vanish()
    tree.judge()


def an_edit_after_the_comparison_is_seen_by_the_next_build(tanto, place):
    """Restored outputs are older than later edits."""
    tree = Tree(tanto, place, FILES)
    tree.fill()
    for number in range(20):
        tree.empty()
        tree.write("inc/h.h", "#define H 1\n")
        assert tree.build().code == 0
        tree.write("inc/h.h", f"#define H {number + 2}\n")
        assert "no work to do" not in tree.run("ninja", "-n").stdout
        tree.judge(empty=False)


def an_older_header_comes_while_hits_are_restored(tanto, place):
    """A slow command runs between two hits that have the same header."""
    files = FILES | {"b.c": FILES["a.c"].replace("f(", "g("), "slow.in": "", "old.h": "#define H 2\n"}
    edges = "rule slow\n  command = {slow} $in -c ../s.c -o $out\n"
    edges += "build a.o: cc ../a.c\nbuild s.o: slow | a.o\nbuild b.o: cc ../b.c | s.o\n"
    for number, mode in enumerate(("off", "on", "read")):
        root = place / str(number)
        meeting = Meeting(tanto, root, files | {"s.c": "int s;\n"}, edges=edges.replace("{slow}", str(root / "slow/gcc")))
        make_wrapper(root / "slow/gcc", "gcc", meeting=meeting.meeting)
        make_wrapper(root / "bin/gcc", "gcc")
        tree = meeting.tree
        tree.judge()
        # The slow one runs again.
        tree.write("s.c", "int s2;\n")
        tree.empty()
        os.utime(tree.path("old.h"), (1_000_000_000, 1_000_000_000))
        meeting.build(after=lambda: tree.path("old.h").rename(tree.path("inc/h.h")), mode=mode)
        # Timestamps do not show it. But no record may say that the outputs were made from the new content.
        os.utime(tree.path("inc/h.h"))
        tree.judge(empty=False)


def a_miss_before_a_hit(tanto, place):
    """The hit is not older than the output that it depends on, although it was compared earlier."""
    files = FILES | {"b.c": FILES["a.c"].replace("f(", "g("), "c.c": FILES["a.c"].replace("f(", "e(")}
    edges = "build c.o: cc ../c.c\nbuild a.o: cc ../a.c | c.o\nbuild b.o: cc ../b.c | a.o\n"
    for mode in ("on", "read"):
        tree = Tree(tanto, place / mode, files)
        tree.plan("-I../inc", edges)
        tree.judge()
        for number in range(4):
            tree.write("a.c", files["a.c"] + f"int x{number};\n")
            tree.judge({"a.o": "changed", "b.o": "hit", "c.o": "hit"}, mode=mode)


def a_compile_that_is_not_stored_before_a_hit(tanto, place):
    files = FILES | {"b.c": FILES["a.c"].replace("f(", "g("), "d.c": '#include "h.h"\nconst char *d = __TIME__;\n'}
    tree = Tree(tanto, place, files)
    tree.plan("-I../inc", "build a.o: cc ../a.c\nbuild d.o: cc ../d.c | a.o\nbuild b.o: cc ../b.c | d.o\n")
    hiding(place / "bin/gcc", "execv(real, words);", "-static")
    edges = "build a.o: cc ../a.c\nbuild d.o: cc ../d.c | a.o\n  cc = {root}/bin/gcc\nbuild b.o: cc ../b.c | d.o\n"
    for more in ("", edges):
        if more:
            tree.plan("-I../inc", more)
        for _ in range(12):
            tree.empty()
            built = tree.build("on", "-j1")
            assert built.code == 0
            tree.assert_done()
        assert built.hits() == ["a.o", "b.o"]


@of_each(GCC, CLANG)
def headers_that_the_build_makes(tanto, place, kind):
    files = {"a.c": '#include "gen.h"\n#include "h.h"\nint f(void) { return H + G; }\n', "inc/h.h": "#define H 1\n",
             "gen.in": "#define G 1\n",
             "b.c": '#if __has_include("gen.h")\n#include "gen.h"\nint g = G;\n#endif\n'}
    tree = Tree(tanto, place, files, kind)
    edges = "build gen.h: copy ../gen.in\nbuild a.o: cc ../a.c || gen.h\n"
    edges += "build b.o: cc ../b.c || gen.h\nbuild c.o: kept ../a.c | gen.h\n"
    tree.plan("-I../inc -I.", edges)
    compiles = ["a.o", "b.o", "c.o"]
    tree.judge()
    tree.judge(dict.fromkeys(compiles, "hit"))
    tree.write("gen.in", "#define G 2\n")
    tree.judge(dict.fromkeys(compiles, "changed"))
    tree.write("gen.in", "#define G 1\n")
    tree.judge(dict.fromkeys(compiles, "hit"), empty=False)
    for number in range(3, 9):
        tree.write("gen.in", f"#define G {number}\n")
        tree.build()
        tree.write("gen.in", f"#define G {number + 10}\n")
        tree.judge(empty=False)


@of_each(GCC)
def precompiled_headers_and_their_users(tanto, place, kind):
    files = {"all.hpp": "#include <vector>\n#include \"h.h\"\n", "inc/h.h": "#define H 1\n",
             "a.cpp": '#include "all.hpp"\nint f(std::vector<int> &v) { return v[0] + H; }\n'}
    tree = Tree(tanto, place, files, ("g++",))
    edges = "rule pch\n  command = g++ -I../inc -x c++-header -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n"
    edges += "build all.hpp: copy ../all.hpp\nbuild all.hpp.gch: pch all.hpp\nbuild a.o: cc ../a.cpp | all.hpp.gch\n"
    tree.plan("-I../inc -I. -Winvalid-pch -include all.hpp", edges)
    # Precompiled headers differ from run to run: only the objects are compared.
    tree.outputs = lambda: {name: it for name, it in Tree.outputs(tree).items() if not name.endswith(".gch")}
    tree.judge()
    built = tree.judge({"all.hpp.gch": "hit", "a.o": "hit"})
    assert "not used" not in built.ends["a.o"][1]
    tree.write("inc/h.h", "#define H 2\n")
    tree.judge({"a.o": "changed", "all.hpp.gch": "changed"})
    tree.write("inc/h.h", "#define H 1\n")
    tree.judge({"a.o": "hit", "all.hpp.gch": "hit"})
    tree.write("inc/h.h", "#define H 3\n")
    tree.judge(empty=False)


@of_each(GCC)
def a_precompiled_header_that_comes_between(tanto, place, kind):
    """One compile looks for it before it is there, another after. The names for it differ."""
    text = '#include "h.h"\nint f(void) { return H; }\n'
    files = {"build/a.c": text, "build/b.c": text, "h.h": "#define H 1\n", "other.h": "#define H 2\n"}
    tree = Tree(tanto, place, files, kind)
    head = "rule pch\n  command = gcc -x c-header -c $in -o $out\nbuild a.o: cc a.c | h.h\nbuild h.h: copy ../h.h\n"
    users = ("build b.o: cc b.c || h.h\n", "build h.h.gch: pch ../other.h || a.o\nbuild b.o: cc b.c | h.h.gch || h.h\n")
    tree.outputs = lambda: {name: it for name, it in Tree.outputs(tree).items() if not name.endswith(".gch")}
    for order in ((0, 1, 0, 1), (1, 0, 1, 1, 0)):
        for which in order:
            tree.plan("-I../build", head + users[which])
            tree.judge(words=("-j1",))


@of_each(GCC, CLANG)
def objects_that_are_inputs(tanto, place, kind):
    """A compile reads the object of another by another name; then a command changes it."""
    files = FILES | {"b.S": '.data\n.incbin "../build/a.o"\n', "c.S": '.data\n.incbin "a.o"\n'}
    tree = Tree(tanto, place, files, kind)
    edges = "rule change\n  command = objcopy --add-section .x=../b.S a.o && touch $out\n"
    edges += "build a.o: cc ../a.c\nbuild b.o: cc ../b.S | a.o\nbuild stamp: change | a.o b.o\nbuild c.o: cc ../c.S | stamp\n"
    tree.plan("-I../inc", edges)
    for number in (1, 2, 1, 3, 2):
        tree.write("inc/h.h", f"#define H {number}\n")
        tree.empty()
        cached = tree.build("on", "-j1")
        tree.empty()
        plain = tree.build("off", "-j1")
        for name in ("a.o", "b.o", "c.o"):
            assert cached.files[name] == plain.files[name], f"{name}: {cached.uses}"


if __name__ == "__main__":
    main(__doc__, globals())
