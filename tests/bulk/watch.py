"""What a user sees of a build on many machines.

    watch.py TANTO
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from farm import Farm, until
from place import can_create_sandboxes


def ask(farm, *words):
    """What a command prints, whether or not it succeeds."""
    asked = subprocess.run(
        farm.place.command(*words), cwd=farm.directory, env=farm.place.environment, capture_output=True, text=True, check=False
    )
    return asked.stdout + asked.stderr


def packages_wait_for_a_client_with_their_label(tanto, directory):
    """A label that no client has is named; the packages are built when one with the label comes."""
    with Farm(tanto, directory, ("base",), "build_clients = 2\n") as farm:
        config = directory / "bulk.toml"
        config.write_text(config.read_text() + '[place]\n"base/zero" = "big"\n')
        farm.serve()
        for name in ("plain", "large"):
            farm.token(name)
        farm.client("plain", "--slots", "2")
        build = farm.build()
        waits = "1 package waits for a client with the label big"
        until(lambda: waits in ask(farm, "status") or build.poll() is not None, "the status names the label")
        why = ask(farm, "why", "zero")
        assert why.startswith("zero-0: waiting for a client with the label big\n"), why
        rows = lambda: [line.split()[:2] for line in ask(farm, "clients").splitlines()]
        until(lambda: rows() == [["NAME", "ROLES"], ["local", "all"], ["plain", "build"]], "the clients are listed")
        farm.client("large", "--slots", "1", "--label", "big")
        farm.wait(build, 0, "build.log")
        clients = farm.clients_of()
        assert clients["zero-0"] == "large" and len(clients) == len(farm.place.names()), clients
    print("ok labels: a package waits for a client with its label, and is built there")


def output_of_a_client_is_followed(tanto, directory):
    """The output of a package that a client builds arrives while it runs, in order."""
    with Farm(tanto, directory, ("base",), "build_clients = 1\n") as farm:
        makefile = directory / "tree/base/zero/Makefile"
        endless = 'do-build=\ti=0; while :; do i=$$((i+1)); echo "line $$i"; sleep 0.1; done\n'
        makefile.write_text(makefile.read_text().replace(".include", endless + ".include"))
        config = directory / "bulk.toml"
        config.write_text(config.read_text() + '[place]\nzero = "big"\n')
        farm.serve()
        farm.token("builder")
        farm.client("builder", "--slots", "1", "--label", "big")
        build = farm.build()
        until(lambda: "builder  zero-0 " in ask(farm, "status") or build.poll() is not None, "the client builds")
        follower = farm.start("follow.log", "log", "--follow", "zero")
        until(lambda: farm.log("follow.log").count("line ") > 60 or follower.poll() is not None, "its output arrives")
        assert follower.poll() is None, farm.log("follow.log")
        assert "line 2\n" in farm.place.run("log", "zero")
        farm.place.run("kill", "zero")
        farm.wait(build, 1, "build.log")
        farm.wait(follower, 0, "follow.log")
        lines = farm.log("follow.log").splitlines()
        numbers = [int(line.split()[1]) for line in lines if line.startswith("line ")]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        assert "==> stage build" in lines and not any("left out" in line for line in lines), lines
        assert lines[-1].startswith("==> zero-0 is no longer being built"), lines[-1]
    print("ok log: the output of a client is followed, without gaps")


def the_packages_of_a_lost_client_restart(tanto, directory):
    """A killed client is listed as lost, with its packages, which another one builds after the configured time."""
    times = 'client_heartbeat = "1s"\nclient_lost_after = "5s"\nclient_restart_min = "20s"\nclient_restart_max = "20s"\n'
    with Farm(tanto, directory, ("base",), f"build_clients = 1\n{times}") as farm:
        makefile = directory / "tree/base/zero/Makefile"
        wait = "do-build=\twhile ! test -e ${.CURDIR}/go; do sleep 0.1; done\n"
        makefile.write_text(makefile.read_text().replace(".include", wait + ".include"))
        config = directory / "bulk.toml"
        config.write_text(config.read_text() + '[place]\nzero = "big"\n')
        farm.serve()
        farm.token("lost")
        lost = farm.client("lost", "--slots", "1", "--label", "big")
        build = farm.build()
        until(lambda: re.search("lost +zero-0 +build ", ask(farm, "status")) or build.poll() is not None, "it builds")
        lost.kill()
        until(lambda: "lost; 1 package restarts in " in ask(farm, "clients"), "the client is lost")
        farm.token("other")
        # Its tree has the file for which the package waits.
        farm.client("other", "--slots", "1", "--label", "big")
        [zero] = until(lambda: list(directory.glob("other/trees/*/tree/base/zero")), "it has the tree")
        (zero / "go").touch()
        farm.wait(build, 0, "build.log")
        assert farm.clients_of()["zero-0"] == "other", farm.clients_of()
    print("ok lost: the packages of a lost client restart after the configured time")


def clients_are_started_when_packages_wait(tanto, directory):
    """The command starts a client from the join file of a pool; it is no part of the build."""
    with Farm(tanto, directory, ("base",), "build_clients = 1\n") as farm:
        client = f"{tanto} bulk client --join $TANTO_JOIN --dir {directory}/pool --slots 1 --label big --max-idle 1s"
        start = (
            f"cd {directory}; echo $TANTO_PACKAGES $TANTO_CLIENTS $TANTO_BUILD $TANTO_URL; "
            f"env -u MAKECONF {client} >pool.log 2>&1 & echo $! >pid"
        )
        config = directory / "bulk.toml"
        keys = f'client_start = "{start}"\nclient_start_join = "pool.join"\nclient_start_max = 3\n'
        config.write_text(keys + config.read_text() + '[place]\nzero = "big"\n')
        farm.serve()
        assert "client_start_join" in farm.place.error("build", "--resolved", "presolve"), "without a join file"
        farm.token("pool", "--pool", "--max-clients", "2")
        try:
            farm.wait(farm.build(), 0, "build.log")
            assert farm.clients_of()["zero-0"] == "pool-1", farm.clients_of()
            said = farm.log("state/client-start.log").splitlines()
            assert said == [f"1 1 build https://localhost:{farm.port}"], said
            pid = int((directory / "pid").read_text())
            until(lambda: not Path(f"/proc/{pid}").exists(), "the idle client ends")
        finally:
            with contextlib.suppress(OSError):
                os.kill(int((directory / "pid").read_text()), signal.SIGTERM)
        failing = config.read_text().replace(start, "echo no machines; exit 3")
        config.write_text("client_start_interval = '1s'\n" + failing)
        again = farm.start("again.log", "build", "--resolved", "presolve", "--again")
        tries = lambda: farm.log("state/client-start.log").count("no machines")
        until(lambda: tries() > 2 or again.poll() is not None, "it is tried again")
        farm.place.run("skip", "zero")
        farm.wait(again, 0, "again.log")
        said = farm.log("again.log")
        assert said.count("client_start failed: exit status: 3; its output is in ") == 1, said
    print("ok client_start: clients are started when packages wait, and end when there are none")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("watch: skipped: this machine permits no sandboxes")
        return
    tests = (
        packages_wait_for_a_client_with_their_label,
        output_of_a_client_is_followed,
        the_packages_of_a_lost_client_restart,
        clients_are_started_when_packages_wait,
    )
    for test in tests:
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
