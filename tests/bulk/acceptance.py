"""Builds a small package tree with a client that lies, and while the processes that accept results are killed.

    acceptance.py TANTO

The build ends with all packages, and none of them is the lie.
"""

import contextlib
import os
import signal
import sqlite3
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from farm import PATIENCE, Farm, start_liar, until
from place import Some, can_create_sandboxes

LOCATIONS = ("base/kit", "base/zero", "devel/libone", "devel/libtwo", "devel/libthree", "devel/app")

# Clients build all packages.
AWAY = '[place]\n"*/*" = "away"\n'

# A client that adds a member to each package.
LIE = "return [*members, (tarfile.TarInfo('../../evil'), b'')]"


def reasons(farm, client):
    """Why the attempts of a client failed."""
    path = farm.directory / "state/db"
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'attempt'").fetchone():
            return []
        rows = db.execute("SELECT reason FROM attempt WHERE client = ? AND outcome NOT IN ('', 'done')", (client,))
        return [why for (why,) in rows]


def members(farm):
    """The members of all packages."""
    for path in (farm.directory / "packages/All").glob("*.tgz"):
        with tarfile.open(path) as archive:
            yield from archive.getnames()


def lies_are_refused(tanto, directory):
    gate = directory / "go"
    settings = f'build_clients = 1\nsync_package = "while ! test -e {gate}; do sleep 0.1; done"\n'
    with Farm(tanto, directory, LOCATIONS, settings, kind=Some) as farm:
        farm.serve()
        farm.token("liar")
        start_liar(farm, "liar", LIE)
        build = farm.build()
        try:
            until(lambda: reasons(farm, "liar") or build.poll() is not None, "a result is refused")
        finally:
            gate.touch()
        farm.wait(build, 0, "build.log")
        why = reasons(farm, "liar")
        assert why and all("its result was refused: " in it and "../../evil has '..' in its path" in it for it in why), why
        assert "liar" not in farm.clients_of().values(), farm.clients_of()
        assert farm.place.packages() == sorted(farm.place.names()), farm.place.packages()
        assert not [name for name in members(farm) if "evil" in name]
    print(f"ok acceptance: {len(why)} packages with a path that leaves the prefix are refused")


def processes_of(build, name):
    """Process ids of an internal command below a build."""
    parents, found = {}, []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if words[1:3] == [b"bulk", name.encode()]:
                found.append(int(entry.name))

    def is_below(pid):
        while pid in parents and pid != build.pid:
            pid = parents[pid]
        return pid == build.pid

    return [pid for pid in found if is_below(pid)]


def killed_processes_are_started_again(tanto, directory):
    """Each process is killed once it exists; the next result is accepted by another one."""
    with Farm(tanto, directory, LOCATIONS, AWAY, kind=Some) as farm:
        farm.serve()
        farm.token("builder")
        farm.client("builder", "--slots", "1", "--label", "away")
        until(lambda: "waiting for build" in farm.log("builder.log"), "the client waits")
        build = farm.build()
        killed = []
        for name in ("inspect", "accept"):
            end = time.monotonic() + PATIENCE
            while build.poll() is None and time.monotonic() < end:
                if found := processes_of(build, name):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(found[0], signal.SIGKILL)
                        killed.append(name)
                    break
                time.sleep(0.01)
        farm.wait(build, 0, "build.log")
        assert killed == ["inspect", "accept"], f"{killed}: no result came\n{farm.log('builder.log')}"
        assert farm.place.packages() == sorted(farm.place.names()), farm.place.packages()
        assert "builder" in farm.clients_of().values(), f"{farm.clients_of()}\n{reasons(farm, 'builder')}"
        assert not [pid for name in ("inspect", "accept") for pid in processes_of(build, name)]
    print("ok acceptance: a build ends with all packages although the processes that accept results are killed")


def interrupted_build_leaves_no_process(tanto, directory):
    """Nothing of the processes is left when a build is interrupted."""
    with Farm(tanto, directory, LOCATIONS, AWAY, kind=Some) as farm:
        farm.serve()
        farm.token("builder")
        farm.client("builder", "--slots", "1", "--label", "away")
        build = farm.build()
        until(lambda: processes_of(build, "inspect") or build.poll() is not None, "a package is opened")
        pids = processes_of(build, "inspect") + processes_of(build, "accept")
        build.send_signal(signal.SIGINT)
        assert build.wait(PATIENCE) in (0, 130), farm.log("build.log")
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the processes end with the build")
        again = farm.start("again.log", "build", "--resolved", "presolve")
        farm.wait(again, 0, "again.log")
        assert farm.place.packages() == sorted(farm.place.names()), farm.place.packages()
    print("ok acceptance: an interrupted build leaves no process, and continues")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if os.geteuid() != 0 or not can_create_sandboxes(None):
        print("acceptance: skipped: this needs root and sandboxes")
        return
    tests = (lies_are_refused, killed_processes_are_started_again, interrupted_build_leaves_no_process)
    for test in tests:
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
