"""Builds that share Tanto's job slots: make, ninja, cargo, GCC's LTO and Tanto itself as clients of its jobserver.

A *leaf* is a command without further builds: it records its start and end in one file, and waits in between until it is
released. So the test counts running leaves and is independent of machine speed. For each client: as many leaves run as
there are slots, never more, and all tokens are back at the end.

    python3 tests/clients/jobserver.py TANTO [NAME...]
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / "target/clients/jobserver"
SLOTS = 4
SECONDS = 120

LEAF = """#!/bin/sh
mkfifo "{place}/hold.$$" && echo "+ $$ $PPID" >>"{place}/log" && read word <"{place}/hold.$$"
echo "- $$" >>"{place}/log"
"""

# Prints the number of tokens in the pool of MAKEFLAGS while it runs.
COUNT = """import fcntl, os, re, struct, sys, termios
reader, fifo = re.search(r"--jobserver-auth=(?:(\\d+),\\d+|fifo:(\\S+))", os.environ["MAKEFLAGS"]).groups()
fd = int(reader) if reader else os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
print(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"0000"))[0], file=open(sys.argv[1], "w"))
"""

MANIFEST = """
rule run
  command = $cmd
build direct1: run
  cmd = ./leaf
build direct2: run
  cmd = ./leaf
build nested: run
  cmd = until [ -e on ]; do sleep 0.01; done; {nested}
build guard: run
  cmd = mkfifo guarded; : > on; read word < guarded
build tokens: run | direct1 direct2 nested
  cmd = python3 count.py tokens; echo > guarded
"""

KILLED = """
rule run
  command = $cmd
build nested: run
  cmd = sh -c 'echo $$$$ > pid; exec {nested}'; true
build tokens: run | nested
  cmd = python3 count.py tokens
