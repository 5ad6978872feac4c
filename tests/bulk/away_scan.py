"""Lets clients scan the directories of a package tree, and compares their records with those of this machine.

    away_scan.py TANTO
"""

import contextlib
import hashlib
import json
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from farm import Farm, until
from place import can_create_sandboxes

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "contrib"))
from transport import Refused, Server  # noqa: E402

# One directory at a time. The rest of the tree is the clients'.
SETTINGS = "scan_clients = 1\n"


class Scanning(Farm):
    """A build whose scans wait while there is a file: `packages/hold` on this machine, `NAME/packages/hold` on a client."""

    def __init__(self, tanto, directory, *clients):
        super().__init__(tanto, directory, (), SETTINGS)
        self.names = clients
        holds = [directory / "packages/hold", *(directory / name / "packages/hold" for name in clients)]
        for hold in holds:
            hold.parent.mkdir(parents=True, exist_ok=True)
        waits = "".join(f"while test -e {hold}; do sleep 0.1; done; " for hold in holds)
        makeconf = directory / "mk.conf"
        makeconf.write_text(makeconf.read_text() + f".if exists(${{.CURDIR}}/../../mk)\nHELD!= {waits}:\n.endif\n")
        # A directory that cannot be scanned.
        category = directory / "tree/base/Makefile"
        category.write_text(category.read_text().replace("SUBDIR+=\tzero", "SUBDIR+=\tzero unscannable"))
        shutil.copytree(directory / "tree/extra/unscannable", directory / "tree/base/unscannable")

    def hold(self, client=""):
        (self.directory / client / "packages/hold").touch()

    def release(self, client=""):
        (self.directory / client / "packages/hold").unlink()

    def scanner(self, name):
        self.token(name, "--role", "scan")
        return self.client(name, "--slots", "2")

    def rows(self):
        """The results in the database, without durations."""
        path = self.directory / "state/db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return sorted(db.execute("SELECT location, key, records, failed FROM scan"))

    def forget(self):
        """The next scan begins from nothing."""
        for path in (self.directory / "state").glob("db*"):
            path.unlink()

    def here(self):
        """The results of a scan of this machine only."""
        self.forget()
        config = self.directory / "bulk.toml"
        text = config.read_text()
        config.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("listen")))
        self.wait(self.start("here.log", "scan"), 1, "here.log")
        config.write_text(text)
        return self.rows()


def is_scanning(farm):
    """Whether `status` says so. There may be no build yet."""
    command = farm.place.command("status")
    status = subprocess.run(command, cwd=farm.directory, env=farm.place.environment, capture_output=True, text=True, check=False)
    return "scanning" in status.stdout


