"""A real package tree: what `tanto bulk` says of it and makes of it, beside pbulk.

    real.py TANTO

TANTO_PKGSRC names the tree; bench/lib/pkgsrc.py says what must lie there. Without it, this is skipped. What is built is
built in sandboxes, or else where the tree's bulk.toml says."""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from lib import pkgsrc  # noqa: E402
from lib.pbulk import Pbulk  # noqa: E402

# So many directories of the list are built.
BUILT = 3
# These say when and where a package was built, and how large it is with them.
OF_ONE_BUILD = ("+BUILD_INFO", "+BUILD_VERSION", "+SIZE_PKG", "+SIZE_ALL")


def run(command, directory, ends=(0,), **more):
    told = subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace", **more)
    assert told.returncode in ends, f"{command}: {told.returncode}\n{told.stdout[-2000:]}{told.stderr[-2000:]}"
    return told.stdout


def scan(tanto, tree, place):
    """pbulk is asked for the directories that Tanto found, once."""
    config = tree.write_settings(place, limited_list=str(tree.place / "limited-list"))
    run([tanto, "bulk", "scan", "--config", config, "--output", "pscan"], place)
    found = re.findall(r"(?m)^PKG_LOCATION=(.*)$", (place / "pscan").read_text())
    program = str(tree.pbulk / "bin/pbulk-scan")
    command = [program, "-l", "-M", tree.settings["make"], str(tree.source()), "pscan.pbulk"]
    own = {**os.environ, "PBULK_CACHE_DIRECTORY": str(place / "cache")}
    run(command, place, input="".join(f"{location}\n" for location in dict.fromkeys(found)), env=own)
    ours, theirs = pkgsrc.records(place / "pscan"), pkgsrc.records(place / "pscan.pbulk")
    assert ours == theirs, f"{sorted(set(ours) ^ set(theirs))[:1]}"
    print(f"ok real scan: {len(ours)} records are those of pbulk")


def resolve(tanto, tree, place):
    ours = run([tanto, "bulk", "resolve", "--partial", "--scan", "pscan"], place)
    theirs = run([str(tree.pbulk / "bin/pbulk-resolve"), "-p", "pscan"], place)
    assert ours == theirs, "not what pbulk-resolve says"
    print(f"ok real resolve: {ours.count('DEPENDS=')} lines are those of pbulk-resolve")


def content(path):
    """What a binary package holds, but for what no two builds have in common."""
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name in OF_ONE_BUILD:
                continue
            data = archive.extractfile(member).read() if member.isreg() else b""
            if member.name == "+CONTENTS":
                data = data.replace(b"".join(re.findall(rb"(?m)^@comment MD5:.*\n", data)), b"")
            who = (member.mode, member.uname, member.gname, member.linkname)
            yield member.name, who, hashlib.sha256(data).hexdigest()


def build(tanto, tree, place):
    few = tree.limited()[:BUILT]
    (place / "few").write_text("".join(f"{location}\n" for location in few))
    config = tree.write_settings(place, limited_list=str(place / "few"), state=str(place / "state-of-few"))
    # Of an old tree, not all can be built on a new system.
    run([tanto, "bulk", "build", "--config", config], place, ends=(0, 1))
    ours = sorted(path.name for path in (place / "packages/All").glob("*.tgz"))
    assert ours, "nothing is built"
    print(f"ok real build: {len(ours)} packages of {BUILT} directories, and of what these need, are built")
    if os.geteuid() != 0:
        print("real build: not compared with pbulk, for its clients are roots of their own, which takes root")
        return
    peer = Pbulk(tree, place / "pbulk", [place / "pbulk/client"], limited=few)
    run(peer.build_command(), place)
    theirs = sorted(path.name for path in (place / "pbulk/packages/All").glob("*.tgz"))
    assert ours == theirs, f"pbulk has built {theirs}"
    for name in ours:
        mine, its = (dict_of(place / where / "All" / name) for where in ("packages", "pbulk/packages"))
        other = [key for key in mine.keys() | its.keys() if mine.get(key) != its.get(key)]
        assert not other, f"{name}: {other[:5]} differ"
    print(f"ok real build: {len(ours)} packages hold what pbulk's hold")


def dict_of(path):
    return {name: rest for name, *rest in content(path)}


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    tree, why = pkgsrc.find(os.environ.get("TANTO_PKGSRC"))
    if tree is None:
        print(f"real: skipped, for {why}")
        return
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        # Others than we look at what is built.
        place.chmod(0o755)
        scan(tanto, tree, place)
        resolve(tanto, tree, place)
        build(tanto, tree, place)


main()
