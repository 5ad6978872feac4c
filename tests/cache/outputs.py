#!/usr/bin/env python3
"""What a build with the cache leaves behind: files, modes, times, logs; and the modes of the cache.

    tests/cache/outputs.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import os
import re
import stat
import subprocess
import time

from tree import CLANG, GCC, Tree, main, make_wrapper, of_each

FILES = {"a.c": '#include "h.h"\nint f(void) { return H; }\n', "inc/h.h": "#define H 1\n"}


def both(tree, prepare):
    """Builds from a prepared state with the cache and without. Returns both results."""
    results = []
    for mode in ("on", "off"):
        tree.empty()
        prepare()
        results.append(tree.build(mode))
    return results


def kind_of(path):
    return "missing" if not os.path.lexists(path) else stat.filemode(path.lstat().st_mode)


@of_each(GCC, CLANG)
def outputs_that_are_links(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    tree.fill()
    output, other, seen = tree.path("build/a.o"), tree.path("other"), []

    def prepare(link):
        other.unlink(missing_ok=True)
        other.write_text("other\n")
        output.unlink(missing_ok=True)
        link()

    for link in (lambda: output.symlink_to("../other"), lambda: os.link(other, output), lambda: output.symlink_to("nowhere")):
        for mode in ("on", "off"):
            tree.empty()
            prepare(link)
            built = tree.build(mode)
            there = "nothing" if not other.exists() else "as before" if other.read_bytes() == b"other\n" else "other content"
            seen.append((mode, kind_of(output), there, built.code, len(built.files), kind_of(tree.path("build/nowhere"))))
            tree.path("build/nowhere").unlink(missing_ok=True)
        assert seen[-1][1:] == seen[-2][1:], f"{seen[-2]} instead of {seen[-1]}"


@of_each(GCC, CLANG)
def outputs_that_cannot_be_replaced(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    tree.fill()
    output = tree.path("build/a.o")
    for prepare in (output.mkdir, lambda: (output.write_text("x"), output.chmod(0o444))):
        on, off = both(tree, lambda: (output.unlink(missing_ok=True), prepare()))
        assert (on.code, on.files) == (off.code, off.files), f"{on}\n{off}"
        if output.is_dir():
            output.rmdir()
        assert not [path for path in tree.build_dir.iterdir() if ".tanto-" in path.name]
    # The depfile is a directory, a link, or cannot be written.
    depfile = tree.path("build/a.o.d")
    on, off = both(tree, lambda: depfile.mkdir(exist_ok=True))
    assert on.code == off.code, f"{on.code} {off.code}"
    depfile.is_dir() and depfile.rmdir()
    tree.judge()
    tree.plan("-I../inc", "build sub/deep/a.o: kept ../a.c\n")
    tree.judge()
    subprocess.run(["rm", "-r", "sub"], cwd=tree.build_dir, check=True)
    assert tree.judge().hits() == ["sub/deep/a.o"]


def outputs_that_are_directories(tanto, place):
    """Ninja fails; so does the compiler."""
    tree = Tree(tanto, place, FILES)
    tree.fill()
    codes = []
    for mode in ("on", "off"):
        tree.empty()
        tree.path("build/a.o").mkdir()
        codes.append(tree.build(mode).code)
        tree.path("build/a.o").rmdir()
    assert codes[0] == codes[1] != 0, codes


@of_each(GCC, CLANG)
def modes_follow_the_umask_of_now(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    before = os.umask(0o022)
    try:
        tree.fill()
        for mask in (0o077, 0o022, 0o002, 0o027):
            os.umask(mask)
            tree.judge("hit")
            tree.plan("-I../inc", "build a.o: kept ../a.c\n")
            tree.judge("hit")
            tree.plan("-I../inc")
    finally:
        os.umask(before)


@of_each(GCC, CLANG)
def restored_outputs_are_newer_than_their_inputs(tanto, place, kind):
    files = FILES | {"gen.in": "int x;\n", "b.c": '#include "gen.h"\n'}
    tree = Tree(tanto, place, files, kind)
    edges = "build gen.h: copy ../gen.in\nbuild a.o: cc ../a.c\nbuild b.o: cc ../b.c || gen.h\nbuild c.o: kept ../a.c | b.o\n"
    tree.plan("-I../inc -I.", edges)
    for _ in range(5):
        for name in ("a.c", "inc/h.h", "gen.in"):
            os.utime(tree.path(name))
        tree.judge()
        tree.empty()
        began = time.time() - 0.1
        os.utime(tree.path("a.c"))
        assert tree.build().code == 0
        names = ("a.c", "inc/h.h", "build/a.o", "build/c.o", "build/b.o")
        times = {name: tree.path(name).stat().st_mtime_ns for name in names}
        assert times["build/a.o"] >= max(times["a.c"], times["inc/h.h"]) and times["build/c.o"] >= times["build/b.o"], times
        assert min(times["build/a.o"], times["build/b.o"]) >= began * 1e9, "the time of the first build"
    # Headers from the future.
    later = time.time() + 10000
    os.utime(tree.path("inc/h.h"), (later, later))
    tree.empty()
    assert tree.build().code == 0 and tree.path("build/a.o").exists()


def edits_right_after_a_hit_are_seen(tanto, place):
    tree = Tree(tanto, place, FILES)
    tree.fill()
    for number in range(15):
        tree.write("inc/h.h", "#define H 1\n")
        tree.empty()
        assert tree.build().code == 0
        tree.write("a.c", FILES["a.c"] + f"int x{number};\n")
        said = tree.run("ninja", "-n").stdout
        assert "no work to do" not in said
        if number % 2:
            assert tree.run("ninja").returncode == 0
        tree.judge(empty=False)


def a_clean_build_in_place(tanto, place):
    """Touched files: content decides, also after hits."""
    tree = Tree(tanto, place, FILES)
    tree.fill()
    tree.empty()
    tree.build()
    time.sleep(0.02)
    for name in FILES:
        os.utime(tree.path(name))
    built = tree.build()
    assert built.uses == {} and "same content" in built.printed, built.printed
    tree.assert_done()
    tree.write("inc/h.h", "#define H 2\n")
    assert tree.build().uses == {"a.o": "changed"}
    tree.write("inc/h.h", "#define H 1\n")
    assert tree.build().uses == {"a.o": "hit"}
    tree.assert_done()


def cache_off_after_on(tanto, place):
    tree = Tree(tanto, place, FILES)
    tree.fill()
    tree.empty()
    before = snapshot(tree.cache())
    built = tree.build("off")
    assert built.uses == {"a.o": ""} and snapshot(tree.cache()) == before
    # Not asked for: off.
    tree.empty()
    ran = tree.run(tanto, "build", "-v")
    assert "(from cache)" not in ran.stdout
    tree.empty()
    ran = tree.run(tanto, "build", "-v", "--cache=on")
    assert "(from cache)" in ran.stdout, ran.stdout


def snapshot(directory):
    return {path.relative_to(directory): path.lstat().st_mtime_ns for path in directory.rglob("*")}


def cache_read_stores_nothing(tanto, place):
    tree = Tree(tanto, place, FILES | {"b.c": "int b;\n"})
    tree.plan("-I../inc")
    tree.fill()
    before = snapshot(tree.cache())
    for name in ("actions", "blobs", ""):
        tree.cache(name).chmod(0o500)
    tree.plan("-I../inc", "build a.o: cc ../a.c\nbuild b.o: cc ../b.c\n")
    built = tree.judge({"a.o": "hit", "b.o": "new"}, mode="read")
    built = tree.judge({"a.o": "hit", "b.o": "new"}, mode="read")
    assert snapshot(tree.cache()) == before
    # It does not exist.
    tree.environment["XDG_CACHE_HOME"] = str(place / "none")
    tree.judge(mode="read")
    assert not tree.cache().exists()
    assert built.code == 0


def a_dry_run_restores_nothing(tanto, place):
    tree = Tree(tanto, place, FILES)
    tree.fill()
    tree.empty()
    before = snapshot(tree.cache())
    built = tree.build("on", "-n")
    assert built.code == 0 and built.files == {} and not tree.path("build/a.o.d").exists()
    assert snapshot(tree.cache()) == before and sorted(path.name for path in tree.build_dir.iterdir()) == ["build.ninja"]


RULES = """
rule restat
  command = gcc -I../inc -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  restat = 1
