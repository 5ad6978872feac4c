"""`tanto bulk export` and `import` of pbulk's files: an imported state equals the exported one.

    exchange.py TANTO
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place

# Scans do not trust files that changed this recently: another change could leave the same timestamp.
SETTLE = 0.3
FILES = ("pscan", "presolve", "success", "error")
LIST = "devel/app3\ntrouble/broken\ntrouble/needbroken\n"
DONE = ["app3-3.1", "libone-1.2nb3", "libthree-3.1", "libtwo-2.0rc1"]


def files(directory):
    return {name: (directory / name).read_text() for name in FILES}


def state(place, name):
    """Switches to a separate state directory."""
    settings = place.directory / "bulk.toml"
    lines = [line for line in settings.read_text().splitlines() if not line.startswith(("state =", "bulklog ="))]
    settings.write_text("\n".join([*lines, f'state = "{name}"', f'bulklog = "{name}-log"', ""]))


def round_trip(place):
    state(place, "one")
    place.run("build", code=1)
    place.run("export", "meta")
    first = files(place.directory / "meta")
    assert sorted(first["success"].split()) == DONE and first["error"] == "broken-1\n", first
    records = first["pscan"].split("PKGNAME=")[1:]
    assert len(records) == len(DONE) + 2 and all("\nPKG_LOCATION=" in it for it in records), first["pscan"]
    assert "DEPENDS=libthree-3.1 libtwo-2.0rc1\n" in first["presolve"]
    state(place, "two")
    output = place.run("import", "meta")
    assert "6 packages of 6 directories; 6 need no scan" in output, output
    assert "a bulk build of 6 packages, 4 done, 1 failed" in output, output
    assert place.state("broken-1") == ("failed", "it failed before the import")
    assert place.state("needbroken-1") == ("indirect-failed", "it needs broken-1, which failed")
    output = place.run("build", code=1)
    assert "scan " not in output and "building" not in output, f"scanned or built without a change:\n{output}"
    place.run("export", "again")
    assert files(place.directory / "again") == first
    print("ok round trip: an imported state is that exported, and nothing is scanned or built again")


def missing(place):
    """A package that is recorded as done but missing is built."""
    state(place, "three")
    (place.directory / "packages/All/libone-1.2nb3.tgz").unlink()
    place.run("import", "meta")
    place.run("build", code=1)
    assert "libone-1.2nb3" in place.packages()
    print("ok missing: a done package that is missing is rebuilt")


def complaints(place):
    state(place, "four")
    wrong = place.directory / "wrong"
    wrong.mkdir()
    for content, message in (
        ({}, "there is neither pscan nor presolve in wrong"),
        ({"pscan": "garbage\n"}, "wrong/pscan:1: expected PKGNAME="),
        ({"presolve": "PKGNAME=one-1\nPKG_LOCATION=a/one\n", "success": "two-1\n"}, "success:1: there is no package 'two-1'"),
        ({"pscan": "PKGNAME=one-1\nPKG_LOCATION=../one\n"}, "../one is not a directory"),
    ):
        for path in wrong.iterdir():
            path.unlink()
        for name, text in content.items():
            (wrong / name).write_text(text)
        ran = subprocess.run(
            place.command("import", "wrong"), cwd=place.directory, env=place.environment, capture_output=True, text=True
        )
        assert ran.returncode == 1 and message in ran.stderr, ran.stdout + ran.stderr
    print("ok errors: invalid files are refused with the line number")


def configuration(place):
    """pbulk's configuration is imported unless there is one already."""
    conf, toml = place.directory / "pbulk.conf", place.directory / "new.toml"
    conf.write_text("base=/usr/pkg\nprefix=${base}\npkg_add=${base}/sbin/pkg_add\nkeep_wrkdir=yes\nmaster_mode=yes\nsync_package() { :; }\n")
    output = place.run("import", "pbulk.conf", "--config", "new.toml")
    assert "not converted: master_mode (" in output and "not converted: sync_package (" in output, output
    assert "new.toml: written from pbulk.conf\n" in output, output
    lines = toml.read_text().splitlines()
    assert {'prefix = "/usr/pkg"', 'pkg_add = "/usr/pkg/sbin/pkg_add"', "keep_wrkdir = true"} <= set(lines), lines
    assert "new.toml exists: move it away" in place.error("import", "pbulk.conf", "--config", "new.toml")
    conf.write_text("prefix=\"/usr\n")
    assert "pbulk.conf: /bin/sh cannot read it" in place.error("import", "pbulk.conf", "--config", "other.toml")
    print("ok configuration: settings of pbulk.conf are converted to bulk.toml, and others are reported")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as directory:
        place = Place(tanto, Path(directory), (), 'limited_list = "list"\n')
        (place.directory / "list").write_text(LIST)
        time.sleep(SETTLE)
        for test in (round_trip, missing, complaints, configuration):
            test(place)


main()
