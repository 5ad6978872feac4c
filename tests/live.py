"""`tanto build` on a real terminal (tmux). Each command waits for a file, so that the test is independent of machine
speed. Prints a line for each test.

usage: live.py TANTO
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MANIFEST = """
rule cc
  command = until [ -e go.$n ] || [ ! -e build.ninja ]; do sleep 0.05; done; touch $out
  description = CC $out
rule say
  command = until [ -e go.$n ] || [ ! -e build.ninja ]; do sleep 0.05; done; echo said by $out; touch $out
  description = SAY $out
rule bad
  command = until [ -e go.$n ] || [ ! -e build.ninja ]; do sleep 0.05; done; echo error: 表示; false
  description = CC $out
rule ask
  command = read answer; echo "you said $$answer"; touch $out
  description = ASK
  pool = console
build a.o: cc
  n = 1
build 目録/b.o: cc
  n = 2
build said: say
  n = 3
build bad.o: bad
  n = 4
build long_%(long)s.o: cc
  n = 5
build answer: ask said
rule talk
  command = echo reading; until [ -e go.7 ] || [ ! -e build.ninja ]; do sleep 0.05; done; $
      printf '10%%%%\\r50%%%%'; until [ -e go.8 ] || [ ! -e build.ninja ]; do sleep 0.05; done; touch $out
  description = TALK $out
rule copy
  command = cat $in > $out
  description = COPY $out
build talk: talk
build copied: copy source
build all: phony a.o 目録/b.o said long_%(long)s.o answer
build app: cc bad.o a.o
  n = 6
