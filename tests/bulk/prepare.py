"""Builds that are killed (SIGKILL) during a package: the next one terminates leftover processes, removes leftover files
and reports both; the one after it reports nothing.

    prepare.py TANTO
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place, can_create_sandboxes

# A user ID without an account on this machine.
USER = 61234
LEFT = "cleaning up after a killed build: "


def below(directory):
    """Processes that work below a directory, or have it in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                where, line = os.readlink(entry / "cwd"), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if where.startswith(str(directory)) or str(directory) in line:
                found.append(line)
    return found


def has_ended(process):
    """Zombies count: the new parent may not have reaped them yet."""
    try:
        return not (process / "cmdline").read_bytes()
    except OSError:
        return True


def kill(place, fifo):
    """Kills a build once a package runs a command that never ends."""
    build = subprocess.Popen(
        place.command("build"),
        cwd=place.directory,
        env=place.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not fifo():
        assert build.poll() is None, "the build ended too early"
        time.sleep(0.02)
    build.send_signal(signal.SIGKILL)
    build.wait()


def builds(place):
    """Messages of the next build."""
    result = subprocess.run(
        place.command("build"), cwd=place.directory, env=place.environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return [line.split(LEFT)[1] for line in result.stderr.splitlines() if LEFT in line]


def without_sandbox(tanto, directory):
    place = Place(tanto, directory, (), 'limited_list = "list"\nhang_timeout = "0"\n')
    (directory / "list").write_text("trouble/deadlock\n")
    work = directory / "work/trouble/deadlock"
    kill(place, (work / "src/a").exists)
    assert below(directory), "processes without a sandbox were terminated"
    (directory / "packages/All").mkdir(parents=True, exist_ok=True)
    (directory / "packages/All/.tanto-tool-1.new").write_text("half")
    (directory / "distfiles/sub").mkdir(parents=True, exist_ok=True)
    (directory / "distfiles/sub/.tanto-1.new").write_text("half")
    # Users' files and files in transfer are kept.
    (directory / "distfiles/patch.7.new").write_text("whole")
    others = directory / "distfiles/.tanto-2.new"
    brought = others.open("w")
    fcntl.flock(brought, fcntl.LOCK_EX)
    # It is not built again, so no later build would clean up after it.
    (directory / "list").write_text("trouble/restricted\n")
    said = builds(place)
    assert len(said) == 4, said
    assert said[0].startswith("ended processes: ") and "cat" in said[0], said
    assert said[1] == f"removed the partial package {directory}/packages/All/.tanto-tool-1.new", said
    assert said[2] == f"removed the partial distfile {directory}/distfiles/sub/.tanto-1.new", said
    assert (directory / "distfiles/patch.7.new").exists() and others.exists()
    assert said[3] == f"removed the work directory of deadlock-1, {work}", said
    assert not below(directory) and not work.exists() and place.packages() == ["restricted-1"]
    assert not builds(place), "leftovers were reported twice"
    brought.close()
    assert builds(place) == [f"removed the partial distfile {others}"], "the partial distfile was not removed"
    (directory / "state/works/odd-1").write_text(f"{directory}\n")
    said = builds(place)
    assert len(said) == 1 and said[0].startswith(f"cannot remove the work directory of odd-1, {directory}: "), said
    print("ok preparation: leftovers of a killed build are terminated, removed and reported")


def without_a_mark(tanto, directory):
    """A process without parent and environment marker is found by its control group, if it has one."""
    place = Place(tanto, directory, (), 'limited_list = "list"\nhang_timeout = "0"\n')
    (directory / "tree/odd/orphan").mkdir(parents=True)
    leave = "(env -i setsid sleep 600 >/dev/null 2>&1 & echo $$! >pid); mkfifo a; cat a"
    makefile = f'# $NetBSD$\n\nPKGNAME=\torphan-1\ndo-build=\t{leave}\n\n.include "../../mk/pkg.mk"\n'
    (directory / "tree/odd/orphan/Makefile").write_text(makefile)
    (directory / "list").write_text("odd/orphan\n")
    work = directory / "work/odd/orphan/src"
    kill(place, (work / "a").exists)
    orphan = Path("/proc") / (work / "pid").read_text().strip()
    if "/tanto-" not in (orphan / "cgroup").read_text():
        os.kill(int(orphan.name), signal.SIGKILL)
        print("preparation of control groups: skipped: cannot create a control group")
        return
    (directory / "list").write_text("trouble/restricted\n")
    said = builds(place)
    assert "sleep 600" in said[0] and has_ended(orphan), said
    print("ok preparation: a process without parent and environment is found by its control group")


def is_in(place, stage):
    command = place.command("status")
    said = subprocess.run(command, cwd=place.directory, env=place.environment, capture_output=True, text=True, check=False)
    return any("deadlock-1" in line and stage in line.split() for line in said.stdout.splitlines())


def in_a_sandbox(tanto, directory, user, in_memory):
    settings = 'limited_list = "list"\nhang_timeout = "0"\nsandbox = "overlay"\n'
    place = Place(tanto, directory, (), settings + f'scratch_size = "{"64M" if in_memory else "0"}"\n')
    (directory / "list").write_text("trouble/deadlock\n")
    if user is not None:
        shutil.copy(tanto, directory / "tanto")
        place.tanto = str(directory / "tanto")
        place.as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        subprocess.run(["chown", "-R", f"{user}:{user}", directory], check=True)
    scratch = directory / "state/clients/1/scratch"
    # Files in memory are invisible to others.
    kill(place, lambda: is_in(place, "build") if in_memory else any(scratch.glob("*/trouble/deadlock/src/a")))
    (directory / "list").write_text("trouble/restricted\n")
    said = builds(place)
    assert said[-1] == f"removed the files of a sandbox, {directory}/state/clients", said
    assert not below(directory), f"leftover processes: {below(directory)}"
    assert not builds(place), "leftovers were reported twice"
    assert str(directory) not in Path("/proc/self/mountinfo").read_text(), "something is still mounted"


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as directory:
        without_sandbox(tanto, Path(os.path.realpath(directory)))
    with tempfile.TemporaryDirectory() as directory:
        without_a_mark(tanto, Path(os.path.realpath(directory)))
    for user in [None, USER] if os.geteuid() == 0 else [None]:
        user_name = "an ordinary user" if user or os.geteuid() != 0 else "root"
        if not can_create_sandboxes(user):
            print(f"preparation of sandboxes of {user_name}: skipped: cannot create a sandbox")
            continue
        for in_memory in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                in_a_sandbox(tanto, Path(os.path.realpath(directory)), user, in_memory)
        print(f"ok preparation: no process of sandboxes of {user_name} survives, and their files are removed")


main()
