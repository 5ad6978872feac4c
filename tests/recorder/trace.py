#!/usr/bin/env python3
"""Builds small trees with `tanto build --trace` and checks what it finds.

    tests/recorder/trace.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import run_tests

MANIFEST = """
rule cc
  command = gcc -Iinclude -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule kept
  command = gcc -Iinclude -MD -MF $out.d -c $in -o $out
  depfile = $out.d
rule plain
  command = gcc -Iinclude -c $in -o $out
rule join
  command = cat $in table.txt > $out
rule side
  command = cat $in > $out && cat $in > side.txt
rule link
  command = ln -f hidden.txt linked.txt && cp $in $out
rule own
  command = cat $in > own.txt && cat own.txt > $out
build group: phony a.c | other.h
build a.o: cc a.c
build b.o: kept a.c
build c.o: plain a.c
build d.o: plain a.c | group include/a.h
build e.o: plain a.c || include/a.h other.h
build joined: join a.c
build made: side a.c
build used: join made
build owned: own a.c
build named: link a.c
"""
FILES = {
    "build.ninja": MANIFEST,
    "a.c": '#include "a.h"\n#include "other.h"\nint a = A;\n',
    "include/a.h": "#define A 1\n",
    "other.h": "",
    "table.txt": "1\n",
    "hidden.txt": "",
}


def tree(place, files=FILES):
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def build(tanto, place, *words, trace="trace", **variables):
    command = [tanto, "build", f"--trace={trace}", *words]
    return subprocess.run(command, cwd=place, env=dict(os.environ, **variables), capture_output=True, text=True)


def commands(place, name="trace"):
    """By output: lines of its list."""
    found, current = {}, None
    for line in (place / name).read_text().splitlines():
        word, _, rest = line.partition("\t")
        if word == "command":
            current = found.setdefault(rest, [])
        else:
            current.append((word, rest))
    return found


def undeclared(lines, place):
    return [rest.removeprefix(f"{place}/") for word, rest in lines if word == "undeclared"]


def undeclared_inputs_are_found(tanto, place):
    tree(place)
    done = build(tanto, place)
    assert done.returncode == 0, done
    found = {output: undeclared(lines, place) for output, lines in commands(place).items()}
    assert found == {
        "a.o": [],
        "b.o": [],
        "c.o": ["include/a.h", "other.h"],
        "d.o": [],
        # An input that only sets the order does not make the command run again.
        "e.o": ["include/a.h", "other.h"],
        "joined": ["table.txt"],
        "made": [],
        "used": ["table.txt"],
        "owned": [],
        "named": ["hidden.txt"],
    }, found
    assert f"c.o: {place}/include/a.h\n" in done.stdout + done.stderr, done
    # Nothing is left, and nothing runs again.
    again = build(tanto, place)
    assert "no work to do" in again.stdout and (place / "trace").read_text() == "", again
    assert not list(Path(tempfile.gettempdir()).glob("tanto-record-*"))


SOURCES = {"a.c": '#include "a.h"\nint a = A;\n', "b.c": '#include "b.h"\nint b = A;\n'}


def missing_orders_are_found(tanto, place):
    """`late.o` reads a header that another command makes. One has a depfile, one an order-only input, one nothing."""
    manifest = """
rule header
  command = echo '#define A 1' > $out
rule cc
  command = gcc -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule plain
  command = gcc -c $in -o $out
