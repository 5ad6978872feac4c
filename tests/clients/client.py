"""Common code of the tests with real clients: a tree that a client builds with one ninja, and the steps of that ninja.

A client is a function that uses a Tree like a user. It runs twice in the same directory, with Tanto and with the
reference ninja, and the results are compared."""

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
    """One command of the client: its purpose, the steps that ninja printed, and its exit code."""

    purpose: str
    steps: list
    status: int


@dataclass
class Tree:
    """The client's directory; `ninja` is the ninja that it uses."""

    name: str
    root: Path
    ninja: Path
    outcomes: list = field(default_factory=list)
    complaints: list = field(default_factory=list)

    def write(self, path, text):
        """Writes a source file; the text may be indented like the surrounding code."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))

    def touch(self, path):
        """Sets a file's mtime to now."""
        assert (self.root / path).exists(), path
        os.utime(self.root / path)

    def run(self, purpose, *command, status=0, rebuilt=None, says=None):
        """Runs the client. `rebuilt`: one word for each expected step. `says`: expected output."""
        env = {**os.environ, "NINJA_STATUS": "STEP %f/%t ", "NINJA": str(self.ninja), "LC_ALL": "C"}
        # The reference ninja continues Tanto's logs, and an older ninja may be in PATH.
        env |= {"XDG_CACHE_HOME": f"{self.root}.cache", "TANTO_LOG_VERSION": "7"}
        for name in ("MAKEFLAGS", "TANTO_FLAGS", "CMAKE_GENERATOR", "CMAKE_BUILD_PARALLEL_LEVEL"):
            env.pop(name, None)
        try:
            ended = subprocess.run(
                command, cwd=self.root, env=env, stdin=subprocess.DEVNULL, timeout=SECONDS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            self.complain(purpose, f"did not end in {SECONDS} s", (late.stdout or b"").decode(errors="replace"))
            raise
        steps = sorted(STATUS.findall(ended.stdout))
        self.outcomes.append(Outcome(purpose, steps, ended.returncode))
        if (ended.returncode == 0) != (status == 0):
            self.complain(purpose, f"ended with {ended.returncode}, not {status}", ended.stdout)
        if says is not None and says not in ended.stdout:
            self.complain(purpose, f"does not say {says!r}", ended.stdout)
        if rebuilt is not None and not matches(steps, rebuilt):
            self.complain(purpose, f"ran {steps}, not {rebuilt}", ended.stdout)
        return ended.stdout

    def complain(self, purpose, why, output=""):
        """Records a failure."""
        self.complaints.append(f"{purpose}: {why}\n{textwrap.indent(output[-3000:], '      ')}")

    def files(self):
        """Names of all current files."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}


def matches(steps, words):
    """Each word matches exactly one step."""
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
