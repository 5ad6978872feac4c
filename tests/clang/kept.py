#!/usr/bin/env python3
"""Options of compiles from checkpoints: each supported one, and cases that are never kept.

    tests/clang/kept.py WORKER

Acts as a client of a checkpoint daemon, like Tanto. In each case, a file is kept, edited after its includes, and
compiled from its checkpoint and by clang. Prints "ok NAME" or "not ok NAME"."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import edits

SOURCE = Path(__file__).resolve().parents[2] / "clang-worker/src/checkpoint.cc"
HEAD = '#include <stddef.h>\n#include "h.h"\n'
BODY = "int first(int x) { int unused; return two(x); }\n"
EDITED = "int second(int x) { double y = x; for (int i = 0; i < x; i++) y *= two(i); return (int)y; }\nint third = __LINE__;\n"



def native():
    """This processor, unless clang warns of its features: a compile with warnings of its options has no checkpoint."""
    line = ["clang-19", "-march=native", "-fsyntax-only", "-x", "c", "/dev/null"]
    return "x86-64-v2" if subprocess.run(line, capture_output=True).stderr else "native"


# Supported flags for C and C++, with additional environment variables.
FLAGS = [
    ("c", "-O0 -g", {}),
    ("c", "-O2 -g -MMD -MP -MF {out}.d -MT target", {}),
    ("c", "-MD -MF {out}.d -pthread -w", {}),
    ("c", "-Wall -Wextra -pedantic -fcolor-diagnostics", {}),
    ("c", "-O1 -ffunction-sections -fdata-sections -fcommon -fno-strict-aliasing -fwrapv -fno-builtin", {}),
    ("c", "-O2 -fPIC -fno-unroll-loops -fvisibility=hidden -funsigned-char -fno-semantic-interposition", {}),
    ("c", f"-fno-verbose-asm -msse4.2 -march={native()} -mtune=native -fno-omit-frame-pointer", {}),
    ("c", "-DX=1 -D Y -UX -U Y -Isub -isystem sub -iquote sub -idirafter sub -include config.h", {}),
    ("c", "-fstack-protector-strong --param=ssp-buffer-size=4 -fstack-clash-protection -fcf-protection", {}),
    ("c", "-g -gdwarf-4 -ffile-prefix-map=/=/x -std=c11 -ferror-limit=5 -ffp-contract=off", {}),
    ("c", "-g", {"CPATH": "sub", "C_INCLUDE_PATH": "sub"}),
    ("c++", "-O0 -g -std=c++20", {"CPLUS_INCLUDE_PATH": "sub"}),
    ("c++", "-O2 -fno-rtti -fvisibility-inlines-hidden -fno-exceptions -funwind-tables", {}),
    ("c++", "-O2 -fPIC -g", {}),
]

OF_ITS_TIME = "it or a header uses __DATE__, __TIME__ or __TIMESTAMP__"
OF_EMBEDDING = "it or a header uses #embed or __has_embed"
NOWHERE = "it has no include before its own code"
NO_OPTION = " is not supported with checkpoints"
# Never kept: name, reason, flags, and the text before and after the includes.
REFUSED = [
    ("the date in a header", OF_ITS_TIME, "", '#include "date.h"\n', ""),
    ("a warning in a header", "its includes print warnings", "-Wall", '#include "warns.h"\n', ""),
    ("an error in a header", "it or a header has errors", "", '#include "wrong.h"\n', ""),
    ("no such header", "it or a header has errors", "", '#include "nowhere.h"\n', ""),
    ("a message in a header", "its includes print warnings", "", '#include "message.h"\n', ""),
    ("a header prints", "its includes print or write something", "", '#include "prints.h"\n', ""),
    ("a question for something to embed", OF_EMBEDDING, "-std=c23", '#include "has_embed.h"\n', ""),
    ("something embedded", OF_EMBEDDING, "-std=c23 -Wno-c23-extensions", '#include "embeds.h"\n', ""),
    ("the file itself, read twice", "it includes itself", "-DOUTER", "#ifdef OUTER\n#undef OUTER\n#include __FILE__\n#endif\n", ""),
    ("the file itself, under another name", "it includes itself", "", '#include "again.h"\n', ""),
    ("modules", NO_OPTION, "-fmodules", "#include <stddef.h>\n", ""),
    ("a precompiled header", f"-include-pch{NO_OPTION}", "-include-pch pch.pch", "#include <stddef.h>\n", ""),
    ("a plugin", f"-load{NO_OPTION}", "-fplugin=/nowhere.so", "#include <stddef.h>\n", ""),
    ("an option of the optimiser", f"-mllvm{NO_OPTION}", "-mllvm -inline-threshold=1", "#include <stddef.h>\n", ""),
    ("an unknown option", NO_OPTION, "-fwhole-program-vtables -flto", "#include <stddef.h>\n", ""),
    ("a warning of the driver", "clang warns of its options", "-lm", "#include <stddef.h>\n", ""),
    ("no such option", "clang finds an error in its options", "-fnonsense", "#include <stddef.h>\n", ""),
    ("words from a file", "its options are in a file", "@words", "#include <stddef.h>\n", ""),
    ("intermediate files", "it is not one compile", "-save-temps", "#include <stddef.h>\n", ""),
    ("assembly", f"-S{NO_OPTION}", "-S", "#include <stddef.h>\n", ""),
    ("no includes", NOWHERE, "", "", "int none;\n"),
    ("code before the includes", NOWHERE, "", "int code;\n#include <stddef.h>\n", ""),
    ("an include without an end of line", NOWHERE, "", "", '#include "h.h"'),
]

HEADERS = {
    "h.h": "#ifndef H\n#define H\nstatic inline int two(int x) { return x * 2; }\n#endif\n",
    "config.h": "#define CONFIG 1\n",
    "date.h": "static const char *date = __DATE__;\n",
    "warns.h": "static inline int warns(int a) { if (a = 1) return 2; return 3; }\n",
    "wrong.h": "int wrong = nothing;\n",
    "message.h": '#pragma message "hello"\n',
    "prints.h": "#define M 1\n#pragma clang __debug macro M\n",
    "has_embed.h": '#if __has_embed("h.h")\n#endif\n',
    "embeds.h": 'static const char bytes[] = {\n#embed "h.h"\n};\n',
    "sub/other.h": "int other;\n",
    "pch.h": "int pch;\n",
    "words": "-DWORDS\n",
}


class Place:
    def __init__(self, worker, directory):
        self.place = Path(directory).resolve()
        (self.place / "sub").mkdir()
        for name, text in HEADERS.items():
            (self.place / name).write_text(text)
        self.environment = {"PATH": os.environ["PATH"], "LANG": "C"}
        self.clang("clang-19 -x c-header pch.h -o pch.pch", {})
        self.daemon = edits.Daemon(worker, self.place)

    def clang(self, command, more, **options):
        line = shlex.split(command)
        return subprocess.run(
            line, cwd=self.place, env=self.environment | more, stdin=subprocess.DEVNULL, capture_output=True, **options
        )

    def made(self, name):
        found = {path.name: path.read_bytes() for path in self.place.glob(f"{name}.*") if path.suffix in (".o", ".d")}
        for file in found:
            (self.place / file).unlink()
        return found

    def from_checkpoint(self, command, more):
        return self.daemon.run(shlex.split(command), self.environment | more)


def options_in_the_lists():
    """Options that checkpoint.cc allows: whole words, and prefixes."""
    text = SOURCE.read_text()
    words = [re.search(rf"{name}.*?= {{(.*?)}};", text, re.S)[1] for name in (r"> alone", r"> with_one", r"beginnings\[\]")]
    return [set(re.findall(r'"([^"]+)"', part)) for part in words]


def check_options(place, say):
    cases = []
    for number, (language, flags, more) in enumerate(FLAGS):
        suffix = ".cc" if language == "c++" else ".c"
        name = f"option{number}"
        (place.place / (name + suffix)).write_text(HEAD + BODY)
        flags = flags.replace("{out}", name)
        cases.append((name, suffix, f"clang-19 {flags} -c {name}{suffix} -o {name}.o", more))
    wished = [(shlex.split(command), place.environment | more) for _, _, command, more in cases]
    kept = place.daemon.keep(wished)
    say(f"a checkpoint for each of {len(cases)} compiles", kept == len(cases))
    alone, with_one, beginnings = options_in_the_lists()
    untested = alone | with_one | beginnings
    for name, suffix, command, more in cases:
        (place.place / (name + suffix)).write_text(HEAD + EDITED)
        own = place.from_checkpoint(command, more)
        its_files = place.made(name)
        done = place.clang(command, more)
        same = own == (done.returncode, done.stdout + done.stderr) and its_files == place.made(name)
        say(f"same as without a checkpoint: {command}", same and len(its_files) > 0)
        line = shlex.split(place.clang(f"{command} -###", more).stderr.decode().splitlines()[-1])
        untested -= {it for it in untested if any(word == it or (it in beginnings and word.startswith(it)) for word in line)}
    say(f"all options are tested {sorted(untested) or ''}".strip(), not untested)


def check_refused(place, say):
    commands = []
    for number, (_, _, flags, before, behind) in enumerate(REFUSED):
        name = f"refused{number}"
        (place.place / f"{name}.c").write_text(before + behind)
        commands.append(f"clang-19 {flags} -c {name}.c -o {name}.o")
    number = next(at for at, case in enumerate(REFUSED) if case[0].endswith("another name"))
    os.link(place.place / f"refused{number}.c", place.place / "again.h")
    (place.place / f"refused{number}.c").write_text('#ifndef AGAIN\n#define AGAIN\n#include "again.h"\n#endif\n')
    place.daemon.keep([(shlex.split(command), place.environment) for command in commands])
    reasons = place.daemon.without
    for number, ((name, why, *_), command) in enumerate(zip(REFUSED, commands)):
        its = reasons.get(f"refused{number}.c", "nothing")
        refused = its.endswith(why) and place.from_checkpoint(command, {}) is None
        say(f"not kept: {name}" if refused else f"not kept: {name} ({its})", refused)


def check_memory(worker, place, say):
    """A checkpoint without enough memory, simulated with a /proc of a small machine."""
    proc, house = place.place / "proc", place.place / "small"
    proc.mkdir()
    house.mkdir()
    (proc / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 90 kB\n")
    (house / "a.c").write_text("#include <stddef.h>\nint a;\n")
    daemon = edits.Daemon(worker, house, proc)
    kept = daemon.keep([(["clang-19", "-c", "a.c", "-o", "a.o"], place.environment)])
    say("not kept: not enough memory", kept == 0 and daemon.without == {"a.c": "not enough memory for more checkpoints"})
    daemon.stop()


def check_later_ones(place, say):
    """Files that are valid up to the end of the includes, but not after it."""
    command = "clang-19 -c later.c -o later.o"
    behind = ("const char *when = __TIME__;\n", "const char *when = __TIMESTAMP__;\n", "const char *when = __DATE__;\n", '#define H2\n#include "later.c"\n')
    for text in behind:
        (place.place / "later.c").write_text(HEAD)
        place.daemon.keep([(shlex.split(command), place.environment)])
        # Some code is parsed twice, once silently.
        (place.place / "later.c").write_text(HEAD + (f"#ifndef H2\n{text}#endif\n" if "H2" in text else text))
        say(f"not used: {text.splitlines()[-1]}", place.from_checkpoint(command, {}) is None)
    # Known at once: the rest, which is endless here, is not read.
    os.mkfifo(place.place / "pipe.h")
    (place.place / "later.c").write_text(f'{HEAD}const char *when = __DATE__;\n#include "pipe.h"\n')
    say("not used, and rejected at once", place.from_checkpoint(command, {}) is None)


def check_changing_ones(place, say):
    """A header is rewritten while the daemon makes its checkpoint: the checkpoint is never used with another text."""
    command = "clang-19 -c young.c -o young.o"
    main, header = place.place / "young.c", place.place / "young.h"
    main.write_text('#include "young.h"\nint x;\n')
    header.write_text("int young;\n")
    connection, *_ = place.daemon.connect()
    place.daemon.ask(connection, edits.KEEP, shlex.split(command), place.environment, place.daemon.nothing)
    connection.close()
    end = time.monotonic() + edits.PATIENCE
    number = 0
    while time.monotonic() < end:
        number += 1
        header.write_text(f"int young = {number};\n")
        connection, _, wanted = place.daemon.connect()
        connection.close()
        if wanted == 0:
            break
        time.sleep(0.02)
    header.write_text("int young = -1;\n")
    main.write_text('#include "young.h"\nint y;\n')
    say("not used: a header that was rewritten meanwhile", place.from_checkpoint(command, {}) is None)


def check_places(place, say):
    """The pause in files with conditions between their includes."""
    texts = {
        "conditions": "#define A 1\n#if A\n#include <stddef.h>\n#endif\n#ifdef _WIN32\n#include <windows.h>\n#endif\n",
        "pragmas": '#pragma pack(push)\n#include "h.h"\n#pragma pack(pop)\n#ifdef NEVER\n#include "nowhere.h"\n#endif\n',
        "guarded": '#include "h.h"\n#include "h.h"\n',
        "tests": "#if __has_include(<stddef.h>)\n#include <stddef.h>\n#endif\n#if __has_include(<nowhere.h>)\n#include <nowhere.h>\n#endif\n",
    }
    commands = {}
    for name, text in texts.items():
        (place.place / f"{name}.c").write_text(text + "int before;\n")
        commands[name] = f"clang-19 -g -c {name}.c -o {name}.o"
    place.daemon.keep([(shlex.split(command), place.environment) for command in commands.values()])
    for name, text in texts.items():
        (place.place / f"{name}.c").write_text(text + "\n\nint behind = __LINE__;\n")
        own, its_files = place.from_checkpoint(commands[name], {}), place.made(name)
        done = place.clang(commands[name], {})
        say(f"paused behind {name}", own == (done.returncode, b"") and its_files == place.made(name))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    good = []

    def say(name, ok):
        print("ok" if ok else "not ok", name, flush=True)
        good.append(ok)

    with tempfile.TemporaryDirectory() as directory:
        place = Place(sys.argv[1], directory)
        for check in (check_options, check_refused, check_later_ones, check_changing_ones, check_places):
            check(place, say)
        check_memory(sys.argv[1], place, say)
        place.daemon.stop()
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
