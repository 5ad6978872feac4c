"""Builds that are killed (SIGKILL) at random moments: finished commands stay done, and the next builds complete
correctly. Failure messages contain the seed. Prints a line for each test.

usage: kills.py TANTO REFEREE [KILLS [SEED]]
"""

import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOBS = 4
KILLS_IN_A_ROW = 4
PR_SET_CHILD_SUBREAPER = 36

# Each command records its run as its last step. Its output appears atomically.
RULES = """
rule copy
  command = cat $in > $out.part && mv $out.part $out && echo $out >> ran
rule include
  command = cat $in common.h > $out.part && echo $out: common.h > $out.d && mv $out.part $out && echo $out >> ran
  depfile = $out.d
  deps = gcc
rule join
  command = xargs cat < $out.rsp > $out.part && mv $out.part $out && echo $out >> ran
  rspfile = $out.rsp
  rspfile_content = $in
"""
GROUPS, GROUP = 4, 8


class Failed(Exception):
    pass


def manifest():
    lines = [RULES]
    for group in range(GROUPS):
        members = [f"{group}/{number}" for number in range(GROUP)]
        for number, member in enumerate(members):
            lines.append(f"build {member}.o: {'copy' if number % 2 else 'include'} {member}.c")
        lines.append(f"build {group}/lib: join " + " ".join(f"{member}.o" for member in members))
    lines.append("build app: join " + " ".join(f"{group}/lib" for group in range(GROUPS)))
    return "\n".join(lines) + "\ndefault app\n"


class Tree:
    """A directory with sources, and the expected result of its build."""

    def __init__(self, path, tanto, referee, rand):
        self.path, self.tanto, self.referee, self.rand = path, tanto, referee, rand
        self.environment = dict(os.environ, TANTO_SNAPSHOT="always", TANTO_LOG_VERSION="7", XDG_CACHE_HOME=f"{path}.cache")
        (path / "build.ninja").write_text(manifest())
        self.write("common.h", "common\n")
        self.sources = []
        for group in range(GROUPS):
            (path / str(group)).mkdir()
            for number in range(GROUP):
                self.sources.append(f"{group}/{number}.c")
                self.write(self.sources[-1], f"{group} {number}\n")

    def write(self, name, text):
        """Writes a file, and ensures that later writes get a newer mtime."""
        file, probe = self.path / name, self.path / "probe"
        file.write_text(text)
        while probe.write_text("") is None or probe.stat().st_mtime_ns <= file.stat().st_mtime_ns:
            time.sleep(0.001)

    def change(self, round_number):
        for name in self.rand.sample(self.sources, self.rand.randint(1, len(self.sources))):
            self.write(name, f"{name} {round_number}\n")
        if self.rand.random() < 0.3:
            self.write("common.h", f"common {round_number}\n")

    def expected(self):
        text = ""
        for number, source in enumerate(self.sources):
            text += (self.path / source).read_text()
            text += "" if number % 2 else (self.path / "common.h").read_text()
        return text

    def build(self, kill_after=None):
        """Runs a build, for `kill_after` seconds if set. Returns True if it was killed. No process is left then."""
        command = [self.tanto, "build", f"-j{JOBS}"]
        with open(self.path / "output", "wb") as output:
            process = subprocess.Popen(command, cwd=self.path, env=self.environment, stdout=output, stderr=output)
        try:
            process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        wait_for_orphans()
        if process.returncode not in (0, -signal.SIGKILL):
            raise Failed(f"a build ended with {process.returncode}:\n{(self.path / 'output').read_text()}")
        return process.returncode != 0

    def ran(self):
        """Commands that ran since the last call."""
        file = self.path / "ran"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def check(self):
        if (self.path / "app").read_text() != self.expected():
            raise Failed("the result is wrong")
        for program in ([self.tanto, "build"], [self.referee]):
            said = subprocess.run(program + ["-n"], cwd=self.path, env=self.environment, capture_output=True, text=True)
            if "no work to do" not in said.stdout:
                raise Failed(f"{program[0]} has still work to do:\n{said.stdout}{said.stderr}")


def wait_for_orphans():
    """Waits for the commands of a killed build, which became our children."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def adopt_orphans():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def play(tree, kills):
    """Kills this many builds; returns the number of needless command runs."""
    begun = time.monotonic()
    tree.build()
    whole = time.monotonic() - begun
    tree.ran()
    done = repeated = 0
    while done < kills:
        tree.change(done)
        killed = sum(tree.build(tree.rand.uniform(0, whole)) for _ in range(KILLS_IN_A_ROW))
        tree.build()
        ran = tree.ran()
        again = len(ran) - len(set(ran))
        if again > JOBS * killed:
            raise Failed(f"{again} commands ran again after {killed} kills, where {JOBS} run at a time")
        tree.check()
        done, repeated = done + max(killed, 1), repeated + again
    return repeated


def main(tanto, referee, kills="200", seed="1"):
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="tanto-kills-") as place:
        tree = Tree(Path(place), os.path.abspath(tanto), os.path.abspath(referee), random.Random(int(seed)))
        try:
            repeated = play(tree, int(kills))
        except Failed as failed:
            print(f"not ok builds that are killed (seed {seed}): {failed}")
            return 1
    print(f"ok builds that are killed {kills} times ({repeated} commands ran again)")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
