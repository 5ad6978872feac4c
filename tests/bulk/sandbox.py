"""Packages built in two sandboxes: their view, their rights and the cleanup. As root and, where possible, as an
ordinary user.

    sandbox.py TANTO
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from place import Place, can_create_sandboxes

# A user ID without an account on this machine.
USER = 61234
# Programs that our tree needs.
PROGRAMS = (
    "[ awk bash basename bmake cat chmod chown cmp cp cut date dirname echo env expr false find grep gzip head id ln ls md5sum "
    "mkdir mktemp mv od printf pwd readlink rm rmdir sed sh sha512sum sleep sort stat su tail tar tee test touch tr true "
    "uname wc xargs"
).split()
BOUNDS = 'build_clients = 2\nhang_timeout = "10s"\ntimeout = "45s"\n'
IN_MEMORY, ON_DISK = 'scratch_size = "64M"\n', 'scratch_size = "0"\n'
FATES = {
    "broken-1": ("failed", "build exited with 1"),
    "daemon-1": ("done", "build left processes running: "),
    "network-1": ("failed", "build exited with 1"),
    "outside-1": ("done", ""),
}


def place_of(tanto, directory, categories, settings, user):
    place = Place(tanto, directory, categories, settings)
    owned_by(place, user)
    return place


def owned_by(place, user):
    """Gives the directory to this user, as whom Tanto runs."""
    if user is None:
        return
    copy = place.directory / "tanto"
    shutil.copy(place.tanto, copy)
    place.tanto = str(copy)
    place.as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    subprocess.run(["chown", "-R", f"{user}:{user}", place.directory], check=True)


def small_system(directory):
    """A template with only the files that our tree needs, at their usual paths."""
    found = {str(Path(shutil.which(program)).resolve()) for program in PROGRAMS}
    linked = subprocess.run(["ldd", *found], capture_output=True, text=True, check=False).stdout
    found |= {word for word in linked.split() if word.startswith("/") and not word.endswith(":")}
    for name in ("bin", "sbin", "lib", "lib64"):
        if (Path("/") / name).is_symlink():
            (directory / name).symlink_to((Path("/") / name).readlink())
            (directory / "usr" / name).mkdir(parents=True, exist_ok=True)
    for path in sorted(found):
        to = directory / path.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    for program in PROGRAMS:
        name = directory / "usr/bin" / program
        if not name.exists():
            name.parent.mkdir(parents=True, exist_ok=True)
            name.symlink_to(Path(shutil.which(program)).resolve())
    (directory / "var").mkdir()
    for path in ("/etc/passwd", "/etc/group", "/usr/share/mk", "/usr/share/bmake"):
        copy = shutil.copytree if Path(path).is_dir() else shutil.copy
        if Path(path).exists():
            (directory / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            copy(path, directory / path.lstrip("/"))


def attempts(place):
    """Client and time of each attempt."""
    with sqlite3.connect(f"file:{place.directory}/state/db?mode=ro", uri=True) as db:
        return db.execute("SELECT client, began_ms, ended_ms FROM attempt ORDER BY began_ms").fetchall()


def check_outside(place):
    for name in ("prefix", "outside", "work"):
        assert not (place.directory / name).exists(), f"{name} was created outside"
    assert str(place.directory) not in Path("/proc/self/mountinfo").read_text(), "something is still mounted"


def kind(tanto, directory, kind, more, user):
    """All packages are built, and only the packages remain on the machine."""
    if kind == "tmpfs":
        (directory / "system").mkdir()
        small_system(directory / "system")
        more += 'sandbox_root = "system"\n'
    place = place_of(tanto, directory, ("base", "devel"), f'sandbox = "{kind}"\n{more}{BOUNDS}', user)
    place.build(0)
    assert place.packages() == sorted(place.names())
    check_outside(place)
    assert not (directory / "scratch").exists() and not Path("/scratch").exists()
    rows = attempts(place)
    assert {client for client, _, _ in rows} == {"local-1", "local-2"}
    assert any(one[1] < other[2] and other[1] < one[2] for one in rows for other in rows if one[0] < other[0])


def trouble(tanto, directory, user):
    """Misbehavior of packages stays within their sandboxes."""
    settings = f'sandbox = "overlay"\nlimited_list = "wanted"\nkeep_wrkdir = true\nkeep_prefix = true\n{BOUNDS}'
    place = place_of(tanto, directory, (), settings, user)
    names = [name.removesuffix("-1") for name in FATES]
    (directory / "wanted").write_text("".join(f"trouble/{name}\n" for name in names))
    place.run("build", code=1)
    for name, expected in FATES.items():
        state, why = place.state(name)
        assert state == expected[0] and why.startswith(expected[1]), f"{name} is {state} ({why}), not {expected}"
    check_outside(place)
    assert "unreachable" in place.run("log", "network-1")
    kept = {path.name for path in (directory / "bulklog/broken-1/1").iterdir()}
    assert {"build.log", "work.log", "wrkdir.tar.gz", "prefix.tar.gz"} <= kept, f"kept: {kept}"
    archive = subprocess.run(["tar", "-tzf", directory / "bulklog/broken-1/1/prefix.tar.gz"], capture_output=True, text=True)
    assert "from-the-kit" in archive.stdout
    left = subprocess.run(["pgrep", "-f", str(directory)], capture_output=True, text=True, check=False).stdout
    assert not left.strip(), f"leftover processes: {left}"


def rights(tanto, directory, user):
    """A package that needs several users is skipped, not failed, with a single user; root builds it."""
    place = place_of(tanto, directory, ("base", "rights"), f'sandbox = "overlay"\n{BOUNDS}', user)
    output = place.build(0)
    assert "needs root" in place.run("why", "needusers") and "FAILED" not in output, output
    expected = {
        "users-1": ("needs-root", "it needs its own users (USERGROUP_PHASE), and this build has only one"),
        "owner-1": ("needs-root", "build exited with 1: it tries to become another user or to change the owner of a file"),
        "needusers-1": ("indirect-prefailed", "it needs users-1, which needs root"),
        "needowner-1": ("indirect-prefailed", "it needs owner-1, which needs root"),
    }
    for name, state in expected.items():
        assert place.state(name) == state, place.state(name)
    assert "attempt" not in place.run("why", "users") and place.packages() == ["kit-1.0", "zero-0"], place.packages()
    assert json.loads(place.run("report", "--json"))["counts"]["needs-root"] == 2
    assert "users-1" in place.run("report").partition("Cannot be built")[2]
    statuses = [line for line in place.run("report", "--pbulk").splitlines() if line.startswith("BUILD_STATUS=")]
    assert statuses.count("BUILD_STATUS=prefailed") == 2, statuses
    again = place.build(0)
    assert place.state("owner-1")[0] == "needs-root" and place.state("users-1")[0] == "needs-root", again
    if os.geteuid() == 0:
        place.as_user = []
        subprocess.run(["chown", "-R", "0:0", directory], check=True)
        with sqlite3.connect(directory / "state/db") as db:
            db.execute("UPDATE run SET ended_ms = NULL WHERE run = (SELECT max(run) FROM run)")
        place.build(0)
        assert set(expected) <= set(place.packages()), "the resumed build as root did not build them"
    unprivileged(place, user)


def unprivileged(place, user):
    """A tree that is configured for a single user needs no other."""
    if user is not None:
        place.as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        subprocess.run(["chown", "-R", f"{user}:{user}", place.directory], check=True)
    conf = place.directory / "mk.conf"
    conf.write_text(conf.read_text() + "UNPRIVILEGED= yes\n")
    place.build(1, "--again")
    assert place.state("users-1")[0] == "done" and place.state("owner-1") == ("failed", "build exited with 1")


def prepared(tanto, directory, kind, user):
    """client_prepare_chroot prepares the sandboxes of scans and packages; both see its mounts and files."""
    hook = 'mkdir "$1/extra" && mount --bind extra "$1/extra" && echo hook >"$1/prepared" && (sleep 0.01; id -u) >hooked'
    settings = f'sandbox = "{kind}"\nlimited_list = "wanted"\nclient_prepare_chroot = \'{hook}\'\n{BOUNDS}'
    place = place_of(tanto, directory, (), settings, None)
    (directory / "wanted").write_text("base/kit\ndevel/libone\n")
    (directory / "extra").mkdir()
    (directory / "extra/file").write_text("mounted\n")
    makefile = directory / "tree/devel/libone/Makefile"
    asked = "WORDS!= cat /prepared /extra/file\n.if ${WORDS} != \"hook mounted\"\n.error ${WORDS}\n.endif\n"
    makefile.write_text(asked + makefile.read_text())
    owned_by(place, user)
    place.run("build")
    assert place.packages() == ["kit-1.0", "libone-1.2nb3"], place.packages()
    assert (directory / "hooked").read_text() == "0\n", "the hook was not run as root of the sandbox"
    toml = directory / "bulk.toml"
    toml.write_text(toml.read_text().replace(hook, "echo no camera >&2; exit 3"))
    makefile.write_text(makefile.read_text() + "# again\n")
    output = place.error("scan")
    assert "no camera" in output and "client_prepare_chroot: exit status: 3" in output, output


def other_system(tanto, directory, categories, settings, user):
    """Packages see a small system of their own, with their prefix below its /usr."""
    (directory / "system").mkdir()
    small_system(directory / "system")
    place = place_of(tanto, directory, categories, f'sandbox_root = "system"\n{settings}', None)
    for file, before, after in (("bulk.toml", 'prefix = "prefix"', 'prefix = "/usr/pkg"'),
                                ("bulk.toml", "prefix/pkgdb", "/usr/pkg/pkgdb"),
                                ("mk.conf", f"{directory}/prefix", "/usr/pkg")):
        path = directory / file
        path.write_text(path.read_text().replace(before, after))
    owned_by(place, user)
    return place


def prefix_of_the_machine(tanto, directory, user):
    """The machine's own prefix may be removed during scans and builds without effect."""
    hook = "rm -rf system/usr/pkg; echo >>hooked"
    settings = f'sandbox = "bind"\nlimited_list = "wanted"\nclient_prepare_chroot = "{hook}"\n{BOUNDS}'
    place = other_system(tanto, directory, (), settings, None)
    (directory / "wanted").write_text("base/kit\ndevel/libone\n")
    (directory / "system/usr/pkg/bin").mkdir(parents=True)
    look = "LOOK!= cat ${LOCALBASE}/from-the-kit\ndo-build= test -e ${LOCALBASE}/from-the-kit -a ! -e ${LOCALBASE}/bin\n"
    makefile = directory / "tree/devel/libone/Makefile"
    makefile.write_text(makefile.read_text().replace("PKGNAME", f".include \"../../mk/prefs.mk\"\n{look}PKGNAME"))
    owned_by(place, user)
    place.run("build")
    assert place.packages() == ["kit-1.0", "libone-1.2nb3"], place.packages()
    assert (directory / "hooked").exists() and not (directory / "system/usr/pkg").exists()


