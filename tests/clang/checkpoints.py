#!/usr/bin/env python3
"""Builds that continue from checkpoints, each verified: when a daemon is started, what it holds, when it exits, and
crashes in the middle of a compile.

    tests/clang/checkpoints.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import contextlib
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import edits
from forks import CLANG, is_gone, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import run_tests

# Timeout of events that have to happen, in seconds.
LONG = 120
HEAD = '#include <stddef.h>\n#include "h.h"\n'
RULE = f"rule cc\n  command = {CLANG} -g -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n"
WORKER = Path(__file__).resolve().parents[2] / "target/clang-worker/clang-worker"


def number_in(file):
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


class Tree:
    """A tree with two files, and its builds."""

    def __init__(self, tanto, place):
        self.tanto, self.place = tanto, place
        (place / "h.h").write_text("static inline int two(int x) { return x * 2; }\n")
        for name in ("a", "b"):
            (place / f"{name}.c").write_text(f"{HEAD}int {name}(int x) {{ return two(x); }}\n")
        self.manifest(RULE + "build a.o: cc a.c\nbuild b.o: cc b.c\n")

    def manifest(self, text):
        (self.place / "build.ninja").write_text(text)

    def edit(self, name, text):
        (self.place / f"{name}.c").write_text(f"{HEAD}{text}\n")

    def environment(self, **variables):
        own = {name: value for name, value in os.environ.items() if name != "CI"}
        return own | {"XDG_CACHE_HOME": f"{self.place}.cache"} | variables

    def start(self, *flags, terminal=True, line=None, **variables):
        """A build, with or without a terminal."""
        ours, its = pty.openpty()
        source = its if terminal else subprocess.DEVNULL
        command = line or [self.tanto, "build", "--format=jsonl", "--verify-checkpoints=1", *flags]
        process = subprocess.Popen(
            command,
            cwd=self.place,
            env=self.environment(**variables),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(its)
        self.terminal = ours
        return process

    def end(self, process):
        out, self.errors = process.communicate(timeout=LONG)
        os.close(self.terminal)
        events = [json.loads(line) for line in out.splitlines() if line.startswith(b"{")]
        self.ended = [it for it in events if it["event"] == "finished"]
        return process.returncode

    def build(self, *flags, **how):
        return self.end(self.start(*flags, **how))

    def ran(self):
        """Number of commands that continued from a checkpoint."""
        return sum(it.get("checkpoint", False) for it in self.ended)

    def clang(self, question):
        done = subprocess.run([self.tanto, "clang", question], cwd=self.place, capture_output=True, timeout=LONG)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def daemon(self):
        return number_in(self.place / ".tanto/checkpoints/pid")

    def wait_for_checkpoints(self, count):
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            output = self.clang("status")
            if output.startswith(f"checkpoints: {count} of") and "yet to be made" not in output:
                return output
            time.sleep(0.1)
        raise AssertionError(f"timed out: {output}")

    def objects(self):
        return {path.name: path.read_bytes() for path in self.place.glob("*.o")}

    def is_as_without(self):
        """Whether the objects equal those of a build with processes."""
        own = self.objects()
        for name in own:
            (self.place / name).unlink()
        assert self.build("--clang-worker=off", "-k0") == 0, self.errors
        return own == self.objects()


def edited_file_continues_from_its_checkpoint(tree):
    assert tree.build() == 0 and tree.ran() == 0, tree.errors
    output = tree.wait_for_checkpoints(2)
    assert "a.c" in output and "b.c" in output, output
    for number in range(3):
        tree.edit("a", f"int a(int x) {{ return two(x) + {number}; }}")
        assert tree.build() == 0 and len(tree.ended) == tree.ran() == 1, (tree.ended, tree.errors)
        assert tree.ended[0]["in_process"]
    assert tree.is_as_without()


def failed_compile_has_a_checkpoint(tree):
    tree.edit("a", "int a(int x) { return wrong; }")
    assert tree.build("-k0") == 1
    tree.wait_for_checkpoints(2)
    tree.edit("a", "int a(int x) { return still_wrong; }")
    assert tree.build() == 1 and tree.ran() == 1
    assert b"still_wrong" in tree.ended[0]["output"].encode() and not (tree.place / "a.o").exists()
    tree.edit("a", "int a(int x) { return x; }")
    assert tree.build() == 0 and tree.ran() == 1
    assert tree.is_as_without()


def edited_header_invalidates_checkpoints(tree):
    assert tree.build() == 0
    tree.wait_for_checkpoints(2)
    (tree.place / "h.h").write_text("static inline int two(int x) { return x * 3; }\n")
    assert tree.build() == 0 and len(tree.ended) == 2 and tree.ran() == 0, tree.ended
    assert tree.is_as_without()


def one_more_include_makes_another_checkpoint(tree):
    assert tree.build() == 0
    tree.wait_for_checkpoints(2)
    more = '#include <stdint.h>\n' + HEAD
    (tree.place / "a.c").write_text(f"{more}uint8_t a;\n")
    assert tree.build() == 0 and tree.ran() == 0, tree.ended
    tree.wait_for_checkpoints(2)
    (tree.place / "a.c").write_text(f"{more}uint16_t a;\n")
    assert tree.build() == 0 and tree.ran() == 1, tree.ended
    assert tree.is_as_without()


def every_use_is_verified(tree):
    assert tree.build() == 0
    tree.wait_for_checkpoints(2)
    tree.edit("a", "int a(int x) { return two(x) + 7; }")
    assert tree.build() == 0 and tree.ran() == 1, (tree.ended, tree.errors)
    # A nondeterministic compiler is noticed; here the file changes between the two runs.
    tree.manifest(RULE.replace("-c $in", "-c $in -I d") + "build a.o: cc a.c\n")
    (tree.place / "d").mkdir()
    os.mkfifo(tree.place / "d/pipe.h")
    assert tree.build() == 0
    tree.wait_for_checkpoints(3)
    tree.edit("a", '#include "pipe.h"\nint a(int x) { return VALUE; }')
    process = tree.start()
    for value in ("1", "2"):
        with (tree.place / "d/pipe.h").open("w") as pipe:
            pipe.write(f"#define VALUE {value}\n")
        # The next reader is another process.
        wait_for(lambda: not has_reader(tree.place / "d/pipe.h") or value == "2")
    assert tree.end(process) == 1
    assert "the compile from a checkpoint differs from a full compile: a.o differs" in tree.ended[0]["output"], tree.ended


def has_reader(pipe):
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def start_one_that_reads_a_pipe(tree):
    """A build with a compile that continued from a checkpoint and reads a pipe, and our end of the pipe."""
    assert tree.build() == 0
    tree.wait_for_checkpoints(2)
    os.mkfifo(tree.place / "pipe.h")
    tree.edit("a", '#include "pipe.h"\nint a(int x) { return VALUE; }')
    process = tree.start()
    return process, wait_for(lambda: open_pipe(tree.place / "pipe.h"))


def daemon_is_killed_during_a_compile(tree):
    process, held = start_one_that_reads_a_pipe(tree)
    daemon = tree.daemon()
    os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: is_gone(daemon))
    # Its readers are gone, too.
    wait_for(lambda: is_broken(held))
    os.close(held)
    with (tree.place / "pipe.h").open("w") as pipe:
        pipe.write("#define VALUE 5\n")
    assert tree.end(process) == 0 and tree.ran() == 0 and not tree.ended[0].get("in_process"), (tree.ended, tree.errors)
    # Another daemon has replaced it.
    assert wait_for(lambda: tree.daemon() not in (None, daemon))


def open_pipe(pipe):
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def is_broken(pipe):
    try:
        os.write(pipe, b"\n")
    except BrokenPipeError:
        return True
    except BlockingIOError:
        pass
    return False


def build_is_interrupted(tree):
    process, held = start_one_that_reads_a_pipe(tree)
    process.send_signal(signal.SIGKILL)
    tree.end(process)
    wait_for(lambda: is_broken(held))
    os.close(held)
    assert not is_gone(tree.daemon())


def no_daemon_without_a_terminal_or_in_ci(tree):
    for how in ({"terminal": False}, {"CI": "true"}):
        assert tree.build(**how) == 0, tree.errors
        assert not (tree.place / ".tanto/checkpoints").exists()
        (tree.place / "a.o").unlink()
    assert tree.build("--checkpoints=off") == 0 and not (tree.place / ".tanto/checkpoints").exists()
    (tree.place / "a.o").unlink()
    assert tree.build() == 0
    assert wait_for(tree.daemon)


def open_files(process):
    """Open files of a process; some may be closed meanwhile."""
    links = []
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(link))
    return links


def daemon_closes_pipes_of_the_build(tree):
    process = tree.start(line=["sh", "-c", f"'{tree.tanto}' build | cat; echo over"])
    out, _ = process.communicate(timeout=LONG)
    os.close(tree.terminal)
    assert out.endswith(b"over\n"), out
    daemon = wait_for(tree.daemon)
    links = open_files(daemon)
    assert not is_gone(daemon) and not any("pipe:" in link or "/dev/pts" in link for link in links), links
    assert Path(f"/proc/{daemon}/stat").read_text().rpartition(") ")[2].split()[4] == "0", "it has no terminal"


def directory_is_removed(tree):
    assert tree.build() == 0
    daemon = wait_for(tree.daemon)
    tree.wait_for_checkpoints(2)
    shutil.rmtree(tree.place / ".tanto")
    wait_for(lambda: is_gone(daemon))


def whole_directory_is_removed_at_once(tree):
    assert tree.build() == 0
    daemon = wait_for(tree.daemon)
    subprocess.run(["rm", "-rf", tree.place], check=True)
    wait_for(lambda: is_gone(daemon))
    tree.place.mkdir()


def clang_stop_stops_the_daemon(tree):
    assert tree.clang("status") == tree.clang("stop") == "no checkpoints are kept here\n"
    assert tree.build() == 0
    daemon = wait_for(tree.daemon)
    assert f"in process {daemon}" in tree.wait_for_checkpoints(2)
    assert tree.clang("stop") == ""
    wait_for(lambda: is_gone(daemon))
    assert tree.clang("status") == "no checkpoints are kept here\n"
    assert {path.name for path in (tree.place / ".tanto/checkpoints").iterdir()} == set()
    # A daemon that was just started exits as soon as it listens.
    tree.edit("a", "int a;")
    assert tree.build() == 0
    daemon = tree.daemon()
    assert tree.clang("stop") == ""
    wait_for(lambda: is_gone(daemon))


def number_of_checkpoints_is_limited(tree):
    manifest = RULE
    for name in "abcd":
        tree.edit(name, f"int {name}(int x) {{ return two(x); }}")
        manifest += f"build {name}.o: cc {name}.c\n"
    tree.manifest(manifest)
    assert tree.build("-j1", "--checkpoints=2") == 0
    output = tree.wait_for_checkpoints(2)
    assert "of at most 2" in output and "  c.c\n" in output and "  d.c\n" in output, output
    tree.edit("a", "int a(int x) { return x; }")
    assert tree.build("--checkpoints=2") == 0 and tree.ran() == 0
    wait_for(lambda: "  a.c\n" in tree.clang("status"))
    tree.wait_for_checkpoints(2)


def files_without_checkpoint_are_listed(tree):
    (tree.place / "when.h").write_text("static const char *when = __DATE__;\n")
    (tree.place / "a.c").write_text(f'#include "when.h"\n{HEAD}int a;\n')
    (tree.place / "b.c").write_text("int b;\n")
    assert tree.build() == 0, tree.errors
    output = tree.wait_for_checkpoints(0)
    lines = output.splitlines()
    assert lines[1] == "without one:", output
    assert sorted(lines[2:]) == [
        "  a.c: it or a header uses __DATE__, __TIME__ or __TIMESTAMP__",
        "  b.c: it has no include before its own code",
    ], output
    # Files that have a checkpoint now, or other flags, are no longer listed.
    tree.edit("a", "int a;")
    assert tree.build() == 0, tree.errors
    output = tree.wait_for_checkpoints(1)
    assert "  a.c\n" in output and "  a.c:" not in output and "  b.c: " in output, output
    tree.manifest(RULE.replace("-g", "-fopenmp") + "build a.o: cc a.c\nbuild b.o: cc b.c\n")
    assert tree.build() == 0, tree.errors
    wait_for(lambda: tree.clang("status").count("  b.c: -fopenmp is not supported with checkpoints\n") == 1)
    assert tree.clang("status").count("  b.c: ") == 1


def files_without_checkpoint_are_limited(tree):
    names = [f"x{number}" for number in range(40)]
    for name in names:
        (tree.place / f"{name}.c").write_text(f"int {name};\n")
    tree.manifest(RULE + "".join(f"build {name}.o: cc {name}.c\n" for name in names))
    assert tree.build("--checkpoints=64") == 0, tree.errors
    output = tree.wait_for_checkpoints(0)
    assert output.count(": it has no include before its own code\n") == 32, output


def daemon_is_no_leftover(tree):
    """A nested build at a terminal: the daemon that it starts is to stay."""
    inner = tree.place / "inner"
    inner.mkdir()
    for name in ("a.c", "h.h"):
        shutil.copy(tree.place / name, inner)
    (inner / "build.ninja").write_text(RULE + "build a.o: cc a.c\n")
    tree.manifest(f"rule inner\n  command = {tree.tanto} build -C inner && touch $out\n  pool = console\nbuild o: inner\n")
    assert tree.build("--leftovers=kill") == 0, tree.errors
    assert b"left" not in tree.errors, tree.errors
    daemon = wait_for(lambda: number_in(inner / ".tanto/checkpoints/pid"))
    assert not is_gone(daemon)
    tree.place = inner
    tree.wait_for_checkpoints(1)


def stale_address_is_ignored(tree):
    assert tree.build() == 0
    daemon = wait_for(tree.daemon)
    tree.wait_for_checkpoints(2)
    os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: is_gone(daemon))
    tree.edit("a", "int a(int x) { return x; }")
    assert tree.build() == 0 and tree.ran() == 0, tree.errors
    wait_for(lambda: tree.daemon() != daemon)
    tree.wait_for_checkpoints(1)


def daemon_exits_when_unneeded(tree):
    """The daemon exits without clients, when memory is short, and when its directory becomes accessible to others."""
    for name, seconds, meminfo in (("idle", "1", "MemTotal: 100 kB\nMemAvailable: 90 kB\n"), ("full", "600", "MemTotal: 100 kB\nMemAvailable: 1 kB\n")):
        place = tree.place / name
        place.mkdir(mode=0o700)
        proc = tree.place / f"{name}-proc"
        proc.mkdir()
        (proc / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 90 kB\n")
        subprocess.run([WORKER, "--keep", place, "-1", seconds, proc], check=True)
        daemon = wait_for(lambda: number_in(place / "pid"))
        (proc / "meminfo").write_text(meminfo)
        wait_for(lambda: is_gone(daemon))
    place = tree.place / "open"
    place.mkdir()
    place.chmod(0o755)
    assert subprocess.run([WORKER, "--keep", place, "-1", "600"]).returncode == 1 and not (place / "pid").exists()


def memory_of_checkpoints_counts(tree):
    """With as much memory as checkpoints hold, commands still run one after the other."""
    assert tree.build() == 0
    tree.wait_for_checkpoints(2)
    tree.edit("a", "int a(int x) { return x; }")
    assert tree.build("--memory=1M") == 0 and tree.ran() == 1, tree.errors


def random_edits_are_verified(tree, edits_of_them=120):
    chance = random.Random(1)
    place = tree.place / "random"
    place.mkdir()
    small = edits.Tree(place, chance)
    flags = " ".join(small.words(0)[1:-5])
    rule = f"rule cc\n  command = {CLANG} {flags} -MMD -MF $out.d -c $in -o $out\n  depfile = $out.d\n"
    lines = [f"build m{main}.o: cc m{main}.c\n" for main in range(edits.MAINS)]
    (place / "build.ninja").write_text(rule + "".join(lines))
    tree.place = place
    used = 0
    for edit in range(edits_of_them):
        if edit % 40 == 0:
            tree.build("-k0", "--checkpoints=16")
            wait_for(lambda: "yet to be made" not in tree.clang("status") and "  m" in tree.clang("status"))
        small.edit(chance.randrange(edits.MAINS))
        tree.build("-k0", "--checkpoints=16")
        assert not any("was wrong" in it.get("output", "") for it in tree.ended), tree.ended
        used += tree.ran()
    assert used > 0


def a_thousand_random_edits_are_verified(tree):
    random_edits_are_verified(tree, 1000)


TESTS = [
    edited_file_continues_from_its_checkpoint,
    failed_compile_has_a_checkpoint,
    edited_header_invalidates_checkpoints,
    one_more_include_makes_another_checkpoint,
    every_use_is_verified,
    daemon_is_killed_during_a_compile,
    build_is_interrupted,
    no_daemon_without_a_terminal_or_in_ci,
    daemon_closes_pipes_of_the_build,
    directory_is_removed,
    whole_directory_is_removed_at_once,
    clang_stop_stops_the_daemon,
    number_of_checkpoints_is_limited,
    files_without_checkpoint_are_listed,
    files_without_checkpoint_are_limited,
    daemon_is_no_leftover,
    stale_address_is_ignored,
    daemon_exits_when_unneeded,
    memory_of_checkpoints_counts,
    random_edits_are_verified,
    a_thousand_random_edits_are_verified,
]
# Run only when named.
LONG_ONES = {a_thousand_random_edits_are_verified}


def with_tree(test, tanto, place):
    tree = Tree(tanto, place)
    try:
        test(tree)
    finally:
        if tree.daemon():
            tree.clang("stop")


if __name__ == "__main__":
    run_tests(__doc__, TESTS, with_tree, LONG_ONES)
