"""Builds with a server and clients on this machine, of generated packages, and the resources that they use."""

import contextlib
import os
import random
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lib import machine

sys.path.insert(0, str(machine.ROOT / "tests/bulk"))

from farm import Farm, joined, through, until  # noqa: E402
from place import Place, can_create_sandboxes  # noqa: E402, F401
from real_place import RealPlace  # noqa: E402, F401
from relay import Relay  # noqa: E402, F401

# Only clients with this label build packages.
LABEL = "away"
AWAY = f'[place]\n"*/*" = "{LABEL}"\n'
TICKS = os.sysconf("SC_CLK_TCK")
# Clients have sent their last requests of a build after this time, in seconds.
REST = 1

# Stages that do nothing, except that a package is made. MARK is a file for the times of the first and the last stage.
NOTHING = """.include "prefs.mk"
META= ${WRKOBJDIR}/${PKGNAME}.meta
MARK_NOW= ${MARK:D@date "+%s.%N ${PKGNAME}" >>${MARK}}
.PHONY: fetch checksum configure all stage-install stage-package-create clean show-var
fetch configure all stage-install:
	@:
show-var:
	@echo ${${VARNAME}:Q}
checksum clean:
	${MARK_NOW}
stage-package-create:
	@mkdir -p ${META} ${STAGE_PKGFILE:H} && cd ${META} && echo nothing | tee +COMMENT >+DESC && echo OPSYS=${OPSYS} >+BUILD_INFO && \\
		printf '%s\\n' "@name ${PKGNAME}" "@cwd ${LOCALBASE}" >+CONTENTS && tar -czf ${STAGE_PKGFILE} +*
"""


class Empty(Place):
    """Packages whose stages do nothing."""

    def scan(self, numbers):
        (self.directory / "tree/mk/nothing.mk").write_text(NOTHING)
        for number in numbers:
            place = self.directory / f"tree/empty/empty{number}"
            place.mkdir(parents=True)
            (place / "Makefile").write_text(f'PKGNAME= empty{number}-1\n.include "../../mk/nothing.mk"\n')
            yield record(f"empty{number}", "empty", ())


class Working(Place):
    """Packages that need processor time, and some need others. `turns`: of bench/spin.c."""

    turns = 0

    def scan(self, numbers):
        shutil.copy(machine.compile_c("spin"), self.directory / "tree/tools/spin")
        for number, needed in graph(len(numbers)).items():
            place = self.directory / f"tree/work/work{number}"
            place.mkdir(parents=True)
            depends = "".join(f"DEPENDS+= work{it}-[0-9]*:../../work/work{it}\n" for it in needed)
            (place / "Makefile").write_text(
                f"PKGNAME= work{number}-1\n{depends}do-build= ${{TOPDIR}}/tools/spin {self.turns}\n"
                '.include "../../mk/pkg.mk"\n'
            )
            yield record(f"work{number}", "work", [f"work{it}" for it in needed])


def graph(count):
    """Maps numbers of packages to those that they need."""
    draw = random.Random(1)
    return {number: sorted(draw.sample(range(number), min(number, draw.randrange(3)))) for number in range(count)}


def record(name, category, needed):
    """The record of a package in a scan."""
    depends = " ".join(f"{it}-[0-9]*:../../{category}/{it}" for it in needed)
    bootstrap = "" if needed else "yes"
    return (
        f"PKGNAME={name}-1\nALL_DEPENDS={depends}\nBOOTSTRAP_PKG={bootstrap}\nUSE_DESTDIR=user-destdir\nSCAN_DEPENDS=\n"
        f"PKG_LOCATION={category}/{name}\n"
    )


