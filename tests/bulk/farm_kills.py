"""The coordinator and the server of a bulk build are killed (SIGKILL) at random moments while two clients build: no attempt
on a client is begun again, no result is lost, and the packages are those of a build on one machine. Failure messages contain
the seed.

    farm_kills.py TANTO [KILLS [SEED]]
"""

import collections
import contextlib
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

from farm import PATIENCE, Farm
from place import Some, can_create_sandboxes

PACKAGES = 24
# Clients build all packages. A client that is silent is waited for.
SETTINGS = 'client_heartbeat = "1s"\n[place]\n"*/*" = "away"\n'
# Longest time between the start of a coordinator and the next kill, in seconds.
LONGEST = 4.0


def marker(number):
    """The argument of the command by which the build of a package is recognized: no other process on this machine has it."""
    return f"{1 + number % 4}.{os.getpid():08}{number:03}"


class Slow(Some):
    """Packages that each take some seconds; some need others."""

    def scan(self, categories):
        makefiles = self.directory / "tree/slow"
        draw = random.Random(1)
        for number in range(PACKAGES):
            needs = draw.sample(range(number), min(number, draw.randrange(3)))
            depends = "".join(f"DEPENDS+= slow{it}-[0-9]*:../../slow/slow{it}\n" for it in sorted(needs))
            (makefiles / f"slow{number}").mkdir(parents=True)
            (makefiles / f"slow{number}/Makefile").write_text(
                f"PKGNAME= slow{number}-1\n{depends}do-build= sleep {marker(number)}\n"
                '.include "../../mk/pkg.mk"\n'
            )
        yield from super().scan([*categories, *(f"slow/slow{number}" for number in range(PACKAGES))])


class Watch:
    """Notes each build of a package that begins on this machine."""

    def __init__(self):
        self.begun = {}
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def look(self):
        numbers = {f"sleep\0{marker(number)}\0".encode(): number for number in range(PACKAGES)}
        while not self.is_over.wait(0.1):
            for process in Path("/proc").iterdir():
                if not process.name.isdigit():
                    continue
                with contextlib.suppress(OSError):
                    number = numbers.get((process / "cmdline").read_bytes())
                    if number is not None:
                        began = (process / "stat").read_text().rpartition(")")[2].split()[19]
                        self.begun[process.name, began] = number

    def take(self):
        """How often the build of each package began since the last call."""
        begun, self.begun = self.begun, {}
        return collections.Counter(f"slow{number}-1" for number in begun.values())


class Kills:
    """A farm whose coordinator and server are killed."""

    def __init__(self, farm, draw):
        self.farm, self.draw = farm, draw
        self.killed = collections.Counter()

    def server(self):
        """The process of the server that the build has started."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int((self.farm.directory / "state/serve/started").read_text().partition(".")[0])
        return None

    def kill_server(self):
        server = self.server()
        if server is None or b"serve" not in cmdline(server):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
            self.killed["server"] += 1

    def run(self, kills, *more):
        """Builds until the end of the run, killing until there were so many kills."""
        while True:
            build = self.farm.start("build.log", "build", "--resolved", "presolve", *more)
            more = ()
            while self.killed.total() < kills and build.poll() is None:
                time.sleep(self.draw.uniform(0, LONGEST))
                if self.draw.random() < 0.3:
                    self.kill_server()
                elif build.poll() is None:
                    build.kill()
                    self.killed["coordinator"] += 1
                    break
            code = build.wait(PATIENCE)
            if code != -signal.SIGKILL:
                assert code == 0, f"the build ends with {code}:\n{self.farm.log('build.log')[-5000:]}"
                return


def cmdline(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def rows(farm, question):
    with sqlite3.connect(f"file:{farm.directory}/state/db?mode=ro", uri=True) as db:
        return db.execute(question).fetchall()


def check(farm, begun, ended):
    """Each package was begun once and built once."""
    twice = {name: count for name, count in begun.items() if count > 1}
    assert not twice, f"begun again: {twice}"
    twice = {name: count for name, count in ended.items() if count > 1}
    assert not twice, f"built again: {twice}"
    last = "run = (SELECT max(run) FROM run)"
    done = rows(farm, f"SELECT name FROM attempt JOIN package USING (run, job) WHERE {last} AND outcome = 'done'")
    assert sorted(name for (name,) in done) == sorted(farm.place.names()), done
    # A lease that no client got before the kill is none that is lost.
    lost = rows(farm, f"SELECT state, cause, count(*) FROM lease WHERE {last} AND state != 'settled' AND cause != 'unconfirmed' GROUP BY 1, 2")
    assert not lost, f"leases without a result: {lost}"


def ended(farm, clients):
    """How often clients have finished each package."""
    lines = "\n".join(farm.log(f"{name}.log") for name in clients)
    return collections.Counter({name: lines.count(f"] {name}\n") for name in farm.place.names()})


def play(tanto, directory, kills, seed):
    (directory / "one").mkdir()
    one = Slow(tanto, directory / "one", ["base/kit"], 'sandbox = "bind"\nbuild_clients = 24\n')
    one.build(0)
    (directory / "many").mkdir()
    clients = ("builder-1", "builder-2")
    with Farm(tanto, directory / "many", ["base/kit"], SETTINGS, kind=Slow) as farm, Watch() as watch:
        disturb = Kills(farm, random.Random(seed))
        for name in clients:
            farm.token(name)
            farm.client(name, "--slots", "2", "--label", "away")
        runs, before, more = 0, collections.Counter(), ()
        try:
            while runs == 0 or disturb.killed.total() < kills:
                disturb.run(kills, *more)
                after = ended(farm, clients)
                check(farm, watch.take(), after - before)
                assert farm.place.contents() == one.contents(), "other packages"
                runs, before, more = runs + 1, after, ("--again",)
        finally:
            disturb.killed.clear()
            disturb.kill_server()
    return runs


def main(tanto, kills="20", seed="1"):
    if not can_create_sandboxes(None):
        print("farm_kills: skipped: this machine permits no sandboxes")
        return
    with tempfile.TemporaryDirectory() as directory:
        try:
            runs = play(Path(tanto).resolve(), Path(os.path.realpath(directory)), int(kills), int(seed))
        except AssertionError as failed:
            sys.exit(f"not ok farm kills (seed {seed}): {failed}")
    print(f"ok farm kills: {kills} kills of coordinator and server in {runs} runs (seed {seed}), nothing was built twice")


main(*sys.argv[1:])
