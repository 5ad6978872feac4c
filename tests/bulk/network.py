"""Bulk builds on many machines with bad networks, a full disk, wrong clocks, and clients that lie.

    network.py TANTO [PARTITIONS [SEED]]

Each build ends with the packages of a build on one machine.
"""

import collections
import contextlib
import hashlib
import os
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from farm import Farm, Refused, joined, through, until
from place import Place, Some, can_create_sandboxes
from relay import Relay

# The shortest times after which clients are lost.
TIMES = """build_clients = 1
client_heartbeat = "1s"
client_lost_after = "3s"
client_restart_min = "1s"
client_restart_max = "2s"
"""
# All packages are built by clients with this label.
AWAY = '[place]\n"*/*" = "away"\n'
LARGE = """PKGNAME= large-1
do-build= awk 'BEGIN { srand(7); for (i = 0; i < 200000; i++) printf "%d\\n", rand() * 1e9 }' >large
HARDLINKS= share/large:${WRKSRC}/large
.include "../../mk/pkg.mk"
"""


def client(farm, name, *words, **more):
    words = ["--join", f"{name}.join", "--dir", str(farm.directory / name), "--sandbox", "bind", *words]
    environment = {key: value for key, value in os.environ.items() if key != "MAKECONF"}
    return farm.start(f"{name}.log", "client", *words, environment={**environment, **more})


def check(farm, one):
    """The packages are those of one machine, and each was accepted once."""
    ours, theirs = farm.place.contents(), one
    assert ours == theirs, f"other packages: {sorted(ours.keys() ^ theirs.keys())}\n{farm.log('build.log')}"
    with sqlite3.connect(f"file:{farm.directory}/state/db?mode=ro", uri=True) as db:
        done = db.execute("SELECT run, job FROM attempt WHERE outcome = 'done'").fetchall()
    twice = [key for key, count in collections.Counter(done).items() if count > 1]
    assert not twice, f"accepted twice: {twice}"


def partitions(tanto, directory, one, count, seed):
    draw = random.Random(seed)
    with Farm(tanto, directory, ("base", "devel"), TIMES + AWAY) as farm:
        farm.serve()
        relay = Relay(farm.port)
        farm.token("far")
        through(farm, "far", relay.port)
        client(farm, "far", "--slots", "2", "--label", "away")
        cut = builds = 0
        while cut < count:
            more = ["--again"] if builds else []
            build = farm.start("build.log", "build", "--resolved", "presolve", *more)
            builds += 1
            until(lambda: "far" in farm.log("far.log") or build.poll() is not None, "the client joins")
            while build.poll() is None:
                time.sleep(draw.uniform(0.1, 0.8))
                if cut == count:
                    continue
                relay.state = draw.choice(("silent", "closed"))
                if relay.state == "closed" or draw.random() < 0.5:
                    relay.reset()
                # Sometimes longer than a client may be silent.
                time.sleep(draw.choice((0.2, 0.5, 4)))
                relay.state = "open"
                cut += 1
            farm.wait(build, 0, "build.log")
            check(farm, one)
    print(f"ok network: {builds} builds with {cut} partitions have the packages of one machine (seed {seed})")


def paused_client(tanto, directory, one):
    """A client that is paused for longer than it may be silent comes back, and no result counts twice."""
    with Farm(tanto, directory, ("base", "devel"), TIMES) as farm:
        farm.serve()
        farm.token("paused")
        config = farm.directory / "bulk.toml"
        gate = directory / "go"
        hook = f'sync_package = "while ! test -e {gate}; do sleep 0.1; done"\n'
        config.write_text(hook + config.read_text())
        paused = client(farm, "paused", "--slots", "2")
        build = farm.build()
        until(lambda: "joined" in farm.log("paused.log"), "the client joins")
        paused.send_signal(signal.SIGSTOP)
        until(lambda: "paused is silent" in farm.log("build.log"), "the client is missed")
        paused.send_signal(signal.SIGCONT)
        until(lambda: "paused is back" in farm.log("build.log"), "the client is back")
        gate.touch()
        farm.wait(build, 0, "build.log")
        check(farm, one)
    print("ok network: a client that was paused loses and repeats nothing")


class WithLarge(Some):
    """A tree with a package of about a megabyte."""

    def scan(self, categories):
        (self.directory / "tree/devel/large").mkdir()
        (self.directory / "tree/devel/large/Makefile").write_text(LARGE)
        yield from super().scan(["devel/large"])


