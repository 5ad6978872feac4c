"""Builds of the same real packages in each kind of sandbox and in none, one at a time."""

import os
import shutil
import sqlite3
import statistics
import subprocess
from pathlib import Path

from lib import machine
from lib.builds import BUILT
from lib.scenarios import ENVIRONMENT
from lib.timing import Entrant, Row, print_table, take_turns

SANDBOXES = "sandboxes"
# The first directories of the list: small packages with many short processes.
DIRECTORIES = 6
ROUNDS = 3
MEMORY, DISK = {"scratch_size": "4G"}, {"scratch_size": "0"}
TEMPLATE = machine.PLACE / "template"
KINDS = {
    "none": {"sandbox": "none"},
    "overlay": {"sandbox": "overlay", **DISK},
    "overlay, written in memory": {"sandbox": "overlay", **MEMORY},
    "bind": {"sandbox": "bind", **DISK},
    "bind, written in memory": {"sandbox": "bind", **MEMORY},
    "tmpfs": {"sandbox": "tmpfs", "sandbox_root": str(TEMPLATE), **MEMORY},
}
# Not part of a small system.
LARGE = ("share/doc", "share/man", "share/locale")


def sandboxes(tanto, arguments, tree):
    """Each kind builds the list from scratch, including a copy of the system into memory."""
    if os.geteuid() != 0:
        print(f"\n{SANDBOXES}: skipped: requires root")
        return {}
    make_template()
    entrants, medians = [], {}
    for number, (label, settings) in enumerate(KINDS.items()):
        place = machine.PLACE / SANDBOXES / str(number)
        entrants.append(entrant(tanto, tree, place, label, settings, medians.setdefault(label, [])))
    take_turns(machine.compile_c("timed"), min(ROUNDS, arguments.runs), entrants, [], 0)
    rows = [it.row for it in entrants]
    print_table(f"{SANDBOXES}: {DIRECTORIES} directories, one at a time", rows)
    for label, seconds in medians.items():
        print(f"{label:28}{statistics.median(seconds):7.3f} s per package (median)")
    shutil.rmtree(TEMPLATE)
    shutil.rmtree(machine.PLACE / SANDBOXES)
    return {(SANDBOXES, row.label): row for row in rows}


def entrant(tanto, tree, place, label, settings, seconds):
    def begin():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "list").write_text("".join(f"{line}\n" for line in tree.limited()[:DIRECTORIES]))
        tree.write_settings(place, limited_list=str(place / "list"), build_clients=1, **settings)

    def end():
        with sqlite3.connect(place / "state/db") as database:
            query = "SELECT ended_ms - began_ms FROM attempt WHERE outcome = 'done'"
            done = [took / 1e3 for (took,) in database.execute(query)]
        if not done:
            raise SystemExit(f"{label}: nothing was built; see {place}/bulklog")
        seconds.extend(done)

    command = [tanto, "bulk", "build", "--config", str(place / "bulk.toml")]
    return Entrant(Row(label), command, machine.PLACE, ENVIRONMENT, before=begin, after=end, ends=BUILT)


def make_template():
    """Creates a small system for the packages of the list, with hard links if possible."""
    shutil.rmtree(TEMPLATE, ignore_errors=True)
    (TEMPLATE / "usr").mkdir(parents=True)
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib64", "/etc", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64")):
        copy(path, TEMPLATE / path.relative_to("/"))
    for name in ("include", "libexec", "share"):
        copy(Path("/usr") / name, TEMPLATE / "usr" / name)
    for name in LARGE:
        shutil.rmtree(TEMPLATE / "usr" / name, ignore_errors=True)


def copy(path, to):
    if path.exists() or path.is_symlink():
        linked = subprocess.run(["cp", "-al", path, to], capture_output=True, check=False)
        if linked.returncode != 0:
            shutil.rmtree(to, ignore_errors=True)
            subprocess.run(["cp", "-a", path, to], check=True)
