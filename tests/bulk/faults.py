"""Failures of the machine, the configuration or the user: messages, kept state, and the next build.

    faults.py TANTO
"""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Some, can_create_sandboxes

SANDBOXES = can_create_sandboxes(None)


def with_line(place, package, line):
    makefile = place.directory / "tree" / package / "Makefile"
    makefile.write_text(makefile.read_text().replace("PKGNAME", f"{line}\nPKGNAME", 1))


def full_disk(tanto, directory):
    """A full disk never fails a package, and the next build retries."""
    place = Some(tanto, directory, ("base/kit", "devel/libone", "devel/libtwo"), "")
    with_line(place, "devel/libone", f"do-build= test -e {directory}/room || {{ echo No space left on device; exit 1; }}")
    place.build(1)
    fate = ("machine-failed", "build exited with 1: the disk is full")
    assert place.state("libone") == fate, place.state("libone")
    why = place.run("why", "libtwo")
    assert "libone-1.2nb3, which had a machine failure: build exited with 1: the disk is full" in why, why
    with sqlite3.connect(f"file:{directory}/state/db?mode=ro", uri=True) as db:
        (job,) = db.execute("SELECT job FROM package WHERE name LIKE 'libone-%'").fetchone()
        outcomes = [row[0] for row in db.execute("SELECT outcome FROM attempt WHERE job = ? ORDER BY attempt", (job,))]
    assert outcomes == ["machine"] * 3, outcomes
    assert "machine-failed: libone-1.2nb3 (build exited with 1: the disk is full)" in place.run("status")
    assert "libone-1.2nb3" in place.run("report")
    assert "BUILD_STATUS=machine" not in place.run("report", "--pbulk")
    (directory / "room").touch()
    place.build(0)
    assert place.packages() == sorted(place.names()), place.packages()