def slow_upload(tanto, directory):
    """An upload at 1 Mbit/s that breaks five times continues, and sends little more than once."""
    with Farm(tanto, directory, (" ",), 'build_clients = 1\n' + AWAY, kind=WithLarge) as farm:
        farm.serve()
        relay = Relay(farm.port)
        farm.token("slow")
        through(farm, "slow", relay.port)
        client(farm, "slow", "--slots", "1", "--label", "away")
        build = farm.build()
        until(lambda: "joined" in farm.log("slow.log"), "the client joins")
        begun, relay.rate, breaks = relay.sent, 125_000, 0
        while build.poll() is None and breaks < 5:
            at = relay.sent
            until(lambda: relay.sent > at + 100_000 or build.poll() is not None, "the upload continues")
            relay.reset()
            breaks += 1
        farm.wait(build, 0, "build.log")
        size = (farm.directory / "packages/All/large-1.tgz").stat().st_size
        sent = relay.sent - begun
        assert breaks == 5 and sent < size * 1.4, f"{sent} bytes were sent of {size}, {breaks} breaks"
    print(f"ok network: an upload of {size} bytes with {breaks} breaks sends {sent} bytes")


@contextlib.contextmanager
def disk(path, size):
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def full_disk(tanto, directory):
    """A result is accepted when the disk of the server has space again."""
    with disk(directory / "served", "1100m") as served:
        place = directory / "farm"
        place.mkdir()
        settings = TIMES + f'server_dir = "{served}/serve"\n' + AWAY
        with Farm(tanto, place, (" ",), settings, kind=WithLarge) as farm:
            farm.serve()
            farm.token("full")
            client(farm, "full", "--slots", "1", "--label", "away")
            fill(served / "filling", 100 << 20)
            build = farm.build()
            farm.token("watcher", "--role", "watch")
            watcher = joined(farm, "watcher")
            until(lambda: b'status="507"' in watcher.once("GET", "metrics"), "the server's disk is full")
            assert build.poll() is None, farm.log("build.log") + farm.log("full.log")
            (served / "filling").unlink()
            farm.wait(build, 0, "build.log")
            assert farm.clients_of() == {"large-1": "full"}
    print("ok network: a build continues when the server's disk has space again")


def full_disk_of_a_client(tanto, directory):
    """A full disk is no fault of the package: it says so, and the next build builds it."""
    place, gate = directory / "farm", directory / "go"
    place.mkdir()
    with disk(place / "full", "16m") as used:
        hook = f'script_phase_build = "while ! test -e {gate}; do sleep 0.1; done"\n'
        with Farm(tanto, place, (" ",), hook + TIMES + AWAY, kind=WithLarge) as farm:
            farm.serve()
            farm.token("full")
            client(farm, "full", "--slots", "1", "--label", "away")
            until(lambda: "waiting for build" in farm.log("full.log"), "the client begins")
            build = farm.build()
            fill(used / "filling", 15 << 20)
            gate.touch()
            farm.wait(build, 1, "build.log")
            state, why = farm.place.state("large-1")
            assert state == "machine-failed" and "disk is full" in why, (state, why)
            (used / "filling").unlink()
            farm.wait(farm.start("again.log", "build", "--resolved", "presolve"), 0, "again.log")
            assert farm.clients_of() == {"large-1": "full"}
    print("ok network: a client whose disk is full says so, and builds later")


def fill(path, size):
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def wrong_clocks(tanto, directory, one):
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        print("network: clocks: skipped: libfaketime is not installed")
        return
    others = set(Path("/dev/shm").glob("faketime_*"))
    for offset in ("+5d", "-5d"):
        place = directory / offset
        place.mkdir()
        with Farm(tanto, place, ("base", "devel"), TIMES + AWAY) as farm:
            farm.serve()
            farm.token("late")
            # It needs /dev/shm, which sandboxes do not have: nor do they see this copy.
            (place / "late/state").mkdir(parents=True)
            shutil.copy(library, place / "late/state/clock.so")
            clock = {"LD_PRELOAD": str(place / "late/state/clock.so"), "FAKETIME": offset}
            client(farm, "late", "--slots", "2", "--label", "away", **clock)
            farm.wait(farm.build(), 0, "build.log")
            check(farm, one)
    for left in set(Path("/dev/shm").glob("faketime_*")) - others:
        left.unlink(missing_ok=True)
    print("ok network: clients whose clocks are five days off build all packages")


class Liar:
    """A client that sends wrong requests."""

    def __init__(self, farm, name):
        self.server, self.name = joined(farm, name), name
        self.hello()

    def hello(self):
        build = self.server.post("describe", {})
        self.connection = self.server.post("hello", {
            "version": "0", "name": self.name, "instance": secrets.token_hex(16), "slots": 1, "cpus": 1,
            "memory_kib": 1 << 24, "disk_kib": 1 << 24, "environment": build["environment"], "labels": ["away"],
        })["connection"]

    def ask(self, path, **message):
        return self.server.post(path, {"connection": self.connection, **message})

    def lease(self):
        free = {"slots": 1, "memory_kib": 1 << 24, "disk_kib": 1 << 24, "wait_ms": 20_000}
        for number in range(1, 20):
            if leases := self.ask("work", number=number, **free)["leases"]:
                return leases[0]
        raise AssertionError("there is no work")

    def heartbeat(self, number, lease, **more):
        counts = {"stage_ms": 1, "cpu_ms": 1, "memory_kib": 1, "disk_kib": 1}
        progress = {"lease": lease, "stage": "build", **counts, **more}
        return self.ask("heartbeat", number=number, memory_kib=1, disk_kib=1, leases=[progress])

    def result(self, lease, name="x-1", file="x.tgz", packages=(), logs=()):
        result = {
            "outcome": {"kind": "built"}, "packages": [{"name": name, "file": file}], "stages": [], "cpu_ms": 1,
            "peak_kib": 1, "disk_kib": 1, "left": [], "exit": 0, "output": "", "log": "",
        }
        return self.ask("result", lease=lease, result=result, packages=list(packages), logs=list(logs))

    def refused(self, status, ask):
        """A request is refused with a status and a sentence."""
        try:
            answer = ask()
        except Refused as refused:
            assert refused.status == status and len(str(refused)) > 8, f"{refused.status}: {refused}, not {status}"
        else:
            raise AssertionError(f"accepted: {answer}")


