"""What a user sees of a build on many machines.

    watch.py TANTO
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from farm import Farm, until
from place import can_create_sandboxes


def ask(farm, *words):
    """What a command prints, whether or not it succeeds."""
    asked = subprocess.run(
        farm.place.command(*words), cwd=farm.directory, env=farm.place.environment, capture_output=True, text=True, check=False
    )
    return asked.stdout + asked.stderr


def packages_wait_for_a_client_with_their_label(tanto, directory):
    """A label that no client has is named; the packages are built when one with the label comes."""
    with Farm(tanto, directory, ("base",), "build_clients = 2\n") as farm:
        config = directory / "bulk.toml"
        config.write_text(config.read_text() + '[place]\n"base/zero" = "big"\n')
        farm.serve()
        for name in ("plain", "large"):
            farm.token(name)
        farm.client("plain", "--slots", "2")
        build = farm.build()
        waits = "1 package waits for a client with the label big"
        until(lambda: waits in ask(farm, "status") or build.poll() is not None, "the status names the label")
        why = ask(farm, "why", "zero")
        assert why.startswith("zero-0: waiting for a client with the label big\n"), why
        rows = [line.split() for line in ask(farm, "clients").splitlines()]
        assert [row[:2] for row in rows] == [["NAME", "ROLES"], ["local", "all"], ["plain", "build"]], rows
        assert rows[1][2] == "0/2" and rows[2][2] == "0/2", rows
        farm.client("large", "--slots", "1", "--label", "big")
        farm.wait(build, 0, "build.log")
        clients = farm.clients_of()
        assert clients["zero-0"] == "large" and len(clients) == len(farm.place.names()), clients
    print("ok labels: a package waits for a client with its label, and is built there")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("watch: skipped: this machine permits no sandboxes")
        return
    for test in (packages_wait_for_a_client_with_their_label,):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
