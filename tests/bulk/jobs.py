"""Packages that share job tokens: their own builds would run eight jobs each, and all together may run four. Each job says
that it runs, and waits until it is let go, so that nothing depends on how fast the machine is.

    jobs.py TANTO"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place

TOKENS = 4
JOBS = 8
SECONDS = 60


class Build:
    """A build that runs, and the jobs of its packages."""

    def __init__(self, place):
        self.place = place
        with (place.directory / "told").open("w") as told:
            self.process = subprocess.Popen(
                place.command("build", "--resolved", "presolve"),
                cwd=place.directory,
                env=place.environment,
                stdout=told,
                stderr=subprocess.STDOUT,
            )

    def told(self):
        return (self.place.directory / "told").read_text()

    def held(self, package):
        """The named pipes at which its jobs wait."""
        return sorted(self.place.directory.glob(f"bulklog/{package}/hold.*"))

    def until(self, is_so):
        end = time.monotonic() + SECONDS
        while not is_so():
            assert time.monotonic() < end and self.process.poll() is None, self.told()
            time.sleep(0.01)

    def hold(self, package, count):
        """Waits until so many of its jobs run; no more do a moment later."""
        self.until(lambda: len(self.held(package)) >= count)
        time.sleep(0.1)
        assert len(self.held(package)) == count, self.held(package)

    def let_go(self, package):
        hold = self.held(package)[0]
        with hold.open("w") as word:
            hold.unlink()
            word.write("go\n")

    def let_all_go(self, package, limit):
        for left in range(JOBS, 0, -1):
            self.hold(package, min(left, limit))
            self.let_go(package)

    def let_go_as_they_come(self, package):
        """How many run is settled when the build begins, by what is free then."""
        for _ in range(JOBS):
            self.until(lambda: self.held(package))
            assert len(self.held(package)) <= TOKENS, self.held(package)
            self.let_go(package)

    def kill(self, package):
        makefile = self.place.directory / "tree/jobs/files/Makefile"
        command = ["pgrep", "-f", f"jobserver-auth=.* -f {makefile}"]
        (make,) = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        os.kill(int(make), signal.SIGKILL)
        while self.held(package):
            self.let_go(package)


def one_alone(build, place):
    """Each has all tokens, also after one that was killed with tokens in hand."""
    build.let_go_as_they_come("bsd-1")
    build.hold("gnu-1", TOKENS)
    build.kill("gnu-1")
    build.let_all_go("gnu2-1", TOKENS)
    build.let_all_go("serial-1", 1)
    assert build.process.wait(SECONDS) == 1, build.told()
    states = [place.state(name)[0] for name in ("bsd-1", "gnu-1", "gnu2-1", "serial-1")]
    assert states == ["done", "failed", "done", "done"], states
    print("ok a package alone runs as many jobs as there are tokens, and what a killed one had comes back")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as directory:
        place = Place(tanto, Path(directory), ["jobs"], f"jobs = {TOKENS}\n")
        build = Build(place)
        try:
            one_alone(build, place)
        finally:
            build.process.kill()


main()