class Watched:
    """A build with a running server, and its metrics."""

    def __init__(self, farm):
        self.farm, self.server = farm, farm.serve()
        farm.token("watcher", "--role", "watch")
        self.metrics = joined(farm, "watcher")

    def client(self, name, slots, sandbox="bind", port=None):
        """Returns a function that starts a client, which may use another port."""
        self.farm.token(name)
        if port:
            through(self.farm, name, port)
        return lambda: self.farm.client(name, "--slots", str(slots), "--label", LABEL, sandbox=sandbox)

    def count(self, pattern):
        """The sum of the metrics with such names."""
        text = self.metrics.retry(lambda: self.metrics.once("GET", "metrics")).decode()
        return sum(int(number) for number in re.findall(rf"(?m)^{pattern} (\d+)$", text))

    def begin(self, *more):
        """Starts the coordinator. Returns its process when the server is connected to it."""
        process = self.farm.start("build.log", "build", "--resolved", "presolve", *more)
        until(lambda: self.count(r"tanto_linked\{.*\}") or has_ended(process), "the coordinator is connected")
        return process

    def run(self, starts, *more):
        """Runs a build with clients that start when it begins."""
        before = cpu(self.server.pid)
        process = self.begin(*more)
        clients = [start() for start in starts]
        until(lambda: any(map(has_ended, [process, *clients])), "the build ends")
        if any(map(has_ended, clients)):
            logs = "\n".join(path.read_text()[-1000:] for path in sorted(self.farm.directory.glob("*.log")))
            raise SystemExit(f"a client has ended:\n{logs}")
        coordinator = finish(process)
        check_end(process, self.farm.place)
        time.sleep(REST)
        for client in clients:
            client.terminate()
        by_clients = sum(map(finish, clients))
        return Used(span(self.farm.directory), coordinator, cpu(self.server.pid) - before, by_clients)


@dataclass
class Used:
    """Seconds from the begin of the first attempt to the end of the last one, and of processor time."""

    wall: float
    coordinator: float
    server: float = 0
    clients: float = 0

    def cpu(self):
        return self.coordinator + self.server + self.clients


def begin(name):
    """Returns an empty directory for a build. It is on a disk, where commits take their time."""
    directory = machine.PLACE / "machines" / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


@contextlib.contextmanager
def clients_in_memory(farm):
    """Has clients work in memory. They stand for other machines: what they write must not slow down the disk of this one."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < 1 << 30:
        print("clients work on the disk of the server: /dev/shm has less than 1 GiB free", flush=True)
        yield
        return
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        farm.clients = Path(directory)
        yield


@contextlib.contextmanager
def farm(tanto, name, kind, packages):
    """A build by clients only."""
    directory = begin(name)
    with Farm(tanto, directory, packages, f"build_clients = 1\n{AWAY}", kind=kind) as made:
        yield Watched(made)
    shutil.rmtree(directory, ignore_errors=True)


def check_end(build, place):
    """Stops if a build has ended unexpectedly."""
    if build.returncode not in place.ends:
        log = (place.directory / "build.log").read_text(errors="replace")
        raise SystemExit(f"the build ends with {build.returncode}:\n{log[-3000:]}")


def has_ended(process):
    """Leaves its times to `finish`."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def finish(process):
    """Waits for a process. Returns seconds of processor time, also of the processes that it has waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def span(directory):
    """Seconds from the begin of the first attempt to the end of the last one of the last build; 0 without attempts."""
    with contextlib.closing(sqlite3.connect(f"file:{directory}/state/db?mode=ro", uri=True)) as db:
        [row] = db.execute("SELECT min(began_ms), max(ended_ms) FROM attempt WHERE run = (SELECT max(run) FROM run)")
    return (row[1] - row[0]) / 1e3 if row[0] else 0


def tree(pid):
    """A process and all processes below it."""
    yield pid
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from tree(int(child))


def cpu(pid):
    """Seconds of processor time of a process and all below it, also of those that have ended and were waited for."""
    return sum(sum(map(int, fields(pid)[11:15])) for pid in tree(pid)) / TICKS


def fields(pid):
    """Of /proc/PID/stat, from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 40


def memory(pid):
    """Bytes of resident memory of a process and all below it."""
    return sum(int(fields(pid)[21]) for pid in tree(pid)) * os.sysconf("SC_PAGESIZE")
