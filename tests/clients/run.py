"""Builds real projects with real build systems on a ninja, and again on the reference ninja ($TANTO_REFEREE) in the
same directory: equal steps and files, and each continues the other's build.

    python3 tests/clients/run.py NINJA [CLIENT...]
"""

import os
import subprocess
import sys
from pathlib import Path

import cmake
import meson
from client import play

PLACE = Path(__file__).resolve().parent.parent.parent / "target/clients"

# Name, directory (build/ in it has the manifest and is compared), client.
CLIENTS = {
    "cmake-cpp": ("cmake-cpp", cmake.cpp),
    "cmake-fortran": ("cmake-fortran", cmake.fortran),
    "cmake-multi-config": ("cmake-multi-config", cmake.multi_config),
    "cmake-nested": ("cmake-nested", cmake.nested),
    "meson": ("meson it's", meson.project),
}


def report(name, purpose, complaints):
    """Prints the result of one check, and returns it."""
    print("not ok" if complaints else "ok", f"{name}: {purpose}")
    for complaint in complaints:
        print("   ", complaint.rstrip())
    return not complaints


def differences(ours, theirs):
    """Differences between the two, command by command."""
    found = []
    for mine, other in zip(ours.outcomes, theirs.outcomes):
        if mine.steps != other.steps:
            found.append(f"{mine.purpose}: ran {mine.steps}\n      the referee ran {other.steps}")
        if mine.status != other.status:
            found.append(f"{mine.purpose}: ended with {mine.status}, the referee with {other.status}")
    if len(ours.outcomes) != len(theirs.outcomes):
        found.append(f"{len(ours.outcomes)} commands, the referee had {len(theirs.outcomes)}")
    return found


def continues(tree, ninja):
    """Another ninja has nothing to do in an up-to-date tree."""
    if not (tree.root / "build/build.ninja").exists():
        return ["there is no build.ninja"]
    ended = subprocess.run([ninja, "-C", "build", "-n", "-d", "explain"], cwd=tree.root, capture_output=True, text=True)
    if "no work to do" in ended.stdout:
        return []
    return [ended.stdout + ended.stderr]


def compare(name, place, client, ninja, referee):
    """Runs a client on both; returns whether they agree."""
    root = PLACE / place
    ours = play(client, name, root, ninja)
    good = report(name, f"{len(ours.outcomes)} commands have the expected results", ours.complaints)
    if referee is None:
        return good
    files = ours.files()
    # The custom target of the nested build always runs.
    if name != "cmake-nested":
        good &= report(name, "the referee continues from this tree and has nothing to do", continues(ours, referee))
    theirs = play(client, name, root, referee)
    good &= report(name, "the referee passes the same checks", theirs.complaints)
    good &= report(name, "the same steps as the referee", differences(ours, theirs))
    differing = sorted(files ^ theirs.files())
    good &= report(name, "the same files as the referee", [f"only in one tree: {differing}"] if differing else [])
    if name != "cmake-nested":
        good &= report(name, "Tanto continues from the tree of the referee and has nothing to do", continues(theirs, ninja))
    return good


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    ninja = Path(sys.argv[1]).absolute()
    referee = os.environ.get("TANTO_REFEREE")
    if referee is None:
        print("TANTO_REFEREE is not set: nothing is compared")
    wanted = sys.argv[2:] or CLIENTS
    good = [compare(name, *CLIENTS[name], ninja, referee and Path(referee)) for name in wanted]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