"""

MAKEFILE = "all: a b c d\na b c d: ; @./leaf\n"
NINJA = "rule leaf\n  command = ./leaf\n" + "".join(f"build {name}: leaf\n" for name in "abcd")

# The partitions of the link are compiled by the calling program.
WRAPPER = """#!/bin/bash
case "$*" in *-fltrans*) ./leaf ;; esac
libgcc=$(gcc -print-libgcc-file-name)
export GCC_EXEC_PREFIX=${libgcc%/*/*/*}/
exec -a "$0" gcc "$@"
"""


class Failed(Exception):
    """A failed check."""


class Build:
    """A run of Tanto with held leaves. `--memory=off`: the machine's load does not count."""

    def __init__(self, tanto, name, manifest, how):
        self.place = PLACE / name
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        self.write("leaf", LEAF.format(place=self.place)).chmod(0o755)
        self.write("count.py", COUNT)
        self.write("Makefile", MAKEFILE)
        self.write("nested.ninja", NINJA)
        self.write("build.ninja", manifest)
        self.write("log", "")
        self.released = set()
        self.command = [tanto, "build", f"-j{SLOTS}", f"--jobserver={how}", "--memory=off"]

    def write(self, path, text):
        file = self.place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def start(self):
        drop = ("MAKEFLAGS", "MFLAGS", "CARGO_MAKEFLAGS", "TANTO_FLAGS", "TANTO_ANCESTORS")
        env = {name: value for name, value in os.environ.items() if name not in drop}
        env |= {"CARGO_TARGET_DIR": str(self.place / "target"), "XDG_CACHE_HOME": f"{self.place}.cache"}
        with open(self.place / "output", "w") as output:
            self.process = subprocess.Popen(
                self.command, cwd=self.place, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def output(self):
        return (self.place / "output").read_text(errors="replace")

    def held(self):
        """Leaves that have started and were not released, in order of their start."""
        started = re.findall(r"^\+ (\d+) \d+$", (self.place / "log").read_text(), re.M)
        return [leaf for leaf in started if leaf not in self.released]

    def own(self):
        """The held leaves that Tanto itself started."""
        started = re.findall(r"^\+ (\d+) (\d+)$", (self.place / "log").read_text(), re.M)
        return [leaf for leaf, parent in started if int(parent) == self.process.pid and leaf not in self.released]

    def hold(self, count):
        """Waits until this many leaves are held, and checks that no more start."""
        until = time.monotonic() + SECONDS
        while len(self.held()) < count:
            if self.process.poll() is not None:
                raise Failed(f"Tanto exited with {len(self.held())} of {count} leaves held")
            if time.monotonic() > until:
                raise Failed(f"of {count}, {len(self.held())} have started")
            time.sleep(0.005)
        time.sleep(0.05)
        if len(self.held()) != count:
            raise Failed(f"{len(self.held())} run, and only {count} may")

    def release(self, leaf=None):
        """Releases this leaf, or the one held longest."""
        leaf = leaf or self.held()[0]
        (self.place / f"hold.{leaf}").write_text("go\n")
        self.released.add(leaf)

    def release_all(self, leaves, limit):
        """Releases all leaves one by one, and checks that the number of running ones stays at the maximum."""
        for left in range(leaves, 0, -1):
            self.hold(min(left, limit))
            self.release()

    def until_output(self, text):
        """Waits until Tanto has printed the end of a command: its token is back then."""
        until = time.monotonic() + SECONDS
        while text not in self.output():
            if time.monotonic() > until:
                raise Failed(f"{text!r} was not printed")
            time.sleep(0.005)

    def end(self):
        if self.process.wait(SECONDS) != 0:
            raise Failed(f"Tanto exited with {self.process.returncode}")

    def most(self):
        """Maximum number of simultaneous leaves."""
        depth = most = 0
        for line in (self.place / "log").read_text().splitlines():
            depth += 1 if line[0] == "+" else -1
            most = max(most, depth)
        return most

    def tokens(self):
        return int((self.place / "tokens").read_text())


def expect(name, value, expected):
    if value != expected:
        raise Failed(f"{name}: {value}, not {expected}")


def shares(build):
    """Two leaves of Tanto and four of the client, beside one that keeps a slot to the end."""
    build.start()
    build.release_all(leaves=6, limit=SLOTS - 1)
    check_tokens(build)


def shares_late(build):
    """The same with a client that, like ninja, asks for tokens only after one of its commands has ended."""
    build.start()
    build.hold(SLOTS - 1)
    # Both of Tanto's leaves; the client may have been faster.
    own = build.own()
    expect("leaves of Tanto's own", len(own), 2)
    for leaf in own:
        build.release(leaf)
    build.until_output("[2/5]")
    build.release()
    build.release_all(leaves=3, limit=SLOTS - 1)
    check_tokens(build)


def check_tokens(build):
    """Checks after the last leaf."""
    build.end()
    expect("leaves at a time", build.most(), SLOTS - 1)
    # The counting command has one, and the guard has the implicit slot.
    expect("tokens in the end", build.tokens(), SLOTS - 2)
    if re.search("warning(?!: Jobserver 'pipe' mode)|jobserver un", build.output()):
        raise Failed("Tanto printed a warning")
    if (build.place / ".tanto/jobserver").exists():
        raise Failed("the fifo is still there")


def refills(build):
    """A client is killed while it holds tokens."""
    build.start()
    build.hold(SLOTS)
    os.kill(int((build.place / "pid").read_text()), signal.SIGKILL)
    for _ in range(SLOTS):
        build.release()
    build.end()
    expect("tokens in the end", build.tokens(), SLOTS - 1)


def simple(command, check=shares):
    """A client that runs the four leaves by this command."""
    return lambda build: (command, check)


def lto(build):
    """A link of four files, each its own partition."""
    build.write("wrapper", WRAPPER).chmod(0o755)
    calls = "".join(f"int f{part}(void);\n" for part in range(4))
    build.write("f.c", "int F(void) { static volatile int x; return x; }\n")
    build.write("main.c", calls + "int main(void) { return " + " + ".join(f"f{part}()" for part in range(4)) + "; }\n")
    parts = [f"gcc -O1 -flto -c f.c -DF=f{part} -o f{part}.o" for part in range(4)]
    objects = " ".join(f"f{part}.o" for part in range(4))
    # The partitions are the four files; main.c is compiled as usual.
    link = f"./wrapper -O1 -fno-lto -c main.c && ./wrapper -O1 -flto=jobserver -flto-partition=1to1 main.o {objects} -o app"
    return " && ".join(parts + [link]), shares


def cargo(build):
    """A package with a build script that runs make."""
    build.write("Cargo.toml", '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n')
    build.write("src/lib.rs", "")
    run = 'Command::new("make").env("MAKEFLAGS", std::env::var_os("CARGO_MAKEFLAGS").unwrap()).status().unwrap()'
    build.write("build.rs", "use std::process::Command;\nfn main() {\n    assert!(" + run + ".success());\n}\n")
    return "cargo build -q --offline", shares


def killed(command):
    return lambda build: (command, refills)


def tests(tanto):
    """Name, requirement, kind of sharing, and client of each test."""
    make, new_make = shutil.which("make") or "make", ROOT / ".venv/bin/make"
    ninja = os.environ.get("TANTO_REFEREE") or ROOT / ".venv/bin/ninja"
    yield "make", make, "auto", simple(make)
    yield "make-new", new_make, "auto", simple(new_make)
    yield "make-new-fifo", new_make, "fifo", simple(new_make)
    yield "ninja", ninja, "on", simple(f"{ninja} -f nested.ninja", shares_late)
    yield "ninja-fifo", ninja, "fifo", simple(f"{ninja} -f nested.ninja", shares_late)
    yield "tanto", tanto, "auto", simple(f"{tanto} build --memory=off -f nested.ninja")
    yield "tanto-fifo", tanto, "fifo", simple(f"{tanto} build --memory=off -f nested.ninja")
    yield "make-below-make", make, "auto", simple(f"echo 'all: ; +@{make} -f Makefile' | {make} -f -")
    yield "lto", shutil.which("gcc") or "gcc", "auto", lto
    yield "cargo", shutil.which("cargo") or "cargo", "auto", cargo
    yield "make-killed", make, "auto", killed(make)
    yield "make-new-killed-fifo", new_make, "fifo", killed(new_make)


def play(tanto, name, how, client):
    """Runs a test; returns the failure, if any."""
    build = Build(tanto, name, "", how)
    nested, check = client(build)
    build.write("build.ninja", (KILLED if check is refills else MANIFEST).format(nested=nested))
    try:
        check(build)
    except (Failed, OSError, ValueError, subprocess.TimeoutExpired) as why:
        return f"{why}\n{build.output() if hasattr(build, 'process') else ''}"
    finally:
        # Their readers then exit.
        if build.process.poll() is None:
            build.process.kill()
            for leaf in build.held():
                os.system(f"kill {leaf} 2>/dev/null")
            build.process.wait()
    return ""


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tanto, wanted = Path(sys.argv[1]).absolute(), sys.argv[2:]
    good = True
    for name, need, how, client in tests(tanto):
        if wanted and name not in wanted:
            continue
        if not Path(need).exists():
            print(f"skipped jobserver {name}: {need} is missing")
            continue
        complaint = play(tanto, name, how, client)
        print("not ok" if complaint else "ok", f"jobserver {name}")
        if complaint:
            print("    " + complaint.rstrip().replace("\n", "\n    "))
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
