"""The time from an edit of one file to its object, with a checkpoint and without."""

import json
import os
import pty
import statistics
import subprocess
import sys
import time
from collections import Counter

from lib import compiles
from lib.bars import Bar, print_table_of_bars

# Projects and the minimum median speedup of their files.
PROJECTS = (("abseil", 4), ("re2", 3), ("llvm", 5))
FLAGS = "-O0 -g"
# Checkpoints at a time.
BATCH = 16
# Seconds to wait for checkpoints.
PATIENCE = 300


class Loop:
    """Edits of one project."""

    def __init__(self, tanto, name):
        self.tanto = tanto
        # Files without a checkpoint, with the reason.
        self.without = {}
        self.directory, self.objects = compiles.copied(f"edits-{name}", compiles.PROJECTS[name], FLAGS)
        self.environment = {name: value for name, value in os.environ.items() if name != "CI"}
        self.build(*self.objects.values(), worker="off", jobs=os.cpu_count())
        # Files that need something from the package's own build are skipped.
        self.objects = {file: made for file, made in self.objects.items() if (self.directory / made).exists()}

    def build(self, *targets, worker="auto", jobs=1):
        """Returns the time and the events of finished jobs. Runs on a terminal, which checkpoints require."""
        ours, its = pty.openpty()
        options = [f"--clang-worker={worker}", f"--checkpoints={BATCH}", f"-j{jobs}", "-k0", "--format=jsonl"]
        begun = time.monotonic()
        done = subprocess.run(
            [self.tanto, "build", *options, *targets],
            cwd=self.directory,
            env=self.environment,
            stdin=its,
            stdout=subprocess.PIPE,
        )
        took = time.monotonic() - begun
        os.close(its)
        os.close(ours)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return took, [event for event in events if event["event"] == "finished"]

    def keep(self, files):
        for file in files:
            (self.directory / self.objects[file]).unlink(missing_ok=True)
        self.build(*(self.objects[file] for file in files))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            time.sleep(0.5)
            output = subprocess.run([self.tanto, "clang", "status"], cwd=self.directory, capture_output=True).stdout
            if b"yet to be made" not in output and output.startswith(b"checkpoints: "):
                _, _, without = output.decode().partition("without one:\n")
                self.without.update(line.strip().split(": ", 1) for line in without.splitlines())
                return
        sys.exit("timeout: no checkpoints")

    def edit(self, file, text, worker):
        """Edits a file and builds. Returns wall time, CPU time, whether a checkpoint was used, and the object."""
        (self.directory / "src" / file).write_bytes(text)
        took, ended = self.build(self.objects[file], worker=worker)
        if len(ended) != 1 or ended[0].get("exit", 0) != 0:
            sys.exit(f"{file}: {ended}")
        cpu = (ended[0].get("user_us", 0) + ended[0].get("system_us", 0)) / 1e6
        return took, cpu, ended[0].get("checkpoint", False), (self.directory / self.objects[file]).read_bytes()

    def compare(self, file, runs):
        """Returns the speedup by wall time and by CPU time; None without a checkpoint."""
        source = self.directory / "src" / file
        whole = source.read_bytes()
        times, cpu = [], []
        for run in range(runs):
            text = whole + f"\nextern int edit_{run};\nint edit_{run} = __LINE__;\n".encode()
            sides = ("auto", "off") if run % 2 == 0 else ("off", "auto")
            measured = {side: self.edit(file, text, side) for side in sides}
            if not measured["auto"][2]:
                source.write_bytes(whole)
                return None
            if measured["auto"][3] != measured["off"][3]:
                sys.exit(f"{file}: the objects differ with a checkpoint")
            times.append(measured["off"][0] / measured["auto"][0])
            cpu.append(measured["off"][1] / measured["auto"][1])
        source.write_bytes(whole)
        return statistics.median(times), statistics.median(cpu)


def sample(files, count):
    """Returns `count` evenly spaced files."""
    return files if not count or count >= len(files) else [files[at * len(files) // count] for at in range(count)]


def show(name, files, faster, without):
    by_time, by_cpu = ([each[at] for each in faster] for at in (0, 1))
    print(f"\n{name} {FLAGS}: {len(faster)} of {len(files)} files had a checkpoint ({len(faster) / len(files):.0%}); ", end="")
    print("the objects are identical.")
    for why, count in Counter(without.values()).most_common():
        print(f"  {count} without: {why}")
    print("Speedup from edit to object:")
    for metric, all_of_them in (("wall time of the build", by_time), ("CPU time of the compile", by_cpu)):
        values = (min(all_of_them), statistics.mean(all_of_them), statistics.median(all_of_them), max(all_of_them))
        print(f"  {metric:32} min {values[0]:.2f}  mean {values[1]:.2f}  median {values[2]:.2f}  max {values[3]:.2f}")
    return statistics.median(by_time)


def measure(tanto, only, count, runs):
    rows, bars = {}, []
    for name, least in PROJECTS:
        if only and name not in only:
            continue
        loop = Loop(tanto, name)
        files = sample(list(loop.objects), count)
        faster = []
        for first in range(0, len(files), BATCH):
            batch = files[first : first + BATCH]
            loop.keep(batch)
            faster += [found for found in (loop.compare(file, runs) for file in batch) if found]
        subprocess.run([tanto, "clang", "stop"], cwd=loop.directory, check=True)
        if not faster:
            sys.exit(f"{name}: no file had a checkpoint")
        rows[name] = show(name, files, faster, loop.without)
        bars.append(Bar(name, lambda rows, name=name: rows[name], least, "speedup", at_least=True, any_scale=True))
    print_table_of_bars(bars, rows, 1, len(os.sched_getaffinity(0)))
