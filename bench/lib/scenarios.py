"""Scenarios: no-op builds and tools on the trees, alternating all programs."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from lib import machine
from lib.floor import Floor, floor_of
from lib.programs import REFERENCE, Program, check_noop
from lib.timing import Entrant, Row, print_table, take_turns
from lib.trees import Trees

SNAPSHOT = "tanto, snapshot"
FIRST = "tanto, first load"
FIRST_ALONE = "tanto, first load, no terminal"
TEXT = "tanto, TANTO_SNAPSHOT=off"
FLOOR_THREADS = 2
COLD_THREADS = (1, 2, 4, 8, 16, 32, 64, 128)
QUERIED = "obj/chrome/browser/component_0/target_20/libtarget_20.a"
COMPILED = "obj/chrome/browser/component_0/target_20/target_20/source_file_0.o"
TINY_TIMES = 20
# With fewer stats, the floor is not shown.
LEAST_STATS = 100
# ninja also counts its log and the directory of its log as node stats.
STATS_OF_LOGS = 2

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TANTO_SNAPSHOT"}
WITHOUT = ENVIRONMENT | {"TANTO_SNAPSHOT": "off"}


@dataclass(frozen=True)
class Start:
    """A build to measure: Tanto's command, its floor, and the peers."""

    directory: Path
    command: list
    floor: Floor
    peers: list

    def files(self):
        return f"{self.floor.count:,} files to stat"

    def tanto(self):
        """Returns entrants with a snapshot; without one yet, on a terminal and without; and with snapshots disabled."""

        def forget():
            machine.forget(self.directory)

        def first(label, at_terminal):
            row = Row(label)
            return Entrant(row, self.command, self.directory, ENVIRONMENT, before=forget, at_terminal=at_terminal)

        firsts = [first(FIRST, True), first(FIRST_ALONE, False)]
        return [tanto_with(self.command, self.directory), *firsts, tanto_without(self.command, self.directory)]


@dataclass
class Bench:
    """The programs and their numbers of runs. `rows` are the results by scenario and label."""

    trees: Trees
    tanto: Program
    peers: list
    timed: Path
    runs: int
    tanto_runs: int
    cold_runs: int
    rows: dict = field(default_factory=dict)

    def build(self, kind, target):
        """No-op build, warm cache."""
        start = self.ready(kind, target)
        ours = start.tanto()
        floors, floor_rows = [], []
        if start.floor.count >= LEAST_STATS:
            whole, stats = start.floor.entrant(FLOOR_THREADS, start.floor.in_order)
            by_path, stats_by_path = start.floor.entrant(FLOOR_THREADS, start.floor.sorted, "floor by path")
            floors, floor_rows = [whole, by_path], [stats, whole.row, stats_by_path]
        take_turns(self.timed, self.runs, start.peers, [*ours, *floors], self.tanto_runs)
        size = snapshot_size(start.directory)
        snapshot = f"{size / 1e6:.1f} MB of state" if size else "no snapshot"
        rows = [entrant.row for entrant in [*ours, *start.peers]] + floor_rows
        self.report(f"{kind} {target}", f"nothing to do, {start.files()}; {snapshot}", rows)

    def deps(self):
        """-t deps: a deps log without its manifests."""
        directory = self.trees.directory("chromium")
        make_deps_alone(directory)
        entrants = [
            Entrant(Row(label), deps_command(program), directory, ENVIRONMENT)
            for label, program in [(FIRST, self.tanto), *((peer.name, peer) for peer in self.peers)]
        ]
        ours, *peers = [entrant for entrant in entrants if answers(entrant)]
        take_turns(self.timed, self.runs, peers, [ours], self.tanto_runs)
        size = (directory / ".b/deps-v7/.ninja_deps").stat().st_size
        rows = [entrant.row for entrant in [ours, *peers]]
        self.report("chromium deps", f"-t deps of one output; a deps log of {size / 1e6:.1f} MB, one edge", rows)

    def query(self):
        """A tool that needs only the graph."""
        directory = self.trees.directory("chromium")
        warm_up_tanto(self.tanto.command("all"), directory)
        tool = ("-t", "query", QUERIED)
        peers = [peer for peer in self.entrants(directory, *tool) if answers(peer)]
        command = self.tanto.command(*tool)
        ours = [tanto_with(command, directory), tanto_without(command, directory)]
        take_turns(self.timed, self.runs, peers, ours, self.tanto_runs)
        self.report("chromium query", f"-t query {QUERIED}", [entrant.row for entrant in ours + peers])

    def tiny(self):
        """Ten edges: mostly the start of the program."""
        entrants = []
        for program in [self.tanto, *self.peers]:
            entrant = Entrant(Row(program.name), [str(program.path)], self.trees.tiny(program.name), ENVIRONMENT)
            subprocess.run(entrant.command, cwd=entrant.directory, capture_output=True)
            if finds_nothing(entrant):
                entrants.append(entrant)
        without = Entrant(Row(TEXT), entrants[0].command, entrants[0].directory, WITHOUT)
        entrants[0].row.label = SNAPSHOT
        nothing = Entrant(Row("/bin/true"), ["/bin/true"], machine.PLACE, ENVIRONMENT)
        entrants[1:1] = [without]
        entrants.append(nothing)
        take_turns(self.timed, self.runs * TINY_TIMES, entrants, [], 0)
        self.report("tiny", "ten edges, nothing to do", [entrant.row for entrant in entrants])

    def cold(self, kind, target):
        """No-op build, empty page cache."""
        start = self.ready(kind, target)
        threads = COLD_THREADS if start.floor.count >= LEAST_STATS else ()
        floors = [start.floor.entrant(count, start.floor.in_order) for count in threads]
        entrants = start.tanto() + start.peers
        rows = [entrant.row for entrant in entrants] + [stats for _, stats in floors]
        entrants += [whole for whole, _ in floors]
        for entrant in entrants:
            entrant.before = with_cold_cache(entrant.before)
        take_turns(self.timed, self.cold_runs, entrants, [], 0)
        self.report(f"{kind} {target}, cold", f"nothing to do, {start.files()}; nothing in the page cache", rows)

    def ready(self, kind, target):
        """Runs all once, and checks that there is nothing to do and that the floor has as many stats as the reference."""
        directory, command = self.trees.directory(kind), self.tanto.command(target)
        floor = floor_of(f"{kind}-{self.trees.scale:g}-{target}", command, directory, ENVIRONMENT)
        peers = [peer for peer in self.entrants(directory, target) if finds_nothing(peer)]
        check_count(next(peer for peer in peers if peer.row.label == REFERENCE), floor.count)
        warm_up_tanto(command, directory)
        return Start(directory, command, floor, peers)

    def entrants(self, directory, *arguments):
        for peer in self.peers:
            yield Entrant(Row(peer.name), peer.command(*arguments), directory, ENVIRONMENT)

    def report(self, scenario, description, rows):
        scale = "" if scenario == "tiny" else f", scale {self.trees.scale:g}"
        print_table(f"{scenario}{scale}: {description}", rows)
        self.rows.update(((scenario, row.label), row) for row in rows)


