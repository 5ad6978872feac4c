#!/usr/bin/env python3
"""Compares the inputs of commands in forks of their compiler with those of the same commands as processes.

    tests/recorder/forks.py TANTO"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMPILERS = [it for it in ("clang-14", "clang++-14", "clang-16", "clang++-16", "clang-19", "clang++-19") if shutil.which(it)]

FILES = {
    "a.c": '#include <stdio.h>\n#include "a.h"\nint main(void) { return printf("%d", A); }\n',
    "a.h": "#define A 1\n",
    "b.c": "int b(int x) { return x * 3; }\n",
    "c.cc": "#include <string>\n#include <vector>\nstd::vector<std::string> all() { return {std::to_string(1)}; }\n",
    "absent.c": '#if __has_include("no/such.h")\n#error\n#endif\nint absent;\n',
    "date.c": "const char *date = __DATE__;\n",
    "missing.c": '#include "nowhere.h"\n',
    "wrong.c": "int f(void) { return nothing; }\n",
    "words": "-c a.c -o words.o\n",
}
# Options, and whether the source is C++.
CASES = [
    ("-c a.c -o a.o", False),
    ("-c a.c -o nowhere/a.o", False),
    ("-g -c a.c -o g.o", False),
    ("-O2 -MD -MF o.d -c a.c -o o.o", False),
    ("-Ino/such -E a.c -o a.i", False),
    ("-fsyntax-only absent.c", False),
    ("-c date.c -o date.o", False),
    ("-c missing.c -o missing.o", False),
    ("-c wrong.c -o wrong.o", False),
    ("-c none.c -o none.o", False),
    ("@words", False),
    ("-save-temps -c b.c -o temps.o", False),
    ("-fno-integrated-as -c b.c -o as.o", False),
    ("a.c b.c -o program", False),
    ("-shared -fPIC b.c -o b.so", False),
    ("--version", False),
    ("-c c.cc -o c.o", True),
    ("-g -O2 -std=c++20 -c c.cc -o c2.o", True),
]
# Temporary files, whose names differ.
TEMPORARY = re.compile(r"[\w.-]*-[0-9a-f]{6,8}\b[\w.]*")


def build(tanto, place, mode, lines):
    """Returns the lists of all commands, and in which of them the command ran in a fork."""
    shutil.rmtree(place, ignore_errors=True)
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    rules = [f"rule r{n}\n  command = {line}\nbuild o{n}: r{n}\n" for n, line in enumerate(lines)]
    (place / "build.ninja").write_text("".join(rules))
    command = [tanto, "build", "-k0", "-j2", "--format=jsonl", "--trace=trace", f"--clang-worker={mode}", "--checkpoints=0"]
    environment = dict(os.environ, XDG_CACHE_HOME=f"{place}.cache")
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    in_fork = [it.get("in_process", False) for it in events if it["event"] == "finished"]
    assert len(in_fork) == len(lines), done
    return lists(place / "trace"), in_fork


# A program called clang. The constructor of its library runs before the fork.
EARLY = """#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void early(void) {
  char name[20];
  getenv("EARLY");
  close(open("a.h", O_RDONLY));
  for (int at = 0; at < COUNT; at++) {
    snprintf(name, sizeof name, "none%d", at);
    access(name, 0);
  }
}
"""
PROGRAM = """#include <stdlib.h>
#include <time.h>
int main(void) { time_t now = 0; return !getenv("LATE") + !localtime(&now); }
"""


def constructors(tanto, place, count):
    """The lists of a fork and a process whose library looks at this many names."""
    own = place / "own"
    own.mkdir()
    (own / "early.c").write_text(EARLY)
    (own / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-w", f"-DCOUNT={count}", "-shared", "-fPIC", "early.c", "-o", "libearly.so"], cwd=own, check=True)
    words = ["cc", "program.c", "-Wl,--no-as-needed", "-L.", "-learly", f"-Wl,-rpath,{own}", "-o", "clang"]
    subprocess.run(words, cwd=own, check=True)
    # A program or a directory of libraries that has just changed is not forked.
    time.sleep(1.1)
    line = f"{own}/clang -c"
    (forks, are_forks), (processes, _) = (build(tanto, place / "tree", mode, [line, line]) for mode in ("require", "off"))
    assert are_forks == [True, True], are_forks
    for number in range(2):
        yield forks[number], processes[number]


def constructors_are_recorded(tanto, place):
    for fork, process in constructors(tanto, place, 10):
        assert fork == process, fork ^ process
        seen = {"unset\tEARLY", "unset\tLATE", "calendar", f"read\t{place}/tree/a.h", f"library\t{place}/own/libearly.so"}
        assert seen | {f"absent\t{place}/tree/none9"} <= fork, fork


def a_record_that_is_too_long_before_the_fork_is_incomplete(tanto, place):
    for fork, process in constructors(tanto, place, 3000):
        assert any(line.startswith("incomplete") for line in fork) and f"absent\t{place}/tree/none2999" in process, fork


def lists(trace):
    found, current = {}, None
    for line in trace.read_text().splitlines():
        word, _, rest = line.partition("\t")
        if word == "command":
            current = found.setdefault(int(rest[1:]), set())
        else:
            current.add(TEMPORARY.sub("TEMPORARY", line))
    return found


def compare(tanto, compiler, place):
    cases = [case for case, is_cxx in CASES if "++" in compiler or not is_cxx]
    lines = [f"{compiler} {case}" for case in cases]
    forks, are_forks = build(tanto, place, "require", lines)
    processes, are_processes = build(tanto, place, "off", lines)
    assert all(are_forks) and not any(are_processes), (are_forks, are_processes)
    for number, line in enumerate(lines):
        ours, theirs = forks[number], processes[number]
        assert not any(it.startswith("incomplete") for it in ours | theirs), (line, ours, theirs)
        assert ours == theirs, (line, "only in the fork", sorted(ours - theirs), "only in the process", sorted(theirs - ours))
    return len(lines)


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    for test in (constructors_are_recorded, a_record_that_is_too_long_before_the_fork_is_incomplete):
        with tempfile.TemporaryDirectory(prefix="forks") as directory:
            test(tanto, Path(directory).resolve())
        print(f"ok recorder: {test.__name__.replace('_', ' ')}")
    assert COMPILERS, "no clang is installed"
    for compiler in COMPILERS:
        with tempfile.TemporaryDirectory(prefix="forks") as directory:
            count = compare(tanto, compiler, Path(directory).resolve() / "tree")
        print(f"ok recorder: {count} commands of {compiler} have the same inputs in forks")


main()
