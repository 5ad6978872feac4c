"""Builds of real packages by Tanto and by pbulk with two clients each: the time, and the overhead per package outside the
stages configure and build."""

import itertools
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lib import machine, processes
from lib.pbulk import Pbulk
from lib.scenarios import ENVIRONMENT
from lib.timing import Entrant, Row, print_table

REAL = "real"
TANTO, KNOWING, PBULK = "tanto", "tanto, times known", "pbulk"
# With work directories exchanged: Tanto's on disk, pbulk's in memory.
ON_DISK, IN_MEMORY = "tanto, on the disk", "pbulk, in memory"
CLIENTS = 2
MAKE = "bmake"
# The calls of make by pbulk for a package: clean, checksum, configure, all, stage-install, stage-package-create, show-var,
# clean.
PBULK_CALLS, PBULK_WORK = 8, (2, 3)
WORK = ("configure", "build")
# 1: a package could not be built.
BUILT = (0, 1)


@dataclass
class Spent:
    """Seconds spent on a package: in total, in configure and build, and in other calls of make."""

    wall: float
    work: float
    make: float

    def overhead(self):
        return self.wall - self.work

    def outside(self):
        return self.wall - self.work - self.make


def real(tanto, arguments, tree):
    """Both build the list from scratch and must build and fail the same packages. Tanto builds it again with known times.
    Work directories are in memory for Tanto if there is room, and on disk for pbulk; both are also measured the other way."""
    if os.geteuid() != 0:
        print("\nreal: skipped: the chroots of pbulk's clients require root")
        return {}
    place = machine.PLACE / "real"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    peer, other_peer = (pbulk(tree, place / name, name == "memory") for name in ("pbulk", "memory"))
    ours = build_command(tanto, tree, place)
    commands = {TANTO: ours, PBULK: peer.build_command(), KNOWING: [*ours, "--again"]}
    commands[ON_DISK] = build_command(tanto, tree, place / "disk", scratch_size="0")
    commands[IN_MEMORY] = other_peer.build_command()
    read_all(tanto, tree, place / "warm")
    watched = processes.can_record()
    rows, spent = {}, {}
    for label, command in commands.items():
        data = place / f"{label}.perf"
        line = processes.recording(data, command) if watched else command
        entrant = Entrant(Row(label), [shutil.which(line[0]), *line[1:]], place, ENVIRONMENT, ends=BUILT)
        entrant.run(machine.compile_c("timed"))
        rows[REAL, label] = entrant.row
        if watched and label in (TANTO, PBULK, KNOWING):
            seen = processes.seen(data)
            spent[label] = list(of_pbulk(seen) if label == PBULK else of_tanto(seen, place, tanto))
    print_table(f"real: {len(tree.limited())} directories, {CLIENTS} clients", list(rows.values()))
    compare(place, peer)
    compare(place / "disk", other_peer)
    for label, all_spent in spent.items():
        rows[REAL, label, "spent"] = all_spent
        tell(label, all_spent)
    return rows


def pbulk(tree, place, memory):
    return Pbulk(tree, place, [place / f"client{number}" for number in range(CLIENTS)], memory=memory)


def build_command(tanto, tree, place, **settings):
    place.mkdir(exist_ok=True)
    config = tree.write_settings(
        place, limited_list=str(tree.place / "limited-list"), build_clients=CLIENTS, **settings
    )
    return [tanto, "bulk", "build", "--config", str(config)]


def read_all(tanto, tree, place):
    """Fills the page cache, so that the first entrant has no disadvantage."""
    place.mkdir()
    config = tree.write_settings(place, limited_list=str(tree.place / "limited-list"))
    subprocess.run([tanto, "bulk", "scan", "--config", str(config)], capture_output=True, check=True)


def states(place):
    with sqlite3.connect(place / "state/db") as database:
        query = "SELECT name, state FROM package WHERE run = (SELECT max(run) FROM run)"
        return dict(database.execute(query))