def equal(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other, f"{mine}\n{other}"


def clients_scan(tanto, directory):
    """This machine scans one directory only, and a directory that cannot be scanned."""
    with Scanning(tanto, directory, "scanner") as farm:
        farm.serve()
        expected = farm.here()
        farm.forget()
        farm.hold()
        scan = farm.start("scan.log", "scan")
        until(lambda: is_scanning(farm), "the scan runs")
        farm.scanner("scanner")
        locations = {location for location, *_ in expected if "/" in location}
        until(lambda: scanned(farm, "scanner") >= len(locations) // 2, "the client scans")
        assert is_scanning(farm)
        farm.release()
        farm.wait(scan, 1, "scan.log")
        equal(farm.rows(), expected)
        assert any(failed for *_, failed in expected), "a directory fails"
        # The results are valid, and those of this machine are no others.
        again = farm.start("again.log", "scan", "--verify-scan", "100%")
        farm.wait(again, 1, "again.log")
        assert ": 0 differ" in farm.log("again.log"), farm.log("again.log")
        equal(farm.rows(), expected)
    print(f"ok scan: a client scans {scanned(farm, 'scanner')} of {len(locations)} directories, with the same records")


def scanned(farm, name):
    lines = [line.split() for line in farm.log(f"{name}.log").splitlines() if line.startswith("scanned ")]
    return sum(int(words[1]) for words in lines)


def a_lost_client_delays_nothing(tanto, directory):
    with Scanning(tanto, directory, "lost") as farm:
        farm.serve()
        expected = farm.here()
        farm.forget()
        farm.hold()
        farm.hold("lost")
        scan = farm.start("scan.log", "scan")
        until(lambda: is_scanning(farm), "the scan runs")
        client = farm.scanner("lost")
        until(lambda: "to scan" in farm.log("lost.log"), "the client has joined")
        until(lambda: any((directory / "lost/state/scan/logs").glob("*")), "the client scans")
        client.kill()
        farm.release()
        farm.wait(scan, 1, "scan.log")
        equal(farm.rows(), expected)
    print("ok lost: the directories of a client that was killed are scanned here")


class Liar:
    """A client that answers with what it likes."""

    def __init__(self, farm, name):
        farm.token(name, "--role", "scan")
        join = json.loads((farm.directory / f"{name}.join").read_text())["body"]
        server = Server(join["url"], join["build"], join["authority"], join["secret"])
        token = server.post("join", {"key": secrets.token_hex(32)})["token"]
        self.server = Server(join["url"], join["build"], join["authority"], token)
        self.scan, self.instance, self.number = self.server.post("describe", {})["scan"], secrets.token_hex(16), 0

    def ask(self, results=None):
        self.number += 1
        request = {"scan": self.scan, "instance": self.instance, "number": self.number, "slots": 2, "wait_ms": 2000}
        if results is not None:
            digest = hashlib.sha256(results).hexdigest()
            self.server.retry(lambda: self.server.once("PUT", f"cas/{digest}", results))
            request["results"] = digest
        return self.server.post("scan", request)["directories"]

    def lie(self, lies):
        """Asks until the scan has ended."""
        directories = self.ask()
        for number in range(1000):
            try:
                directories = self.ask(lies[number % len(lies)](directories))
            except (Refused, OSError):
                return


def results(entries):
    return b"".join(b"%d 1 %s\n%s" % (len(output), location.encode(), output) for location, output in entries)


def lies_have_no_effect(tanto, directory):
    """Results of other directories, with another PKG_LOCATION, or malformed."""
    with Scanning(tanto, directory) as farm:
        farm.serve()
        expected = farm.here()
        farm.forget()
        farm.hold()
        scan = farm.start("scan.log", "scan")
        until(lambda: is_scanning(farm), "the scan runs")
        until(lambda: "linked with its coordinator" in farm.log("serve.log"), "clients can connect")
        liar = Liar(farm, "liar")
        fake, locations = b"PKGNAME=fake-1\n", {location for location, *_ in expected if "/" in location}
        lies = [
            lambda given: results([(location, fake) for location in ("no/such", *sorted(locations - set(given)))]),
            lambda given: results([(location, fake + b"PKG_LOCATION=base/zero\n") for location in given]),
            lambda given: results([(location, b"warning\n" + fake) for location in given]),
            lambda _: b"what?",
            lambda given: results([("../../etc", fake) for _ in given]),
            lambda _: b"",
        ]
        thread = threading.Thread(target=liar.lie, args=(lies,), daemon=True)
        thread.start()
        until(lambda: liar.number > 3, "it has lied")
        farm.release()
        farm.wait(scan, 1, "scan.log")
        equal(farm.rows(), expected)
        try:
            farm.token("builder")
            join = json.loads((directory / "builder.join").read_text())["body"]
            server = Server(join["url"], join["build"], join["authority"], join["secret"])
            token = server.post("join", {"key": secrets.token_hex(32)})["token"]
            Server(join["url"], join["build"], join["authority"], token).post("scan", {})
            raise AssertionError("a builder can scan")
        except Refused as refused:
            assert refused.code == "role", refused
    print("ok lies: results of other directories, and malformed ones, do not count")


def a_client_scans_and_then_builds(tanto, directory):
    """With both roles, and with a tree that another machine has pushed."""
    settings = 'pushed_tree = true\nlimited_list = "list"\n[place]\n"*/*" = "away"\n'
    with Farm(tanto, directory, (), settings) as farm:
        config = directory / "bulk.toml"
        config.write_text("scan_clients = 1\n" + config.read_text().replace('"tree', '"received'))
        (directory / "list").write_text("base/zero\ndevel/libone\n")
        hold = directory / "packages/hold"
        hold.parent.mkdir()
        makeconf = directory / "mk.conf"
        makeconf.write_text(makeconf.read_text() + f".if exists(${{.CURDIR}}/../../mk)\nHELD!= while test -e {hold}; do sleep 0.1; done; :\n.endif\n")
        farm.serve()
        farm.token("both", "--role", "scan", "--role", "build")
        farm.token("laptop", "--role", "tree")
        farm.place.run("push-tree", "--join", "laptop.join", "--dir", "laptop", "tree")
        hold.touch()
        build = farm.start("build.log", "build")
        until(lambda: is_scanning(farm), "the scan runs")
        client = farm.client("both", "--slots", "2", "--label", "away")
        until(lambda: scanned(farm, "both"), "the client scans")
        hold.unlink()
        farm.wait(build, 0, "build.log")
        assert "zero-0" in farm.place.packages() and set(farm.clients_of().values()) == {"both"}, farm.clients_of()
        assert client.poll() is None, farm.log("both.log")
        # The next build has other directories to scan.
        (directory / "list").write_text("base/zero\ndevel/libone\ndevel/libtwo\nbase/kit\n")
        before = scanned(farm, "both")
        hold.touch()
        again = farm.start("again.log", "build")
        until(lambda: scanned(farm, "both") > before, "the client leaves the build and scans again")
        hold.unlink()
        farm.wait(again, 0, "again.log")
        assert set(farm.clients_of().values()) == {"both"}, farm.clients_of()
    print("ok both: a client scans a pushed tree, and builds its packages, twice")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("away_scan: skipped: this machine permits no sandboxes")
        return
    tests = (clients_scan, a_lost_client_delays_nothing, lies_have_no_effect, a_client_scans_and_then_builds)
    for test in tests:
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
