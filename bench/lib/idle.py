"""CPU time of the coordinator and its server for each package, and the time that a slot is idle between two packages."""

import contextlib
import itertools
import sqlite3
import statistics

from lib import farms

PACKAGES, SLOTS = "packages", "slots"
# Packages of a build.
COUNT, FEW = 300, 30
NEAR, FAR = "loopback", "100 ms round trip"
ROUND_TRIP = 0.1


def packages(tanto, arguments):
    """Builds packages whose stages do nothing with two clients."""
    figures = []
    with farms.farm(tanto, PACKAGES, farms.Empty, range(COUNT)) as farm, farms.clients_in_memory(farm.farm):
        clients = [farm.client(name, 2) for name in ("one", "two")]
        for _ in range(arguments.runs):
            used = farm.run(clients, "--again")
            figures.append((used.coordinator + used.server) / COUNT * 1e3)
            print(
                f"{PACKAGES}: {COUNT} packages in {used.wall:.1f} s; for each {used.coordinator / COUNT * 1e3:.2f} ms of the "
                f"coordinator, {used.server / COUNT * 1e3:.2f} ms of the server",
                flush=True,
            )
    return {PACKAGES: statistics.median(figures)}


def slots(tanto, _):
    """Builds such packages with one client, which has one slot, and writes times in their first and last stages."""
    rows = {}
    with farms.farm(tanto, SLOTS, farms.Empty, range(FEW)) as farm:
        marks = farm.farm.directory / "marks"
        with (farm.farm.directory / "mk.conf").open("a") as file:
            file.write(f"MARK= {marks}\n")
        # Without a sandbox, there is one slot, and packages write outside of it.
        for label, relay in ((NEAR, None), (FAR, farms.Relay(farm.farm.port, ROUND_TRIP / 2))):
            client = farm.client(label.split()[0], 1, "none", port=relay and relay.port)
            marks.write_text("")
            farm.run([client], "--again")
            idle = list(pauses(marks.read_text(), stages(farm.farm.directory)))
            rows[SLOTS, label] = statistics.median(idle)
            print(
                f"{SLOTS}: {label}: {len(idle)} times idle for {rows[SLOTS, label]:.1f} ms (median), {min(idle):.1f} to "
                f"{max(idle):.1f} ms",
                flush=True,
            )
    return rows


def pauses(marks, times):
    """Yields the milliseconds between the end of each attempt and the begin of the next one. Marks are made at the same moment of
    the same command in the stages pre-clean and clean; the client has measured the times of both."""
    spans = {}
    for at, name in (line.split() for line in marks.splitlines()):
        spans.setdefault(name, []).append(float(at) * 1e3)
    for (name, before), (following, after) in itertools.pairwise(sorted(spans.items(), key=lambda it: it[1])):
        begun, (_, cleaning) = times[following, "pre-clean"][0], times[name, "clean"]
        yield after[0] - before[-1] - begun - cleaning


def stages(directory):
    """Maps packages and stages to milliseconds from the begin of the attempt to that of the stage, and to its end from there."""
    with contextlib.closing(sqlite3.connect(f"file:{directory}/state/db?mode=ro", uri=True)) as db:
        rows = db.execute(
            "SELECT name, stage, stage.began_ms - attempt.began_ms, stage.wall_ms FROM stage JOIN attempt USING (run, job, attempt) "
            "JOIN package USING (run, job) WHERE run = (SELECT max(run) FROM run)"
        )
        return {(name, stage): times for name, stage, *times in rows}
