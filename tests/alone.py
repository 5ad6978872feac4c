"""What no other ninja can be asked: a build beside a build, a killed build, logs of older ninjas, runs that may not
write.

    python3 tests/alone.py NINJA

$TANTO_NINJA_1_11 names ninja 1.11.1, for logs of version 5."""

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

PLACE = Path(__file__).resolve().parent.parent / "target/alone"
SECONDS = 30
NO_WORK = "ninja: no work to do."

# Each job says that it runs in `ran`; `held` ends only when there is a file `go`.
MANIFEST = """
rule step
  command = echo $out >> ran; cat $in > $out
rule held
  command = echo $out >> ran; echo $$$$ > held.pid; until [ -e go ]; do sleep 0.02; done; cat $in > $out
build first: step in
build held: held first
build last: step held
"""

# The kinds of edges whose log entries the versions treat differently.
OLDER = """
rule copy
  command = cp $in $out
rule same
  command = cmp -s $in $out || cp $in $out
  restat = 1
rule cc
  command = cp $in $out && echo $out: $in header.h > $out.d
  deps = gcc
  depfile = $out.d
rule gen
  command = cp $in $out
  generator = 1
build copied: copy in
build unchanged: same copied
build after: copy unchanged
build object: cc source
build generated: gen in
"""

ANSWERS = "commands compdb compdb-targets deps graph inputs missingdeps multi-inputs query rules targets list".split()


