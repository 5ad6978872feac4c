"""Has packages of clients built again by other clients, and compares them.

    verify.py TANTO

A client whose packages differ is named.
"""

import contextlib
import json
import os
import sqlite3
import sys
import tempfile
from pathlib import Path

from farm import Farm, start_liar, until
from place import Some, can_create_sandboxes

LOCATIONS = ("base/kit", "base/zero", "devel/libone", "devel/libtwo", "devel/libthree")
# Clients build all packages.
AWAY = '[place]\n"*/*" = "away"\n'
SETTINGS = 'build_clients = 1\nverify = "100%"\n'
# A client that changes a member of each package.
LIE = "return [(it, data + b'evil' if it.name == '+DESC' else data) for it, data in members]"


def verifications(farm):
    """The first, second and third client, the result and the client that differs, by package."""
    path = farm.directory / "state/db"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT name, first, second, third, result, suspect, detail FROM verification")
        return {name: rest for name, *rest in rows}


def has_built(farm):
    """Whether a package is to be verified."""
    # There is no table at first.
    with contextlib.suppress(sqlite3.OperationalError):
        return bool(verifications(farm))
    return False


def start(farm, *names):
    config = farm.directory / "bulk.toml"
    config.write_text(config.read_text() + AWAY)
    farm.serve()
    for name in names:
        farm.token(name)


def honest(farm, name):
    return farm.client(name, "--slots", "2", "--label", "away")


def digests(farm):
    return {path.name: path.read_bytes() for path in (farm.directory / "packages/All").glob("*.tgz")}


def packages_of_honest_clients_are_equal(tanto, directory):
    with Farm(tanto, directory, LOCATIONS, SETTINGS, kind=Some) as farm:
        start(farm, "one", "two")
        for name in ("one", "two"):
            honest(farm, name)
        farm.wait(farm.build(), 0, "build.log")
        found = verifications(farm)
        assert sorted(found) == farm.place.packages(), found
        for first, second, third, result, *_ in found.values():
            assert {first, second} == {"one", "two"} and not third and result == "equal", found
        said = farm.place.run("report")
        assert f"{len(found)} of {len(found)} packages are the same" in said, said
        assert "has made the same package" in farm.place.run("why", "libone")
    print(f"ok verify: {len(found)} packages of two clients are the same")


def liar_is_named(tanto, directory):
    """One of two clients lies. The trusted one decides, whoever was first."""
    with Farm(tanto, directory, LOCATIONS, f'{SETTINGS}trusted = ["honest"]\n', kind=Some) as farm:
        start(farm, "honest", "liar")
        start_liar(farm, "liar", LIE, "--label", "away")
        build = farm.build()
        # It has built a package when the other one comes.
        until(lambda: has_built(farm), "the liar builds")
        honest(farm, "honest")
        farm.wait(build, 0, "build.log")
        found = verifications(farm)
        assert sorted(found) == farm.place.packages(), found
        assert "liar" in {first for first, *_ in found.values()}, found
        for first, second, third, result, suspect, detail in found.values():
            assert {first, second} == {"honest", "liar"} and third == "honest", found
            assert (result, suspect, detail) == ("differs", "liar", "+DESC (content)"), found
        line = "the package of liar differs from two of honest: +DESC (content)"
        for text in (farm.log("build.log"), farm.place.run("report"), farm.place.run("status"), farm.place.run("why", "libone")):
            assert line in text, text
        page = json.loads(farm.place.run("report", "--json"))
        assert {it["suspect"] for it in page["verifications"]} == {"liar"}, page
        # The accepted packages stay, until the user decides.
        before = digests(farm)
        farm.wait(farm.build(), 0, "build.log")
        assert digests(farm) == before
    print(f"ok verify: the client that has changed {len(found)} packages is named")


def packages_wait_for_no_verification(tanto, directory):
    """A build with one client ends, and so does one without a third client."""
    with Farm(tanto, directory, LOCATIONS[:2], SETTINGS, kind=Some) as farm:
        start(farm, "one")
        honest(farm, "one")
        farm.wait(farm.build(), 0, "build.log")
        found = verifications(farm)
        assert {result for *_, result, _, _ in found.values()} == {"unverified"}, found
        assert "not verified: no other client" in farm.place.run("why", "zero"), farm.place.run("why", "zero")
    print("ok verify: a build with one client ends")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if os.geteuid() != 0 or not can_create_sandboxes(None):
        print("verify: skipped: this needs root and sandboxes")
        return
    for test in (packages_of_honest_clients_are_equal, liar_is_named, packages_wait_for_no_verification):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