rule console
  command = gcc -I../inc -c $in -o $out
  pool = console
rule response
  command = gcc -I../inc -c $in -o $out @$out.rsp
  rspfile = $out.rsp
  rspfile_content = -DX=1
rule shell
  command = : && gcc -I../inc -c $in -o $out
rule more
  command = gcc -I../inc -c $in -o a8.o
rule pool
  command = gcc -I../inc -MMD -c $in -o $out
  depfile = a9.d
  deps = gcc
  pool = one
pool one
  depth = 1
"""


def kinds_of_rules(tanto, place):
    tree = Tree(tanto, place, FILES)
    rules = ("restat", "console", "response", "shell")
    edges = RULES + "".join(f"build a{number}.o: {rule} ../a.c\n" for number, rule in enumerate(rules, 1))
    tree.plan("-I../inc", edges + "build a5.o: copy a1.o\nbuild a8.o: more ../a.c\nbuild a9.o: pool ../a.c\n")
    tree.judge()
    uses = tree.judge().uses
    expected = dict.fromkeys(("a1.o", "a8.o", "a9.o"), "hit") | dict.fromkeys(("a2.o", "a3.o", "a4.o", "a5.o"), "not cacheable")
    assert uses == expected, uses
    tree.write("inc/h.h", "#define H 2\n")
    tree.judge(dict.fromkeys(("a1.o", "a8.o", "a9.o"), "changed"))
    # More outputs than the compiler writes.
    tree.plan("-I../inc", "build a6.o | a7.o: cc ../a.c\n")
    assert tree.build().uses == {"a6.o a7.o": "not cacheable"}


def the_cost_of_the_real_compile_stays(tanto, place):
    """The log and the history keep the time of the run that was saved."""
    tree = Tree(tanto, place, FILES)
    make_wrapper(place / "bin/gcc", "gcc")
    tree.environment["PATH"] = f"{place / 'bin'}:{tree.environment['PATH']}"
    # A compile that takes a while.
    lines = "".join(f"int f{number}(int a) {{ return a * {number} + g(a, {number}); }}\n" for number in range(3000))
    tree.write("a.c", "int g(int, int);\n" + lines)
    tree.plan("-O2 -I../inc")
    assert tree.build().code == 0
    real = duration(tree)
    assert real > 100, real
    for _ in range(3):
        tree.empty()
        built = tree.build()
        assert built.uses == {"a.o": "hit"}
        assert abs(duration(tree) - real) <= max(20, real // 2), f"{duration(tree)} ms instead of {real}"
    again = tree.run(tanto, "build", "--again", "a.o", "--format=jsonl", "--cache=off")
    expected = re.search(r'"expected_ms":(\d+)', again.stdout)
    assert expected and int(expected[1]) > real // 2, again.stdout


def duration(tree):
    lines = [line.split("\t") for line in (tree.build_dir / ".ninja_log").read_text().splitlines()[1:]]
    return next(int(line[1]) - int(line[0]) for line in lines if line[3] == "a.o")


def cache_size(tree):
    return sum(path.stat().st_size for path in tree.cache().rglob("*") if path.is_file() and path.name != "files")


def the_cache_keeps_its_size(tanto, place):
    names = range(8)
    tree = Tree(tanto, place, {f"{name}.c": f'char t[20000] = "{name}";\n' for name in names})
    tree.plan("-O0", "".join(f"build {name}.o: cc ../{name}.c\n" for name in names))
    limit = "--cache-size=100K"
    tree.judge("new", words=[limit])
    assert 50_000 < cache_size(tree) <= 100 << 10, cache_size(tree)
    hits = tree.judge(words=[limit]).hits()
    assert 0 < len(hits) < len(names), hits
    assert cache_size(tree) <= 100 << 10, cache_size(tree)
    tree.judge()
    tree.judge("hit")


def the_commands_of_the_cache(tanto, place):
    tree = Tree(tanto, place, FILES)
    command = lambda name: tree.run(tanto, "cache", name)
    assert "there is no cache" in command("stat").stdout
    tree.fill()
    said = command("stat").stdout
    assert re.search(r"^commands +1$", said, re.M) and re.search(r"^hits +1$", said, re.M), said
    report = tree.run(tanto, "report", "cache")
    assert "no command of this build used the cache" in report.stdout, "the last build had no cache"
    tree.empty()
    tree.build()
    report = tree.run(tanto, "report", "cache")
    assert "hits 1, misses 0" in report.stdout, report.stdout
    assert command("verify").returncode == 0
    blob = max((path for path in tree.cache("blobs").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    blob.chmod(0o600)
    blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    damaged = command("verify")
    assert damaged.returncode == 1 and ", 1 damaged" in damaged.stdout, damaged.stdout
    tree.judge("new")
    assert "removed" in command("clear").stdout
    tree.judge("new")


def a_depfile_that_was_left(tanto, place):
    """A killed compile has left it. It is removed after the next one."""
    tree = Tree(tanto, place, FILES)
    tree.fill()
    for text in ("a.o: ../old.h\n", "garbage"):
        on, off = both(tree, lambda text=text: tree.write("build/a.o.d", text))
        assert (on.files, on.deps, on.code) == (off.files, off.deps, off.code), on.files.keys()


@of_each(GCC, CLANG)
def other_options(tanto, place, kind):
    tree = Tree(tanto, place, FILES | {"b.c": "#warning look\nint b;\n"}, kind)
    tree.plan("-I../inc", "build a.o: cc ../a.c\nbuild b.o: kept ../b.c\n")
    tree.fill()
    for words in (("-d", "keepdepfile"), ("--content=off",), ("--record=off",), ("-j1",), ("-k0",), ("--memory=off",)):
        built = tree.judge("hit", words=words)
        assert "keepdepfile" not in words or "a.o.d" in built.files
    tree.write("inc/h.h", "#define H 2\n")
    tree.judge(empty=False, words=("--content=off",))
    tree.judge({"a.o": "hit"})


def printed_lines(tanto, place):
    tree = Tree(tanto, place, {"a.c": "#warning look\n"})
    tree.fill()
    tree.empty()
    ran = tree.run(tanto, "build", "-v", "--cache=on")
    assert "gcc -I../inc -MD -MF a.o.d -c ../a.c -o a.o (from cache)\n" in ran.stdout and "look" in ran.stdout, ran.stdout
    tree.empty()
    ran = tree.run(tanto, "build", "--quiet", "--cache=on")
    assert "look" in ran.stdout and "from cache" not in ran.stdout, ran.stdout


def an_option_for_one_target(tanto, place):
    """--again asks for a run of the command."""
    tree = Tree(tanto, place, FILES)
    tree.fill()
    ran = tree.run(tanto, "build", "--cache=on", "--again", "a.o", "-v")
    assert ran.returncode == 0, ran.stdout
    tree.assert_done()


if __name__ == "__main__":
    main(__doc__, globals())
