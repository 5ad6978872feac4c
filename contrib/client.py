#!/usr/bin/env python3
"""Takes part in a bulk build on systems without `tanto bulk client`, such as NetBSD, illumos and macOS.

It needs Python 3.11, tar, gzip, and the other files of this directory. Packages are built by the make targets of the
package tree, without a sandbox: the prefix of the build is emptied before each of them. docs/protocol.md describes the
requests.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import sys
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attempt import Attempt
from transport import Refused, Server, digest_of, say

VERSION = "0.1.0"
# Concurrent downloads of the package tree, each with a connection of its own.
DOWNLOADS = 16
# Seconds that a request for work may wait.
WAIT = 20
# Seconds that the end may take.
PATIENCE = 10


class Client:
    """A connection to the coordinator, and the attempts that run."""

    def __init__(self, options):
        self.options, self.slots, self.dir = options, options.slots, options.dir.resolve()
        self.known = join(self.dir, options.join)
        joined = self.known["join"]
        trusted = self.known.get("authority", joined["authority"])
        self.server = Server(joined["url"], joined["build"], trusted, self.known["token"])
        self.build = self.server.post("describe", {})
        if trusted:
            self.keep_authorities(joined)
        self.settings = tomllib.loads(self.build["settings"])
        self.downloading, self.fetching, self.saying_hello = threading.Lock(), threading.Lock(), threading.Lock()
        self.kit, makeconf = self.file_of_build("kit"), self.file_of_build("makeconf")
        own = {"MAKECONF": str(makeconf)} if makeconf else {}
        self.environment = {**os.environ, **own, **self.settings.get("environment", {})}
        self.jobs = self.settings["make_jobs"] or max(1, os.cpu_count() // self.slots)
        self.instance, self.connection, self.heartbeat_ms = secrets.token_hex(16), None, 0
        # Guards what follows; notified when an attempt begins or ends, and when the client has to leave.
        self.changed = threading.Condition()
        self.attempts, self.is_leaving, self.failure = {}, False, None

    def keep_authorities(self, joined):
        """Trusts the authorities that the server announces, from the next start on."""
        # A server that has no such list does not change its authority.
        with contextlib.suppress(Refused):
            listed = self.server.retry(lambda: self.server.once("GET", "authority")).decode()
            # Fails if it is no list of certificates. An empty one would stand for the authorities of the system.
            Server(joined["url"], joined["build"], listed or "empty", "")
            self.known["authority"] = listed
            write_secret(self.dir / "client.json", self.known)

    def file_of_build(self, name):
        """Downloads a file of the build; None if it has none."""
        digest = self.build[name]
        return self.blob(digest, self.dir / name / digest) if digest else None

    def blob(self, digest, path):
        if not path.exists():
            self.server.download(digest, path)
        return path

    def provide(self, package, place):
        """Puts a package into a directory, under the name of its file."""
        with self.downloading:
            path = self.blob(package["digest"], self.dir / "packages" / package["digest"])
        place.mkdir(exist_ok=True)
        (place / f"{package['name']}{self.settings['pkg_sufx']}").hardlink_to(path)

    def check_out(self, digest):
        """Returns the directory of a package tree. Files that an earlier one had are not downloaded again."""
        place, new = self.dir / "trees" / digest, self.dir / "trees" / f"{digest}.new"
        with self.downloading:
            if not place.exists():
                manifest = self.blob(digest, self.dir / "manifests" / digest).read_bytes()
                self.fill(new, manifest.splitlines())
                new.rename(place)
        return place

    def fill(self, new, lines):
        files = {}
        for line in lines:
            mode, digest, _, name = os.fsdecode(line).split(" ", 3)
            path = Path(re.sub(r"\\(.)", lambda it: "\n" if it[1] == "n" else it[1], name))
            if path.is_absolute() or ".." in path.parts:
                raise OSError(f"the package tree has a file outside of it: {path}")
            (new / path if mode == "d" else (new / path).parent).mkdir(parents=True, exist_ok=True)
            if mode != "d":
                files.setdefault((mode, digest), []).append(new / path)
        with ThreadPoolExecutor(DOWNLOADS) as pool:
            list(pool.map(self.fill_in, files.keys(), files.values()))

    def fill_in(self, kind, paths):
        """Makes the files or symbolic links of a tree that have the same content."""
        mode, digest = kind
        path = self.dir / "files" / digest[:2] / f"{digest}.{mode}"
        if not path.exists() or digest_of(path) != digest:
            self.server.download(digest, path, 0o555 if mode == "x" else 0o444)
        for file in paths:
            file.unlink(missing_ok=True)
            if mode == "l":
                os.symlink(path.read_bytes(), os.fsencode(file))
            else:
                file.hardlink_to(path)

    def enter(self, slot):
        return shlex.split(self.options.enter.replace("{slot}", str(slot)))

    def free_slots(self):
        used = {attempt.slot for attempt in self.attempts.values()}
        return [slot for slot in range(self.slots) if slot not in used]

    def free(self):
        """Memory and disk space for more packages. The slots share the memory evenly."""
        memory_kib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024
        memory_kib = memory_kib * len(self.free_slots()) // self.slots
        return {"memory_kib": memory_kib, "disk_kib": shutil.disk_usage(self.dir).free // 1024}

    def machine_environment(self):
        system, release = os.uname(), Path("/etc/os-release")
        given = {"settings": hashlib.sha256(self.build["settings"].encode()).hexdigest()}
        given |= {"kit": self.build["kit"] or "", "mk.conf": self.build["makeconf"] or ""}
        own = {"os": system.sysname, "kernel": system.release, "architecture": system.machine}
        return {**given, **own, "base": digest_of(release) if release.exists() else ""}

    def hello(self, ended=None):
        """Begins a connection in place of one that has ended."""
        with self.saying_hello:
            if self.connection != ended:
                return
            with self.changed:
                attempts, free = list(self.attempts.values()), self.free()
            held = [attempt.id for attempt in attempts if attempt.is_over]
            running = [attempt.id for attempt in attempts if not attempt.is_over]
            answer = self.server.post("hello", {
                "version": VERSION, "name": self.known["name"], "instance": self.instance,
                "replace": self.options.replace, "slots": self.slots, "cpus": os.cpu_count(), **free,
                "environment": self.machine_environment(), "labels": self.options.label, "root": os.geteuid() == 0,
                "running": running, "held": held,
            })
            self.connection, self.heartbeat_ms = answer["connection"], answer["heartbeat_ms"]
            for warning in answer["warnings"]:
                say(warning)

    def ask(self, path, timeout=60, **message):
        """Sends a request of the connection, and begins another one if it has ended."""
        while True:
            connection = self.connection
            try:
                return self.server.post(path, {"connection": connection, **message}, timeout)
            except Refused as refused:
                if refused.code != "connection":
                    raise
            self.hello(connection)

    def send_heartbeats(self):
        try:
            for number in itertools.count(1):
                with self.changed:
                    attempts, free = dict(self.attempts), self.free()
                leases = [attempt.progress() for attempt in attempts.values()]
                self.obey(self.ask("heartbeat", number=number, **free, leases=leases))
                with self.changed:
                    # New leases are confirmed at once.
                    is_followed = any(attempt.is_followed for attempt in self.attempts.values())
                    seconds = 1 if is_followed else self.heartbeat_ms / 1000
                    self.changed.wait_for(lambda: self.attempts.keys() - attempts, seconds)
        except Exception as failure:
            with self.changed:
                self.failure = failure
                self.changed.notify_all()

    def obey(self, answer):
        with self.changed:
            self.is_leaving |= answer["drain"]
            self.changed.notify_all()
            actions = {it["lease"]: it["action"] for it in answer["leases"]}
            for lease, attempt in self.attempts.items():
                attempt.obey(actions.get(lease, ""))

    def forget(self, attempt):
        with self.changed:
            del self.attempts[attempt.id]
            self.changed.notify_all()

    def run(self):
        """Builds packages until the coordinator drains the client."""
        self.hello()
        say(f"joined as {self.known['name']}")
        threading.Thread(target=self.send_heartbeats, daemon=True).start()
        for number in itertools.count(1):
            with self.changed:
                self.changed.wait_for(lambda: self.failure or self.is_ready())
                if self.failure:
                    raise self.failure
                if self.is_leaving:
                    return
                slots, free = len(self.free_slots()), self.free()
            answer = self.ask("work", WAIT + 60, number=number, slots=slots, **free, wait_ms=WAIT * 1000)
            with self.changed:
                for lease in answer["leases"]:
                    attempt = self.attempts[lease["lease"]] = Attempt(self, lease, self.free_slots()[0])
                    threading.Thread(target=attempt.run, daemon=True).start()
                self.changed.notify_all()

    def is_ready(self):
        """Whether it can ask for more packages, or leave."""
        return not self.attempts if self.is_leaving else self.free_slots()

    def end(self):
        """Kills all attempts, and returns their packages."""
        with self.changed:
            for attempt in self.attempts.values():
                attempt.obey("supersede")
            self.changed.wait_for(lambda: not self.attempts, PATIENCE)
        if self.connection:
            with contextlib.suppress(OSError, Refused):
                self.server.once("POST", "bye", json.dumps({"connection": self.connection}), timeout=PATIENCE)


def write_secret(path, value):
    """Writes a file that only this user can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


