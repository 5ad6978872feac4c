"""Admission: packages wait until enough memory and disk are free, by their usage in the last build. All packages wait
at a
gate, so that all that may run at a time are seen.

    admission.py TANTO
"""

import contextlib
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place, can_create_sandboxes, memory_group

PATIENCE = 60
SETTINGS = 'limited_list = "list"\nsandbox = "overlay"\nbuild_clients = 3\njobs = 3\nhang_timeout = "0"\n'
MAKEFILE = """# $NetBSD: Makefile,v 1.1 2026/01/01 00:00:00 test Exp $

PKGNAME=\t{name}-1
# Written files are counted by size, memory by samples.
do-build=\thead -c 100m /dev/zero >big; it=$$(head -c 20m /dev/zero | tr '\\000' x); \\
\t\tuntil test -e ${{TOPDIR}}/go; do sleep 0.05; done

.include "../../mk/pkg.mk"
"""
HUNGRY = """# $NetBSD: Makefile,v 1.1 2026/01/01 00:00:00 test Exp $

PKGNAME=\thungry-1
do-build=\tsh -c 'it=$$(head -c 400m /dev/zero | tr "\\000" x); echo read' && echo built

.include "../../mk/pkg.mk"
"""
LARGE = ("one", "two")
NAMES = (*LARGE, "small")
# In KiB; their other memory is smaller.
WRITTEN = 100 << 10
# KiB; more than any machine has.
TOO_MUCH = 1 << 40


class Gate(Place):
    """A tree with packages that wait at one gate."""

    def __init__(self, tanto, directory):
        super().__init__(tanto, directory, (), SETTINGS)
        for name in NAMES:
            (directory / "tree/gate" / name).mkdir(parents=True)
            (directory / "tree/gate" / name / "Makefile").write_text(MAKEFILE.format(name=name))
        (directory / "list").write_text("".join(f"gate/{name}\n" for name in NAMES))
        self.gate = directory / "tree/go"

    def database(self, *statement):
        with contextlib.closing(sqlite3.connect(self.directory / "state/db")) as db, db:
            return db.execute(*statement).fetchall()

    def expect(self, memory, disk):
        """Records this memory for the large packages, and times that start them first."""
        large = ", ".join(f"'{name}-1'" for name in LARGE)
        self.database("UPDATE cost SET peak_kib = 0, disk_kib = 0, wall_ms = 10")
        took = "peak_kib = ?, disk_kib = ?, wall_ms = 100000"
        self.database(f"UPDATE cost SET {took} WHERE name IN ({large})", (memory, disk))

    def build(self, count, says):
        """Builds all packages. Opens the gate when this many wait at it and `status` shows this."""
        self.gate.unlink(missing_ok=True)
        command = self.command("build", "--again")
        with (self.directory / "output").open("w") as output:
            build = subprocess.Popen(
                command, cwd=self.directory, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            end = time.monotonic() + PATIENCE
            while not self.stands(count, says):
                output = (self.directory / "output").read_text()
                assert time.monotonic() < end and build.poll() is None, f"{output}\n{self.status()}"
                time.sleep(0.05)
            self.gate.touch()
            assert build.wait(PATIENCE) == 0, (self.directory / "output").read_text()
        finally:
            build.kill()
            build.wait()

    def status(self):
        asked = subprocess.run(
            self.command("status"), cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )
        return asked.stdout

    def stands(self, count, says):
        status = self.status()
        words = [line.split() for line in status.splitlines() if line.startswith("  ")]
        building = [it for it in words if it[2] == "build"]
        assert len(words) <= count, f"more than {count} packages are running:\n{status}"
        return len(building) == count and says in status

    def times(self):
        """Start and end of each package in the last run, by name."""
        rows = self.database(
            "SELECT name, began_ms, attempt.ended_ms FROM attempt JOIN package USING (run, job)"
            " WHERE run = (SELECT max(run) FROM run)"
        )
        expected = sorted(f"{name}-1" for name in NAMES)
        assert sorted(name for name, *_ in rows) == expected, f"packages not recorded exactly once: {rows}"
        return {name.removesuffix("-1"): (began, ended) for name, began, ended in rows}

    def apart(self, *names):
        times = sorted(self.times()[name] for name in names)
        assert all(before[1] <= after[0] for before, after in zip(times, times[1:])), f"{names} overlap: {times}"


def short_of_memory(tanto, directory):
    """The kernel kills a process of a package and make fails: counted as a failure of the machine."""
    place = Place(tanto, directory, (), 'limited_list = "list"\nhang_timeout = "0"\n')
    (directory / "tree/gate/hungry").mkdir(parents=True)
    (directory / "tree/gate/hungry/Makefile").write_text(HUNGRY)
    (directory / "list").write_text("gate/hungry\n")
    # Less than it needs.
    with memory_group("200M") as members:
        if members is None:
            print("admission: low memory skipped: cannot create a memory control group")
            return
        place.as_user = ["sh", "-c", f'echo $$ >{members} && exec "$@"', "sh"]
        place.run("build", code=1)
        place.as_user = []
    with contextlib.closing(sqlite3.connect(directory / "state/db")) as db:
        outcomes = db.execute("SELECT outcome, reason FROM attempt ORDER BY attempt").fetchall()
    assert [outcome for outcome, _ in outcomes] == ["machine", "machine", "failed"], outcomes
    assert outcomes[0][1].endswith("killed by another process, perhaps because memory ran out"), outcomes
    print("ok admission: a package is retried after the kernel killed its process for lack of memory")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    if not can_create_sandboxes(None):
        print("admission: skipped: cannot create a sandbox, which two packages at a time require")
        return
    with tempfile.TemporaryDirectory() as directory:
        place = Gate(tanto, Path(directory))
        place.build(3, "")
        costs = place.database("SELECT name, peak_kib, disk_kib FROM cost")
        assert len(costs) == 3 and all(peak >= 20 << 10 and disk >= WRITTEN for _, peak, disk in costs), costs
        print("ok admission: packages with unknown usage build at the same time, and their usage is recorded")
        place.expect(TOO_MUCH, 0)
        place.build(1, " waiting: not enough memory: ")
        place.apart(*NAMES)
        print("ok admission: a package that needs more memory than the machine has is built alone")
        place.expect(0, TOO_MUCH)
        place.build(2, " waiting: not enough disk space: ")
        place.apart(*LARGE)
        print("ok admission: a package that needs more disk than there is builds beside small packages")
        with (place.directory / "bulk.toml").open("a") as settings:
            settings.write('scratch_size = "4000000G"\n')
        place.expect(0, TOO_MUCH)
        place.build(1, " waiting: not enough memory: ")
        place.apart(*NAMES)
        costs = place.database("SELECT name, peak_kib, disk_kib FROM cost")
        assert all(20 << 10 <= peak < WRITTEN <= disk for _, peak, disk in costs), f"usage counted twice: {costs}"
        print("ok admission: files in memory count as memory, once")
    with tempfile.TemporaryDirectory() as directory:
        short_of_memory(tanto, Path(directory))


main()
