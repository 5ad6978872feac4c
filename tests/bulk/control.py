"""The control commands of `tanto bulk` from other terminals during a build: status, why, log, retry, skip and kill.
Each package waits at its own gate, so that the test is independent of machine speed.

    control.py TANTO
"""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place

PATIENCE = 60
GATE = "echo waiting; until test -e {directory}/go/${{PKGNAME}} -o -e {directory}/go/all; do sleep 0.02; done"
MAKEFILE = """# $NetBSD: Makefile,v 1.2 2026/01/01 00:00:00 test Exp $

PKGNAME=\t{name}
DEPENDS=\t{depends}
{more}
.include "../../mk/pkg.mk"
"""


class Gates(Place):
    """A tree of packages that wait at gates."""

    def __init__(self, tanto, directory):
        super().__init__(tanto, directory, (), "")
        (directory / "go").mkdir()
        with (directory / "mk.conf").open("a") as conf:
            conf.write(f"do-build?= {GATE.format(directory=directory)}\n")
        self.build_runs = None

    def resolve(self):
        (self.directory / "pscan").write_text("".join(self.scan(("base", "devel"))))
        self.run("resolve", "--scan", "pscan", "--output", "presolve")

    def begin(self):
        self.build_runs = subprocess.Popen(
            self.command("build", "--resolved", "presolve"),
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        end = time.monotonic() + PATIENCE
        while not (self.directory / "state/socket").exists() or not self.has_begun():
            assert time.monotonic() < end and self.build_runs.poll() is None, "no control socket"
            time.sleep(0.02)

    def has_begun(self):
        """Whether the database has all packages."""
        asked = subprocess.run(self.command("why", "app"), cwd=self.directory, env=self.environment, capture_output=True)
        return asked.returncode == 0

    def end(self, code):
        """Opens all remaining gates."""
        self.let("all")
        output = self.build_runs.communicate(timeout=PATIENCE)[0]
        assert self.build_runs.returncode == code, f"the build ended with {self.build_runs.returncode}:\n{output}"
        return output

    def abandon(self):
        """Ends the build after a failed test."""
        if self.build_runs is not None and self.build_runs.poll() is None:
            self.build_runs.send_signal(signal.SIGINT)
            self.build_runs.communicate()

    def let(self, name):
        (self.directory / "go" / name).touch()

    def write(self, directory, name, depends="", more=""):
        place = self.directory / "tree/devel" / directory
        place.mkdir(exist_ok=True)
        (place / "Makefile").write_text(MAKEFILE.format(name=name, depends=depends, more=more))

    def until(self, event, holds):
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"waited for {event}:\n{self.run('status')}"
            assert self.build_runs.poll() is None, f"the build ended too early:\n{self.build_runs.communicate()[0]}"
            time.sleep(0.05)

    def running(self):
        """Packages that wait at their gates."""
        lines = [line.split() for line in self.run("status").splitlines() if line.startswith("  ")]
        return [words[1] for words in lines if words[2] == "build"]

    def at_gate(self):
        self.until("a package at its gate", self.running)
        return self.running()[0]

    def drive(self, until):
        """Opens gates one by one until the condition holds."""
        while not until():
            running = self.running()
            for name in running:
                self.let(name)
            assert self.build_runs.poll() is None, f"the build ended too early:\n{self.build_runs.communicate()[0]}"
            time.sleep(0.05)


def views(made):
    made.resolve()
    assert "nothing was built yet" in made.error("status")
    made.begin()
    assert stat.S_IMODE((made.directory / "state/socket").stat().st_mode) == 0o600
    name = made.at_gate()
    output = made.run("status")
    assert "12 packages: " in output and "1 running" in output and " left; the longest chain takes " in output, output
    made.until("its output", lambda: "waiting" in made.run("log", name))
    assert made.run("log", name, "build") == made.run("log", name)
    assert "it waits for libthree-3.1 (" in made.run("why", "app3"), made.run("why", "app3")
    assert "using this state" in made.error("build", "--resolved", "presolve")
    due = {it["name"]: it["state"] for it in json.loads(made.run("check", "--json"))["packages"]}
    assert len(due) == 12 and due[name] == due["app3-3.1"] == "out-of-date", due
    watch = subprocess.Popen(
        made.command("status", "--watch"), cwd=made.directory, env=made.environment, stdout=subprocess.PIPE, text=True
    )
    assert " packages: " in watch.stdout.readline()
    made.end(0)
    assert "12 packages, 12 done" in watch.communicate(timeout=PATIENCE)[0]
    assert watch.returncode == 0 and not (made.directory / "state/socket").exists()
    assert "nothing is being built" in made.error("kill", "libone")
    print("ok views: status, why and log describe running packages")


def kill_and_skip(made):
    made.resolve()
    made.begin()
    name = made.at_gate()
    assert f"killing stage build of {name}" in made.run("kill", name)
    made.until("its end", lambda: made.state(name) == ("failed", "killed by the user"))
    assert "is failed" in made.error("skip", name)
    assert "there is no package 'none'" in made.error("retry", "none")
    assert f"{name} will be built again" in made.run("retry", name)
    running = made.at_gate()
    assert "is being built" in made.error("skip", running)
    assert "and will be built again afterwards" in made.run("retry", running)
    assert "app3-3.1 will not be built in this run" in made.run("skip", "app3")
    assert "libtwo-2.0rc1 will not be built in this run; dependents that will not be built: 1" in made.run("skip", "devel/libtwo")
    assert made.state("app") == ("indirect-prefailed", "it needs libtwo-2.0rc1, which cannot be built")
    assert "libtwo-2.0rc1 will be built again" in made.run("retry", "libtwo")
    made.let(running)
    made.end(0)
    assert made.state("app3") == ("prefailed", "skipped by the user")
    assert made.packages() == sorted(set(made.names()) - {"app3-3.1"}), made.packages()
    assert "attempt 2: done" in made.run("why", running), made.run("why", running)
    print("ok kill and skip: a killed package has failed, a skipped one is not built, and retry undoes both")


def fix(made):
    """A failed package is fixed, and has a new dependency and version."""
    made.write("libtwo", "libtwo-2.0rc1", "libone>=1.0:../../devel/libone", "do-build= echo no; exit 1")
    made.resolve()
    made.begin()
    made.drive(lambda: made.state("libtwo")[0] == "failed")
    why = made.run("why", "app")
    assert "it needs libtwo-2.0rc1, which failed: build exited with 1" in why, why
    held = made.at_gate()
    made.write("libtwo", "libtwo-2.0rc1", "broken", "")
    assert "libtwo-2.0rc1 is prefailed: 'broken' is not a dependency" in made.run("retry", "libtwo")
    (made.directory / "tree/devel/libtwo/Makefile").write_text("this is no makefile\n")
    assert "devel/libtwo cannot be scanned" in made.error("retry", "libtwo")
    made.write("libtwo", "libtwo-2.1", "new>=3:../../devel/new libone>=1.0:../../devel/libone", "FILES= lib/libtwo.so")
    made.write("new", "new-3", "", "FILES= lib/new.so")
    assert "libtwo-2.1 will be built again" in made.run("retry", "libtwo")
    assert made.running() == [held], "the running package was stopped"
    assert made.state("new")[0] == "open" and made.state("app")[0] == "open"
    assert "it waits for new-3 (open)" in made.run("why", "libtwo-2.1"), made.run("why", "libtwo-2.1")
    made.write("libone", "libone-1.2nb3", "app>=0:../../devel/app", "FILES= lib/libone.so")
    assert "circular dependency" in made.error("retry", "libone")
    made.end(0)
    assert {"new-3", "libtwo-2.1", "app-0.9", "app3-3.1"} <= set(made.packages()), made.packages()
    print("ok fix: a fixed package is rescanned and rebuilt with new dependencies while others continue")


def done_again(made):
    """`retry` rebuilds a finished package and its dependents, also while no build runs."""
    made.resolve()
    made.begin()
    made.drive(lambda: made.state("libone")[0] == "done")
    made.at_gate()
    assert "libone-1.2nb3 will be built again" in made.run("retry", "libone")
    (made.directory / "go/libone-1.2nb3").unlink()
    made.drive(lambda: made.state("libone")[0] == "done")
    assert "attempt 2: done" in made.run("why", "libone")
    made.end(0)
    assert "the next build will build libtwo-2.0rc1" in made.run("retry", "libtwo")
    assert made.state("app")[0] == "open" and made.state("libone")[0] == "done"
    assert "there is nothing to skip" in made.error("skip", "app")
    output = made.run("build", "--resolved", "presolve")
    assert all(f"] {name}\n" in output for name in ("libtwo-2.0rc1", "app-0.9", "app3-3.1")) and "] libone" not in output, output
    print("ok done again: retry rebuilds a finished package and its dependents")


def stale_socket(made):
    """A killed build leaves a stale control socket."""
    made.resolve()
    made.begin()
    name = made.at_gate()
    made.build_runs.send_signal(signal.SIGKILL)
    made.build_runs.communicate()
    assert (made.directory / "state/socket").exists()
    assert "packages" in made.run("status")
    assert "app3-3.1 will not be built in this run" in made.run("skip", "app3")
    made.let("all")
    made.build(0)
    assert made.state(name)[0] == "done" and made.state("app3") == ("prefailed", "skipped by the user")
    print("ok stale: a stale control socket is replaced")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    wanted = sys.argv[2:]
    for test in (views, kill_and_skip, fix, done_again, stale_socket):
        if wanted and test.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory() as directory:
            made = Gates(tanto, Path(os.path.realpath(directory)))
            try:
                test(made)
            finally:
                made.abandon()


main()
