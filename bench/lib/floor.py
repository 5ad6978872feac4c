"""The floor of a no-op build: bench/floor.c with the paths of Tanto's dirty check."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lib import machine
from lib.timing import OUTPUT, Entrant, Row

# A line of strace: the directory and the path of a stat.
STAT = re.compile(r'^\d+ +\w+\((?:(AT_FDCWD|\d+)<([^>]*)>, )?"([^"]+)"')
# State directories, system files and manifests are not part of the dirty check.
ELSEWHERE = re.compile(r"/|\.b/|\.tanto\b|.*\.ninja$")


@dataclass(frozen=True)
class Floor:
    """The paths of one dirty check."""

    program: Path
    directory: Path
    environment: dict
    in_order: Path
    sorted: Path
    count: int

    def entrant(self, threads, paths, name="floor"):
        """Returns an entrant for the whole process, and a row for the stats only."""
        stats = Row(label(threads, name))

        def keep():
            nanoseconds, count, _ = map(int, OUTPUT.read_text().split())
            assert count == self.count, f"{paths} holds {count} paths, not {self.count}"
            stats.wall.append(nanoseconds / 1e6)

        command = [str(self.program), str(paths), str(threads)]
        whole = Row(f"{label(threads, name)}, whole process")
        return Entrant(whole, command, self.directory, self.environment, after=keep), stats


def label(threads, name="floor"):
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"


def path_in(directory, line):
    """Returns the path in a line of strace relative to `directory`; None if it is not part of the dirty check."""
    asked = STAT.match(line)
    if not asked:
        return None
    handle, where, path = asked.groups()
    if handle and handle != "AT_FDCWD":
        path = os.path.relpath(os.path.join(where, path), directory)
    return None if ELSEWHERE.match(path) else path


def trace(command, directory, environment):
    """Returns the paths in the order of one thread without a snapshot."""
    alone = environment | {"TANTO_THREADS": "1", "TANTO_SNAPSHOT": "off"}
    seen = machine.PLACE / "strace"
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-e", "trace=%%stat", "-e", "signal=none", "-o", seen]
    ended = subprocess.run([*strace, *command], cwd=directory, env=alone, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"strace failed:\n{ended.stdout}{ended.stderr}")
    with seen.open() as lines:
        paths = list(dict.fromkeys(filter(None, (path_in(directory.resolve(), line) for line in lines))))
    seen.unlink()
    return paths


def write(paths, to):
    unfinished = to.with_name(f"{to.name}.unfinished")
    unfinished.write_text("".join(f"{path}\0" for path in paths))
    os.rename(unfinished, to)


def floor_of(name, command, directory, environment):
    """Returns the floor of this build. Lists of paths are reused until Tanto changes."""
    in_order, by_path = (machine.PLACE / f"{name}.{order}" for order in ("paths", "sorted"))
    if not by_path.exists() or by_path.stat().st_mtime < Path(command[0]).stat().st_mtime:
        print(f"{name}: listing the files of the dirty check with strace", flush=True)
        paths = trace(command, directory, environment)
        write(paths, in_order)
        write(sorted(paths), by_path)
    count = in_order.read_bytes().count(b"\0")
    return Floor(machine.compile_c("floor"), directory, environment, in_order, by_path, count)
