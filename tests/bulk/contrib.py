"""Builds a small package tree with the client in contrib/ beside one of Tanto.

    contrib.py TANTO

The result is that of a build on one machine.
"""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from farm import Farm, until
from place import ROOT, Some, can_create_sandboxes

CLIENT = ROOT / "contrib/client.py"
DEVEL = ("app", "app3", "libone", "libthree", "libtwo", "options", "opted", "py-thing", "tool")
LOCATIONS = ("base/kit", "base/zero", *(f"devel/{name}" for name in DEVEL), "trouble/broken", "trouble/needbroken")


def start(farm, name, *words):
    """Starts the client in contrib/. Each of its slots has its own prefix."""
    own, prefix = farm.directory / name, farm.directory / "prefix"
    make = f"mkdir -p {own}/prefix-{{slot}} {prefix} && mount --bind {own}/prefix-{{slot}} {prefix}"
    enter = f"unshare --mount --pid --fork --kill-child /bin/sh -c '{make} && exec \"$@\"' enter"
    command = [sys.executable, str(CLIENT), "--dir", str(own), "--enter", enter, *words]
    environment = {key: value for key, value in os.environ.items() if key != "MAKECONF"}
    return farm.launch(f"{name}.log", command, environment)


def is_busy(farm, client, slots):
    """Whether a client has this many packages whose results are not settled."""
    command = farm.place.command("clients")
    # There is no database at first.
    listed = subprocess.run(
        command, cwd=farm.directory, env=farm.place.environment, capture_output=True, text=True, check=False
    )
    rows = (line.split() for line in listed.stdout.splitlines())
    return any(row[0] == client and f"{slots}/{slots}" in row[:3] for row in rows)


def blocked(directory):
    """The file that continues the coordinator's packages, and the setting that stops them before they are accepted."""
    gate = directory / "go"
    return gate, f'build_clients = 1\nsync_package = "while ! test -e {gate}; do sleep 0.1; done"\n'


def same_results_as_on_one_machine(tanto, directory):
    (directory / "one").mkdir()
    one = Some(tanto, directory / "one", LOCATIONS, 'sandbox = "bind"\n')
    one.build(1)
    (directory / "many").mkdir()
    gate, settings = blocked(directory)
    with Farm(tanto, directory / "many", LOCATIONS, settings, kind=Some) as farm:
        farm.serve()
        for name in ("python", "tanto"):
            farm.token(name)
        start(farm, "python", "--slots", "2", "--join", "python.join")
        build = farm.build()
        until(lambda: is_busy(farm, "python", 2), "the client in contrib/ gets packages")
        farm.client("tanto", "--slots", "1")
        until(lambda: is_busy(farm, "tanto", 1), "the client of Tanto gets a package")
        gate.touch()
        farm.wait(build, 1, "build.log")
        clients = farm.clients_of()
        assert {"python", "tanto"} <= set(clients.values()), f"{clients}\n{farm.log('python.log')}"
        ours, theirs = ({name: place.state(name) for name in one.names()} for place in (farm.place, one))
        assert ours == theirs, f"{ours}\n{theirs}\n{farm.log('python.log')}"
        assert "error: it does not compile" in farm.place.run("log", "broken-1")
        ours, theirs = farm.place.contents(), one.contents()
        other = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
        assert not other, f"packages differ: {other}: {[(ours.get(name), theirs.get(name)) for name in other[:1]]}"
        mode = stat.S_IMODE((farm.directory / "python/client.json").stat().st_mode)
        assert mode == 0o600, f"the token can be read by others: {mode:o}"
    count = sum(client == "python" for client in clients.values())
    print(f"ok contrib: {len(clients)} packages are those of one machine, {count} of them by the client in contrib/")


def client_that_ends_returns_its_packages(tanto, directory):
    """A client ends by a signal, another process of it by a kill; a third continues with the same token."""
    gate, settings = blocked(directory)
    with Farm(tanto, directory, LOCATIONS[:2], settings, kind=Some) as farm:
        farm.serve()
        farm.token("python")
        build = farm.build()
        for number, end in enumerate((signal.SIGTERM, signal.SIGKILL, None)):
            client = start(farm, "python", "--replace", *(["--join", "python.join"] if number == 0 else []))
            # By then, the packages of the process before are open again.
            until(lambda: farm.log("python.log").count("joined as") > number, f"client {number} joins")
            until(lambda: is_busy(farm, "python", 1), f"client {number} gets a package")
            if end:
                client.send_signal(end)
                code = client.wait()
                assert code == (0 if end == signal.SIGTERM else -end), f"{code}: {farm.log('python.log')}"
        gate.touch()
        farm.wait(build, 0, "build.log")
        assert farm.place.packages() == ["kit-1.0", "zero-0"], farm.place.packages()
        assert "python" in farm.clients_of().values(), farm.log("python.log")
    print("ok contrib: a client that is interrupted or killed continues with its token")


def nothing_in_use_is_emptied(tanto, directory):
    gate, settings = blocked(directory)
    with Farm(tanto, directory, LOCATIONS[:1], settings, kind=Some) as farm:
        farm.serve()
        farm.token("python")
        (directory / "prefix").mkdir(exist_ok=True)
        (directory / "prefix/in-use").touch()
        command = [sys.executable, str(CLIENT), "--join", "python.join", "--dir", "python"]
        client = farm.launch("python.log", command)
        build = farm.build()
        farm.wait(client, 1, "python.log")
        gate.touch()
        farm.wait(build, 0, "build.log")
        assert "would be emptied" in farm.log("python.log"), farm.log("python.log")
        assert (directory / "prefix/in-use").exists()
        slots = subprocess.run([*command, "--slots", "2"], cwd=directory, capture_output=True, text=True, check=False)
        assert slots.returncode == 2 and "--enter" in slots.stderr, slots.stderr
    print("ok contrib: a prefix in use is not emptied")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if os.geteuid() != 0 or not can_create_sandboxes(None):
        print("contrib: skipped: this needs root and sandboxes")
        return
    for test in (same_results_as_on_one_machine, client_that_ends_returns_its_packages, nothing_in_use_is_emptied):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
