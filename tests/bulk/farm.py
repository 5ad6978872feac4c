"""A build with its server and clients, all of them on this machine, for the tests of many machines."""

import json
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import time

from place import ROOT, Place

sys.path.insert(0, str(ROOT / "contrib"))

from transport import Refused, Server  # noqa: E402, F401

# Longest wait for anything that has to happen, in seconds.
PATIENCE = 300

# The client in contrib/, with a function that changes the members of each package that it has built.
LIAR = """
import io, sys, tarfile
sys.path.insert(0, {contrib!r})
import attempt, client
honest = attempt.Attempt.build
def lie(members):
    {lie}
def build(self):
    result = honest(self)
    if result["outcome"]["kind"] == "built":
        with tarfile.open(self.file) as package:
            members = [(it, package.extractfile(it).read() if it.isfile() else b"") for it in package]
        with tarfile.open(self.file, "w:gz") as package:
            for member, data in lie(members):
                member.size = len(data)
                package.addfile(member, io.BytesIO(data))
    return result
attempt.Attempt.build = build
client.main()
"""


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


def through(farm, name, port):
    """Lets a client use another port."""
    path = farm.directory / f"{name}.join"
    path.write_text(path.read_text().replace(f":{farm.port}", f":{port}"))


def joined(farm, name):
    """The server, for requests with the token of a join file."""
    join = json.loads((farm.directory / f"{name}.join").read_text())["body"]
    server = Server(join["url"], join["build"], join["authority"], join["secret"])
    server.token = server.post("join", {"key": secrets.token_hex(32)})["token"]
    return server


class Farm:
    """A build, its server, and clients on this machine."""

    def __init__(self, tanto, directory, categories, settings="", kind=Place):
        self.port = free_port()
        listen = f'listen = "127.0.0.1:{self.port}"\nserver_url = "https://localhost:{self.port}"\n'
        self.place = kind(tanto, directory, categories, f'sandbox = "bind"\n{listen}{settings}')
        self.tanto, self.directory = tanto, directory
        # Clients have their directories there.
        self.clients = directory
        self.processes = []
        self.place.archive_kit()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, log, *words, environment=None):
        return self.launch(log, [self.tanto, "bulk", *words], environment)

    def launch(self, log, command, environment=None):
        with (self.directory / log).open("ab") as output:
            process = subprocess.Popen(
                command,
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

    def client(self, name, *words, sandbox="bind"):
        """Starts a client that knows nothing but its join file."""
        environment = {key: value for key, value in os.environ.items() if key != "MAKECONF"}
        return self.start(
            f"{name}.log", "client", "--join", f"{name}.join", "--dir", str(self.clients / name), "--sandbox", sandbox,
            *words, environment=environment,
        )

    def build(self):
        return self.start("build.log", "build", "--resolved", "presolve")

    def wait(self, process, code, log):
        assert process.wait(PATIENCE) == code, f"{log}: {process.returncode}\n{self.log(log)}"

    def clients_of(self):
        """The clients that made each package that was built."""
        with sqlite3.connect(f"file:{self.directory}/state/db?mode=ro", uri=True) as db:
            rows = db.execute(
                "SELECT package.name, attempt.client FROM attempt JOIN package USING (run, job) WHERE outcome = 'done'"
            )
            return dict(rows)


def start_liar(farm, name, lie, *words):
    """Starts a client that changes its packages: `lie` is the body of a function of the list of members."""
    own, prefix = farm.directory / name, farm.directory / "prefix"
    make = f"mkdir -p {own}/prefix-{{slot}} {prefix} && mount --bind {own}/prefix-{{slot}} {prefix}"
    enter = f"unshare --mount --pid --fork --kill-child /bin/sh -c '{make} && exec \"$@\"' enter"
    program = farm.directory / f"{name}.py"
    program.write_text(LIAR.format(contrib=str(ROOT / "contrib"), lie=lie))
    command = [sys.executable, str(program), "--dir", str(own), "--enter", enter, "--join", f"{name}.join"]
    environment = {key: value for key, value in os.environ.items() if key != "MAKECONF"}
    return farm.launch(f"{name}.log", [*command, "--slots", "2", *words], environment)
