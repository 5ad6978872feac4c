"""Installs the dependencies of a package into a sandbox, as layers and by pkg_add."""

import os
import shutil

from lib import machine, provide
from lib.scenarios import ENVIRONMENT
from lib.timing import Entrant, Row, print_table, take_turns

DEPENDS = "depends"
COUNTS = (10, 391)
MOUNTING, LAYERS, FIRST, PKG_ADD = "mounts only", "layers", "layers, empty store", "pkg_add"


def depends(tanto, arguments, tree):
    """Each entrant mounts a sandbox, installs packages, and unmounts it."""
    if os.geteuid() != 0:
        print(f"\n{DEPENDS}: skipped: requires root")
        return {}
    place = machine.PLACE / DEPENDS
    shutil.rmtree(place, ignore_errors=True)
    sandbox = provide.Sandbox(tanto, place, tree.settings)
    made = list(provide.many(max(COUNTS)))
    for package in made:
        package.write(sandbox.packages, sandbox.prefix)
    rows = {}
    for count in COUNTS:
        named = [package.name for package in made[:count]]
        for row in measured(sandbox, named, arguments.runs):
            rows[DEPENDS, count, row.label] = row
    shutil.rmtree(place)
    return rows


def measured(sandbox, named, runs):
    def entrant(label, command, before=lambda: None):
        return Entrant(Row(label), command, machine.PLACE, ENVIRONMENT, before=before)

    layers = sandbox.command(named, [], layers=True)
    # Fills the store of layers.
    warm = entrant(LAYERS, layers)
    warm.run(machine.compile_c("timed"))
    warm.row.wall.clear(), warm.row.cpu.clear(), warm.row.peak.clear()
    entrants = [
        entrant(PKG_ADD, sandbox.command(named, [], layers=False)),
        warm,
        entrant(MOUNTING, sandbox.command([], [], layers=None)),
    ]
    take_turns(machine.compile_c("timed"), runs, entrants, [], 0)
    first = entrant(FIRST, layers, before=sandbox.forget_layers)
    take_turns(machine.compile_c("timed"), runs, [first], [], 0)
    rows = [it.row for it in [*entrants, first]]
    print_table(f"depends: {len(named)} packages", rows)
    return rows
