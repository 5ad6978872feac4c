#!/usr/bin/env python3
"""Clang commands in the compile worker and as processes: equal files, output and exit codes.

    tests/clang/same.py TANTO [NAME...]

Tanto builds each command twice in a directory of the same name: with the worker and without. All files are compared
byte for byte, and so are the output, the exit code and the names of leftover temporary files. The events show whether
the worker ran the command, which each case expects. Prints "ok NAME" or "not ok NAME"."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CLANG = "clang-19"

FILES = {
    "a.c": '#include "a.h"\nint main(void) { return two() + UNUSED; }\n',
    "a.h": "static int two(void) { return 2; }\n#define UNUSED 0\n",
    "b.c": "int b(int x) { int unused; return x * 3; }\n",
    "cc.cc": '#include <string>\n#include <vector>\nstd::vector<std::string> names(int n) {\n'
    '  std::vector<std::string> all; for (int i = 0; i < n; ++i) all.push_back(std::to_string(i)); return all; }\n',
    "wrong.c": "int f(void) { return nothing; }\nint g(void) { return \"x\"; }\n",
    "long.c": "void f(void) {\n" + "  nothing();\n" * 40 + "}\n",
    "crash.c": "int before;\n#pragma clang __debug crash\n",
    "fatal.c": "int before;\n#pragma clang __debug llvm_fatal_error\n",
    "missing.c": '#include "nowhere.h"\n',
    "asm.s": ".globl x\nx: .long 1\n",
    "where.c": 'const char *file = __FILE__; const char *base = __BASE_FILE__;\n',
    "options.rsp": "-O1 -DNAME='a b'\n-c b.c -o rsp.o\n",
    "two.rsp": "-c a.c\nb.c\n",
    "sub/deep.c": "int deep;\n",
    "warn.c": "int f(int a) { if (a = 1) return 2; }\n",
    "pch.h": "#include <string.h>\nstruct pch { int x; };\n",
    "pch.c": "struct pch p; int pch(void) { return (int)strlen(\"x\"); }\n",
    "cfg.cfg": "-DFROM_CFG\n",
    "undefined.c": "int nowhere(void); int main(void) { return nowhere(); }\n",
    "fails": "#!/bin/sh\necho 'this linker fails'\nexit 3\n",
    "dies": "#!/bin/sh\nkill -TERM $$\n",
}
PROGRAMS = ["fails", "dies"]

# Name, command, whether the worker runs it, and additional environment variables.
CASES = [
    ("object", "-c a.c -o a.o", True, {}),
    ("object without a name", "-c a.c", True, {}),
    ("with debug information", "-g -c a.c -o a.o", True, {}),
    ("optimised", "-O2 -g -c cc.cc -o cc.o", True, {}),
    ("depfile", "-MD -MF a.d -MT target -c a.c -o a.o", True, {}),
    ("depfile beside it", "-MMD -MP -c a.c -o a.o", True, {}),
    ("only dependencies", "-M a.c", True, {}),
    ("preprocessed", "-E a.c", True, {}),
    ("preprocessed into a file", "-E -dD a.c -o a.i", True, {}),
    ("assembly", "-S -O1 b.c -o b.s", True, {}),
    ("bitcode", "-emit-llvm -c b.c -o b.bc", True, {}),
    ("link-time optimisation", "-flto -c b.c -o b.o", True, {}),
    ("only checked", "-fsyntax-only -Wall b.c", True, {}),
    ("warnings", "-Wall -Wextra -c warn.c -o warn.o", True, {}),
    ("warnings as errors", "-Werror -Wall -c warn.c -o warn.o", True, {}),
    ("colours", "-fcolor-diagnostics -Wall -c warn.c -o warn.o", True, {}),
    ("errors", "-c wrong.c -o wrong.o", True, {}),
    ("many errors", "-ferror-limit=5 -c long.c -o long.o", True, {}),
    ("errors with colours", "-fcolor-diagnostics -fdiagnostics-show-hotness -c wrong.c -o wrong.o", True, {}),
    ("remarks", "-O2 -Rpass=inline -c a.c -o a.o", True, {}),
    ("an unknown warning", "-Wnonsense -c b.c -o b.o", True, {}),
    ("an unused argument", "-lm -c b.c -o b.o", True, {}),
    ("an unknown option", "-fnonsense -c b.c -o b.o", False, {}),
    ("no input", "-c", False, {}),
    ("a missing file", "-c nowhere.c -o x.o", False, {}),
    ("a missing header", "-MD -c missing.c -o missing.o", True, {}),
    ("output that cannot be written", "-c b.c -o nowhere/b.o", True, {}),
    ("output over a directory", "-c b.c -o sub", True, {}),
    ("from standard input", "-x c -c - -o stdin.o", True, {}),
    ("to standard output", "-S b.c -o -", True, {}),
    ("a response file", "@options.rsp", True, {}),
    ("a missing response file", "@nowhere.rsp", False, {}),
    ("two sources", "-c a.c b.c", True, {}),
    ("two sources with depfiles and warnings", "-MD -Wall -c warn.c b.c a.c", True, {}),
    ("two sources, optimised", "-O2 -g -c cc.cc b.c", True, {}),
    ("two sources, split debug information", "-g -gsplit-dwarf -c a.c b.c", True, {}),
    ("two sources and one output", "-c a.c b.c -o ab.o", False, {}),
    ("two sources, preprocessed", "-E a.c b.c", True, {}),
    ("two sources, only checked", "-fsyntax-only -Wall a.c b.c wrong.c", True, {}),
    ("two sources, one missing", "-c a.c nowhere.c", False, {}),
    ("two sources in a response file", "@two.rsp", True, {}),
    ("two languages", "-x c++ -c a.c -x c b.c", True, {}),
    ("an error in the first", "-c wrong.c b.c", True, {}),
    ("an error in the second", "-c a.c wrong.c b.c", True, {}),
    ("an error before the link", "a.c wrong.c b.c -o ab", True, {}),
    ("a crash in the second", "-c a.c crash.c", False, {}),
    ("a crash before the link", "a.c crash.c -o a", False, {}),
    ("a fatal error in the second", "-c a.c fatal.c", False, {}),
    ("two processors", "-Xarch_host -DX -c a.c b.c", True, {}),
    ("two sources, an option of the optimiser", "-mllvm -inline-threshold=1 -c a.c b.c", False, {}),
    ("compiled and linked", "a.c b.c -o ab", True, {}),
    ("one source, compiled and linked", "a.c", True, {}),
    ("compiled and linked by lld", "-fuse-ld=lld a.c b.c -o ab", True, {}),
    ("compiled and linked with debug information", "-g a.c b.c -o ab", True, {}),
    ("compiled and linked, optimised at the link", "-flto -fuse-ld=lld a.c b.c -o ab", True, {}),
    ("compiled and linked with a library", "-x c++ a.c -shared -fPIC -lstdc++ -o a.so", True, {}),
    ("compiled and linked with a depfile", "-MMD -MF a.d a.c -o a", True, {}),
    ("an undefined function", "undefined.c b.c -o ab", True, {}),
    ("a linker that fails", "--ld-path=./fails a.c -o a", True, {}),
    ("a linker that is killed", "--ld-path=./dies a.c -o a", False, {}),
    ("a linker that is missing", "--ld-path=./nowhere a.c -o a", False, {}),
    ("output of a link that cannot be written", "a.c -o nowhere/a", True, {}),
    ("a link without a temporary directory", "a.c -o a", False, {"TMPDIR": "/nowhere"}),
    ("only linked", "asm.s -nostdlib -shared -o x.so", False, {}),
    ("an external assembler", "-fno-integrated-as -c a.c b.c", True, {}),
    ("an external assembler for one source", "-fno-integrated-as -c a.c -o a.o", True, {}),
    ("an external assembler and split debug information", "-fno-integrated-as -g -gsplit-dwarf -c b.c", True, {}),
    ("an external assembler that fails", "-fno-integrated-as -Wa,--nonsense -c a.c -o a.o", True, {}),
    ("a source and assembly", "-c a.c asm.s", True, {}),
    ("intermediate files", "-save-temps -c a.c -o a.o", True, {}),
    ("intermediate files of a link", "-save-temps=obj a.c b.c -o ab", True, {}),
    ("intermediate files of an error", "-save-temps a.c wrong.c -o ab", True, {}),
    ("assembly as input", "-c asm.s -o asm.o", False, {}),
    ("a compilation database", "-MJ a.json -c a.c -o a.o", False, {}),
    ("print commands only", "-### -c b.c -o b.o", False, {}),
    ("a language", "-x c++ -std=c++20 -c b.c -o b.o", True, {}),
    ("another processor", "--target=aarch64-linux-gnu -c b.c -o b.o", True, {}),
    ("this processor", "-march=native -O2 -c b.c -o b.o", True, {}),
    ("positions independent", "-fPIC -ffunction-sections -fdata-sections -c b.c -o b.o", True, {}),
    ("sanitisers", "-fsanitize=address,undefined -g -c b.c -o b.o", True, {}),
    ("coverage", "--coverage -c b.c -o b.o", True, {}),
    ("split debug information", "-g -gsplit-dwarf -c b.c -o b.o", True, {}),
    ("recorded command line", "-grecord-command-line -g -c b.c -o b.o", True, {}),
    ("a precompiled header", "-x c-header pch.h -o pch.h.pch", True, {}),
    ("the names of files", "-c where.c -o where.o", True, {}),
    ("mapped names", "-fdebug-prefix-map=/=/x -g -c where.c -o where.o", True, {}),
    ("a configuration file", "--config ./cfg.cfg -c b.c -o b.o", False, {}),
    ("an option of the optimiser", "-mllvm -inline-threshold=1 -c b.c -o b.o", False, {}),
    ("include paths of the environment", "-c missing.c -o missing.o", True, {"CPATH": "sub"}),
    ("time of the environment", "-c b.c -o b.o", True, {"SOURCE_DATE_EPOCH": "1"}),
    ("a temporary directory that is none", "-c b.c -o b.o", True, {"TMPDIR": "/nowhere"}),
    ("another directory for debug information", "-g -c b.c -o b.o", True, {"PWD": "/"}),
    ("another language of messages", "-c wrong.c -o wrong.o", True, {"LANG": "de_DE.UTF-8"}),
    ("overridden options", "-c b.c -o b.o", False, {"CCC_OVERRIDE_OPTIONS": "+-O2"}),
    ("processes wanted", "-c b.c -o b.o", False, {"CLANG_SPAWN_CC1": "1"}),
    ("time passes", "-ftime-trace -c b.c -o b.o", False, {}),
    ("a fatal error", "-c fatal.c -o fatal.o", False, {}),
    ("a crash", "-c crash.c -o crash.o", False, {}),
    ("quotes", "-DX='\"a b\"' -c b.c -o 'with blank.o'", True, {}),
]

# Text that differs in each run of any clang: addresses, times.
UNEQUAL = {
    "a fatal error",
    "a fatal error in the second",
    "a crash",
    "a crash in the second",
    "a crash before the link",
    "time passes",
    "print commands only",
}


def without_random_parts(text):
    """Removes the random part of names of temporary files."""
    return re.sub(r"-[0-9a-f]{6,8}(?=\.\w)", "-RANDOM", text)


class World:
    def __init__(self, tanto, place):
        self.tanto, self.place = tanto, place

    def build(self, command, worker, more=None):
        """Runs the command in a fresh tree; returns output, exit code, files, and whether the worker ran it."""
        shutil.rmtree(self.place, ignore_errors=True)
        temporary = Path(f"{self.place}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        for name, text in FILES.items():
            file = self.place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            # A precompiled header contains the times of its files.
            os.utime(file, (1, 1))
            file.chmod(0o755 if name in PROGRAMS else 0o644)
        line = command.replace("$", "$$")
        (self.place / "build.ninja").write_text(f"rule r\n  command = {line}\nbuild never: r\n")
        events = self.place.parent / "events"
        environment = dict(os.environ, TANTO_RECORD="1", XDG_CACHE_HOME=f"{self.place}.cache")
        environment |= {"TMPDIR": str(temporary), **(more or {})}
        flags = ["--clang-worker=auto" if worker else "--clang-worker=off", "--format=jsonl", "-j1"]
        done = subprocess.run([self.tanto, "build", *flags], cwd=self.place, env=environment, capture_output=True)
        ended = None
        for text in done.stdout.splitlines():
            event = json.loads(text)
            if event.get("event") == "finished":
                ended = event
        events.write_bytes(done.stdout)
        left = sorted(without_random_parts(it.name) for it in temporary.iterdir())
        said = [ended.get("exit"), ended.get("signal"), without_random_parts(ended.get("output", ""))] if ended else done.stderr
        said = {"said": said, "left": left}
        return said, self.files(), bool(ended and ended.get("in_process"))

    def files(self):
        own = {".tanto", ".ninja_log", ".ninja_deps", "build.ninja"}
        found = {}
        for path in sorted(self.place.rglob("*")):
            if path.relative_to(self.place).parts[0] not in own and path.is_file():
                found[str(path.relative_to(self.place))] = (path.read_bytes(), path.stat().st_mode)
        return found


def compare(world, name, command, expected, more):
    with_it, with_files, in_process = world.build(command, True, more)
    without, files, plain = world.build(command, False, more)
    wrong = []
    if plain:
        wrong.append("the worker ran a command that it must decline")
    if in_process != expected:
        wrong.append(f"in the worker: {in_process}, expected {expected}")
    for key in ("said", "left") if name not in UNEQUAL else ("left",):
        if with_it[key] != without[key]:
            wrong.append(f"{key} with the worker: {with_it[key]}\n  without: {without[key]}")
    if name not in UNEQUAL and with_files != files:
        names = {n for n in with_files.keys() | files.keys() if with_files.get(n) != files.get(n)}
        wrong.append(f"files differ: {sorted(names)}")
    if name in UNEQUAL and with_files.keys() != files.keys():
        wrong.append(f"files: {sorted(with_files)}\n  without: {sorted(files)}")
    print("not ok" if wrong else "ok", name, flush=True)
    for line in wrong:
        print(f"  {line}")
    return not wrong


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tanto = str(Path(sys.argv[1]).absolute())
    with tempfile.TemporaryDirectory() as directory:
        world = World(tanto, Path(directory) / "work")
        wanted = sys.argv[2:]
        cases = [case for case in CASES if not wanted or case[0] in wanted]
        good = [compare(world, name, f"{CLANG} {rest}", *how) for name, rest, *how in cases]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