class Tree:
    """A directory with a manifest."""

    def __init__(self, name, manifest, *files):
        self.root = PLACE / name
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.write("build.ninja", manifest)
        for file in files:
            self.write(file, file)

    def write(self, name, text):
        (self.root / name).write_text(text)

    def read(self, name):
        return (self.root / name).read_text()

    def start(self, ninja, *arguments, **environment):
        """Begins a build."""
        env = {**os.environ, **environment}
        return Build([ninja, *arguments], self.root, env)

    def run(self, ninja, *arguments, **environment):
        """Builds; gives what was printed. A failure is an error."""
        build = self.start(ninja, *arguments, **environment)
        status = build.end()
        assert status == 0, f"{arguments} ended with {status}: {build.said()}"
        return build.said()

    def state(self):
        """All that a run that may not write must leave as it is."""
        files = [path for path in sorted(self.root.rglob("*")) if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    def begin_held(self, ninja):
        """Starts a build and waits until its job `held` runs."""
        build = self.start(ninja)
        wait_for("the job", lambda: (self.root / "held.pid").exists() and self.read("held.pid"))
        return build


class Build:
    """A ninja that runs; what it prints goes into a file."""

    def __init__(self, command, directory, env):
        self.output = tempfile.TemporaryFile()
        self.child = subprocess.Popen(command, cwd=directory, env=env, stdout=self.output, stderr=subprocess.STDOUT)

    def said(self):
        """What it has printed so far, read without moving the place where it writes."""
        return os.pread(self.output.fileno(), 1 << 20, 0).decode()

    def end(self):
        """Waits for its end; its exit status."""
        return self.child.wait(timeout=SECONDS)


def wait_for(what, is_so):
    """Waits until something is so."""
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, f"waited {SECONDS} s for {what}"
        time.sleep(0.02)


def waiting(tree, ninja, *arguments):
    """Starts a second build (or tool) and waits until it says that it waits."""
    second = tree.start(ninja, *arguments)
    wait_for("the second build's message", lambda: "waiting" in second.said())
    return second


def a_second_build_waits(ninja):
    tree = Tree("second", MANIFEST, "in")
    first = tree.begin_held(ninja)
    second = waiting(tree, ninja)
    tree.write("go", "")
    assert (first.end(), second.end()) == (0, 0), first.said() + second.said()
    assert NO_WORK in second.said(), second.said()
    assert tree.read("ran").split() == ["first", "held", "last"], tree.read("ran")


def a_waiting_build_can_be_interrupted(ninja):
    tree = Tree("interrupted", MANIFEST, "in")
    first = tree.begin_held(ninja)
    second = waiting(tree, ninja)
    second.child.send_signal(signal.SIGINT)
    assert second.end() in (130, -signal.SIGINT), second.said()
    assert first.child.poll() is None, "the first build ended too"
    tree.write("go", "")
    assert first.end() == 0, first.said()


def a_clean_waits_and_then_follows_the_manifest_of_then(ninja):
    tree = Tree("clean", MANIFEST, "in", "new")
    first = tree.begin_held(ninja)
    second = waiting(tree, ninja, "-t", "clean")
    tree.write("build.ninja", MANIFEST + "build new: step in\n")
    tree.write("go", "")
    assert (first.end(), second.end()) == (0, 0), first.said() + second.said()
    assert second.said().endswith("Cleaning... 4 files.\n"), second.said()
    assert not (tree.root / "last").exists() and not (tree.root / "new").exists()


def a_tool_with_nothing_to_write_makes_no_directory(ninja):
    tree = Tree("nothing", MANIFEST, "in")
    before = tree.state()
    for tool in ("clean", "cleandead", "recompact", "restat"):
        tree.run(ninja, "-t", tool)
    assert tree.start(ninja, "-t", "clean", "-h").end() == 1
    assert tree.state() == before, "something was written"


def a_killed_build_goes_on(ninja):
    tree = Tree("killed", MANIFEST, "in")
    build = tree.begin_held(ninja)
    build.child.kill()
    build.end()
    # The job still runs, but has no part in the lock.
    assert NO_WORK in tree.run(ninja, "first")
    os.kill(int(tree.read("held.pid")), signal.SIGKILL)
    tree.write("go", "")
    tree.run(ninja)
    assert tree.read("ran").split() == ["first", "held", "held", "last"], tree.read("ran")
    assert NO_WORK in tree.run(ninja)


def its_own_directory_may_be_deleted(ninja):
    tree = Tree("deleted", MANIFEST, "in", "go")
    tree.run(ninja)
    shutil.rmtree(tree.root / ".tanto", ignore_errors=True)
    assert NO_WORK in tree.run(ninja)


def strange_locks_are_no_obstacle(ninja):
    tree = Tree("strange", MANIFEST, "in", "go", "precious")
    place = tree.root / ".tanto"

    def in_place(make):
        place.mkdir()
        make(place / "lock")

    for make in (
        lambda: in_place(Path.mkdir),
        lambda: in_place(os.mkfifo),
        lambda: in_place(lambda lock: lock.symlink_to("../precious")),
        lambda: place.write_text("a file"),
        lambda: place.symlink_to("nowhere"),
    ):
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        make()
        (tree.root / "in").touch()
        assert NO_WORK not in tree.run(ninja)
    assert tree.read("precious") == "precious"


def answers_write_nothing(ninja):
    tree = Tree("answers", OLDER, "in", "source", "header.h")
    tree.run(ninja)
    shutil.rmtree(tree.root / ".tanto", ignore_errors=True)
    lines = tree.read(".ninja_log").splitlines(keepends=True)
    tree.write(".ninja_log", lines[0] + "".join(lines[1:] * 200) + "torn")
    with open(tree.root / ".ninja_deps", "ab") as deps:
        deps.write(b"\x10\0\0\x80torn")
    (tree.root / "in").touch()
    before = tree.state()
    tree.run(ninja, "-n")
    for tool in ANSWERS:
        tree.run(ninja, "-t", tool, *(["copied"] if tool in ("query", "compdb-targets") else []))
    assert tree.state() == before, "something was written"
    tree.run(ninja)
    assert tree.read(".ninja_log").count("\n") < 20, "the log was not written anew by a build"


def back_and_forth(tree, ninja, older, version):
    """Two ninjas take turns; none has anything to do after the other, and the log keeps its version."""
    first_line = f"# ninja log v{version}"
    for touched in ("in", "header.h", "source"):
        for builds, looks in ((ninja, older), (older, ninja)):
            (tree.root / touched).touch()
            assert NO_WORK not in tree.run(builds), f"{touched} was touched, and nothing built"
            assert NO_WORK in tree.run(looks), f"{looks} builds again after {touched} was touched"
            assert tree.read(".ninja_log").splitlines()[0] == first_line


def a_log_of_version_5_is_kept(ninja):
    older = os.environ["TANTO_NINJA_1_11"]
    tree = Tree("version-5", OLDER, "in", "source", "header.h")
    tree.run(older)
    assert NO_WORK in tree.run(ninja)
    back_and_forth(tree, ninja, older, 5)


def a_new_log_may_be_of_version_5(ninja):
    older = os.environ["TANTO_NINJA_1_11"]
    tree = Tree("new-version-5", OLDER, "in", "source", "header.h")
    tree.run(ninja, TANTO_LOG_VERSION="5")
    assert NO_WORK in tree.run(older)
    back_and_forth(tree, ninja, older, 5)


def a_log_of_version_6_is_kept(ninja):
    """Version 6 has the hashes of 5; its times are 7's."""
    tree = Tree("version-6", OLDER, "in", "source", "header.h")
    tree.run(ninja, TANTO_LOG_VERSION="6")
    assert tree.read(".ninja_log").startswith("# ninja log v6\n")
    assert NO_WORK in tree.run(ninja)
    back_and_forth(tree, ninja, ninja, 6)


def an_interrupt_gives_the_terminal_back(ninja):
    manifest = "rule ask\n  command = stty -echo; touch asked; sleep 30\n  pool = console\nbuild out: ask\n"
    tree = Tree("terminal", manifest)
    ours, theirs = pty.openpty()

    def echo():
        return bool(termios.tcgetattr(theirs)[3] & termios.ECHO)

    def take_the_terminal():
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    assert echo(), "a new terminal echoes"
    build = subprocess.Popen(
        [ninja], cwd=tree.root, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=take_the_terminal
    )
    wait_for("the question", (tree.root / "asked").exists)
    assert not echo(), "the command turned it off"
    os.write(ours, b"\x03")
    assert build.wait(SECONDS) == 130, build.returncode
    assert echo(), "the terminal is as it was"


CASES = [
    a_second_build_waits,
    a_waiting_build_can_be_interrupted,
    a_clean_waits_and_then_follows_the_manifest_of_then,
    a_tool_with_nothing_to_write_makes_no_directory,
    a_killed_build_goes_on,
    its_own_directory_may_be_deleted,
    strange_locks_are_no_obstacle,
    answers_write_nothing,
    a_log_of_version_5_is_kept,
    a_new_log_may_be_of_version_5,
    a_log_of_version_6_is_kept,
    an_interrupt_gives_the_terminal_back,
]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ninja = str(Path(sys.argv[1]).absolute())
    failed = 0
    for case in CASES:
        name = case.__name__.replace("_", " ")
        if "version 5" in name and "TANTO_NINJA_1_11" not in os.environ:
            print(f"skipped, TANTO_NINJA_1_11 is not set: {name}")
            continue
        try:
            case(ninja)
            print("ok", name, flush=True)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print("not ok", name, f"\n    {type(error).__name__}: {error}", flush=True)
            for tree in PLACE.iterdir():
                (tree / "go").touch()
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
