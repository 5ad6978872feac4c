"""Scans of a sample of a real tree by Tanto and by pbulk, and of the whole tree by Tanto, twice."""

import shutil
import time

from lib import machine, pkgsrc
from lib.pbulk import Pbulk
from lib.scenarios import ENVIRONMENT
from lib.timing import OUTPUT, Entrant, Row, print_table, take_turns

SCAN, WHOLE = "scan", "whole scan"
TANTO, AGAIN, PBULK = "tanto", "tanto, again", "pbulk"
DIRECTORIES, SEED, CLIENTS = 300, 1, 2
# 1: a directory could not be scanned.
SCANNED = (0, 1)


def scan(tanto, arguments, tree):
    """Both scan the same directories with empty caches and must produce equal records."""
    sample, place = machine.PLACE / "sample", machine.PLACE / "scan"
    drawn = tree.sample(DIRECTORIES, SEED, sample)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    ours, again = tanto_twice(tanto, tree, place, pkgsrc=str(sample), scan_clients=CLIENTS)
    peer = Pbulk(tree, place / "pbulk", ["", ""], pkgsrc=str(sample))
    theirs = place / "pscan.pbulk"
    entrants = [ours, Entrant(Row(PBULK), peer.scan_command(theirs), place, ENVIRONMENT)]
    take_turns(machine.compile_c("timed"), arguments.runs, entrants, [], 0)
    again.run(machine.compile_c("timed"))
    rows = [*(entrant.row for entrant in entrants), again.row]
    print_table(f"scan: {len(drawn)} directories, {CLIENTS} at a time", rows)
    same_records(place / "pscan", theirs)
    return {(SCAN, row.label): row for row in rows}


def tanto_twice(tanto, tree, place, **changes):
    """Returns a first scan, and one without changes that starts from its state."""
    config = tree.write_settings(place, limited_list="", **changes)
    output = place / "pscan"
    command = [tanto, "bulk", "scan", "--config", str(config), "--output", str(output)]

    def forget():
        shutil.rmtree(place / "state", ignore_errors=True)
        output.unlink(missing_ok=True)

    def settle():
        time.sleep(pkgsrc.SETTLED)
        output.unlink(missing_ok=True)

    def check():
        if not output.exists():
            raise SystemExit(OUTPUT.read_text(errors="replace")[-1000:])

    first = Entrant(Row(TANTO), command, place, ENVIRONMENT, before=forget, after=check, ends=SCANNED)
    return first, Entrant(Row(AGAIN), command, place, ENVIRONMENT, before=settle, after=check, ends=SCANNED)


def whole(tanto, arguments, tree):
    """Scans the whole tree twice: about 47 minutes of CPU time."""
    place = machine.PLACE / "whole"
    place.mkdir(parents=True, exist_ok=True)
    first, again = tanto_twice(tanto, tree, place, scan_clients=CLIENTS)
    timed = machine.compile_c("timed")
    first.run(timed)
    for _ in range(arguments.runs):
        again.run(timed)
    rows = [first.row, again.row]
    print_table("scan of the whole tree", rows)
    return {(WHOLE, row.label): row for row in rows}


def same_records(ours, theirs):
    """Compares records regardless of their order."""
    ours, theirs = pkgsrc.records(ours), pkgsrc.records(theirs)
    print(f"{len(ours)} records by Tanto, {len(theirs)} by pbulk; {len(set(ours) ^ set(theirs))} differ", flush=True)
    if ours != theirs:
        raise SystemExit("the records differ")