def join(place, join_file):
    """Exchanges the secret of a join file for a token, once. Returns both and the client's name."""
    path = place / "client.json"
    known = json.loads(path.read_text()) if path.exists() else None
    given = json.loads(join_file.read_text())["body"] if join_file else None
    if not known and not given:
        sys.exit("client: error: --join is needed the first time")
    if given and (not known or known["join"] != given):
        known = {"join": given, "key": secrets.token_hex(32)}
        write_secret(path, known)
    if "token" not in known:
        server = Server(*(known["join"][key] for key in ("url", "build", "authority", "secret")))
        known |= server.post("join", {"key": known["key"]})
        write_secret(path, known)
    return known


def check_prefix(client):
    """Does not empty a prefix that somebody uses."""
    prefix, mine = Path(client.settings["prefix"]), client.dir / "prefix"
    if not client.options.enter and not mine.exists() and prefix.exists() and any(prefix.iterdir()):
        sys.exit(f"client: error: {prefix} would be emptied before each package: empty it, or use --enter")
    mine.touch()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    option = parser.add_argument
    option("--join", type=Path, metavar="FILE", help="join file of 'tanto bulk token add'; needed the first time")
    option("--dir", type=Path, default=Path("client"), help="directory of the client (default: %(default)s)")
    option("--slots", type=int, default=1, metavar="N", help="packages at a time (default: %(default)s)")
    option(
        "--enter", default="", metavar="COMMAND",
        help="prefix of the commands of all stages, such as 'chroot /sandbox/{slot}', where {slot} is a number from 0. "
        "The directory of the client has to be there, too",
    )
    option("--label", action="append", default=[], metavar="LABEL", help="label of the machine; may be repeated")
    option("--replace", action="store_true", help="take over from another client of the same name")
    options = parser.parse_args()
    if options.slots > 1 and "{slot}" not in options.enter:
        parser.error("several slots need --enter with {slot}: each one needs a prefix of its own")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    client = None
    try:
        client = Client(options)
        check_prefix(client)
        client.run()
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, Refused) as error:
        sys.exit(f"client: error: {error}")
    finally:
        if client:
            client.end()


if __name__ == "__main__":
    main()