def tanto_with(command, directory):
    return Entrant(Row(SNAPSHOT), command, directory, ENVIRONMENT)


def tanto_without(command, directory):
    return Entrant(Row(TEXT), command, directory, WITHOUT)


def with_cold_cache(before):
    def prepare():
        before()
        machine.drop_caches()

    return prepare


def deps_command(program):
    return [str(program.path), "-f", f"deps-{program.state}.ninja", "-t", "deps", COMPILED]


def make_deps_alone(directory):
    """Creates a manifest of one edge with a copy of the deps log for each log version."""
    for state in ("v5", "v7"):
        place = directory / f".b/deps-{state}"
        place.mkdir(exist_ok=True)
        shutil.copyfile(directory / f".b/{state}/.ninja_deps", place / ".ninja_deps")
        (directory / f"deps-{state}.ninja").write_text(f"builddir = .b/deps-{state}\nbuild nothing: phony\n")


def warm_up_tanto(command, directory):
    """Builds twice: the second build may extend the snapshot of the first."""
    for _ in range(2):
        said = check_noop(command, directory, ENVIRONMENT)
        if said:
            sys.exit(f"tanto in {directory}: not a no-op build:\n{said}")


def finds_nothing(entrant):
    """Warms the cache. Excludes a peer if its build is not a no-op."""
    said = check_noop(entrant.command, entrant.directory, entrant.environment)
    if said:
        print(f"{entrant.row.label} is excluded: not a no-op build:\n{said}", flush=True)
    return said is None


def answers(entrant):
    ended = subprocess.run(entrant.command, cwd=entrant.directory, capture_output=True, text=True)
    if ended.returncode != 0:
        print(f"{entrant.row.label} is excluded: {(ended.stdout + ended.stderr)[-1000:]}", flush=True)
    return ended.returncode == 0


def check_count(reference, stats):
    """Checks that the floor has as many stats as the dirty check of the reference."""
    result = subprocess.run([*reference.command, "-d", "stats"], cwd=reference.directory, capture_output=True, text=True)
    counted = re.search(r"^node stat\s+(\d+)", result.stdout, re.M)
    if not counted or abs(int(counted[1]) - stats - STATS_OF_LOGS) > 1:
        sys.exit(f"the floor has {stats} stats, unlike {reference.row.label}:\n{result.stdout}")


def snapshot_size(directory):
    paths = (path for state in machine.states(directory) for path in state.glob("**/*"))
    return sum(path.stat().st_size for path in paths if path.is_file())
