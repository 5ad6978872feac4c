#!/usr/bin/env python3
"""Commands in forks of their compiler and as processes: equal files, output and exit codes.

    tests/clang/same.py TANTO CLANG [NAME...]

Tanto builds each command twice in a directory of the same name: in a fork of this clang and as a process. All files are
compared byte for byte, and so are the output, the exit code and the names of leftover temporary files. The events show
whether a fork ran the command. Prints "ok NAME" or "not ok NAME"."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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

# Name, command, and additional environment variables.
CASES = [
    ("object", "-c a.c -o a.o", {}),
    ("object without a name", "-c a.c", {}),
    ("with debug information", "-g -c a.c -o a.o", {}),
    ("optimised", "-O2 -g -c cc.cc -o cc.o", {}),
    ("depfile", "-MD -MF a.d -MT target -c a.c -o a.o", {}),
    ("depfile beside it", "-MMD -MP -c a.c -o a.o", {}),
    ("only dependencies", "-M a.c", {}),
    ("preprocessed", "-E a.c", {}),
    ("preprocessed into a file", "-E -dD a.c -o a.i", {}),
    ("assembly", "-S -O1 b.c -o b.s", {}),
    ("bitcode", "-emit-llvm -c b.c -o b.bc", {}),
    ("link-time optimisation", "-flto -c b.c -o b.o", {}),
    ("only checked", "-fsyntax-only -Wall b.c", {}),
    ("warnings", "-Wall -Wextra -c warn.c -o warn.o", {}),
    ("warnings as errors", "-Werror -Wall -c warn.c -o warn.o", {}),
    ("colours", "-fcolor-diagnostics -Wall -c warn.c -o warn.o", {}),
    ("errors", "-c wrong.c -o wrong.o", {}),
    ("many errors", "-ferror-limit=5 -c long.c -o long.o", {}),
    ("errors with colours", "-fcolor-diagnostics -fdiagnostics-show-hotness -c wrong.c -o wrong.o", {}),
    ("remarks", "-O2 -Rpass=inline -c a.c -o a.o", {}),
    ("an unknown warning", "-Wnonsense -c b.c -o b.o", {}),
    ("an unused argument", "-lm -c b.c -o b.o", {}),
    ("an unknown option", "-fnonsense -c b.c -o b.o", {}),
    ("no input", "-c", {}),
    ("a missing file", "-c nowhere.c -o x.o", {}),
    ("a missing header", "-MD -c missing.c -o missing.o", {}),
    ("output that cannot be written", "-c b.c -o nowhere/b.o", {}),
    ("output over a directory", "-c b.c -o sub", {}),
    ("from standard input", "-x c -c - -o stdin.o", {}),
    ("to standard output", "-S b.c -o -", {}),
    ("a response file", "@options.rsp", {}),
    ("a missing response file", "@nowhere.rsp", {}),
    ("two sources", "-c a.c b.c", {}),
    ("two sources with depfiles and warnings", "-MD -Wall -c warn.c b.c a.c", {}),
    ("two sources, optimised", "-O2 -g -c cc.cc b.c", {}),
    ("two sources, split debug information", "-g -gsplit-dwarf -c a.c b.c", {}),
    ("two sources and one output", "-c a.c b.c -o ab.o", {}),
    ("two sources, preprocessed", "-E a.c b.c", {}),
    ("two sources, only checked", "-fsyntax-only -Wall a.c b.c wrong.c", {}),
    ("two sources, one missing", "-c a.c nowhere.c", {}),
    ("two sources in a response file", "@two.rsp", {}),
    ("two languages", "-x c++ -c a.c -x c b.c", {}),
    ("an error in the first", "-c wrong.c b.c", {}),
    ("an error in the second", "-c a.c wrong.c b.c", {}),
    ("an error before the link", "a.c wrong.c b.c -o ab", {}),
    ("a crash in the second", "-c a.c crash.c", {}),
    ("a crash before the link", "a.c crash.c -o a", {}),
    ("a fatal error in the second", "-c a.c fatal.c", {}),
    ("two processors", "-Xarch_host -DX -c a.c b.c", {}),
    ("two sources, an option of the optimiser", "-mllvm -inline-threshold=1 -c a.c b.c", {}),
    ("compiled and linked", "a.c b.c -o ab", {}),
    ("one source, compiled and linked", "a.c", {}),
    ("compiled and linked by lld", "-fuse-ld=lld a.c b.c -o ab", {}),
    ("compiled and linked with debug information", "-g a.c b.c -o ab", {}),
    ("compiled and linked, optimised at the link", "-flto -fuse-ld=lld a.c b.c -o ab", {}),
    ("compiled and linked with a library", "-x c++ a.c -shared -fPIC -lstdc++ -o a.so", {}),
    ("compiled and linked with a depfile", "-MMD -MF a.d a.c -o a", {}),
    ("an undefined function", "undefined.c b.c -o ab", {}),
    ("a linker that fails", "--ld-path=./fails a.c -o a", {}),
    ("a linker that is killed", "--ld-path=./dies a.c -o a", {}),
    ("a linker that is missing", "--ld-path=./nowhere a.c -o a", {}),
    ("output of a link that cannot be written", "a.c -o nowhere/a", {}),
    ("a link without a temporary directory", "a.c -o a", {"TMPDIR": "/nowhere"}),
    ("only linked", "asm.s -nostdlib -shared -o x.so", {}),
    ("an external assembler", "-fno-integrated-as -c a.c b.c", {}),
    ("an external assembler for one source", "-fno-integrated-as -c a.c -o a.o", {}),
    ("an external assembler and split debug information", "-fno-integrated-as -g -gsplit-dwarf -c b.c", {}),
    ("an external assembler that fails", "-fno-integrated-as -Wa,--nonsense -c a.c -o a.o", {}),
    ("a source and assembly", "-c a.c asm.s", {}),
    ("intermediate files", "-save-temps -c a.c -o a.o", {}),
    ("intermediate files of a link", "-save-temps=obj a.c b.c -o ab", {}),
    ("intermediate files of an error", "-save-temps a.c wrong.c -o ab", {}),
    ("assembly as input", "-c asm.s -o asm.o", {}),
    ("a compilation database", "-MJ a.json -c a.c -o a.o", {}),
    ("print commands only", "-### -c b.c -o b.o", {}),
    ("a language", "-x c++ -std=c++20 -c b.c -o b.o", {}),
    ("another processor", "--target=aarch64-linux-gnu -c b.c -o b.o", {}),
    ("this processor", "-march=native -O2 -c b.c -o b.o", {}),
    ("positions independent", "-fPIC -ffunction-sections -fdata-sections -c b.c -o b.o", {}),
    ("sanitisers", "-fsanitize=address,undefined -g -c b.c -o b.o", {}),
    ("coverage", "--coverage -c b.c -o b.o", {}),
    ("split debug information", "-g -gsplit-dwarf -c b.c -o b.o", {}),
    ("recorded command line", "-grecord-command-line -g -c b.c -o b.o", {}),
    ("a precompiled header", "-x c-header pch.h -o pch.h.pch", {}),
    ("the names of files", "-c where.c -o where.o", {}),
    ("mapped names", "-fdebug-prefix-map=/=/x -g -c where.c -o where.o", {}),
    ("a configuration file", "--config ./cfg.cfg -c b.c -o b.o", {}),
    ("an option of the optimiser", "-mllvm -inline-threshold=1 -c b.c -o b.o", {}),
    ("include paths of the environment", "-c missing.c -o missing.o", {"CPATH": "sub"}),
    ("time of the environment", "-c b.c -o b.o", {"SOURCE_DATE_EPOCH": "1"}),
    ("a temporary directory that is none", "-c b.c -o b.o", {"TMPDIR": "/nowhere"}),
    ("another directory for debug information", "-g -c b.c -o b.o", {"PWD": "/"}),
    ("another language of messages", "-c wrong.c -o wrong.o", {"LANG": "de_DE.UTF-8"}),
    ("overridden options", "-c b.c -o b.o", {"CCC_OVERRIDE_OPTIONS": "+-O2"}),
    ("processes wanted", "-c b.c -o b.o", {"CLANG_SPAWN_CC1": "1"}),
    ("time passes", "-ftime-trace -c b.c -o b.o", {}),
    ("a fatal error", "-c fatal.c -o fatal.o", {}),
    ("a crash", "-c crash.c -o crash.o", {}),
    ("thin link-time optimisation", "-flto=thin -O2 -c b.c -o b.o", {}),
    ("memory sanitiser", "-fsanitize=memory -O1 -c a.c -o a.o", {}),
    ("thread sanitiser", "-fsanitize=thread -c cc.cc -o cc.o", {}),
    ("a profile", "-fprofile-instr-generate -fcoverage-mapping -c a.c -o a.o", {}),
    ("stack usage", "-fstack-usage -O1 -c a.c -o a.o", {}),
    ("optimisation records", "-O2 -fsave-optimization-record -c cc.cc -o cc.o", {}),
    ("serialised diagnostics", "--serialize-diagnostics warn.dia -Wall -c warn.c -o warn.o", {}),
    ("quotes", "-DX='\"a b\"' -c b.c -o 'with blank.o'", {}),
]

# Text that differs in each run of any clang: addresses, times, the order of records.
UNEQUAL = {
    "a fatal error",
    "a fatal error in the second",
    "a crash",
    "a crash in the second",
    "a crash before the link",
    "time passes",
    "print commands only",
    "optimisation records",
}


def without_random_parts(text):
    """Removes the random part of names of temporary files."""
    return re.sub(r"-[0-9a-f]{6,8}(?=\.\w)", "-RANDOM", text)


class World:
    def __init__(self, tanto, place):
        self.tanto, self.place = tanto, place
        # Startup costs, which the first build measures: further servers bind all functions at their start.
        self.costs = None

    def build(self, command, is_forked, more=None):
        """Runs the command in a fresh tree; returns output, exit code, files, and whether a fork ran it."""
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
        costs = self.place / ".tanto/fork-servers"
        if self.costs:
            costs.parent.mkdir(mode=0o700)
            costs.write_bytes(self.costs)
        events = self.place.parent / "events"
        environment = dict(os.environ, TANTO_RECORD="1", XDG_CACHE_HOME=f"{self.place}.cache")
        environment |= {"TMPDIR": str(temporary), **(more or {})}
        flags = ["--clang-worker=require" if is_forked else "--clang-worker=off", "--format=jsonl", "-j1"]
        done = subprocess.run([self.tanto, "build", *flags], cwd=self.place, env=environment, capture_output=True)
        self.costs = costs.read_bytes() if costs.exists() else self.costs
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


def compare(world, name, command, more):
    with_it, with_files, is_fork = world.build(command, True, more)
    without, files, is_other_fork = world.build(command, False, more)
    wrong = []
    if is_other_fork:
        wrong.append("a fork ran the command although forks are off")
    if not is_fork:
        wrong.append("a process ran the command")
    for key in ("said", "left") if name not in UNEQUAL else ("left",):
        if with_it[key] != without[key]:
            wrong.append(f"{key} in a fork: {with_it[key]}\n  as a process: {without[key]}")
    if name not in UNEQUAL and with_files != files:
        names = {n for n in with_files.keys() | files.keys() if with_files.get(n) != files.get(n)}
        wrong.append(f"files differ: {sorted(names)}")
    if name in UNEQUAL and with_files.keys() != files.keys():
        wrong.append(f"files: {sorted(with_files)}\n  as a process: {sorted(files)}")
    print("not ok" if wrong else "ok", name, flush=True)
    for line in wrong:
        print(f"  {line}")
    return not wrong


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    clang = sys.argv[2]
    tanto = str(Path(sys.argv[1]).absolute())
    with tempfile.TemporaryDirectory() as directory:
        world = World(tanto, Path(directory) / "work")
        wanted = sys.argv[3:]
        cases = [case for case in CASES if not wanted or case[0] in wanted]
        good = [compare(world, name, f"{clang} {rest}", more) for name, rest, more in cases]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
