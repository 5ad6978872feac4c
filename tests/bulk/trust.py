"""Trusts some clients with what many packages need. Distrusts a client, after a build and during one: what it has built is built
again, and all that was built with that.

    trust.py TANTO
"""

import contextlib
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from farm import Farm, until
from place import Some, can_create_sandboxes

LOCATIONS = ("base/kit", "base/zero", "devel/libone", "devel/libtwo", "devel/libthree", "devel/app")
# The client 'evil' builds one of them, which one other needs.
GOOD = ("base/*", "devel/libone", "devel/libthree")
AFFECTED = ["app-0.9", "libtwo-2.0rc1"]


def places(**labels):
    """A table that gives directories to clients with these labels."""
    return "[place]\n" + "".join(f'"{place}" = "{label}"\n' for label, places in labels.items() for place in places)


def builds(farm):
    """The builds of packages so far, in their order: the run, the package, and the client."""
    path = farm.directory / "state/db"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return list(db.execute("SELECT run, name, client FROM provenance ORDER BY id"))


def why(farm, name):
    """The state of a package of a build that may not have begun."""
    command = farm.place.command("why", name)
    return subprocess.run(command, cwd=farm.directory, env=farm.place.environment, capture_output=True, text=True, check=False).stdout


def start(farm, name, *labels):
    farm.token(name)
    return farm.client(name, "--slots", "2", *(word for label in labels for word in ("--label", label)))


def cannot_come_back(farm, client):
    """Its token does not work any more, nor does its join file."""
    until(lambda: client.poll() is not None, "a client without a token ends")
    again = farm.client("evil", "--slots", "1")
    until(lambda: again.poll() is not None, "it cannot come back")
    assert again.returncode != 0 and "revoked" in farm.log("evil.log"), farm.log("evil.log")
    assert "evil" not in farm.place.run("token", "list")


def after_a_build(tanto, directory):
    """The packages are those of an earlier run, which the last one has found up to date."""
    config = directory / "bulk.toml"
    with Farm(tanto, directory, LOCATIONS, "build_clients = 1\n", kind=Some) as farm:
        before = config.read_text()
        config.write_text(before + places(good=(*GOOD, "devel/app"), evil=["devel/libtwo"]))
        farm.serve()
        start(farm, "good", "good")
        evil = start(farm, "evil", "evil")
        farm.wait(farm.build(), 0, "build.log")
        farm.place.build(0)
        first = builds(farm)
        assert {name for _, name, client in first if client == "evil"} == {"libtwo-2.0rc1"}, first
        assert "  built by evil from tree " in farm.place.run("why", "libtwo"), farm.place.run("why", "libtwo")
        assert farm.place.error("distrust", "nobody") == "tanto: error: there is no client 'nobody'\n"
        contents = farm.place.contents()
        said = farm.place.run("distrust", "evil").splitlines()
        assert said[0].startswith("revoked ") and said[0].endswith(" of evil"), said
        assert sorted(line.split()[-1] for line in said if "the next build will build" in line) == AFFECTED, said
        assert farm.place.state("libtwo")[0] == "open", farm.place.state("libtwo")
        cannot_come_back(farm, evil)
        config.write_text(before + places(good=["*/*"]))
        farm.wait(farm.build(), 0, "build.log")
        again = builds(farm)[len(first):]
        assert sorted(name for _, name, _ in again) == AFFECTED, again
        assert {client for _, _, client in again} == {"good"}, again
        assert farm.place.contents() == contents
        farm.place.run("distrust", "evil")
        assert "evil" not in farm.place.run("why", "libtwo")
        farm.wait(farm.build(), 0, "build.log")
        assert len(builds(farm)) == len(first) + len(again), builds(farm)
    print(f"ok distrust: of {len(first)} packages, {len(again)} are built again by another client")


def without_clients(tanto, directory):
    """A build on one machine records nothing, until other machines have built packages."""
    config = directory / "bulk.toml"
    with Farm(tanto, directory, LOCATIONS, "build_clients = 1\n", kind=Some) as farm:
        shared = config.read_text()
        alone = "".join(line for line in shared.splitlines(True) if not line.startswith(("listen", "server_url")))
        config.write_text(alone)
        farm.place.build(0)
        assert not builds(farm), builds(farm)
        config.write_text(shared + places(away=["*/*"]))
        farm.serve()
        start(farm, "member", "away")
        farm.wait(farm.start("build.log", "build", "--resolved", "presolve", "--again"), 0, "build.log")
        first = builds(farm)
        assert {client for _, _, client in first} == {"member"}, first
        config.write_text(alone)
        farm.place.build(0, "--again")
        again = builds(farm)[len(first):]
        assert sorted(name for _, name, _ in again) == farm.place.packages(), again
        assert not any(client == "member" for _, _, client in again), again
    print("ok provenance: a build on one machine replaces that of a client")


def during_a_build(tanto, directory):
    """One package waits for a client that comes only afterwards."""
    config = directory / "bulk.toml"
    with Farm(tanto, directory, LOCATIONS, "build_clients = 1\n", kind=Some) as farm:
        config.write_text(config.read_text() + places(evil=("base/*", "devel/lib*"), late=["devel/app"]))
        farm.serve()
        evil = start(farm, "evil", "evil")
        build = farm.build()
        until(lambda: "app-0.9: waiting for a client with the label late" in why(farm, "app"), "app waits")
        until(lambda: len(builds(farm)) == len(LOCATIONS) - 1, "the others are recorded")
        first = builds(farm)
        assert {client for _, _, client in first} == {"evil"}, first
        said = farm.place.run("distrust", "evil")
        reopened = sorted(line.split()[0] for line in said.splitlines() if "will be built again" in line)
        assert reopened == sorted(name for _, name, _ in first), said
        assert farm.place.state("libone")[0] == "open"
        assert "evil" in farm.place.run("clients") and "distrusted" in farm.place.run("clients")
        cannot_come_back(farm, evil)
        start(farm, "good", "evil", "late")
        farm.wait(build, 0, "build.log")
        again = builds(farm)[len(first):]
        assert sorted(name for _, name, _ in again) == farm.place.packages(), again
        assert {client for _, _, client in again} == {"good"}, again
    print("ok distrust: during a build, all packages of a client are built again")


def trusted_clients_build_what_many_need(tanto, directory):
    """A client that is not trusted builds the others, and what many need waits."""
    settings = 'build_clients = 1\ntrusted = ["member"]\ntrust_reach = 2\n'
    with Farm(tanto, directory, LOCATIONS, settings, kind=Some) as farm:
        config = directory / "bulk.toml"
        config.write_text(config.read_text() + places(away=["*/*"]))
        farm.serve()
        start(farm, "guest", "away")
        build = farm.build()
        until(lambda: "waiting for a trusted client" in why(farm, "libone"), "libone waits")
        until(lambda: "done" in why(farm, "zero"), "others do not")
        start(farm, "member", "away")
        farm.wait(build, 0, "build.log")
        clients = {name: client for _, name, client in builds(farm)}
        wide = {name for name in clients if name.startswith("libone-")}
        assert {clients[name] for name in wide} == {"member"}, clients
        assert "guest" in clients.values() and sorted(clients) == farm.place.packages(), clients
    print("ok trusted: what many packages need is built by a trusted client")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("trust: skipped: this machine permits no sandboxes")
        return
    for test in (after_a_build, without_clients, during_a_build, trusted_clients_build_what_many_need):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
