"""Changes the package tree and the settings of a build that has clients.

    trees.py TANTO

Each package is built with the files and the settings of its lease.
"""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from farm import Farm, until
from place import Some, can_create_sandboxes

# All packages are built by clients.
AWAY = '[place]\n"*/*" = "away"\n'


# The argument of the command that a package waits for: no other process on this machine has it.
MARKER = f"100000.{os.getpid():08}"
WAIT = f"sleep {MARKER} || true"


def release():
    """Lets the packages that wait continue. Returns their number."""
    released = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if (process / "cmdline").read_bytes() == f"sleep\0{MARKER}\0".encode():
                os.kill(int(process.name), signal.SIGTERM)
                released += 1
    return released


class Changing(Farm):
    """A build whose packages record a file of their directory, or a setting."""

    def record(self, location, value, more=""):
        """Lets the comment of a package be this value. `more`: other lines for the Makefile."""
        makefile = self.directory / "tree" / location / "Makefile"
        include = '.include "../../mk/pkg.mk"'
        makefile.write_text(makefile.read_text().replace(include, f"COMMENT{value}\n{more}{include}"))

    def note(self, location, text):
        (self.directory / "tree" / location / "note").write_text(f"{text}\n")

    def comment(self, package):
        """The comment in the package file, if there is one."""
        file = self.directory / f"packages/All/{package}.tgz"
        if not file.exists():
            return None
        command = ["tar", "-xzOf", file, "+COMMENT"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def runs(self, package):
        """Whether a client has the package."""
        lines = [line.split() for line in self.place.run("status").splitlines() if line.startswith("  ")]
        return any(package in line for line in lines)

    def rows(self, query, *values):
        with sqlite3.connect(f"file:{self.directory}/state/db?mode=ro", uri=True) as db:
            return [row[0] for row in db.execute(query, values)]

    def outcomes(self, package):
        """Those of its attempts that have ended."""
        query = (
            "SELECT outcome FROM attempt JOIN package USING (run, job)"
            " WHERE name = ? AND outcome <> '' ORDER BY attempt"
        )
        return self.rows(query, package)

    def confirmed(self):
        """The packages whose leases clients have."""
        return set(self.rows("SELECT name FROM lease JOIN package USING (run, job) WHERE lease.state = 'running'"))

    def trees(self, client):
        return sorted(path.name for path in (self.directory / client / "trees").iterdir())


def settings_of_the_next_run(tanto, directory):
    """A client that is connected builds the next run with its settings."""
    with Changing(tanto, directory, ("base",), f'{AWAY}[environment]\nFLAVOUR = "one"\n') as farm:
        farm.record("base/zero", "=\t${FLAVOUR}")
        farm.serve()
        farm.token("builder")
        client = farm.client("builder", "--slots", "1", "--label", "away")
        farm.wait(farm.build(), 0, "build.log")
        assert farm.comment("zero-0") == "one", farm.comment("zero-0")
        config = directory / "bulk.toml"
        config.write_text(config.read_text().replace('FLAVOUR = "one"', 'FLAVOUR = "two"'))
        # Its kit and its mk.conf are other ones, too.
        (directory / "kit/from-the-next-kit").write_text("kit\n")
        farm.place.archive_kit()
        makeconf = directory / "mk.conf"
        makeconf.write_text(makeconf.read_text() + "MAINTAINER= next@example.org\n")
        farm.wait(farm.start("again.log", "build", "--resolved", "presolve", "--again"), 0, "again.log")
        assert client.poll() is None, farm.log("builder.log")
        assert farm.comment("zero-0") == "two", farm.comment("zero-0")
        info = subprocess.run(
            ["tar", "-xzOf", directory / "packages/All/zero-0.tgz", "+BUILD_INFO"],
            capture_output=True, text=True, check=True,
        )
        assert "MAINTAINER=next@example.org" in info.stdout, info.stdout
        assert set(farm.clients_of().values()) == {"builder"}, farm.clients_of()
        kept = directory / "builder/state/clients/kit" / str(directory / "prefix").lstrip("/")
        assert (kept / "from-the-next-kit").exists(), "the client has another kit"
    print("ok settings: a client builds the next run with its settings, kit and mk.conf")


def mended_files(tanto, directory):
    """A package is mended and built again while another one is built with the old files."""
    with Changing(tanto, directory, ("base/zero", "trouble/broken"), AWAY, Some) as farm:
        waits = f"do-build= {WAIT}\n"
        farm.note("base/zero", "old")
        farm.record("base/zero", "!=\tcat ${.CURDIR}/note", waits)
        farm.note("trouble/broken", "old")
        farm.record("trouble/broken", "!=\tcat ${.CURDIR}/note")
        farm.serve()
        farm.token("builder")
        client = farm.client("builder", "--slots", "3", "--label", "away")
        build = farm.build()
        until(lambda: "broken-1" in farm.log("build.log"), "a package fails")
        assert farm.place.state("broken-1")[0] == "failed", farm.log("build.log")
        until(lambda: farm.runs("zero-0"), "the other one runs")
        first = farm.trees("builder")
        for location in ("base/zero", "trouble/broken"):
            farm.note(location, f"new {location}")
        mend(farm)
        # The client is stopped, so that the tree changes between the lease and the download.
        client.send_signal(signal.SIGSTOP)
        farm.place.run("retry", "broken-1")
        until(lambda: farm.runs("broken-1"), "a lease names the new tree")
        farm.note("trouble/broken", "newer")
        client.send_signal(signal.SIGCONT)
        until(lambda: farm.comment("broken-1"), "the mended package is built")
        assert farm.comment("broken-1") == "newer", farm.comment("broken-1")
        assert farm.runs("zero-0")
        assert set(first) < set(farm.trees("builder")), "it still has the old tree"
        until(release, "the other package waits")
        until(lambda: farm.comment("zero-0"), "the other package is built")
        assert farm.comment("zero-0") == "old", farm.comment("zero-0")
        until(lambda: len(farm.trees("builder")) == 1, "the old tree is removed")
        assert farm.trees("builder") != first
        farm.wait(build, 0, "build.log")
        assert {"builder"} == set(farm.clients_of().values()), farm.clients_of()
    print("ok trees: a client builds a mended package while another one has the old files")


def leases_of_the_latest_tree_continue(tanto, directory):
    """A coordinator is killed. The next one continues the attempt with the new files, and gives up the one with the old ones."""
    with Changing(tanto, directory, ("base/zero", "trouble/broken"), AWAY, Some) as farm:
        waits = f"do-build= {WAIT}\n"
        for location in ("base/zero", "trouble/broken"):
            farm.note(location, "old")
            farm.record(location, "!=\tcat ${.CURDIR}/note", waits if location == "base/zero" else "")
        farm.serve()
        farm.token("builder")
        farm.client("builder", "--slots", "3", "--label", "away")
        build = farm.build()
        until(lambda: "broken-1" in farm.log("build.log") and farm.runs("zero-0"), "a package fails, the other one runs")
        for location in ("base/zero", "trouble/broken"):
            farm.note(location, "new")
        makefile = farm.directory / "tree/trouble/broken/Makefile"
        makefile.write_text(makefile.read_text().replace("exit 1", WAIT))
        farm.place.run("retry", "broken-1")
        until(lambda: farm.confirmed() == {"zero-0", "broken-1"}, "both run")
        build.kill()
        build.wait()
        again = farm.start("again.log", "build", "--resolved", "presolve")
        until(lambda: farm.outcomes("zero-0") == ["interrupted"] or again.poll() is not None, "an attempt is given up")

        def ends():
            release()
            return again.poll() is not None

        until(ends, "the build ends")
        farm.wait(again, 0, "again.log")
        assert farm.outcomes("zero-0") == ["interrupted", "done"], farm.outcomes("zero-0")
        assert farm.outcomes("broken-1") == ["failed", "done"], farm.outcomes("broken-1")
        assert farm.comment("zero-0") == farm.comment("broken-1") == "new", (farm.comment("zero-0"), farm.comment("broken-1"))
    print("ok restart: the attempt with the files of the latest scan continues")


def mend(farm):
    makefile = farm.directory / "tree/trouble/broken/Makefile"
    makefile.write_text(makefile.read_text().replace("exit 1", "exit 0"))


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("trees: skipped: this machine permits no sandboxes")
        return
    for test in (settings_of_the_next_run, mended_files, leases_of_the_latest_tree_continue):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
