"""Builds a small package tree with clients that have neither the tree nor packages, over HTTPS.

    machines.py TANTO

The result is that of a build on one machine.
"""

import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from place import Place, can_create_sandboxes

# Longest wait for anything that has to happen, in seconds.
PATIENCE = 300


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(condition, description):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.1)
    raise AssertionError(f"not within {PATIENCE} s: {description}")


class Farm:
    """A build, its server, and clients on this machine."""

    def __init__(self, tanto, directory, categories, settings=""):
        self.port = free_port()
        listen = f'listen = "127.0.0.1:{self.port}"\nserver_url = "https://localhost:{self.port}"\n'
        self.place = Place(tanto, directory, categories, f'sandbox = "bind"\n{listen}{settings}')
        self.tanto, self.directory = tanto, directory
        self.processes = []
        self.archive_kit()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def archive_kit(self):
        """Makes an archive of the kit, with the prefix in it."""
        prefix = str(self.directory / "prefix").lstrip("/")
        with tarfile.open(self.directory / "kit.tgz", "w:gz") as archive:
            archive.add(self.directory / "kit", prefix)
        config = self.directory / "bulk.toml"
        config.write_text(config.read_text().replace('bootstrapkit = "kit"', 'bootstrapkit = "kit.tgz"'))

    def start(self, log, *words, environment=None):
        with (self.directory / log).open("ab") as output:
            process = subprocess.Popen(
                [self.tanto, "bulk", *words],
                cwd=self.directory,
                env=environment or self.place.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def serve(self):
        server = self.start("serve.log", "serve")
        until(lambda: "listening on" in self.log("serve.log") or server.poll() is not None, "the server listens")
        assert server.poll() is None, self.log("serve.log")
        return server

    def log(self, name):
        path = self.directory / name
        return path.read_text(errors="replace") if path.exists() else ""

    def token(self, name, *words):
        self.place.run("token", "add", name, "--output", f"{name}.join", *words)

    def client(self, name, *words):
        """Starts a client that knows nothing but its join file."""
        environment = {key: value for key, value in os.environ.items() if key != "MAKECONF"}
        return self.start(
            f"{name}.log", "client", "--join", f"{name}.join", "--dir", str(self.directory / name), "--sandbox", "bind",
            *words, environment=environment,
        )

    def build(self):
        return self.start("build.log", "build", "--resolved", "presolve")

    def wait(self, process, code, log):
        assert process.wait(PATIENCE) == code, f"{log}: {process.returncode}\n{self.log(log)}"

    def clients_of(self):
        """The clients that made each package that was built."""
        import sqlite3

        with sqlite3.connect(f"file:{self.directory}/state/db?mode=ro", uri=True) as db:
            rows = db.execute(
                "SELECT package.name, attempt.client FROM attempt JOIN package USING (run, job) WHERE outcome = 'done'"
            )
            return dict(rows)


def same_outcomes_as_on_one_machine(tanto, directory):
    (directory / "one").mkdir()
    one = Place(tanto, directory / "one", ("base", "devel"), 'sandbox = "bind"\n')
    one.build(0)
    (directory / "many").mkdir()
    with Farm(tanto, directory / "many", ("base", "devel"), "build_clients = 1\n") as farm:
        farm.serve()
        for name in ("builder-1", "builder-2"):
            farm.token(name)
            farm.client(name, "--slots", "2")
        build = farm.build()
        farm.wait(build, 0, "build.log")
        assert farm.place.packages() == one.packages(), "other packages are there"
        clients = farm.clients_of()
        assert sorted(clients) == one.packages()
        assert any(client.startswith("builder-") for client in clients.values()), clients
        remote = sum(client.startswith("builder-") for client in clients.values())
    print(f"ok machines: {len(clients)} packages are built, {remote} of them by two clients")


def failures_are_those_of_one_machine(tanto, directory):
    """All packages that can be built elsewhere are built by one client; their logs arrive."""
    with Farm(tanto, directory, ("base", "devel", "trouble"), 'hang_timeout = "10s"\ntimeout = "45s"\n') as farm:
        farm.serve()
        farm.token("builder")
        farm.client("builder", "--slots", "2")
        build = farm.build()
        farm.wait(build, 1, "build.log")
        state, why = farm.place.state("broken-1")
        assert (state, why) == ("failed", "build exited with 1"), (state, why)
        assert farm.place.state("needbroken-1") == ("indirect-failed", "it needs broken-1, which failed")
        assert "error: it does not compile" in farm.place.run("log", "broken-1")
        assert farm.place.state("tool-1")[0] == "done"
        assert "builder" in farm.clients_of().values(), farm.clients_of()
    print("ok failures: packages that fail on a client have their reasons and logs")


def lost_clients_lose_nothing(tanto, directory):
    """A client is killed while it builds, another one ends; the build ends with all packages."""
    with Farm(tanto, directory, ("base", "devel"), "build_clients = 1\n") as farm:
        farm.serve()
        clients = {}
        for name in ("killed", "ended", "revoked"):
            farm.token(name)
            clients[name] = farm.client(name, "--slots", "1")
        build = farm.build()
        until(lambda: "killed: joined" in farm.log("killed.log") or build.poll() is not None, "a client joins")
        clients["killed"].kill()
        clients["ended"].send_signal(signal.SIGTERM)
        farm.place.run("token", "revoke", "revoked")
        # The same name again, as after a restart of the machine.
        farm.client("killed", "--slots", "1", "--replace")
        farm.wait(build, 0, "build.log")
        assert len(farm.place.packages()) == len(farm.place.names()), farm.place.packages()
        until(lambda: clients["revoked"].poll() is not None, "a client without a token ends")
        assert "revoked" in farm.log("revoked.log") or "token" in farm.log("revoked.log"), farm.log("revoked.log")
    print("ok lost clients: a build ends although a client is killed, one ends and one is expelled")


def clients_of_an_earlier_run_end(tanto, directory):
    """A client that has the settings of an earlier run builds nothing with them, and says why it ends."""
    gate = directory / "go"
    hook = f"while ! test -e {gate}; do sleep 0.1; done"
    with Farm(tanto, directory, ("base",), f'build_clients = 1\nsync_package = "{hook}"\n') as farm:
        farm.serve()
        farm.token("builder")
        client = farm.client("builder", "--slots", "1")
        build = farm.build()
        until(lambda: "builder: joined" in farm.log("builder.log"), "the client joins")
        gate.touch()
        farm.wait(build, 0, "build.log")
        gate.unlink()
        config = directory / "bulk.toml"
        config.write_text("make_jobs = 3\n" + config.read_text())
        again = farm.start("again.log", "build", "--resolved", "presolve", "--again")
        until(lambda: client.poll() is not None, "the client ends")
        assert "the client's environment differs: settings is" in farm.log("builder.log"), farm.log("builder.log")
        gate.touch()
        farm.wait(again, 0, "again.log")
    print("ok settings: a client of an earlier run does not build with other settings")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("machines: skipped: this machine permits no sandboxes")
        return
    for test in (same_outcomes_as_on_one_machine, failures_are_those_of_one_machine, lost_clients_lose_nothing, clients_of_an_earlier_run_end):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