def lies(liar, other):
    lease = liar.lease()
    name, id = lease["spec"]["name"], lease["lease"]
    liar.heartbeat(5, id)
    data = b"not a package"
    blob = {"digest": hashlib.sha256(data).hexdigest(), "size": len(data)}
    own = {"name": name, **blob}
    for path in ("../../etc/x", "a/b", "..", "-x", "x\n"):
        liar.refused(400, lambda path=path: liar.result(id, name=path, packages=[own]))
        liar.refused(400, lambda path=path: liar.result(id, packages=[{**own, "name": path}]))
        liar.refused(400, lambda path=path: liar.result(id, packages=[own], logs=[{"file": path, **blob}]))
        liar.refused(400, lambda path=path: liar.result(id, file=path, packages=[own]))
    # Other content than the digest says, and more of it than a blob may have.
    put = lambda body, path: liar.server.once("PUT", path, body)
    liar.refused(422, lambda: put(b"other content", f"cas/{blob['digest']}"))
    liar.refused(413, lambda: liar.server.once("PATCH", f"cas/{blob['digest']}?at=0&size={1 << 40}", b"x"))
    liar.refused(404, lambda: put(b"x", "cas/../../etc/passwd"))
    assert liar.result(id, packages=[own]) == {"state": "missing", "digests": [blob["digest"]]}
    # Numbers that are no numbers, or late.
    liar.refused(400, lambda: liar.heartbeat(6, id, cpu_ms=-1))
    liar.refused(400, lambda: liar.heartbeat(6, id, cpu_ms=1 << 80))
    liar.refused(400, lambda: liar.heartbeat(-1, id))
    liar.refused(400, lambda: liar.heartbeat(6, id, stage="../x" * 100))
    assert liar.heartbeat(1, id)["leases"] == []
    # The connection and the lease of another client.
    liar.refused(410, lambda: liar.server.post("heartbeat", {
        "connection": other.connection, "number": 99, "memory_kib": 1, "disk_kib": 1, "leases": []}))
    assert other.result(id, packages=[own]) == {"state": "superseded"}
    assert other.heartbeat(1, id)["leases"] == []
    # A result is sent twice, and is that of another package.
    put(data, f"cas/{blob['digest']}")
    for _ in range(2):
        liar.result(id, name="another-1", packages=[{"name": "another-1", **blob}])
    liar.ask("bye")
    liar.refused(410, lambda: liar.heartbeat(7, id))
    return name


def liars(tanto, directory, one):
    with Farm(tanto, directory, ("base", "devel"), TIMES + AWAY) as farm:
        farm.serve()
        for name in ("liar", "other", "honest"):
            farm.token(name)
        build = farm.build()
        liar, other = Liar(farm, "liar"), Liar(farm, "other")
        name = lies(liar, other)
        other.ask("bye")
        client(farm, "honest", "--slots", "2", "--label", "away")
        farm.wait(build, 0, "build.log")
        check(farm, one)
        assert farm.clients_of()[name] == "honest", farm.clients_of()
    print("ok network: lies are refused, and an honest client builds the package")


def main(tanto, count="4", seed="1"):
    if os.geteuid() != 0 or not can_create_sandboxes(None):
        print("network: skipped: this needs root and sandboxes")
        return
    tanto = Path(tanto).resolve()
    with tempfile.TemporaryDirectory() as directory:
        place = Place(tanto, Path(directory), ("base", "devel"), 'sandbox = "bind"\n')
        place.build(0)
        one = place.contents()
    tests = (
        lambda where: partitions(tanto, where, one, int(count), int(seed)),
        lambda where: paused_client(tanto, where, one),
        lambda where: slow_upload(tanto, where),
        lambda where: full_disk(tanto, where),
        lambda where: full_disk_of_a_client(tanto, where),
        lambda where: wrong_clocks(tanto, where, one),
        lambda where: liars(tanto, where, one),
    )
    for test in tests:
        with tempfile.TemporaryDirectory() as directory:
            test(Path(directory))


main(*sys.argv[1:])