def shared_prefix(tanto, directory):
    """A prefix in use by another build is not emptied."""
    place = Some(tanto, directory, ("base/kit",), "")
    for name in ("prefix", "prefix/pkgdb"):
        (directory / name).mkdir()
    (directory / "prefix/theirs").write_text("x")
    held = os.open(directory / "prefix", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    output = place.error("build", "--resolved", "presolve")
    assert f"another build without a sandbox is using {directory}/prefix" in output and "'prefix'" in output, output
    assert (directory / "prefix/theirs").exists()
    os.close(held)
    place.build(0)
    assert not (directory / "prefix/theirs").exists() and (directory / "prefix/from-the-kit").exists()


def bad_kit(tanto, directory):
    """A missing or damaged bootstrap kit is named in the error."""
    place = Some(tanto, directory, ("base/kit",), 'sandbox = "bind"\n')
    toml = directory / "bulk.toml"
    toml.write_text(toml.read_text().replace('bootstrapkit = "kit"', 'bootstrapkit = "kit.tgz"'))
    for content, cause in ((None, "no such file"), (b"\x1f\x8bdamaged", "gzip: ")):
        if content:
            (directory / "kit.tgz").write_bytes(content)
        output = place.error("build", "--resolved", "presolve")
        start = f"cannot unpack the bootstrap kit {directory}/kit.tgz: "
        assert start in output and cause in output and "'bootstrapkit'" in output, output


def bad_user(tanto, directory, sandbox):
    """A missing or unusable user is reported before the scan, with the command that helps."""
    place = Some(tanto, directory, (), f'sandbox = "{sandbox}"\nlimited_list = "wanted"\n')
    (directory / "wanted").write_text("base/kit\n")
    toml = directory / "bulk.toml"
    plain = toml.read_text()
    for user, cause, mend in (
        ("pbulk-nobody", "no such user in /etc/passwd", "useradd -m -s /bin/sh pbulk-nobody"),
        ("daemon", "its shell /usr/sbin/nologin cannot run commands", "usermod -s /bin/sh daemon"),
    ):
        toml.write_text(plain.replace('unprivileged_user = ""', f'unprivileged_user = "{user}"'))
        output = place.error("build")
        assert f'unprivileged_user = "{user}": {cause}' in output and mend in output, output
    output = place.error("status")
    assert "nothing was built yet" in output, output


def damaged_database(tanto, directory):
    """A damaged database is named in the error, with a recovery that rebuilds nothing."""
    place = Some(tanto, directory, ("base/kit",), "")
    place.build(0)
    database = directory / "state/db"
    content = database.read_bytes()
    database.write_bytes(b"x" * 64 + content[64:])
    for words in (("build", "--resolved", "presolve"), ("status",), ("report",)):
        output = place.error(*words)
        assert "the database: damaged (file is not a database): delete the files 'db'" in output, output
    for path in (directory / "state").glob("db*"):
        path.unlink()
    assert "1 done (1 up to date before)" in place.build(0)


def status_shows_phases(tanto, directory):
    """Another terminal sees the progress of a scan."""
    place = Some(tanto, directory, (), 'limited_list = "wanted"\nscan_clients = 1\n')
    (directory / "wanted").write_text("base/kit\ndevel/libone\n")
    with_line(place, "base/kit", f"WAITS!= while test ! -e {directory}/go; do sleep 0.05; done")
    with_line(place, "devel/libone", f"WAITS!= while test ! -e {directory}/go; do sleep 0.05; done")
    build = subprocess.Popen(
        place.command("build"), cwd=directory, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = ""
    while not said.startswith("scanning: 0 of 2 directories, for "):
        assert build.poll() is None, build.communicate()
        said = subprocess.run(
            place.command("status"), cwd=directory, env=place.environment, capture_output=True, text=True, check=False
        ).stdout
    watcher = subprocess.Popen(
        place.command("status", "--watch"), cwd=directory, env=place.environment, stdout=subprocess.PIPE, text=True
    )
    assert watcher.stdout.readline().startswith("scanning: 0 of 2 directories, for ")
    (directory / "go").touch()
    assert build.wait(timeout=60) == 0, build.communicate()
    build.communicate()
    watched, _ = watcher.communicate(timeout=60)
    assert watched.endswith("2 packages, 2 done\n"), watched
    assert place.run("status").startswith("2 packages, 2 done"), "the phase is still shown"


def interrupted(tanto, directory, settings, ending):
    """A build or scan reports that it was interrupted, for each signal."""
    place = Some(tanto, directory, ("base/kit",), f'limited_list = "wanted"\n{settings}')
    (directory / "wanted").write_text("base/kit\n")
    makefile = directory / "tree/base/kit/Makefile"
    plain = makefile.read_text()
    for words, line in ((("scan",), "WAITS!= sleep 60"), (("build",), "do-build= sleep 60")):
        makefile.write_text(plain.replace("PKGNAME", f"{line}\nPKGNAME", 1))
        build = subprocess.Popen(
            place.command(*words), cwd=directory, env=place.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        while not any(b"sleep\x0060" in line for line in lines_below(build.pid)):
            assert build.poll() is None, build.communicate()
            time.sleep(0.02)
        build.send_signal(ending)
        out, err = build.communicate(timeout=60)
        assert build.returncode == 130 and "interrupted" in err, f"{words}: {build.returncode}\n{out}{err}"
    makefile.write_text(plain)
    place.run("build")


def lines_below(pid):
    """Command lines of the descendants of a process."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                lines[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])

    def is_below(it):
        while it in parents and it != pid:
            it = parents[it]
        return it == pid

    return [line for it, line in lines.items() if is_below(it)]


def run(name, test, *more):
    with tempfile.TemporaryDirectory() as directory:
        test(TANTO, Path(os.path.realpath(directory)), *more)
    print(f"ok {name}")


def main():
    run("a full disk is the machine's failure to the end", full_disk)
    run("a damaged database is named, and a new one begins", damaged_database)
    run("two builds do not share a prefix", shared_prefix)
    run("status shows the phases before packages are built", status_shows_phases)
    if SANDBOXES:
        run("a bootstrap kit that cannot be unpacked is named", bad_kit)
    for sandbox in ["none"] + ["bind"] * SANDBOXES:
        if os.geteuid() == 0:
            run(f"an unprivileged user is looked for first ({sandbox})", bad_user, sandbox)
    ways = [("none", signal.SIGHUP), ("none", signal.SIGINT)] + ([("bind", signal.SIGTERM)] if SANDBOXES else [])
    for sandbox, ending in ways:
        run(f"{ending.name} interrupts ({sandbox})", interrupted, f'sandbox = "{sandbox}"\n', ending)


TANTO = str(Path(sys.argv[1]).resolve())
main()
