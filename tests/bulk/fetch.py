"""Distfiles from a local server: each is fetched once, complete and verified, in sandboxes (where available) and
without.

    fetch.py TANTO
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from place import Some, can_create_sandboxes
from sites import Server

PATIENCE = 60
# A user ID without an account on this machine.
USER = 61234
SANDBOX = 'sandbox = "overlay"\nbuild_clients = 2\n'
ALONE = 'sandbox = "none"\nbuild_clients = 1\n'


class Fetching(Some):
    """A tree of which some directories are built, and the server of their distfiles."""

    def __init__(self, tanto, directory, packages, settings, user=None):
        self.server = Server()
        super().__init__(tanto, directory, (), settings)
        with (directory / "mk.conf").open("a") as conf:
            conf.write(f"FETCH_SITE= {self.server.site()}\n")
        (directory / "pscan").write_text("".join(self.scan([f"fetch/{name}" for name in packages])))
        self.run("resolve", "--scan", "pscan", "--output", "presolve")
        if user is not None:
            shutil.copy(tanto, directory / "tanto")
            self.tanto = str(directory / "tanto")
            self.as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            subprocess.run(["chown", "-R", f"{user}:{user}", directory], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def files(self):
        distdir = self.directory / "distfiles"
        return sorted(str(path.relative_to(distdir)) for path in distdir.rglob("*") if not path.is_dir())

    def begin(self):
        return subprocess.Popen(
            self.command("build", "--resolved", "presolve"),
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "timed out"
            time.sleep(0.02)
        return True

    def printed(self, package):
        """Output since the last call."""
        asked = subprocess.run(
            self.command("log", package), cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )
        return asked.stdout


def once(tanto, directory, user):
    """Two packages need the same file at the same time; the server sends it only while one of them waits for the
    other."""
    with Fetching(tanto, directory, ("one", "two"), SANDBOX, user) as place:
        waits = "waiting for sub/shared-1.tar.gz: another package is fetching it"
        someone = lambda: any(waits in place.printed(name) for name in ("fetch-one", "fetch-two"))
        place.server.gates["shared-1.tar.gz"] = lambda: place.until(someone)
        place.build(0)
        assert sorted(place.server.asked) == ["one-1.tar.gz", "shared-1.tar.gz", "two-1.tar.gz"], place.server.asked
        assert place.files() == [f"sub/{name}" for name in sorted(place.server.asked)], place.files()
        check_leftovers(place)
        place.server.asked.clear()
        place.build(0, "--again")
        assert not place.server.asked, f"requests: {place.server.asked}"


def check_leftovers(place):
    left = [path for path in place.directory.rglob("*") if path.name == "distfiles" and path.parent != place.directory]
    assert not left, f"leftover files: {left}"


def wrong(tanto, directory, settings, user):
    """Files with wrong digests or truncated files are never used."""
    with Fetching(tanto, directory, ("bad", "one"), settings, user) as place:
        place.server.gates["one-1.tar.gz"] = lambda: False
        place.build(1)
        assert place.state("fetch-bad") == ("failed", "checksum exited with 1"), place.state("fetch-bad")
        assert "the checksum of bad-1.tar.gz is another" in place.run("log", "fetch-bad", "checksum")
        assert "it was cut off" in place.run("log", "fetch-one", "checksum")
        assert place.files() == [], f"{place.files()} were published"
        check_leftovers(place)
        place.server.gates.clear()
        place.run("retry", "fetch-one")
        place.build(1)
        assert place.packages() == ["fetch-one-1"] and place.files() == ["sub/one-1.tar.gz", "sub/shared-1.tar.gz"]


def killed(tanto, directory, settings, user):
    """A build that is killed in the middle of a transfer leaves no file."""
    with Fetching(tanto, directory, ("one",), settings, user) as place:
        reached, go_on = threading.Event(), threading.Event()
        place.server.gates["shared-1.tar.gz"] = lambda: reached.set() or go_on.wait(PATIENCE)
        build = place.begin()
        assert reached.wait(PATIENCE), "no fetch started"
        build.send_signal(signal.SIGKILL)
        build.wait()
        assert place.files() == [], place.files()
        go_on.set()
        place.server.gates.clear()
        place.build(0)
        assert place.packages() == ["fetch-one-1"]
        assert place.files() == ["sub/one-1.tar.gz", "sub/shared-1.tar.gz"], place.files()
        check_leftovers(place)


def other_sources(tanto, directory, settings, user):
    """Other servers, files that users must fetch, and a hook that checks files before use."""
    with Fetching(tanto, directory, ("manual", "one"), settings, user) as place:
        place.build(1)
        assert "manual-1.tar.gz has to be fetched by a user" in place.run("log", "fetch-manual", "checksum")
        place.server.asked.clear()
        toml = place.directory / "bulk.toml"
        hook = f'echo "$2 $3" >>{directory}/hooked; test $3 != manual-1.tar.gz -o -e {directory}/may && cmp -s $1 $1'
        toml.write_text(
            f'{toml.read_text()}master_site_override = "{place.server.site()}mirror/"\nignore_interactive_fetch = true\n'
            f"post_fetch_hook = '{hook}'\n"
        )
        place.build(1)
        assert "post_fetch_hook refused manual-1.tar.gz" in place.run("log", "fetch-manual", "checksum")
        assert "manual-1.tar.gz" not in place.files()
        (directory / "may").touch()
        place.build(0)
        assert place.server.asked == ["mirror/manual-1.tar.gz"] * 2, place.server.asked
        line = f"{place.server.site()}mirror/manual-1.tar.gz manual-1.tar.gz\n"
        assert (directory / "hooked").read_text() == line * 2, "the hook got another URL or path"
        assert "manual-1.tar.gz" in place.files()


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    ways = [("without a sandbox", ALONE, None)]
    for user in (None, USER) if os.geteuid() == 0 else (None,):
        user_name = "root" if user is None and os.geteuid() == 0 else "an ordinary user"
        if not can_create_sandboxes(user):
            print(f"fetching in sandboxes of {user_name}: skipped: cannot create a sandbox")
            continue
        with tempfile.TemporaryDirectory() as directory:
            once(tanto, Path(directory), user)
        ways.append((f"in sandboxes of {user_name}", SANDBOX, user))
    for name, settings, user in ways:
        for test in (wrong, killed, other_sources):
            with tempfile.TemporaryDirectory() as directory:
                test(tanto, Path(directory), settings, user)
        print(f"ok fetching {name}: files are fetched once, and are complete and verified, or absent")


main()
