"""Packages that share job tokens: each would run eight jobs, and all together may run four. Each job reports that it
runs and waits to be released, so that the test is independent of machine speed.

    jobs.py TANTO
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place, Some, can_create_sandboxes

# A user ID without an account on this machine.
USER = 61235
TOKENS = 4
JOBS = 8
SECONDS = 60


class Build:
    """A running build, and the jobs of its packages."""

    def __init__(self, place):
        self.place = place
        # Directory of the job reports, if not with the logs.
        self.shared = None
        with (place.directory / "output").open("w") as output:
            self.process = subprocess.Popen(
                place.command("build", "--resolved", "presolve"),
                cwd=place.directory,
                env=place.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self):
        return (self.place.directory / "output").read_text()

    def held(self, package):
        """Named pipes at which its jobs wait."""
        where = self.shared / package if self.shared else self.place.directory / "bulklog" / package / "1"
        return sorted(where.glob("hold.*"))

    def until(self, is_so):
        end = time.monotonic() + SECONDS
        while not is_so():
            assert time.monotonic() < end and self.process.poll() is None, self.output()
            time.sleep(0.01)

    def hold(self, package, count):
        """Waits until this many of its jobs run, and checks that no more start."""
        self.until(lambda: len(self.held(package)) >= count)
        time.sleep(0.1)
        assert len(self.held(package)) == count, self.held(package)

    def release(self, package):
        hold = self.held(package)[0]
        with hold.open("w") as word:
            hold.unlink()
            word.write("go\n")

    def release_all(self, package, limit):
        for left in range(JOBS, 0, -1):
            self.hold(package, min(left, limit))
            self.release(package)

    def kill(self, package):
        makefile = self.place.directory / "tree/jobs/files/Makefile"
        command = ["pgrep", "-f", f"jobserver-auth=.* -f {makefile}"]
        (make,) = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        os.kill(int(make), signal.SIGKILL)
        while self.held(package):
            self.release(package)


def one_alone(build, place):
    """A single package gets all tokens, also after one that was killed while it held tokens."""
    build.release_all("bsd-1", TOKENS)
    build.hold("gnu-1", TOKENS)
    build.kill("gnu-1")
    build.release_all("gnu2-1", TOKENS)
    build.release_all("serial-1", 1)
    assert build.process.wait(SECONDS) == 1, build.output()
    states = [place.state(name)[0] for name in ("bsd-1", "gnu-1", "gnu2-1", "serial-1")]
    assert states == ["done", "failed", "done", "done"], states
    print("ok a single package uses all tokens, also those held by a killed package")


def two_at_once(build, place, one, other):
    """Each package uses the tokens that the other returns, and both together never exceed the limit."""

    def running():
        return [len(build.held(package)) for package in (one, other)]

    def is_full():
        return sum(running()) == TOKENS and min(running()) > 0

    build.until(is_full)
    for _ in range(JOBS):
        # Either of them may take the returned token.
        build.until(lambda: sum(running()) == TOKENS)
        time.sleep(0.1)
        assert sum(running()) == TOKENS, running()
        build.until(lambda: build.held(one))
        build.release(one)
    build.hold(other, TOKENS)
    build.release_all(other, TOKENS)
    assert build.process.wait(SECONDS) == 0, build.output()
    assert [place.state(name)[0] for name in (one, other)] == ["done", "done"]
    print(f"ok {one} and {other} run {TOKENS} jobs together, and the second gets all tokens at the end of the first")


def shared_place(tanto, directory, packages):
    """Packages in sandboxes, which see a shared directory."""
    shared = directory / "shared"
    for package in packages:
        (shared / package).mkdir(parents=True)
    hook = f'mkdir "$1/shared" && mount --bind {shared} "$1/shared"'
    settings = f'jobs = {TOKENS}\nbuild_clients = 2\nsandbox = "overlay"\nclient_prepare_chroot = \'{hook}\'\n'
    place = Some(tanto, directory, [f"jobs/{package.removesuffix('-1')}" for package in packages], settings)
    with (directory / "mk.conf").open("a") as conf:
        conf.write("HOLD= /shared/${PKGNAME}\n")
    return place, shared


def in_sandboxes(tanto):
    if os.geteuid() != 0 or not can_create_sandboxes(None):
        print("two packages at once: skipped: requires root and namespaces")
        return
    for packages in (("gnu-1", "gnu2-1"), ("bsd-1", "gnu2-1")):
        with tempfile.TemporaryDirectory() as directory:
            place, shared = shared_place(tanto, Path(directory), packages)
            build = Build(place)
            build.shared = shared
            try:
                two_at_once(build, place, *packages)
            finally:
                build.process.kill()


def unprivileged_user(tanto):
    """Without a sandbox, the unprivileged user can open the token pipe. With mounts, users are available, too."""
    if os.geteuid() != 0 or not can_create_sandboxes(None):
        print("tokens of the unprivileged user: skipped: requires root and namespaces")
        return
    packages = ("bsd-1", "gnu-1")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        place = Some(tanto, directory, [f"jobs/{package.removesuffix('-1')}" for package in packages], f"jobs = {TOKENS}\n")
        users = (Path("/etc/passwd").read_text(), f"builder:*:{USER}:{USER}::{directory}:/bin/sh\n")
        (directory / "passwd").write_text("".join(users))
        bind = f'mount --bind {directory}/passwd /etc/passwd; exec "$@"'
        place.as_user = ["unshare", "--mount", "sh", "-ec", bind, "sh"]
        toml = directory / "bulk.toml"
        toml.write_text(toml.read_text().replace('unprivileged_user = ""', 'unprivileged_user = "builder"'))
        for path in (directory, directory / "work", *(directory / "shared" / package for package in packages)):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o1777)
        with (directory / "mk.conf").open("a") as conf:
            conf.write(f"HOLD= {directory}/shared/${{PKGNAME}}\n")
        build = Build(place)
        build.shared = directory / "shared"
        try:
            for package in packages:
                build.release_all(package, TOKENS)
            assert build.process.wait(SECONDS) == 0, build.output()
        finally:
            build.process.kill()
    print("ok without a sandbox, builds of the unprivileged user share tokens too")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    in_sandboxes(tanto)
    unprivileged_user(tanto)
    with tempfile.TemporaryDirectory() as directory:
        place = Place(tanto, Path(directory), ["jobs"], f"jobs = {TOKENS}\n")
        build = Build(place)
        try:
            one_alone(build, place)
        finally:
            build.process.kill()


main()
