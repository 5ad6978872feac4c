"""Processes started during a measurement, with parents and times, recorded by perf."""

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

EVENTS = "sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit"
LINE = re.compile(r"\s(\d+\.\d+): sched:sched_process_(fork|exec|exit): (.*)$")
FIELDS = {
    "fork": re.compile(r"pid=(\d+) child_comm=.* child_pid=(\d+)"),
    "exec": re.compile(r"filename=(.*) pid=(\d+) old_pid="),
    "exit": re.compile(r"pid=(\d+)"),
}


@dataclass
class Process:
    """Times are seconds of CLOCK_MONOTONIC. `programs` are the executed files with their times."""

    begun: float
    parent: "Process" = None
    ended: float = None
    programs: list = field(default_factory=list)

    def is_a(self, name):
        return any(Path(program).name == name for _, program in self.programs)

    def ancestors(self):
        it = self.parent
        while it is not None:
            yield it
            it = it.parent


def can_record():
    """Returns whether perf can record the whole machine."""
    if shutil.which("perf") is None:
        return False
    command = ["perf", "record", "-q", "-a", "-e", EVENTS, "-o", "/dev/null", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


def recording(data, command):
    """Wraps a command in perf."""
    # -B: looking up build ids at the end takes seconds.
    return [shutil.which("perf"), "record", "-q", "-B", "-a", "-k", "CLOCK_MONOTONIC", "-m", "4M", "-e", EVENTS, "-o", str(data), *command]


def seen(data):
    """Returns all processes by start time."""
    reader = subprocess.Popen(["perf", "script", "-i", data], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    processes, alive = [], {}

    def known(pid, at):
        if pid not in alive:
            alive[pid] = Process(at)
            processes.append(alive[pid])
        return alive[pid]

    for line in reader.stdout:
        if not (found := LINE.search(line)):
            continue
        at, event = float(found[1]), found[2]
        values = FIELDS[event].search(found[3])
        if event == "fork":
            alive[values[2]] = Process(at, known(values[1], at))
            processes.append(alive[values[2]])
        elif event == "exec":
            known(values[2], at).programs.append((at, values[1]))
        elif process := alive.pop(values[1], None):
            process.ended = at
    reader.wait()
    return [process for process in processes if process.ended is not None]
