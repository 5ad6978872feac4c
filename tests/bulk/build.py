"""Builds a small package tree with `tanto bulk` and Debian's bmake: the outcome of each package, also in builds that
are killed.

    build.py TANTO
"""

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place

KILLS = 4
# Expected outcomes other than success.
FATES = {
    "broken-1": ("failed", "build exited with 1"),
    "deadlock-1": ("failed", "build hung: no new process, no processor time and no output for 10s"),
    "loop-1": ("failed", "build not finished after 45s"),
    "network-1": ("failed", "build exited with 1"),
    "needbroken-1": ("indirect-failed", "it needs broken-1, which failed"),
    "skip-1": ("prefailed", None),
    "failreason-1": ("prefailed", None),
    "clinger-1": ("done", None),
    "daemon-1": ("done", None),
    "needskip-1": ("indirect-prefailed", "it needs skip-1, which cannot be built"),
}


def whole_tree(tanto, directory):
    place = Place(
        tanto, directory, ("base", "devel", "trouble"), 'hang_timeout = "10s"\ntimeout = "45s"\n'
    )
    place.build(1)
    built = []
    for name in place.names():
        state, why = place.state(name)
        expected, reason = FATES.get(name, ("done", ""))
        assert state == expected and reason in (None, why), f"{name} is {state} ({why}), not {expected} ({reason})"
        built += [name] * (state == "done")
    assert place.packages() == sorted(built), "the package files differ from the built packages"
    logs = sorted(path.name for path in (directory / "bulklog").iterdir() if path.name != "meta")
    failed = sorted(name for name, (state, _) in FATES.items() if state == "failed")
    assert logs == failed, f"unexpected logs: {logs}"
    assert "error: it does not compile" in place.run("log", "broken-1")
    assert place.run("log", "broken-1", "build") == place.run("log", "trouble/broken")
    place.run("log", "broken-1", "configure", code=1)
    leftovers = subprocess.run(["pgrep", "-f", str(directory)], capture_output=True, text=True, check=False).stdout
    assert not leftovers.strip(), f"leftover processes: {leftovers}"
    with sqlite3.connect(f"file:{directory}/state/db?mode=ro", uri=True) as db:
        sizes = dict(db.execute("SELECT name, disk_kib FROM cost"))
    assert sorted(sizes) == sorted(built) and all(kib > 0 for kib in sizes.values()), f"leftover work directories: {sizes}"
    print(f"ok whole tree: {len(built)} packages are built, and the others have the expected outcomes")


def kills(tanto, directory):
    """A package that is recorded as done exists and is not built again."""
    place = Place(tanto, directory, ("base", "devel"), "")
    draw = random.Random(7)
    moments = 0
    for _ in range(KILLS):
        build = subprocess.Popen(
            place.command("build", "--resolved", "presolve"),
            cwd=directory,
            env=place.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(draw.random() * 2)
        build.send_signal(signal.SIGKILL)
        moments += build.wait() == -signal.SIGKILL
        done = [name for name in place.names() if (directory / "state/db").exists() and began(place, name)]
        assert set(done) <= set(place.packages()), f"recorded: {done}, present: {place.packages()}"
    place.build(0)
    assert place.packages() == sorted(place.names())
    again = place.build(0)
    assert "[1/" not in again, f"packages were rebuilt:\n{again}"
    replaced_package(place)
    place.run("status")
    print(f"ok kills: after {moments} kills all packages are built, and recorded packages are not built again")


def replaced_package(place):
    """A package file that was replaced when the build was killed differs from the record, so it is built again."""
    package = place.directory / "packages/All/tool-1.tgz"
    with sqlite3.connect(place.directory / "state/db") as db:
        db.execute("UPDATE run SET ended_ms = NULL WHERE run = (SELECT max(run) FROM run)")
        db.execute("UPDATE package SET state = 'running' WHERE name IN ('tool-1', 'kit-1.0')")
    package.write_bytes(package.read_bytes() + b"x")
    again = place.build(0)
    assert "tool-1" in again and "kit-1.0" not in again, again
    with sqlite3.connect(place.directory / "state/db") as db:
        ((digest,),) = db.execute("SELECT digest FROM file WHERE name = 'tool-1'").fetchall()
    assert digest.decode() == hashlib.sha512(package.read_bytes()).hexdigest()


def full_disk(tanto, directory):
    """The database's disk is full for a while: nothing is lost, and the build continues when there is space."""
    state = directory / "state"
    state.mkdir(mode=0o700)
    mounted = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", state]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        print("full disk: skipped: cannot create a small file system")
        return
    try:
        place = Place(tanto, directory, ("base", "devel"), "")
        build = subprocess.Popen(
            place.command("build", "--resolved", "presolve"),
            cwd=directory,
            env=place.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        output = build.stdout.readline()
        with (state / "filler").open("wb", buffering=0) as filler:
            try:
                while filler.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        while "the disk is full" not in output:
            line = build.stdout.readline()
            assert line, f"the build ended without a message about the disk:\n{output}"
            output += line
        (state / "filler").unlink()
        output += build.communicate()[0]
        assert build.returncode == 0, output
        assert all(place.state(name)[0] == "done" for name in place.names())
    finally:
        subprocess.run(["umount", state], check=True)
    print("ok full disk: the build waits for space, and all finished packages are recorded")


def began(place, name):
    """Whether the package is recorded as done; there may be no run yet."""
    result = subprocess.run(
        place.command("why", name), cwd=place.directory, env=place.environment, capture_output=True, text=True, check=False
    )
    return result.stdout.startswith(f"{name}: done")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    for test in (whole_tree, kills, full_disk):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
