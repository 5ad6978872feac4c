"""What the tests of real clients share: a tree that a client builds with one ninja, and what that ninja ran.

A client is a function that takes a Tree and does with it what a user would. It is called twice in the same place,
with Tanto and with the referee, and what they did is compared."""

import os
import re
import shutil
import subprocess
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

STATUS = re.compile(r"^STEP \d+/\d+ (.*)$", re.M)
SECONDS = 120


@dataclass
class Outcome:
    """One command of the client: what it was for, the steps that ninja announced, and how it ended."""

    what: str
    steps: list
    status: int


@dataclass
class Tree:
    """The client's directory, with `ninja` as the ninja that it is told to use."""

    name: str
    root: Path
    ninja: Path
    outcomes: list = field(default_factory=list)
    complaints: list = field(default_factory=list)

    def write(self, path, text):
        """Writes a source file; the text may be indented as the code around it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))

    def touch(self, path):
        """Gives a file the time of now."""
        assert (self.root / path).exists(), path
        os.utime(self.root / path)

    def run(self, what, *command, status=0, rebuilt=None, says=None):
        """Runs the client. `rebuilt`: a word for each step that must be run, and no other may. `says`: must be in
        its output."""
        env = {**os.environ, "NINJA_STATUS": "STEP %f/%t ", "NINJA": str(self.ninja), "LC_ALL": "C"}
        # The referee goes on from logs that Tanto has begun, and an older ninja may be in PATH.
        env |= {"XDG_CACHE_HOME": f"{self.root}.cache", "TANTO_LOG_VERSION": "7"}
        for name in ("MAKEFLAGS", "TANTO_FLAGS", "CMAKE_GENERATOR", "CMAKE_BUILD_PARALLEL_LEVEL"):
            env.pop(name, None)
        try:
            ended = subprocess.run(
                command, cwd=self.root, env=env, stdin=subprocess.DEVNULL, timeout=SECONDS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            self.complain(what, f"did not end in {SECONDS} s", (late.stdout or b"").decode(errors="replace"))
            raise
        steps = sorted(STATUS.findall(ended.stdout))
        self.outcomes.append(Outcome(what, steps, ended.returncode))
        if (ended.returncode == 0) != (status == 0):
            self.complain(what, f"ended with {ended.returncode}, not {status}", ended.stdout)
        if says is not None and says not in ended.stdout:
            self.complain(what, f"does not say {says!r}", ended.stdout)
        if rebuilt is not None and not matches(steps, rebuilt):
            self.complain(what, f"ran {steps}, not {rebuilt}", ended.stdout)
        return ended.stdout

    def complain(self, what, why, output=""):
        """Notes a failure."""
        self.complaints.append(f"{what}: {why}\n{textwrap.indent(output[-3000:], '      ')}")

    def files(self):
        """The names of all files that are there now."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


def matches(steps, words):
    """Each word is in a step of its own, and no step is left."""
    left = list(steps)
    for word in words:
        found = next((step for step in left if word in step), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def play(client, name, root, ninja):
    """Runs a client in a new tree."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    tree = Tree(name, root, ninja)
    try:
        client(tree)
    except subprocess.TimeoutExpired:
        pass
    return tree
