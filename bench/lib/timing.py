"""Runs a program again and again, and keeps what each run took. Does not know what the program does."""

import random
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lib.machine import PLACE

OUTPUT = PLACE / "output"


@dataclass
class Row:
    """A line of a table: what the runs took, in ms, and their peak memory, in bytes."""

    label: str
    wall: list = field(default_factory=list)
    cpu: list = field(default_factory=list)
    peak: list = field(default_factory=list)

    def median(self, what):
        """Of `wall`, `cpu` or `peak`; None if that was not measured."""
        values = getattr(self, what)
        return statistics.median(values) if values else None


@dataclass
class Entrant:
    """A command that is measured. `before` and `after` are no part of what it takes. It ends with a code of `ends`."""

    row: Row
    command: list
    directory: Path
    environment: dict
    before: Callable = lambda: None
    after: Callable = lambda: None
    ends: tuple = (0,)
    at_terminal: bool = False

    def run(self, timed):
        self.before()
        options = ["--terminal"] if self.at_terminal else []
        command = [timed, *options, OUTPUT, *self.command]
        told = subprocess.run(command, cwd=self.directory, env=self.environment, capture_output=True, text=True)
        if told.returncode != 0:
            raise SystemExit(told.stderr)
        wall, user, system, peak, status = map(int, told.stdout.split())
        if status not in self.ends:
            raise SystemExit(f"{self.row.label} ended with {status}:\n{OUTPUT.read_text(errors='replace')[-1000:]}")
        self.row.wall.append(wall / 1e6)
        self.row.cpu.append((user + system) / 1e3)
        self.row.peak.append(peak * 1024)
        self.after()


def take_turns(timed, rounds, pacers, others, repeats):
    """Runs each of the `pacers` once a round, and between two of them all `others`, `repeats` times. The order is
    shuffled each time: what ran before a short run costs it up to a tenth."""
    shuffled = random.Random(1)
    for _ in range(rounds):
        for pacer in shuffled.sample(pacers, len(pacers)):
            pacer.run(timed)
            for _ in range(repeats):
                for other in shuffled.sample(others, len(others)):
                    other.run(timed)


def figure(value, wide, digits):
    return f"{'-':>{wide}}" if value is None else f"{value:{wide},.{digits}f}"


def print_table(title, rows):
    """Medians, and how many times the first row's each is."""
    print(f"\n{title}")
    wide = max(len(row.label) for row in rows)
    print(f"{'':{wide}}{'runs':>6}{'wall ms':>12}{'ratio':>9}{'user+sys ms':>14}{'ratio':>9}{'peak MB':>10}")
    for row in rows:
        columns = [f"{row.label:{wide}}{len(row.wall):6}"]
        for what, its_wide in (("wall", 12), ("cpu", 14)):
            its, first = row.median(what), rows[0].median(what)
            columns.append(figure(its, its_wide, 2) + figure(its / first if its and first else None, 9, 2))
        peak = row.median("peak")
        columns.append(figure(peak and peak / 1e6, 10, 1))
        print("".join(columns), flush=True)
