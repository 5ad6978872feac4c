"""Packages build in memory while there is room, else on disk. A package that outgrows its memory is restarted on disk,
without a failure, and next time starts there.

    memory.py TANTO
"""

import contextlib
import sqlite3
import sys
import tempfile
from pathlib import Path

from place import Place, can_create_sandboxes, memory_group

# In MiB. Smaller packages are built in memory.
ROOM = 64
SETTINGS = f"""limited_list = "list"
sandbox = "bind"
build_clients = 2
hang_timeout = "0"
log_limit = "1M"
scratch_size = "{ROOM}M"
"""
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
    # It continues until it is terminated for another reason.
    "prints": "head -c 100m /dev/zero >file || yes full",
    # It ignores errors, and would silently produce something else.
    "silent": "head -c 100m /dev/zero >file 2>/dev/null || true",
}
# Its files exceed the room left by its memory.
HOLDS = "head -c 40m /dev/zero >file; it=$(head -c 20m /dev/zero | tr '\\000' x); echo read"
LARGE = {"one-1", "two-1", "three-1", "prints-1", "silent-1"}
WHY = "its files exceed the space in memory: building it again on disk"


def add(place, name, line):
    makefile = place.directory / "tree/gate" / name / "Makefile"
    makefile.parent.mkdir(parents=True)
    makefile.write_text(MAKEFILE.format(name=name, line=line.replace("$", "$$")))


def attempts(place):
    query = (
        "SELECT name, attempt, client, outcome, attempt.reason FROM attempt JOIN package USING (run, job)"
        " WHERE run = (SELECT max(run) FROM run) ORDER BY name, attempt"
    )
    with contextlib.closing(sqlite3.connect(place.directory / "state/db")) as db:
        return db.execute(query).fetchall()


def outcomes(place):
    ended = {}
    for name, _, _, outcome, _ in attempts(place):
        ended.setdefault(name, []).append(outcome)
    return ended


def build(place, *names):
    (place.directory / "list").write_text("".join(f"gate/{name}\n" for name in names))
    place.run("build", "--again")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    if not can_create_sandboxes(None):
        print("memory: skipped: this machine cannot create a sandbox")
        return
    with tempfile.TemporaryDirectory() as directory:
        place = Place(tanto, Path(directory), (), SETTINGS)
        for name, line in LINES.items():
            add(place, name, line)
        build(place, "one")
        clients = [client for _, _, client, _, _ in attempts(place)]
        assert clients == ["local-1"] * 2, f"the failure counted against the client: {attempts(place)}"
        print("ok memory: a full tmpfs does not count against the client")
        # Recorded usage takes effect here already.
        build(place, *LINES)
        ended = outcomes(place)
        assert ended == {**dict.fromkeys(LARGE, ["machine", "done"]), "small-1": ["done"], "one-1": ["done"]}, attempts(place)
        reasons = {name: why for name, _, _, outcome, why in attempts(place) if outcome == "machine"}
        assert reasons["three-1"] == f"build exited with 1: {WHY}" and reasons["silent-1"] == f"build: {WHY}", reasons
        print("ok memory: a package that outgrows its tmpfs is rebuilt on disk, also if it ignores errors")
        assert f"attempt 1: machine (build exited with 1: {WHY})" in place.run("why", "three-1"), place.run("why", "three-1")
        # Later, only builds on disk have recorded it, at their end.
        for _ in range(2):
            build(place, *LINES)
            ended = outcomes(place)
            assert ended.keys() == LARGE | {"small-1"} and set(map(tuple, ended.values())) == {("done",)}, attempts(place)
        print("ok memory: a package with large recorded usage is built on disk at once")
        add(place, "held", HOLDS)
        with (place.directory / "bulk.toml").open("a") as settings:
            settings.write('[stage.build]\nmemory_limit = "48M"\n')
        # More than it needs; alone in a group, Tanto creates further ones.
        with memory_group("8G") as members:
            if members is not None:
                place.as_user = ["sh", "-c", f'echo $$ >{members} && exec "$@"', "sh"]
            build(place, "held")
            # Without control groups, its files are not counted.
            assert outcomes(place)["held-1"] == (["machine", "done"] if members else ["done"]), attempts(place)
            for _ in range(2):
                build(place, "held")
                assert outcomes(place)["held-1"] == ["done"], attempts(place)
        print("ok memory: files in memory do not terminate their package")


main()
