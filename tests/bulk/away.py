"""Builds all packages of a small tree with two clients, and with two local ones; also those of a prepared package tree, if
TANTO_PKGSRC names one (bench/lib/pkgsrc.py lists its contents).

    away.py TANTO

The states of all packages, the reasons of failures and the content of the package files are equal.
"""

import os
import sys
import tempfile
from pathlib import Path

from farm import Farm
from place import Place, can_create_sandboxes
from real_place import RealPlace, pkgsrc

CATEGORIES = ("base", "devel", "trouble", "kinds")
# Some packages hang, others never end.
LIMITS = 'hang_timeout = "8s"\ntimeout = "16s"\n'


def states(place):
    """The state of each package, and why, without the names of processes that are left: they change with `exec`."""
    found = {name: place.state(name) for name in place.names()}
    return {name: (state, why.partition(" left processes running: ")[0]) for name, (state, why) in found.items()}


def differences(ours, theirs):
    pairs = {name: (ours.get(name), theirs.get(name)) for name in ours.keys() | theirs.keys()}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def compare(tanto, directory, kind, categories, limits=""):
    (directory / "local").mkdir()
    local = kind(tanto, directory / "local", categories, f'sandbox = "bind"\nbuild_clients = 2\n{limits}')
    local.build(1)
    (directory / "away").mkdir()
    with Farm(tanto, directory / "away", categories, f'{limits}[place]\n"*/*" = "away"\n', kind=kind) as farm:
        farm.serve()
        for name in ("first", "second"):
            farm.token(name)
            farm.client(name, "--slots", "1", "--label", "away")
        farm.wait(farm.build(), 1, "build.log")
        other = differences(states(farm.place), states(local))
        assert not other, f"packages end in another way: {other}"
        files = farm.place.contents()
        other = differences(files, local.contents())
        assert not other, f"package files differ: {other}"
        clients = set(farm.clients_of().values())
        assert clients == {"first", "second"}, f"not all packages were built by both clients: {clients}"
        count = len(local.names())
    print(f"ok away: two clients end {count} packages like two local ones, and make the same {len(files)} files")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("away: skipped: this machine permits no sandboxes")
        return
    with tempfile.TemporaryDirectory() as directory:
        compare(tanto, Path(directory), Place, CATEGORIES, LIMITS)
    tree, why = pkgsrc.find(os.environ.get("TANTO_PKGSRC"), needs_pbulk=False)
    if tree is None:
        print(f"away: real packages: skipped: {why}")
        return
    with tempfile.TemporaryDirectory() as directory:
        # The build user reads files there.
        Path(directory).chmod(0o755)
        compare(tanto, Path(directory), RealPlace, tree)


main()
