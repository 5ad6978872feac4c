"""Packages that exceed limits of memory, CPU time, disk or log size: each is terminated for its own usage only, with
every kind of sandbox.

    limits.py TANTO
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from place import Place, can_create_sandboxes

# A user ID without an account on this machine.
USER = 61234
TAKES = "HOG_MB= 200\nHOG_SECONDS= 600\nFILL_MB= 64\nFILL_SECONDS= 600\nFLOOD_MB= 1000\n"
SETTINGS = """
limited_list = "wanted"
hang_timeout = "0"
memory_limit = "100M"
log_limit = "1G"
disk_limit = "16M"
[stage.build]
cpu_limit = "5s"
log_limit = "1M"
"""
FATES = {
    "hog-1": ("failed", "build used more than 100 MiB of memory"),
    "loop-1": ("failed", "build used more than 5s of processor time"),
    "filler-1": ("failed", "build used more than 16 MiB of the disk"),
    "flood-1": ("failed", "build printed more than 1 MiB"),
    "restricted-1": ("done", ""),
}


def build(tanto, directory, sandbox, user):
    place = Place(tanto, directory, (), f'sandbox = "{sandbox}"\n{SETTINGS}')
    with (directory / "mk.conf").open("a") as settings:
        settings.write(TAKES)
    (directory / "wanted").write_text("".join(f"trouble/{name.removesuffix('-1')}\n" for name in FATES))
    if user is not None:
        shutil.copy(tanto, directory / "tanto")
        place.tanto = str(directory / "tanto")
        place.as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        subprocess.run(["chown", "-R", f"{user}:{user}", directory], check=True)
    place.run("build", code=1)
    return place


def check(place):
    for name, expected in FATES.items():
        assert place.state(name) == expected, f"{name} is {place.state(name)}, not {expected}"
    with sqlite3.connect(f"file:{place.directory}/state/db?mode=ro", uri=True) as db:
        outcomes = db.execute("SELECT outcome, count(*) FROM attempt GROUP BY outcome ORDER BY outcome").fetchall()
    assert outcomes == [("done", 1), ("failed", 4)], f"wrong outcomes: {outcomes}"
    log = (place.directory / "bulklog/flood-1/1/build.log").read_text()
    assert len(log) < 1.2 * 2**20, f"the log has {len(log)} bytes"
    assert log.startswith("building flood-1\n") and " bytes are left out ...]" in log, log[:200]
    assert "tanto: build printed more than 1 MiB" in log[-4096:], log[-4096:]
    hung = (place.directory / "bulklog/loop-1/1/build.log").read_text()
    assert "while :; do :; done" in hung, f"the running command is not reported:\n{hung}"
    left = subprocess.run(["pgrep", "-f", str(place.directory)], capture_output=True, text=True, check=False).stdout
    assert not left.strip(), f"leftover processes: {left}"


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    users = [None, USER] if os.geteuid() == 0 else [None]
    for sandbox, user in [("none", None), *(("overlay", user) for user in users)]:
        user_name = "an ordinary user" if user or os.geteuid() != 0 else "root"
        if sandbox != "none" and not can_create_sandboxes(user):
            print(f"limits in a sandbox of {user_name}: skipped: cannot create a sandbox")
            continue
        with tempfile.TemporaryDirectory() as directory:
            check(build(tanto, Path(directory), sandbox, user))
        where = "without a sandbox" if sandbox == "none" else f"in a sandbox of {user_name}"
        print(f"ok limits {where}: packages that exceed a limit are terminated, and no others")


main()
