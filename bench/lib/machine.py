"""What the scripts need of the machine: programs of their own, compiled; processors; an empty page cache. Does not know
what is measured."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
PLACE = ROOT / "target/bench"
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
CACHE = PLACE / "cache"
# Tanto under the name ninja keeps its state there, and not in the user's own cache.
CACHE.mkdir(parents=True, exist_ok=True)
os.environ["XDG_CACHE_HOME"] = str(CACHE)
# Whatever ninja is in PATH.
os.environ["TANTO_LOG_VERSION"] = "7"


def states(directory):
    """The directories with Tanto's own state of this one: as `tanto build` and as ninja."""
    name = f"{directory.resolve()}\n"
    cached = [dir.parent for dir in CACHE.glob("tanto/builds/*/dir") if dir.read_text() == name]
    return [directory / ".tanto", *cached]


def forget(directory):
    """Removes Tanto's own state of the directory."""
    for state in states(directory):
        shutil.rmtree(state, ignore_errors=True)


def need(what):
    """Runs functions of tests/need.sh, which install what is not there."""
    done = subprocess.run(["bash", "-c", f"set -e; . tests/need.sh; {what}"], cwd=ROOT)
    if done.returncode != 0:
        sys.exit(done.returncode)


def compile_c(name):
    """The program that bench/NAME.c is."""
    program = PLACE / name
    PLACE.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-pthread"]
    subprocess.run(["cc", *flags, "-o", program, BENCH / f"{name}.c"], check=True)
    return program


def keep_to_cores(most):
    """From here on this script and all that it starts use no more processors than that. Returns how many they are."""
    allowed = sorted(os.sched_getaffinity(0))[:most]
    os.sched_setaffinity(0, allowed)
    return len(allowed)


def describe(cores):
    load = os.getloadavg()[0]
    busy = "; others keep it busy, so do not trust the figures" if load > 1 else ""
    print(f"{cores} cores, load {load:.1f}{busy}", flush=True)


def may_drop_caches():
    try:
        DROP_CACHES.open("w").close()
    except OSError:
        return False
    return True


def drop_caches():
    """The next program finds no file, no directory and no inode in memory."""
    os.sync()
    DROP_CACHES.write_text("3\n")