def compare(place, peer):
    """Checks that both built and failed the same packages. pbulk records packages that it did not start in neither file."""
    ours = states(place)
    for outcome, ended in (("success", {"done"}), ("error", {"failed", "prefailed"})):
        mine = {name for name, state in ours.items() if state in ended}
        theirs = peer.names(outcome)
        print(f"{outcome}: {len(mine)} packages by Tanto, {len(theirs)} by pbulk")
        if mine != theirs:
            sys.exit(f"the results differ: {' '.join(sorted(mine ^ theirs))}")


def calls(of):
    """Top-level calls of make, by start time."""
    made = [it for it in of if it.is_a(MAKE) and not any(other.is_a(MAKE) for other in it.ancestors())]
    return sorted(made, key=lambda it: it.begun)


def took(process):
    return process.ended - process.begun


def of_pbulk(all_processes):
    """Yields the times of each built package, from its script and the calls of make below it."""
    by_script = {}
    for call in calls(all_processes):
        script = next((it for it in call.ancestors() if it.is_a("pkg-build")), None)
        by_script.setdefault(id(script), (script, []))[1].append(call)
    for script, made in by_script.values():
        if script is not None and len(made) >= PBULK_CALLS:
            work = sum(took(made[number]) for number in PBULK_WORK)
            yield Spent(took(script), work, sum(map(took, made)) - work)


def of_tanto(all_processes, place, tanto):
    """Yields the times of each built package from the database. Each call of make is assigned to the stage with the nearest
    times."""
    rows = stages(place)
    made = {}
    for command, group in grouped(all_processes, Path(tanto).name):
        row = min(rows, key=lambda row: abs(row.begun - command.begun) + abs(row.ended - command.ended))
        made[row.package] = made.get(row.package, 0) + (0 if row.stage in WORK else sum(map(took, group)))
    for package, own in itertools.groupby(rows, key=lambda row: row.package):
        own = list(own)
        work = sum(row.ended - row.begun for row in own if row.stage in WORK)
        if own[0].outcome == "done":
            yield Spent(own[0].wall, work, made.get(package, 0))


@dataclass
class Ran:
    """A stage of a package."""

    package: str
    outcome: str
    wall: float
    stage: str
    begun: float
    ended: float


def stages(place):
    """Stages of the last run by package and time, with times of CLOCK_MONOTONIC."""
    offset = clock_offset()
    with sqlite3.connect(place / "state/db") as database:
        rows = database.execute(
            "SELECT package.name, outcome, attempt.ended_ms - attempt.began_ms, stage.stage, stage.began_ms, stage.wall_ms "
            "FROM stage JOIN attempt USING (run, job, attempt) JOIN package USING (run, job) "
            "WHERE run = (SELECT max(run) FROM run) ORDER BY package.name, stage.began_ms"
        )
        return [
            Ran(name, outcome, wall / 1e3, stage, begun / 1e3 - offset, (begun + lasted) / 1e3 - offset)
            for name, outcome, wall, stage, begun, lasted in rows
        ]


def clock_offset():
    """CLOCK_REALTIME minus CLOCK_MONOTONIC."""
    return time.time() - time.monotonic()


def grouped(all_processes, tanto):
    """The commands started by Tanto, with the calls of make below each."""
    by_command = {}
    for call in calls(all_processes):
        chain = [call, *call.ancestors()]
        # Tanto is also an ancestor inside a sandbox.
        first = max((number for number, it in enumerate(chain) if it.is_a(tanto)), default=0)
        if first > 0:
            command = chain[first - 1]
            by_command.setdefault(id(command), (command, []))[1].append(call)
    return by_command.values()


def tell(label, all_spent):
    def median(metric):
        return statistics.median(map(metric, all_spent))

    print(
        f"{label}: {len(all_spent)} packages; {median(Spent.overhead):.3f} s outside configure and build (median), including "
        f"{median(Spent.outside):.3f} s outside make"
    )


def overhead_beside(rows):
    ours, theirs = rows[REAL, TANTO, "spent"], rows[REAL, PBULK, "spent"]
    return statistics.median(map(Spent.overhead, ours)) / statistics.median(map(Spent.overhead, theirs))


def outside(rows):
    return statistics.median(map(Spent.outside, rows[REAL, TANTO, "spent"]))


def wall_beside(label):
    return lambda rows: rows[REAL, label].median("wall") / rows[REAL, PBULK].median("wall")
