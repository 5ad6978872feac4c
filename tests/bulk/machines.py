"""Builds a small package tree with clients that have neither the tree nor packages, over HTTPS.

    machines.py TANTO

The result is that of a build on one machine.
"""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from farm import Farm, until
from place import Place, can_create_sandboxes


def same_outcomes_as_on_one_machine(tanto, directory):
    (directory / "one").mkdir()
    one = Place(tanto, directory / "one", ("base", "devel"), 'sandbox = "bind"\n')
    one.build(0)
    (directory / "many").mkdir()
    with Farm(tanto, directory / "many", ("base", "devel"), "build_clients = 1\n") as farm:
        farm.serve()
        for name in ("builder-1", "builder-2"):
            farm.token(name)
        renew_certificate(farm)
        for name in ("builder-1", "builder-2"):
            # They keep no packages that they do not use.
            farm.client(name, "--slots", "2", "--cache-size", "0K")
        build = farm.build()
        farm.wait(build, 0, "build.log")
        assert farm.place.packages() == one.packages(), "other packages are there"
        clients = farm.clients_of()
        assert sorted(clients) == one.packages()
        assert any(client.startswith("builder-") for client in clients.values()), clients
        remote = sum(client.startswith("builder-") for client in clients.values())
    print(f"ok machines: {len(clients)} packages are built, {remote} of them by two clients")


def renew_certificate(farm):
    """Replaces the certificate of the running server, as the server itself does when it is old."""
    leaf = farm.directory / "state/serve/tls/leaf.pem"
    first, old = leaf.read_bytes(), time.time() - 31 * 24 * 3600
    os.utime(leaf, (old, old))
    farm.wait(farm.start("renew.log", "renew", str(farm.directory / "state/serve")), 0, "renew.log")
    assert leaf.read_bytes() != first


def failures_are_those_of_one_machine(tanto, directory):
    """All packages that can be built elsewhere are built by one client; their logs arrive."""
    with Farm(tanto, directory, ("base", "devel", "trouble"), 'hang_timeout = "10s"\ntimeout = "45s"\n') as farm:
        farm.serve()
        farm.token("builder")
        farm.client("builder", "--slots", "2")
        build = farm.build()
        farm.wait(build, 1, "build.log")
        state, why = farm.place.state("broken-1")
        assert (state, why) == ("failed", "build exited with 1"), (state, why)
        assert farm.place.state("needbroken-1") == ("indirect-failed", "it needs broken-1, which failed")
        assert "error: it does not compile" in farm.place.run("log", "broken-1")
        assert farm.place.state("tool-1")[0] == "done"
        assert "builder" in farm.clients_of().values(), farm.clients_of()
    print("ok failures: packages that fail on a client have their reasons and logs")


def lost_clients_lose_nothing(tanto, directory):
    """A client is killed while it builds, another one ends; the build ends with all packages."""
    with Farm(tanto, directory, ("base", "devel"), "build_clients = 1\n") as farm:
        farm.serve()
        clients = {}
        for name in ("killed", "ended", "revoked"):
            farm.token(name)
            clients[name] = farm.client(name, "--slots", "1")
        build = farm.build()
        until(lambda: "killed: joined" in farm.log("killed.log") or build.poll() is not None, "a client joins")
        clients["killed"].kill()
        clients["ended"].send_signal(signal.SIGTERM)
        farm.place.run("token", "revoke", "revoked")
        # The same name again, as after a restart of the machine.
        farm.client("killed", "--slots", "1", "--replace")
        farm.wait(build, 0, "build.log")
        assert len(farm.place.packages()) == len(farm.place.names()), farm.place.packages()
        until(lambda: clients["revoked"].poll() is not None, "a client without a token ends")
        assert "revoked" in farm.log("revoked.log") or "token" in farm.log("revoked.log"), farm.log("revoked.log")
    print("ok lost clients: a build ends although a client is killed, one ends and one is expelled")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("machines: skipped: this machine permits no sandboxes")
        return
    for test in (same_outcomes_as_on_one_machine, failures_are_those_of_one_machine, lost_clients_lose_nothing):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
