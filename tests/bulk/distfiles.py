"""Distfiles of clients: those that the coordinator has come from the server, and new ones go there.

    distfiles.py TANTO
"""

import sys
import tempfile
import threading
from pathlib import Path

from farm import Farm, until
from place import Some, can_create_sandboxes
from sites import Server

# All packages are built by clients.
AWAY = '[place]\n"*/*" = "away"\n'
# Two of them need the same file. Nobody can fetch that of the third.
PACKAGES = ("fetch/one", "fetch/two", "fetch/manual")
FETCHED = ["one-1.tar.gz", "shared-1.tar.gz", "two-1.tar.gz"]
ALL = ["manual-1.tar.gz", *(f"sub/{name}" for name in FETCHED)]


def files(distdir):
    return sorted(str(path.relative_to(distdir)) for path in distdir.rglob("*") if not path.is_dir())


def content(name):
    return f"{Path(name).name}\n" * 1000


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Fetching(Farm):
    """A build of packages with distfiles, and the server of these."""

    def __init__(self, tanto, directory, settings=""):
        self.site = Server()
        super().__init__(tanto, directory, PACKAGES, settings + AWAY, Some)
        with (directory / "mk.conf").open("a") as conf:
            conf.write(f"FETCH_SITE= {self.site.site()}\n")

    def __exit__(self, *error):
        super().__exit__(*error)
        self.site.shutdown()
        self.site.server_close()

    def build_with(self, client, code=0):
        """A client that knows nothing builds all packages."""
        self.token(client)
        process = self.client(client, "--slots", "1", "--label", "away")
        log = f"build-{client}.log"
        self.wait(self.start(log, "build", "--resolved", "presolve", "--again"), code, log)
        process.terminate()
        process.wait()
        return files(self.directory / client / "distfiles")


def files_are_fetched_once(tanto, directory):
    """The first client fetches files, and gets one that was put there by hand. The second gets all from the server."""
    with Fetching(tanto, directory) as farm:
        farm.serve()
        distdir = directory / "distfiles"
        write(distdir / ALL[0], content(ALL[0]))
        assert farm.build_with("first") == ALL, farm.log("first.log")
        assert sorted(farm.site.asked) == FETCHED, farm.site.asked
        assert files(distdir) == ALL and all((distdir / name).read_text() == content(name) for name in ALL), files(distdir)
        farm.site.asked.clear()
        assert farm.build_with("second") == ALL, farm.log("second.log")
        assert not farm.site.asked, farm.site.asked
        for client in ("first", "second"):
            assert "distfiles" not in farm.log(f"{client}.log"), farm.log(f"{client}.log")
        assert len(farm.place.packages()) == len(PACKAGES), farm.place.packages()
    print("ok distfiles: clients get those of the coordinator, and each other is fetched once")


# The package waits for a file in DISTDIR of its client.
HELD = """.if ${.CURDIR:T} == "one" || ${.CURDIR:T} == "two"
do-build= while ! test -e ${DISTDIR}/go; do sleep 0.1; done
.endif
"""
SHARED = "shared-1.tar.gz"


def others_wait_for_the_client_that_fetches(tanto, directory):
    """Two packages need the same file. One client fetches it, and the other gets it before the package of the first is built."""
    with Fetching(tanto, directory, 'client_heartbeat = "1s"\nclient_lost_after = "12s"\nclient_restart_min = "1s"\n') as farm:
        with (directory / "mk.conf").open("a") as conf:
            conf.write(HELD)
        write(directory / "distfiles" / ALL[0], content(ALL[0]))
        go, may_come = (lambda client: write(directory / client / "distfiles/go", "")), threading.Event()
        farm.site.gates[SHARED] = may_come.wait
        farm.serve()
        for client in ("lost", "first", "second"):
            farm.token(client)
        build = farm.start("build.log", "build", "--resolved", "presolve")
        start = lambda client: farm.client(client, "--slots", "1", "--label", "away")
        why = lambda: "".join(farm.place.run("why", name) for name in ("fetch-one", "fetch-two"))
        # A client that is lost makes nobody wait.
        lost = start("lost")
        go("lost")
        until(lambda: SHARED in farm.site.asked, "the client fetches the file")
        lost.kill()
        start("first")
        until(lambda: farm.site.asked.count(SHARED) == 2, "another client fetches the file")
        go("second")
        start("second")
        until(lambda: f"waiting for first to fetch sub/{SHARED}" in why(), "the other package waits")
        may_come.set()
        built = lambda: {name for name, client in farm.clients_of().items() if client == "second"}
        until(lambda: built() & {"fetch-one-1", "fetch-two-1"}, "the other package is built")
        go("first")
        farm.wait(build, 0, "build.log")
        assert farm.site.asked.count(SHARED) == 2, farm.site.asked
        assert len(farm.place.packages()) == len(PACKAGES), farm.place.packages()
    print("ok distfiles: one client fetches a file, and others wait for it")


def wrong_files_are_not_used(tanto, directory):
    """The coordinator has a file with the right size and another content. Clients fetch it from its site."""
    with Fetching(tanto, directory, 'post_fetch_hook = "true"\n') as farm:
        farm.serve()
        distdir = directory / "distfiles"
        write(distdir / "sub/shared-1.tar.gz", content("shared-1.tar.gz").upper())
        write(distdir / ALL[0], content(ALL[0]))
        assert farm.build_with("builder") == ALL, farm.log("builder.log")
        assert sorted(farm.site.asked) == FETCHED, farm.site.asked
        assert files(distdir) == [ALL[0], "sub/shared-1.tar.gz"], "with a hook, no file of a client is taken"
    print("ok distfiles: a file that is not as listed is not handed out, and none gets past post_fetch_hook")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("distfiles: skipped: this machine permits no sandboxes")
        return
    for test in (files_are_fetched_once, others_wait_for_the_client_that_fetches, wrong_files_are_not_used):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