default all
""" % {"long": "name_" * 12}


# A package tree; the replacement of make waits in its stage `build`, like the commands above.
MAKE = """#!/bin/sh
top=$PWD/../../..
case $1 in
pbulk-index) printf 'PKGNAME=%s-1\\nALL_DEPENDS=\\nSCAN_DEPENDS=\\n' ${PWD##*/} ;;
all) until [ -e $top/go.${PWD##*/} ]; do sleep 0.05; done; [ ${PWD##*/} != bad ] || { echo error: 表示; exit 1; } ;;
stage-package-create) echo x >${2#STAGE_PKGFILE=} ;;
esac
"""
BULK = """
pkgsrc = "tree"
sandbox = "none"
make = "./make"
prefix = "prefix"
pkgdb = "prefix/pkgdb"
bootstrapkit = "kit"
unprivileged_user = ""
pkg_add = "true"
pkg_delete = "true"
"""
PACKAGES = {"bad": "", "good": "", "needsbad": "bad"}


class Failed(Exception):
    pass


class Terminal:
    """A shell in its own directory, in a tmux window."""

    def __init__(self, tanto, columns, rows):
        self.tanto = tanto
        self.dir = tempfile.TemporaryDirectory(prefix="tanto-live-", ignore_cleanup_errors=True)
        self.path = Path(self.dir.name)
        (self.path / "build.ninja").write_text(MANIFEST)
        self.socket = str(self.path / "tmux")
        shell = "env -i PATH=$PATH LC_ALL=C.UTF-8 TERM=screen PS1='$ ' bash --norc --noprofile"
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(self.path), shell)
        self.until(lambda: self.shown().startswith("$"), "a prompt")
        self.type(f"tanto() {{ {tanto} \"$@\"; }}; clear")

    def packages(self):
        """A package tree with packages that wait, too."""
        (self.path / "make").write_text(MAKE)
        (self.path / "make").chmod(0o755)
        (self.path / "kit").mkdir()
        (self.path / "bulk.toml").write_text(BULK)
        for name in PACKAGES:
            (self.path / "tree/cat" / name).mkdir(parents=True)
        record = "PKGNAME={0}-1\nPKG_LOCATION=cat/{0}\n{1}"
        needs = {
            name: f"ALL_DEPENDS={needed}-[0-9]*:../../cat/{needed}\nDEPENDS={needed}-1\n" if needed else "ALL_DEPENDS=\n"
            for name, needed in PACKAGES.items()
        }
        (self.path / "presolve").write_text("".join(record.format(name, needs[name]) for name in PACKAGES))

    def tmux(self, *args):
        command = ["tmux", "-u", "-f", "/dev/null", "-S", self.socket, *args]
        done = subprocess.run(command, env={**os.environ, "LC_ALL": "C.UTF-8"}, capture_output=True, timeout=30)
        if done.returncode:
            raise Failed(f"{command}: {done.stderr.decode()}")
        return done.stdout.decode()

    def type(self, text, enter=True):
        self.tmux("send-keys", "-l", text)
        if enter:
            self.tmux("send-keys", "Enter")

    def key(self, name):
        self.tmux("send-keys", name)

    def shown(self):
        return self.tmux("capture-pane", "-p").rstrip()

    def has_cursor(self):
        return self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def everything(self):
        """Includes the scrollback."""
        return self.tmux("capture-pane", "-p", "-S", "-").rstrip()

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def go(self, number):
        (self.path / f"go.{number}").touch()

    def until(self, holds, expectation):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if holds():
                return
            time.sleep(0.05)
        raise Failed(f"waited for {expectation}; there is:\n{self.shown()}")

    def until_shown(self, *texts):
        self.until(lambda: all(text in self.shown() for text in texts), f"{texts}")

    def until_gone(self, text):
        self.until(lambda: text not in self.shown(), f"{text!r} to go")

    def close(self):
        for gate in (*range(1, 9), *PACKAGES):
            self.go(gate)
        self.tmux("kill-server")
        self.dir.cleanup()


def bars(shown):
    """Rows that begin with a bar."""
    return [line for line in shown.splitlines() if line[1:2] in ("━", "─", "╸")]


def is_drawn(shown, columns, rows):
    """One bar with a row for each of four jobs, or for as many as fit into half of the screen, and nothing else."""
    lines = shown.splitlines()
    region = lines[lines.index(bars(shown)[0]):] if bars(shown) else []
    is_whole = len(bars(shown)) == 1 and len(region) == 1 + min(4, rows // 2 - 1)
    return is_whole and all(line.startswith("     ") and len(line) < columns for line in region[1:])


def expect(holds, expectation, terminal):
    if not holds:
        raise Failed(f"{expectation}; there is:\n{terminal.shown()}")


def succeeds(terminal):
    """A build from start to end, with a console command."""
    terminal.type("tanto build -j8")
    terminal.until_shown("0/5", "CC a.o", "目録/b.o", "SAY said")
    expect(not terminal.has_cursor(), "the cursor is shown", terminal)
    # The row has room for a longer time.
    width = int(terminal.tmux("display-message", "-p", "#{pane_width}"))
    expect(len(bars(terminal.shown())[0]) > width - 32, "the first row does not fill the width", terminal)
    expect(len(bars(terminal.shown())) == 1, "not one bar", terminal)
    terminal.go(3)
    terminal.until_shown("said by said", "ASK")
    terminal.until(lambda: not bars(terminal.shown()), "the region to go")
    expect(terminal.has_cursor(), "a command on the console has no cursor", terminal)
    terminal.type("me")
    terminal.until_shown("you said me")
    terminal.until(lambda: len(bars(terminal.shown())) == 1, "the region to come back")
    for number in (1, 2, 5):
        terminal.go(number)
    terminal.until_shown("tanto: done: 5 commands")
    expect(not bars(terminal.shown()), "the region is still there", terminal)


def fails(terminal):
    """A failure stays above the region, and is summarized."""
    terminal.type("tanto build -k0 app 目録/b.o")
    terminal.until_shown("0/4", "CC bad.o")
    terminal.go(4)
    terminal.until_shown("FAILED: [code=1] bad.o", "error: 表示", "1 failed", "CC a.o")
    lines = terminal.shown().splitlines()
    expect(lines.index("error: 表示") < lines.index(bars(terminal.shown())[0]), "not above", terminal)
    terminal.go(1)
    terminal.go(2)
    terminal.until_shown("1 of 4 failed, 1 not built", "  bad.o: code 1", "    not built because of it: app",
                         "full log: .tanto/sessions/")
    expect(not bars(terminal.shown()), "the region is still there", terminal)


def resized(terminal):
    """The window is resized during the build."""
    terminal.type("for i in $(seq 40); do echo line $i; done; tanto build -j8")
    terminal.until_shown("CC a.o", "CC long")
    for columns, rows in ((40, 30), (120, 12), (61, 24), (200, 40), (80, 24), (30, 6)):
        terminal.resize(columns, rows)
        terminal.until(lambda: is_drawn(terminal.shown(), columns, rows), f"a region for {columns} columns, {rows} rows")
        # If the rewrapped rows exceed the window, some scroll off before the program learns the new size.
        expect(rows < 12 or len(bars(terminal.everything())) == 1, "a stale row", terminal)
    terminal.resize(80, 24)
    interrupt(terminal)


def interrupted(terminal):
    """Ctrl-C leaves a clean screen."""
    terminal.type("tanto build -j8")
    terminal.until_shown("0/5", "SAY said")
    interrupt(terminal)


def interrupt(terminal):
    terminal.key("C-c")
    terminal.until(lambda: terminal.shown().endswith("tanto: build stopped: interrupted by user.\n$"), "the end")
    expect(not bars(terminal.shown()) and "SAY" not in terminal.shown(), "the region is still there", terminal)
    expect(terminal.has_cursor(), "the cursor is hidden", terminal)


def killed(terminal):
    """Fatal signals restore the cursor and remove the region."""
    for name in ("TERM", "QUIT", "ABRT"):
        # The shell execs the program, so that its process ID is known.
        terminal.type("clear; ulimit -c 0; sh -c 'echo $$ >pid; exec \"$0\" build -j8' " + terminal.tanto)
        terminal.until_shown("0/5", "SAY said")
        os.kill(int((terminal.path / "pid").read_text()), getattr(signal, "SIG" + name))
        terminal.until(lambda: terminal.shown().endswith("$"), "a prompt")
        expect(terminal.has_cursor() and not bars(terminal.shown()), f"the region or no cursor after SIG{name}", terminal)


def suspended(terminal):
    """Ctrl-Z removes the region, and fg restores it."""
    terminal.type("tanto build -j8")
    terminal.until_shown("0/5", "SAY said")
    terminal.key("C-z")
    terminal.until_shown("Stopped")
    expect(not bars(terminal.shown()) and "SAY" not in terminal.shown(), "the region is still there", terminal)
    expect(terminal.has_cursor(), "the cursor is hidden", terminal)
    terminal.type("fg")
    terminal.until_shown("0/5", "SAY said")
    expect(len(bars(terminal.shown())) == 1, "not one bar", terminal)
    interrupt(terminal)


def packages(terminal):
    """A bulk build: stages, counts by state, and changes from another terminal."""
    terminal.packages()
    terminal.type("tanto bulk build --resolved presolve")
    terminal.until_shown("0/3", "bad-1: build", "1 running  2 open")
    expect(len(bars(terminal.shown())) == 1, "not one bar", terminal)
    terminal.go("bad")
    terminal.until_shown("error: 表示", "build exited with 1", "1/2", "good-1: build", "1 failed", "1 indirect-failed")
    # The one of a script, which does not wait.
    (terminal.path / "make").write_text(MAKE.replace("!= bad", "!= none"))
    command = [terminal.tanto, "bulk", "retry", "bad"]
    result = subprocess.run(command, cwd=terminal.path, capture_output=True, text=True, timeout=30)
    expect("bad-1 will be built again" in result.stdout, f"{result.stdout}{result.stderr}", terminal)
    terminal.until_shown("0/3")
    terminal.until_gone("indirect-failed")
    terminal.go("good")
    terminal.go("needsbad")
    terminal.until_shown("3 packages, 3 done")
    expect(not bars(terminal.shown()), "the region is still there", terminal)


def follows(terminal):
    """The output of a running command is shown below its row."""
    def below(shown, name):
        lines = [line.strip() for line in shown.splitlines()]
        rows = [at for at, line in enumerate(lines) if name in line and "tanto" not in line]
        return lines[rows[0] + 1] if rows and rows[0] + 1 < len(lines) else ""

    for option, others in (("--follow=talk", "目録/b.o a.o "), ("--follow", "")):
        terminal.type(f"clear; tanto build -j8 {option} {others}talk")
        terminal.until(lambda: below(terminal.shown(), "TALK talk") == "│ reading", "its output")
        expect(len(bars(terminal.shown())) == 1 and not terminal.has_cursor(), "not one bar, or a cursor", terminal)
        interrupt(terminal)
        expect("│" not in terminal.shown(), "its output is still there", terminal)
    terminal.type("clear; tanto build --follow talk")
    terminal.until_shown("│ reading")
    terminal.go(7)
    terminal.until_shown("│ 50%")
    expect("10%" not in terminal.shown().split("│", 1)[1], "overwritten text is shown", terminal)
    terminal.go(8)
    terminal.until_shown("tanto: done: 1 command")
    expect(not bars(terminal.shown()) and "│" not in terminal.shown(), "the region is still there", terminal)
    expect(terminal.shown().count("reading") == 1 and terminal.has_cursor(), "it does not stay once", terminal)
    terminal.type("clear; tanto build --follow=all; tanto build --follow=tolk; tanto build --follow talk | cat")
    terminal.until_shown("error: --follow: no command makes 'all'", "unknown target 'tolk', did you mean 'talk'?",
                         "warning: --follow does nothing here")


def watches(terminal):
    """A changed source starts another build, until Ctrl-C."""
    (terminal.path / "source").write_text("one")
    terminal.type("tanto build --watch copied; echo code $?")
    terminal.until_shown("tanto: done: 1 command", "tanto: watching 1 directory")
    expect(terminal.has_cursor() and not bars(terminal.shown()), "no cursor, or a region", terminal)
    (terminal.path / "source").write_text("two")
    terminal.until(lambda: (terminal.path / "copied").read_text() == "two", "another build")
    terminal.until(lambda: terminal.shown().count("tanto: watching") == 2, "it to wait again")
    expect("tanto: 'source' changed" in terminal.shown(), "nothing says which file changed", terminal)
    terminal.key("C-c")
    terminal.until_shown("code 130")
    expect(terminal.has_cursor() and not bars(terminal.shown()), "no cursor, or a region", terminal)


def plain(terminal):
    """With ninja's format, or without a terminal, there is no region."""
    for number in (1, 2, 3, 5):
        terminal.go(number)
    (terminal.path / "answer").touch()
    terminal.type("tanto build --format=plain a.o; tanto build said | cat; TERM=dumb tanto build 目録/b.o")
    terminal.until_shown("[1/1] CC a.o", "[1/1] SAY said\nsaid by said", "[1/1] CC '目録/b.o'\n$")


def main():
    tanto = os.path.abspath(sys.argv[1])
    bad = 0
    for size in ((60, 24), (200, 50)):
        for test in (succeeds, fails, resized, interrupted, killed, suspended, follows, watches, plain, packages):
            terminal = Terminal(tanto, *size)
            name = f"{test.__name__} at {size[0]} columns"
            try:
                test(terminal)
                print("ok", name, flush=True)
            except (Failed, subprocess.TimeoutExpired) as error:
                print("not ok", name, flush=True)
                print(error)
                bad += 1
            finally:
                terminal.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
