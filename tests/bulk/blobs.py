"""The files that a server of clients keeps, and those that clients keep.

    blobs.py TANTO
"""

import sys
import tempfile
from pathlib import Path

from farm import Farm, until
from place import can_create_sandboxes


def stored(farm):
    """The blobs of the server and their sizes."""
    return {path: path.stat().st_size for path in (farm.directory / "state/serve/blobs").glob("??/*")}


def the_server_keeps_only_what_builds_need(tanto, directory):
    """Blobs are removed during the build and after it."""
    with Farm(tanto, directory, ("base", "devel"), 'build_clients = 1\nblob_keep = "1s"\n') as farm:
        farm.serve()
        for name in ("builder-1", "builder-2"):
            farm.token(name)
            farm.client(name, "--slots", "2")
        build = farm.build()
        farm.wait(build, 0, "build.log")
        assert len(farm.place.packages()) == len(farm.place.names()), farm.place.packages()
        assert any(client.startswith("builder-") for client in farm.clients_of().values()), farm.clients_of()
        # The manifest of the tree, the bootstrap kit, and mk.conf.
        until(lambda: len(stored(farm)) <= 3, "only the files of the description are left")
        again = farm.start("again.log", "build", "--resolved", "presolve", "--again")
        farm.wait(again, 0, "again.log")
        until(lambda: len(stored(farm)) <= 3, "only the files of the description are left")
        assert len(farm.place.packages()) == len(farm.place.names()), farm.place.packages()
        removed = farm.log("serve.log").count("blobs that no build needs")
    print(f"ok server: two builds with {removed} collections leave only what clients fetch at their start")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("blobs: skipped: this machine permits no sandboxes")
        return
    for test in (the_server_keeps_only_what_builds_need,):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