build a.h: header
build group: phony a.h
build first.o: cc a.c || group
build late.o: cc a.c
build blind.o: plain a.c
build named.o: plain a.c | a.h
build {place}/b.h: header
build absolute.o: cc b.c
"""
    tree(place, {"build.ninja": manifest.replace("{place}", str(place)), **SOURCES})
    done = build(tanto, place, "-j1", "a.h", f"{place}/b.h", "first.o", "late.o", "blind.o", "named.o", "absolute.o")
    assert done.returncode == 0, done
    words = ("undeclared", "unordered")
    found = {output: [it for it in lines if it[0] in words] for output, lines in commands(place).items()}
    unordered = [("unordered", f"{place}/a.h\ta.h")]
    assert found == {
        "a.h": [],
        f"{place}/b.h": [],
        "first.o": [],
        "late.o": unordered,
        "blind.o": unordered,
        "named.o": [],
        "absolute.o": [("unordered", f"{place}/b.h\t{place}/b.h")],
    }, found
    assert f"late.o: {place}/a.h, made with a.h" in done.stdout + done.stderr, done


def lists_are_those_of_run(tanto, place):
    tree(place)
    assert build(tanto, place, "c.o").returncode == 0
    (place / "c.o").unlink()
    command = ["sh", "-c", "gcc -Iinclude -c a.c -o c.o"]
    recorded = [tanto, "run", "--record-inputs", "list", "--", *command]
    subprocess.run(recorded, cwd=place, env=dict(os.environ, PWD=str(place)), check=True)

    def comparable(lines):
        # Only `tanto run` needs the shell here. Temporary files have random names.
        others = ("undeclared", "program", "variable", "unset")
        files = {it for it in lines if it[0] not in others and not it[1].startswith(f"{tempfile.gettempdir()}/cc")}
        return files, {rest for word, rest in lines if word == "program" and "gcc" in rest}

    of_build = comparable(commands(place)["c.o"])
    of_run = comparable([tuple(line.split("\t", 1)) for line in (place / "list").read_text().splitlines()])
    assert of_build == of_run, (of_build[0] ^ of_run[0], of_build[1] ^ of_run[1])


def sources_beside_the_build_directory_belong_to_the_project(tanto, place):
    source, out = place / "src", place / "out"
    tree(source, {"lib/a.c": "", "main.c": '#include "hidden.h"\n', "hidden.h": "", "unrelated.txt": ""})
    tree(out, {"build.ninja": f"rule cc\n  command = gcc -c $in -o $out\nbuild m.o: cc {source}/main.c | {source}/lib/a.c\n"})
    assert build(tanto, out).returncode == 0
    assert undeclared(commands(out)["m.o"], source) == ["hidden.h"]


def incomplete_lists_are_named(tanto, place):
    tree(place, {"build.ninja": "rule s\n  command = ./static && touch $out\nrule t\n  command = touch $out\nbuild o: s\nbuild p: t\n",
                 "s.c": "int main(void) { return 0; }\n"})
    subprocess.run(["gcc", "-static", "s.c", "-o", "static"], cwd=place, check=True)
    done = build(tanto, place)
    assert done.returncode == 0 and "1 of 2 lists in trace are incomplete" in done.stdout + done.stderr, done
    found = commands(place)
    assert [word for word, _ in found["o"]].count("incomplete") == 1, found["o"]
    assert "incomplete" not in [word for word, _ in found["p"]]


def failures_and_directories(tanto, place):
    tree(place / "sub")
    done = build(tanto, place, "-C", "sub", "c.o", "a.o")
    assert done.returncode == 0 and set(commands(place)) == {"a.o", "c.o"}, done
    (place / "sub/a.c").write_text("#error\n")
    done = build(tanto, place, "-C", "sub", "-k0", "c.o", "a.o")
    assert done.returncode == 1 and set(commands(place)) == {"a.o", "c.o"}, done


def a_file_that_cannot_be_written_is_an_error(tanto, place):
    tree(place)
    done = build(tanto, place, trace="none/trace")
    assert done.returncode == 1 and "none/trace: No such file" in done.stderr and not (place / "a.o").exists(), done
    done = build(tanto, place, trace="/dev/full")
    assert done.returncode == 1 and "/dev/full: No space left" in done.stdout + done.stderr and (place / "a.o").exists(), done
    done = build(tanto, place, "--watch")
    assert done.returncode == 1 and "exclude each other" in done.stderr, done


def many_commands_at_once(tanto, place):
    lines = "".join(f"build o{n}: s t{n}\n" for n in range(200))
    tree(place, {"build.ninja": "rule s\n  command = cat $in hidden > $out\n" + lines, "hidden": ""} | {f"t{n}": "" for n in range(200)})
    assert build(tanto, place, "-j50").returncode == 0
    found = commands(place)
    assert len(found) == 200
    for n in range(200):
        lines = found[f"o{n}"]
        assert undeclared(lines, place) == ["hidden"] and ("read", f"{place}/t{n}") in lines, lines
        assert sum(word == "read" and rest.startswith(f"{place}/t") for word, rest in lines) == 1


def interrupted_build_leaves_no_record(tanto, place):
    tree(place, {"build.ninja": "rule s\n  command = sleep 600\nbuild o: s\n"})
    running = subprocess.Popen([tanto, "build", "--trace=trace"], cwd=place, stdout=subprocess.DEVNULL)

    def has_begun():
        return any(it.stat().st_size > 0 for it in Path(tempfile.gettempdir()).glob("tanto-record-*/[0-9]*"))

    while not has_begun():
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    assert running.wait() == 130
    assert not list(Path(tempfile.gettempdir()).glob("tanto-record-*"))


TESTS = [
    undeclared_inputs_are_found,
    missing_orders_are_found,
    lists_are_those_of_run,
    sources_beside_the_build_directory_belong_to_the_project,
    incomplete_lists_are_named,
    failures_and_directories,
    a_file_that_cannot_be_written_is_an_error,
    many_commands_at_once,
    interrupted_build_leaves_no_record,
]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        # The tests look for what is left there.
        tempfile.tempdir = os.environ["TMPDIR"] = temporary
        run_tests(__doc__, TESTS)
