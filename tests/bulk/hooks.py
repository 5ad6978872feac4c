"""Hooks of `tanto bulk build` for each package and each sandbox.

    hooks.py TANTO
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from place import Some, can_create_sandboxes

PACKAGES = ("base/kit", "devel/libone", "devel/libtwo", "trouble/broken")
# The first sandboxes run checks of the programs and, with a single user, a query of the tree.
LOOKS = 1 if os.geteuid() == 0 else 2


def hooks(directory, package, buildlog):
    """Settings with these hooks, which are scripts in the directory."""
    for name, line in (("package", package), ("buildlog", buildlog)):
        (directory / name).write_text(line)
    return f"sync_package = '. {directory}/package'\nsync_buildlog = '. {directory}/buildlog'\n"


def both(tanto, directory, settings):
    """Hooks see packages before they are installed and logs afterwards; a hook may fail."""
    (directory / "server").mkdir()
    package = f"""
test ! -e {directory}/packages/All/$2.tgz || exit 9
case $2 in
libone-*) test -e {directory}/once || {{ touch {directory}/once; exit 5; }} ;;
libtwo-*) test -e {directory}/may || exit 6 ;;
esac
cp "$1" {directory}/server/$2.tgz && echo "$2$4 $3" >>{directory}/output
"""
    buildlog = f'cd "$1/$2/$3" && test -s build.log -a -e work.log && echo "$2 $3" >>{directory}/failed; exit 7\n'
    place = Some(tanto, directory, PACKAGES, hooks(directory, package, buildlog) + settings)
    logs = directory / "bulklog"
    for old in ("broken-1/build.log", "broken-1/4/build.log"):
        (logs / old).parent.mkdir(parents=True, exist_ok=True)
        (logs / old).write_text("of an earlier run")
    command = place.command("build", "--resolved", "presolve")
    built = subprocess.run(command, cwd=directory, env=place.environment, capture_output=True, text=True, check=False)
    assert built.returncode == 1, built
    output = built.stdout + built.stderr
    seen = sorted((directory / "output").read_text().splitlines())
    assert seen == ["kit-1.0.tgz base", "libone-1.2nb3.tgz devel"], f"{seen}\n{output}"
    for name in ("kit-1.0", "libone-1.2nb3"):
        file = directory / f"packages/All/{name}.tgz"
        assert file.read_bytes() == (directory / f"server/{name}.tgz").read_bytes(), f"{name}: the hook got another package"
    assert place.packages() == ["kit-1.0", "libone-1.2nb3"], place.packages()
    why = "sync-package exited with 6: not an error of the package"
    assert place.state("libtwo") == ("machine-failed", why), place.state("libtwo")
    assert output.count("sync_package refused libtwo-2.0rc1") == 1, "reported after the last attempt"
    assert sorted((directory / "failed").read_text().splitlines()) == ["broken-1 1", "libtwo-2.0rc1 3"], "logs are missing"
    attempts = {name: sorted(path.name for path in (logs / name).iterdir()) for name in ("broken-1", "libtwo-2.0rc1")}
    assert attempts == {"broken-1": ["1"], "libtwo-2.0rc1": ["1", "2", "3"]}, attempts
    for attempt in ("1", "2", "3"):
        files = {path.name for path in (logs / "libtwo-2.0rc1" / attempt).iterdir()}
        assert {"build.log", "sync-package.log", "work.log"} <= files and "libtwo-2.0rc1.tgz" not in files, files
    assert "sync_package refused libtwo-2.0rc1" in place.run("log", "libtwo", "sync-package")
    assert place.state("broken") == ("failed", "build exited with 1"), place.state("broken")
    assert "broken-1: sync-buildlog exited with 7" in output, output
    left = [path.name for path in (directory / "packages/All").iterdir() if path.name.startswith(".")]
    assert not left, f"leftover files: {left}"
    (directory / "may").touch()
    place.build(1)
    assert "libtwo-2.0rc1" in place.packages()
    assert sorted(path.name for path in logs.iterdir() if path.name != "meta") == ["broken-1"], "logs of built packages"


def sandboxes(tanto, directory):
    """Each sandbox is prepared from outside and from inside."""
    settings = (
        'sandbox = "overlay"\nclient_prepare_chroot = \'echo "$1" >>chroots && echo prepared >"$1/prepared"\'\n'
        "client_prepare_action = 'test \"$(cat /prepared)\" = prepared && echo inside >/tmp/inside'\n"
    )
    place = Some(tanto, directory, ("base/kit", "devel/libone"), settings)
    makefile = directory / "tree/devel/libone/Makefile"
    makefile.write_text(makefile.read_text().replace("PKGNAME", "do-build= grep -x inside /tmp/inside\nPKGNAME"))
    place.build(0)
    # One per package.
    assert len((directory / "chroots").read_text().splitlines()) == LOOKS + 2
    toml = directory / "bulk.toml"
    toml.write_text(toml.read_text().replace("echo inside >/tmp/inside", "exit 3"))
    place.build(1, "--again")
    why = "client-clean exited with 3: not an error of the package"
    assert place.state("kit") == ("machine-failed", why), place.state("kit")


def faults(tanto, directory):
    """A hook's failure counts as the machine's: the package is retried by another client from a clean state."""
    package = "trouble/restricted"
    look = f"ls -d {directory}/state/clients/*/scratch >{directory}/scratches.$n"
    settings = (
        'sandbox = "overlay"\nbuild_clients = 2\nscratch_size = "0"\n'
        f"client_prepare_chroot = 'echo >>chroots; n=$(wc -l <chroots); echo $n >\"$1/number\"; {look}'\n"
    )
    place = Some(tanto, directory, (package,), settings)
    makefile = directory / "tree" / package / "Makefile"
    fails = f"do-build= test $$(cat /number) != {LOOKS + 1} || {{ echo No space left on device; exit 1; }}\n"
    makefile.write_text(makefile.read_text().replace("PKGNAME", fails + "PKGNAME"))
    place.build(0)
    with sqlite3.connect(f"file:{directory}/state/db?mode=ro", uri=True) as db:
        attempts = db.execute("SELECT attempt, client, outcome FROM attempt").fetchall()
    assert attempts == [(1, "local-1", "machine"), (2, "local-2", "done")], attempts
    scratches = [(directory / f"scratches.{LOOKS + attempt}").read_text().split() for attempt in (1, 2)]
    assert scratches == [[f"{directory}/state/clients/{client}/scratch"] for client in (1, 2)], scratches


def uploads(tanto, directory):
    """The log of a failed package is uploaded while others are built, and a package is installed only after its
    upload."""
    server = directory / "server"
    server.mkdir()
    log = server / "broken-1/1/build.log"
    upload = f'cp -r "$1/$2" {server}/new && mv {server}/new {server}/"$2"\n'
    wait = f"case $2 in libone-*) n=0; until test -s {log}; do n=$((n+1)); test $n -lt 600 || exit 1; sleep 0.1; done ;; esac\n"
    settings = hooks(directory, wait, upload) + 'sandbox = "overlay"\nbuild_clients = 2\n'
    place = Some(tanto, directory, ("base/kit", "devel/libone", "trouble/broken"), settings)
    place.build(1)
    assert place.packages() == ["kit-1.0", "libone-1.2nb3"], "the log came only after the build"
    assert log.read_bytes() == (directory / "bulklog/broken-1/1/build.log").read_bytes()
    assert sorted(path.name for path in server.iterdir()) == ["broken-1"], "logs of successful packages were uploaded"


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    ways = [("without a sandbox", 'sandbox = "none"\n')]
    if can_create_sandboxes(None):
        ways.append(("in sandboxes", 'sandbox = "overlay"\n'))
        with tempfile.TemporaryDirectory() as directory:
            sandboxes(tanto, Path(directory))
        print("ok hooks of sandboxes: each sandbox is prepared outside and inside")
        with tempfile.TemporaryDirectory() as directory:
            uploads(tanto, Path(directory))
        print("ok uploads: logs of failed packages are uploaded while others are built")
        with tempfile.TemporaryDirectory() as directory:
            faults(tanto, Path(directory))
        print("ok hook failures: a package is retried by another client from a clean state")
    else:
        print("hooks of sandboxes: skipped: cannot create a sandbox")
    for name, settings in ways:
        with tempfile.TemporaryDirectory() as directory:
            both(tanto, Path(directory), settings)
        print(f"ok hooks {name}: hooks run before a package is installed and after a failure is logged")


main()