def secrets(tanto, directory, kind, user):
    """Packages cannot read files that are not world-readable."""
    place = other_system(tanto, directory, ("base",), f'sandbox = "{kind}"\n{BOUNDS}', None)
    etc = directory / "system/etc"
    for file, mode in (("etc/shadow", 0o640), ("etc/ssh/ssh_host_key", 0o600), ("etc/ssl/private/k.pem", 0o600),
                       ("etc/site.key", 0o644), ("etc/plain", 0o644), ("var/backups/shadow.bak", 0o600)):
        path = directory / "system" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("root:SECRET:1:0:99999:7:::\n")
        path.chmod(mode)
    (etc / "ssl/private").chmod(0o710)
    makefile = directory / "tree/base/kit/Makefile"
    look = (
        "do-build= ! grep -rs SECRET /etc/s* /var && grep -q 'root:.:1' /etc/shadow && grep -q SECRET /etc/plain"
        " && test ! -s /etc/site.key && echo more >>/etc/shadow\n"
    )
    makefile.write_text(makefile.read_text().replace("PKGNAME", look + "PKGNAME"))
    owned_by(place, user)
    place.run("build", "--resolved", "presolve")
    assert "kit-1.0" in place.packages(), place.packages()
    assert "more" not in (etc / "shadow").read_text()


