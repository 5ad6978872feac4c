"""Packages write in memory while there is room, and on the disk else: what has no room there is begun again, which is nobody's
fault, and what is known to have none is not even tried.

    memory.py TANTO"""

import contextlib
import sqlite3
import sys
import tempfile
from pathlib import Path

from place import Place, can_shut_in

# In MiB. Whoever asks for less than that is in memory.
ROOM = 64
SETTINGS = f'limited_list = "list"\nsandbox = "bind"\nbuild_clients = 1\nhang_timeout = "0"\nscratch_size = "{ROOM}M"\n'
MAKEFILE = """# $NetBSD: Makefile,v 1.1 2026/01/01 00:00:00 test Exp $

PKGNAME=\t{name}-1
do-build=\t{line}

.include "../../mk/pkg.mk"
"""
LINES = {
    "small": "test `stat -f -c %T .` = tmpfs && head -c 20m /dev/zero >file",
    "one": "head -c 100m /dev/zero >file",
    "three": "head -c 100m /dev/zero >file",
    # It would fill any disk.
    "two": "test `stat -f -c %T .` != tmpfs || cp /dev/zero file",
    # It does not care, and would become something else without a word.
    "silent": "head -c 100m /dev/zero >file 2>/dev/null || true",
}
# Its files are more than may be beside what it holds.
HOLDS = "head -c 40m /dev/zero >file; it=$(head -c 20m /dev/zero | tr '\\000' x); echo read"
LARGE = {"one-1", "two-1", "three-1", "silent-1"}
WHY = "it writes more than may be in memory, and is built again on the disk"


def add(place, name, line):
    makefile = place.directory / "tree/gate" / name / "Makefile"
    makefile.parent.mkdir(parents=True)
    makefile.write_text(MAKEFILE.format(name=name, line=line.replace("$", "$$")))


def attempts(place):
    query = (
        "SELECT name, attempt, client, outcome, attempt.why FROM attempt JOIN package USING (run, job)"
        " WHERE run = (SELECT max(run) FROM run) ORDER BY name, attempt"
    )
    with contextlib.closing(sqlite3.connect(place.directory / "state/db")) as db:
        return db.execute(query).fetchall()


def outcomes(place):
    ended = {}
    for name, _, _, outcome, _ in attempts(place):
        ended.setdefault(name, []).append(outcome)
    return ended


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    if not can_shut_in(None):
        print("memory: skipped, for this machine lets us make no sandbox")
        return
    with tempfile.TemporaryDirectory() as directory:
        place = Place(tanto, Path(directory), (), SETTINGS)
        for name, line in LINES.items():
            add(place, name, line)
        (place.directory / "list").write_text("".join(f"gate/{name}\n" for name in LINES))
        place.run("build")
        ended = outcomes(place)
        assert ended == {"small-1": ["done"], **dict.fromkeys(LARGE, ["machine", "done"])}, attempts(place)
        told = {name: why for name, _, _, outcome, why in attempts(place) if outcome == "machine"}
        assert told["one-1"] == f"build exited with 1: {WHY}" and told["silent-1"] == f"build: {WHY}", told
        print("ok memory: what has no room there is built again on the disk, also if it does not care")
        assert f"attempt 1: machine (build exited with 1: {WHY})" in place.run("why", "one-1"), place.run("why", "one-1")
        clients = {client for _, _, client, _, _ in attempts(place)}
        assert clients == {"local-1"}, f"one is set aside: {attempts(place)}"
        print("ok memory: no client is to blame for that")
        place.run("build", "--again")
        # What was never there is tried once more: it wrote nothing on the disk.
        ended = outcomes(place)
        assert ended.pop("two-1") == ["machine", "done"] and set(map(tuple, ended.values())) == {("done",)}, attempts(place)
        print("ok memory: what is known to write too much does so on the disk at once")
        add(place, "held", HOLDS)
        with (place.directory / "bulk.toml").open("a") as settings:
            settings.write('[stage.build]\nmemory_limit = "48M"\n')
        (place.directory / "list").write_text("gate/held\n")
        place.run("build", "--again")
        # Without control groups its files do not count.
        assert outcomes(place)["held-1"] in (["machine", "done"], ["done"]), attempts(place)
        print("ok memory: files in memory are no reason to end who writes them")


main()
