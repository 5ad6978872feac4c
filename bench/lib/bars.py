"""The bars of bench/load, and the table of bars of all scripts."""

from collections.abc import Callable
from dataclasses import dataclass

from lib.floor import label
from lib.programs import REFERENCE
from lib.scenarios import COLD_THREADS, FIRST, FLOOR_THREADS, SNAPSHOT, TEXT


@dataclass(frozen=True)
class Bar:
    """A value and its limit. `figure` takes the rows of all scenarios and raises KeyError if one is missing. Most limits
    hold for trees of scale 1; in smaller trees the start of a program has more weight."""

    name: str
    figure: Callable
    limit: float
    unit: str
    at_least: bool = False
    any_scale: bool = False


def wall(scenario, row):
    return lambda rows: rows[scenario, row].median("wall")


def times(scenario, row):
    """The speedup over the reference."""
    return lambda rows: wall(scenario, REFERENCE)(rows) / wall(scenario, row)(rows)


def over_floor(rows):
    return wall("aosp droid", SNAPSHOT)(rows) / wall("aosp droid", label(FLOOR_THREADS))(rows)


def over_cold_floor(rows):
    scenario = "aosp droid, cold"
    return wall(scenario, SNAPSHOT)(rows) / min(wall(scenario, label(threads))(rows) for threads in COLD_THREADS)


def memory(*ours):
    """The largest peak of these rows relative to that of the reference."""

    def peak(rows, row):
        return rows["aosp droid", row].median("peak")

    return lambda rows: max(peak(rows, row) for row in ours) / peak(rows, REFERENCE)


def tiny_beside(row):
    return lambda rows: wall("tiny", SNAPSHOT)(rows) / wall("tiny", row)(rows)


def over_text(scenario, metric):
    """The first load at a terminal, which writes a snapshot, relative to a load with snapshots disabled."""
    return lambda rows: rows[scenario, FIRST].median(metric) / rows[scenario, TEXT].median(metric)


X = f"x {REFERENCE}"
OFF = "TANTO_SNAPSHOT=off"
BUILDS = ("aosp nothing", "aosp droid", "chromium all")
BARS = (
    Bar("aosp nothing, snapshot", wall("aosp nothing", SNAPSHOT), 3, "ms"),
    Bar("aosp nothing, snapshot", times("aosp nothing", SNAPSHOT), 3000, X, at_least=True),
    Bar("aosp droid, snapshot", times("aosp droid", SNAPSHOT), 38, X, at_least=True),
    Bar("aosp droid, snapshot", over_floor, 1.15, "of the floor"),
    Bar("chromium all, snapshot", times("chromium all", SNAPSHOT), 9, X, at_least=True),
    Bar("aosp nothing, first load", times("aosp nothing", FIRST), 14, X, at_least=True),
    Bar("aosp droid, first load", times("aosp droid", FIRST), 11, X, at_least=True),
    Bar("chromium all, first load", times("chromium all", FIRST), 6, X, at_least=True),
    *(Bar(f"{build}, first load", over_text(build, "wall"), 1.1, f"of {OFF}") for build in BUILDS),
    *(Bar(f"{build}, first load, CPU", over_text(build, "cpu"), 1.1, f"of {OFF}") for build in BUILDS),
    Bar("aosp droid, cold, snapshot", over_cold_floor, 1.3, "of the best cold floor"),
    Bar("chromium -t query, snapshot", times("chromium query", SNAPSHOT), 60, X, at_least=True),
    Bar("tiny", tiny_beside(REFERENCE), 0.45, f"of {REFERENCE}", any_scale=True),
    Bar("tiny", tiny_beside("samurai"), 1, "of --peer samurai=...", any_scale=True),
    Bar("tiny, instructions", lambda rows: rows["tiny instructions"], 0.7, "M", any_scale=True),
    Bar("aosp droid, memory, first load", memory(TEXT, FIRST), 1 / 2, f"of {REFERENCE}"),
    Bar("aosp droid, memory, snapshot", memory(SNAPSHOT), 1 / 30, f"of {REFERENCE}"),
)


def verdict(bar, value, scale):
    if not bar.any_scale and scale != 1:
        return "(a bar for scale 1)"
    return "met" if (value >= bar.limit if bar.at_least else value <= bar.limit) else "MISSED"


def print_bars(rows, scale, cores):
    """Prints the bars of bench/load."""
    print_table_of_bars(BARS, rows, scale, cores)


def print_table_of_bars(bars, rows, scale, cores):
    print(f"\nBars, for 2 cores (here: {cores})")
    for bar in bars:
        limit = f"{'>=' if bar.at_least else '<='} {round(bar.limit, 4):g}"
        try:
            value = bar.figure(rows)
            measured = f"{value:10,.3f} {bar.unit:24}{verdict(bar, value, scale)}"
        except KeyError:
            measured = f"{'-':>10} {bar.unit:24}not measured"
        print(f"{bar.name:32}{limit:>10}{measured}")