def without_layers(tanto, directory):
    """Without overlays, the shared part of all sandboxes is created once."""
    place = Place(tanto, directory, ("base",), 'sandbox = "bind"\n')
    kit = directory / "stage" / str(directory / "prefix").lstrip("/")
    kit.parent.mkdir(parents=True)
    shutil.move(directory / "kit", kit)
    subprocess.run(["tar", "-czf", directory / "kit.tgz", "-C", directory / "stage", "."], check=True)
    settings = directory / "bulk.toml"
    settings.write_text(settings.read_text().replace('bootstrapkit = "kit"', 'bootstrapkit = "kit.tgz"'))
    tar = directory / "bin/tar"
    tar.parent.mkdir()
    tar.write_text(f'#!/bin/sh\necho "$@" >>{directory}/calls\nexec {shutil.which("tar")} "$@"\n')
    tar.chmod(0o755)
    place.environment["PATH"] = f"{tar.parent}:{place.environment['PATH']}"
    for name in ("low", "up-1", "work-1", "one", "up-2", "work-2", "state"):
        (directory / name).mkdir()
    # The kernel does not stack a third overlay.
    mounts = [
        f"mount -t overlay overlay -o lowerdir={directory}/{low},upperdir={directory}/up-{number}"
        f",workdir={directory}/work-{number} {directory}/{at}"
        for number, low, at in ((1, "low", "one"), (2, "one", "state"))
    ]
    place.as_user = ["unshare", "--mount", "sh", "-ec", f'{"; ".join(mounts)}; exec "$@"', "sh"]
    if subprocess.run([*place.as_user, "true"], capture_output=True, check=False).returncode != 0:
        print("sandboxes without layers: skipped: cannot mount overlays")
        return
    place.build(0)
    calls = [line for line in (directory / "calls").read_text().splitlines() if "kit.tgz" in line]
    assert len(calls) == 1, f"the kit was unpacked {len(calls)} times:\n{calls}"
    assert place.packages() == sorted(place.names())
    print("ok sandboxes without layers: shared files are created once")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    users = [None, USER] if os.geteuid() == 0 else [None]
    for user in users:
        user_name = "root" if user is None and os.geteuid() == 0 else "an ordinary user"
        if not can_create_sandboxes(user):
            print(f"sandboxes of {user_name}: skipped: cannot create a sandbox")
            continue
        for one, more in (("overlay", IN_MEMORY), ("bind", ON_DISK), ("tmpfs", IN_MEMORY)):
            with tempfile.TemporaryDirectory() as directory:
                kind(tanto, Path(directory), one, more, user)
        for one in ("bind", "overlay"):
            for test in (prepared, secrets):
                with tempfile.TemporaryDirectory() as directory:
                    test(tanto, Path(directory), one, user)
        with tempfile.TemporaryDirectory() as directory:
            prefix_of_the_machine(tanto, Path(directory), user)
        with tempfile.TemporaryDirectory() as directory:
            trouble(tanto, Path(directory), user)
        if user is not None or os.geteuid() != 0:
            with tempfile.TemporaryDirectory() as directory:
                rights(tanto, Path(directory), user)
        if user is None and os.geteuid() == 0:
            with tempfile.TemporaryDirectory() as directory:
                without_layers(tanto, Path(os.path.realpath(directory)))
        print(f"ok sandboxes of {user_name}: two at a time, and only packages leave them")


main()
