"""Bulk builds that are killed (SIGKILL) at 200 random moments: the next build continues, rebuilds no package that was
recorded as done, each package recorded as done is complete, and each package shown as built is recorded. A script replaces
make, so that a build has hundreds of steps per second; the coordinator and its database are real. Failure messages contain
the seed.

    kills.py TANTO [KILLS [SEED]]
"""

import ctypes
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = 40
# Shorter than an undisturbed build, so that nearly all kills hit.
LONGEST = 0.3
PR_SET_CHILD_SUBREAPER = 36
END = "whole\n"
# Replaces make; each directory builds one package. The package is written in two steps.
MAKE = """#!/bin/sh
name=${PWD##*/}
case $1 in
all) echo $name >>"$TOP/ran" ;;
stage-package-create) file=${2#STAGE_PKGFILE=}; echo $name >"$file"; printf '%s' "$PADDING" >>"$file"; echo whole >>"$file" ;;
esac
"""
SETTINGS = """
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


class Place:
    """A tree and its builds."""

    def __init__(self, tanto, directory, draw):
        self.tanto, self.directory, self.draw = tanto, directory, draw
        self.environment = {**os.environ, "TOP": str(directory), "PADDING": "x" * 5000}
        for name in ("kit", "work"):
            (directory / name).mkdir()
        (directory / "make").write_text(MAKE)
        (directory / "make").chmod(0o755)
        (directory / "bulk.toml").write_text(SETTINGS)
        lines = []
        for number in range(PACKAGES):
            (directory / f"tree/cat/pkg{number}").mkdir(parents=True)
            needs = sorted(draw.sample(range(number), min(number, draw.randrange(3))))
            lines.append(f"PKGNAME=pkg{number}-1\nPKG_LOCATION=cat/pkg{number}\nBOOTSTRAP_PKG=yes\n")
            lines.append("".join(f"DEPENDS={' '.join(f'pkg{needed}-1' for needed in needs)}\n" for _ in needs[:1]))
        (directory / "presolve").write_text("".join(lines))

    def build(self, *more, kill_after=None):
        """Runs a build; returns True if it was killed. No process is left then."""
        command = [self.tanto, "bulk", "build", "--resolved", "presolve", *more]
        with open(self.directory / "output", "wb") as output:
            process = subprocess.Popen(
                command, cwd=self.directory, env=self.environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                process.wait(kill_after)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        wait_for_orphans()
        said = (self.directory / "output").read_text()
        assert process.returncode in (0, -signal.SIGKILL), f"a build ended with {process.returncode}:\n{said}"
        return process.returncode != 0

    def rows(self, question):
        """Database rows, read from a copy so that nothing changes."""
        with tempfile.TemporaryDirectory() as copy:
            for name in ("db", "db-wal"):
                if (self.directory / "state" / name).exists():
                    shutil.copy(self.directory / "state" / name, copy)
            database = sqlite3.connect(Path(copy) / "db")
            try:
                return database.execute(question).fetchall()
            except sqlite3.OperationalError:
                # It was killed before it had any rows.
                return []
            finally:
                database.close()

    def run(self):
        """Number of the last recorded run, and whether it has ended."""
        runs = self.rows("SELECT run, ended_ms FROM run ORDER BY run DESC LIMIT 1")
        return (runs[0][0], runs[0][1] is not None) if runs else (0, False)

    def done(self, run):
        return {name for (name,) in self.rows(f"SELECT name FROM package WHERE run = {run} AND state = 'done'")}

    def attempts(self, run):
        """All attempts of a run."""
        return set(self.rows(f"SELECT job, attempt, began_ms FROM attempt WHERE run = {run}"))

    def built(self):
        """Packages built since the last call."""
        path = self.directory / "ran"
        names = [f"{line}-1" for line in path.read_text().split()] if path.exists() else []
        path.unlink(missing_ok=True)
        return names

    def shown(self):
        """Packages that the last build printed as built."""
        return set(re.findall(r"^\[\d+/\d+\] (\S+)\n", (self.directory / "output").read_text(), re.MULTILINE))

    def check_whole(self, names):
        for name in names:
            path = self.directory / f"packages/All/{name}.tgz"
            assert path.exists(), f"{name} is recorded as done but missing"
            text = path.read_text()
            assert text.startswith(f"{name[:-2]}\n") and text.endswith(END), f"{name} is recorded as done but incomplete"


def wait_for_orphans():
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def play(place, kills):
    hits = runs = 0
    more = ()
    while hits < kills:
        before_run, _ = place.run()
        before, tried = place.done(before_run), place.attempts(before_run)
        killed = place.build(*more, kill_after=place.draw.uniform(0, LONGEST))
        built, (run, is_over) = place.built(), place.run()
        assert len(built) == len(set(built)), f"built twice: {sorted(built)}"
        if run == before_run:
            assert not before & set(built), f"done packages were rebuilt: {before & set(built)}"
        assert tried <= place.attempts(before_run), "recorded attempts were lost"
        done = place.done(run)
        place.check_whole(done)
        assert place.shown() <= done, f"shown as built but not recorded: {place.shown() - done}"
        hits += killed
        # A finished run starts anew; a killed one continues.
        more = ("--again",) if is_over else ()
        runs += is_over
        assert not is_over or len(done) == PACKAGES, f"the run has ended with {PACKAGES - len(done)} packages not done"
    place.build()
    run, is_over = place.run()
    assert is_over and len(place.done(run)) == PACKAGES
    return runs


def main(tanto, kills="200", seed="1"):
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    with tempfile.TemporaryDirectory() as directory:
        place = Place(str(Path(tanto).resolve()), Path(os.path.realpath(directory)), random.Random(int(seed)))
        try:
            runs = play(place, int(kills))
        except AssertionError as failed:
            sys.exit(f"not ok kills (seed {seed}): {failed}")
    print(f"ok kills: {kills} builds were killed, {runs} runs completed, and each built each package once")


main(*sys.argv[1:])
