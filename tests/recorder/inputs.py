#!/usr/bin/env python3
"""Compares the inputs that `tanto run --record-inputs` lists with the names in the system calls that strace sees.

    tests/recorder/inputs.py TANTO

Compiles with gcc, g++ and each clang that is installed. Both runs of a command have the same output. A name that only one of both
lists is an error, except those that the dynamic loader and the C library use by themselves."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COMPILERS = ("gcc", "g++", "clang-14", "clang++-14", "clang-16", "clang++-16", "clang-19", "clang++-19")

FILES = {
    "a.c": '#include <stdio.h>\n#include "a.h"\n#include "second.h"\nint main(void) { return printf("%d", two()) + SECOND; }\n',
    "a.h": "static int two(void) { return 2; }\n",
    "dir/second.h": "#define SECOND 0\n",
    "b.c": "int b(int x) { return x * 3; }\n",
    "c.cc": "#include <string>\n#include <vector>\nstd::vector<std::string> all() { return {std::to_string(1)}; }\n",
    "absent.c": '#if __has_include("no/such.h") || __has_include(<also/none.h>)\n#error\n#endif\nint absent;\n',
    "bytes.s": '.data\n.incbin "a.h"\n',
    "wrong.c": "int f(void) { return nothing; }\n",
    "missing.c": '#include "nowhere.h"\n',
    "words": "-Idir -c a.c\n-o words.o\n",
    "linked/header.h": "int linked;\n",
    "linked.c": '#include "link/header.h"\n',
}
LINKS = {"link": "linked"}

# Options, and whether the source is C++.
CASES = [
    ("-Idir -c a.c -o a.o", False),
    ("-Idir -O2 -g -c a.c -o a.o", False),
    ("-Idir -MD -MF a.d -c a.c -o a.o", False),
    ("-Idir -E a.c -o a.i", False),
    ("-Idir -M a.c", False),
    ("-iquote dir -c a.c", False),
    ("-isystem dir -c a.c", False),
    ("-Ino/such -idirafter dir -c a.c", False),
    ("-include dir/second.h -Idir -c a.c", False),
    ("@words", False),
    ("-S b.c -o -", False),
    ("-save-temps -c b.c", False),
    ("-pipe -c b.c", False),
    ("-c absent.c", False),
    ("-c linked.c", False),
    ("-c bytes.s", False),
    ("-c b.c -o nowhere/b.o", False),
    ("-Idir a.c b.c -o program", False),
    ("-Idir -static a.c -o program", False),
    ("-shared -fPIC b.c -o b.so", False),
    ("-c wrong.c", False),
    ("-c missing.c", False),
    ("-c none.c", False),
    ("-v -c b.c", False),
    ("-print-search-dirs", False),
    ("--version", False),
    ("-c c.cc", True),
    ("-O2 -std=c++20 -c c.cc", True),
    ("-x c++-header c.cc -o c.gch", True),
    ("-ftime-report -c c.cc", True),
]

# System calls with a path, and the position of the directory that it is relative to.
CALL = re.compile(r'^(\d+) +(\w+)\((?:(AT_FDCWD|\d+)(?:<([^>]*)>)?, )?"((?:[^"\\]|\\.)*)"')
RENAMES = ("rename", "renameat", "renameat2", "link", "linkat")
CALLS = {
    "open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "creat",
    "unlink", "unlinkat", *RENAMES,
}
# The second path of a call.
SECOND = re.compile(r'", (?:(?:AT_FDCWD|\d+)(?:<([^>]*)>)?, )?"((?:[^"\\]|\\.)*)"')
# Files that the C library reads by itself, and libraries, which `implicit.py` compares.
OWN = re.compile(r".*\.so(\.[0-9.]+)?|.*/(glibc-hwcaps|tls|x86_64|haswell|avx512_1|xeon_phi)|.*/locale/.*|.*/gconv.*|/etc/localtime|/proc/(self|\d+)/.*|/sys/.*")
# Temporary files, whose names differ.
TEMPORARY = re.compile(r"(/tmp/[a-z]*-?)?[\w.-]*?(cc[A-Za-z0-9]{6}|-[0-9a-f]{6,8})\b[\w.]*$")


def prepare(place):
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True, parents=True)
        (place / name).write_text(text)
    for name, target in LINKS.items():
        (place / name).symlink_to(target)


def run(command, place):
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": "/tmp"}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False)


def traced(command, place, log):
    """The absolute names in the system calls of a command, those only in calls that realpath makes, and those it tries to execute."""
    result = run(["strace", "-f", "-y", "-s", "5000", "-e", "trace=%file", "-o", log, *command], place)
    names, links, executed = set(), set(), set()
    for line in log.read_text(errors="replace").splitlines():
        if (call := CALL.match(line)) and call[2] in CALLS:
            base = call[4] or str(place)
            is_of_realpath = call[2].startswith("readlink") or (call[2] == "faccessat2" and call[5].endswith("/"))
            if call[5]:
                (links if is_of_realpath else names).add(os.path.join(base, call[5].rstrip("/") or "/"))
            if call[2] in RENAMES and (second := SECOND.search(line)):
                names.add(os.path.join(second[1] or str(place), second[2]))
        elif call and call[2] == "execve":
            executed.add(os.path.join(place, call[5]))
    return result, names, links - names, executed


@functools.cache
def loaded(program):
    """The names that the dynamic loader looks at before the program begins."""
    with tempfile.TemporaryDirectory() as directory:
        command = ["env", "LD_TRACE_LOADED_OBJECTS=1", program]
        return set().union(*traced(command, Path(directory), Path(directory) / "strace")[1:3])


def listed(tanto, command, place):
    """The names in the list of inputs, those of `realpath`, and the programs."""
    file = place.parent / "inputs"
    result = run([tanto, "run", "--leftovers", "ignore", "--record-inputs", file, "--", *command], place)
    names, resolved, programs = set(), set(), set()
    for line in file.read_text().splitlines():
        word, name, *_ = [*line.split("\t"), ""]
        if word == "resolved":
            resolved.add(name)
        if word == "program":
            programs.add(name)
        elif word not in ("variable", "unset", "calendar"):
            names.add(name.rstrip("/") or "/")
    return result, names, resolved, programs


def components(path):
    """Yields the paths that realpath passes to readlink."""
    whole, found = path, "/"
    for name in whole.split("/"):
        if name == "..":
            found = os.path.dirname(found)
        elif name not in ("", "."):
            found = os.path.join(found, name)
            yield found
            try:
                target = os.readlink(found)
            except OSError:
                # No link. Those in /proc can disappear at any time: another process may have the number of one that has ended.
                continue
            found = os.path.join(os.path.dirname(found), target)
            yield from components(found)
            found = os.path.realpath(found)


def compare(tanto, compiler, case):
    command = [compiler, *case.split()]
    with tempfile.TemporaryDirectory(prefix="inputs") as directory:
        place = Path(directory).resolve() / "place"
        prepare(place)
        ours, names, resolved, programs = listed(tanto, command, place)
        shutil.rmtree(place)
        prepare(place)
        theirs, seen, links, executed = traced(command, place, place.parent / "strace")
        assert b"is incomplete" not in ours.stderr, ours.stderr.decode()
        assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout), (ours, theirs)
    interesting = lambda all_names: {it for it in all_names if not OWN.fullmatch(it) and not TEMPORARY.search(it)}
    by_loader = set().union(*map(loaded, programs))
    unseen = interesting(seen) - names - by_loader
    unseen |= interesting(links) - names - by_loader - {part for name in names for part in components(name)}
    invented = interesting(names) - seen - links - resolved - executed
    assert not unseen, f"not recorded: {sorted(unseen)[:8]}"
    assert not invented, f"not seen by strace: {sorted(invented)[:8]}"
    return len(names)


def try_case(tanto, compiler, case):
    """Returns the number of names, and prints a failure."""
    try:
        return compare(tanto, compiler, case)
    except AssertionError as error:
        print(f"not ok {compiler} {case}: {str(error)[:2000]}")
        return None


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    compilers = [it for it in COMPILERS if shutil.which(it)]
    assert compilers, "no compiler is installed"
    cases = [(it, case) for it in compilers for case, is_cxx in CASES if "++" in it or not is_cxx]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        names = list(pool.map(lambda it: try_case(tanto, *it), cases))
    if None in names:
        sys.exit(1)
    print(f"ok inputs: {len(names)} commands of {', '.join(compilers)} look at the names that strace sees, at most {max(names)}")


main()
