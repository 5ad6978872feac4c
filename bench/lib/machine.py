"""The machine: compiled helper programs, processors, the page cache."""

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
# State of Tanto under the name ninja goes here instead of the user's cache.
CACHE.mkdir(parents=True, exist_ok=True)
os.environ["XDG_CACHE_HOME"] = str(CACHE)
# Independent of the ninja in PATH.
os.environ["TANTO_LOG_VERSION"] = "7"


def states(directory):
    """Returns the state directories of a build directory: of `tanto build` and of ninja."""
    name = f"{directory.resolve()}\n"
    cached = [dir.parent for dir in CACHE.glob("tanto/builds/*/dir") if dir.read_text() == name]
    return [directory / ".tanto", *cached]


def forget(directory):
    """Removes Tanto's state of a build directory."""
    for state in states(directory):
        shutil.rmtree(state, ignore_errors=True)


def need(functions):
    """Runs functions of tests/need.sh, which install missing programs."""
    done = subprocess.run(["bash", "-c", f"set -e; . tests/need.sh; {functions}"], cwd=ROOT)
    if done.returncode != 0:
        sys.exit(done.returncode)


def compile_c(name):
    """Compiles bench/NAME.c. Returns the program."""
    program = PLACE / name
    PLACE.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-pthread"]
    subprocess.run(["cc", *flags, "-o", program, BENCH / f"{name}.c"], check=True)
    return program


def keep_to_cores(most):
    """Restricts this script and its children to at most this many processors. Returns their number."""
    allowed = sorted(os.sched_getaffinity(0))[:most]
    os.sched_setaffinity(0, allowed)
    return len(allowed)


def describe(cores):
    load = os.getloadavg()[0]
    busy = "; other programs are active, so the figures are not reliable" if load > 1 else ""
    print(f"{cores} cores, load {load:.1f}{busy}", flush=True)


def may_drop_caches():
    try:
        DROP_CACHES.open("w").close()
    except OSError:
        return False
    return True


def drop_caches():
    """Empties the page cache, including directories and inodes."""
    os.sync()
    DROP_CACHES.write_text("3\n")
