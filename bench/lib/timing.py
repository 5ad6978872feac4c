"""Runs programs repeatedly and records their times and memory."""

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
    """A line of a table: times in ms and peak memory in bytes of each run."""

    label: str
    wall: list = field(default_factory=list)
    cpu: list = field(default_factory=list)
    peak: list = field(default_factory=list)

    def median(self, metric):
        """Returns the median of `wall`, `cpu` or `peak`; None if not measured."""
        values = getattr(self, metric)
        return statistics.median(values) if values else None


@dataclass
class Entrant:
    """A command to measure. `before` and `after` are not measured. Its exit code must be in `ends`."""

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
        result = subprocess.run(command, cwd=self.directory, env=self.environment, capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(result.stderr)
        wall, user, system, peak, status = map(int, result.stdout.split())
        if status not in self.ends:
            raise SystemExit(f"{self.row.label}: exit code {status}:\n{OUTPUT.read_text(errors='replace')[-1000:]}")
        self.row.wall.append(wall / 1e6)
        self.row.cpu.append((user + system) / 1e3)
        self.row.peak.append(peak * 1024)
        self.after()


def take_turns(timed, rounds, pacers, others, repeats):
    """Runs each of the `pacers` once per round, and all `others` `repeats` times between two of them. The order is shuffled,
    because the previous program affects short runs by up to a tenth."""
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
    """Prints medians and their ratios to the first row."""
    print(f"\n{title}")
    wide = max(len(row.label) for row in rows)
    print(f"{'':{wide}}{'runs':>6}{'wall ms':>12}{'ratio':>9}{'user+sys ms':>14}{'ratio':>9}{'peak MB':>10}")
    for row in rows:
        columns = [f"{row.label:{wide}}{len(row.wall):6}"]
        for metric, its_wide in (("wall", 12), ("cpu", 14)):
            its, first = row.median(metric), rows[0].median(metric)
            columns.append(figure(its, its_wide, 2) + figure(its / first if its and first else None, 9, 2))
        peak = row.median("peak")
        columns.append(figure(peak and peak / 1e6, 10, 1))
        print("".join(columns), flush=True)
