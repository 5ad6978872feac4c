"""`tanto bulk init` and `tanto bulk scan` on the tree in testdata/pkgsrc, with Debian's bmake: in the machine itself and in
sandboxes, where it lets us make some.

    scan.py TANTO"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Scans do not trust files that changed this recently: another change could leave the same timestamp.
SETTLE = 0.3


class Tree:
    """A copy of the tree, and its configuration."""

    def __init__(self, tanto, directory, sandbox):
        self.sandbox = sandbox
        self.tanto, self.directory = tanto, directory
        self.tree = directory / "tree"
        shutil.copytree(ROOT / "testdata/pkgsrc", self.tree)
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "MAKECONF": str(directory / "mk.conf")}
        (directory / "mk.conf").write_text(f"LOCALBASE=\t{directory}/pkg\n")
        self.run("init")
        assert '\nsandbox = "bind"\n' in (directory / "bulk.toml").read_text()
        self.configure(pkgsrc='"tree"', prefix='"pkg"', sandbox=f'"{sandbox}"', scan_clients="2")

    def configure(self, **values):
        path = self.directory / "bulk.toml"
        text = path.read_text()
        for key, value in values.items():
            text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
            assert count == 1, key
        path.write_text(text)

    def run(self, *args):
        command = [self.tanto, "bulk", *args]
        return subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=120
        )

    def scan(self, *args):
        """Exit code, and numbers of scanned and unscanned directories and of commands."""
        time.sleep(SETTLE)
        ran = self.run("scan", "--output", "pscan", *args)
        counts = re.search(r": (\d+) scanned, (\d+) unchanged\nCommands run: (\d+)\n", ran.stdout)
        assert counts, f"{ran.returncode}: {ran.stdout}{ran.stderr}"
        return (ran.returncode, *map(int, counts.groups())), ran

    def touch(self, name, text="# changed\n"):
        with (self.tree / name).open("a") as file:
            file.write(text)

    def names(self):
        lines = (self.directory / "pscan").read_text().splitlines()
        return [line.partition("=")[2] for line in lines if line.startswith("PKGNAME=")]


def again(tree):
    (code, scanned, reused, _), ran = tree.scan()
    assert (code, reused) == (0, 0), code
    assert "PKGNAME=" not in ran.stdout, "the sandbox printed messages"
    first = (tree.directory / "pscan").read_bytes()
    assert {"libone-1.2nb3", "py312-thing-1.0", "py311-thing-1.0"} <= set(tree.names())
    for args in ((), ("--config", "bulk.toml")):
        assert tree.scan(*args)[0] == (0, 0, scanned, 0), "directories were scanned without a change"
    assert (tree.directory / "pscan").read_bytes() == first
    for name in ("TERM", "TMUX", "LANG", "LC_CTYPE", "LS_COLORS", "SHELL", "INVOCATION_ID", "HOME", "ANYTHING"):
        tree.environment[name] = "/other"
    counts, ran = tree.scan()
    assert counts == (0, 0, scanned, 0), "another terminal, language, home or timer caused rescans"
    assert "scanning" not in ran.stdout + ran.stderr, ran
    assert tree.scan("--verify-scan", "100%")[1].stdout.endswith(f"{scanned} scanned again for comparison: 0 differ\n")
    print("ok a second scan runs no make")
    return scanned


def changes(tree, count):
    for name, expected in (
        ("devel/libone/Makefile", 1),
        # It was looked up, or could have been.
        ("devel/libone/hacks.mk", 1),
        # Two read it: the package itself, and the `make` that queries its options for another package.
        ("devel/options/options.mk", 2),
        # One directory with two packages.
        ("mk/python.mk", None),
    ):
        tree.touch(name)
        (_, scanned, *_), ran = tree.scan()
        missing = "the names of the makefiles in devel/libone" if name.endswith("hacks.mk") else name
        subject = "1 directory" if scanned == 1 else f"{scanned} directories"
        said = f"scanning {subject} again; changed since the last scan: {missing}"
        assert said in ran.stdout + ran.stderr, f"{said}: {ran}"
        # All packages look up files in mk.
        assert expected is None or scanned == expected, f"{name}: {scanned} directories were scanned"
        assert scanned > 0 and tree.scan()[0] == (0, 0, count, 0), name
    (tree.tree / "devel/libone/DESCR").write_text("not read by scans\n")
    assert tree.scan()[0] == (0, 0, count, 0)
    print("ok a changed makefile causes few rescans")
    for cause in ("mk.conf", "PATH", "[environment]"):
        if cause == "mk.conf":
            (tree.directory / "mk.conf").open("a").write("PYTHON_VERSIONS=\t312 313\n")
        elif cause == "PATH":
            tree.environment["PATH"] += ":/elsewhere"
        else:
            with (tree.directory / "bulk.toml").open("a") as file:
                file.write('[environment]\nANYTHING = "other"\n')
        counts, ran = tree.scan()
        assert counts[1:3] == (count, 0), f"{cause}: not all directories were rescanned"
        named = {"mk.conf": f"{tree.directory}/mk.conf", "PATH": "the environment variable PATH"}
        said = f"scanning everything again; changed since the last scan: {named.get(cause, 'the environment variable ANYTHING')}"
        assert said in ran.stdout + ran.stderr, f"{said}: {ran}"
        assert tree.scan()[0] == (0, 0, count, 0), cause
    assert "py313-thing-1.0" in tree.names()
    print("ok changes of mk.conf and the environment rescan all directories")


def failures(tree, count):
    (tree.directory / "mk.conf").open("a").write("TEST_EXTRA=\tyes\n")
    (code, scanned, _, _), ran = tree.scan()
    assert (code, scanned) == (1, count + 4), "the categories were not read again"
    assert "extra/unscannable cannot be scanned:" in ran.stderr and "missing.mk" in ran.stderr, ran.stderr
    assert tree.names().count("libone-1.2nb3") == 1 and "cycle-a-1" in tree.names()
    assert "warning: libone-1.2nb3 is made in devel/libone and in extra/" in ran.stderr, ran.stderr
    assert tree.scan()[0] == (1, 1, count + 3, 1), "other than failed directories were rescanned"
    (tree.tree / "extra/unscannable/missing.mk").write_text("")
    assert tree.scan()[0][:2] == (0, 1) and "unscannable-1" in tree.names()
    print("ok a directory that cannot be scanned does not stop the others")


def limited(tree):
    (tree.directory / "list").write_text("# only these\ndevel/app3\ndevel/tool\n")
    tree.configure(limited_list='"list"', state='"other"')
    code, ran = tree.scan()
    needed = {"app3-3.1", "libthree-3.1", "libtwo-2.0rc1", "libone-1.2nb3", "tool-1", "py312-thing-1.0", "py313-thing-1.0"}
    assert (code[0], set(tree.names())) == (0, needed), ran.stderr
    assert tree.scan()[0] == (0, 0, code[1], 0)
    print("ok a limited list includes dependencies")


def complaints(tree):
    result = tree.run("init")
    assert result.returncode == 1 and "bulk.toml: File exists" in result.stderr, result.stderr
    tree.configure(make_jobs="-1")
    result = tree.run("scan")
    assert result.returncode == 1 and "expected a number from 0 to 4096\nmake_jobs = -1\n            ^" in result.stderr, result.stderr
    print("ok errors in the configuration have a position")


SNEAKY = """
.include "../../mk/prefs.mk"

PKGNAME=	sneaky-1
TRIED!=	for place in ${.CURDIR} ${TOPDIR} ${OUTSIDE} ${PLACES}; do \\
		{ echo >$$place/caught; } 2>/dev/null && echo writes-$$place; done; \\
	bash -c ': </dev/tcp/127.0.0.1/${PORT}' 2>/dev/null && echo reaches-a-server; \\
	kill -0 ${SOMEBODY} 2>/dev/null && echo sees-processes; \\
	setsid sleep 617 >/dev/null 2>&1 </dev/null & echo >/tmp/caught && echo has-its-own-tmp
CATEGORIES=	${TRIED:C,/.*/,,}

.include "../../mk/pkg.mk"
"""
SLOW = """
PKGNAME=	slow-1
TOOK!=	setsid sleep 619 & sleep 619

.include "../../mk/pkg.mk"
"""


def side_effects(tree):
    """A makefile that runs unexpected commands reaches and leaves nothing."""
    for name, text in ("sneaky", SNEAKY), ("slow", SLOW):
        (tree.tree / "devel" / name).mkdir()
        (tree.tree / "devel" / name / "Makefile").write_text(text)
    (tree.directory / "outside").mkdir()
    (tree.directory / "list").write_text("devel/sneaky\ndevel/slow\n")
    tree.configure(limited_list='"list"', state='"sneaky"', make_jobs="0")
    with (tree.directory / "bulk.toml").open("a") as file:
        file.write('\n[stage.scan]\ntimeout = "4s"\n')
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = {"PORT": server.getsockname()[1], "SOMEBODY": os.getpid(), "OUTSIDE": f"{tree.directory}/outside"}
        if tree.sandbox != "none":
            own["PLACES"] = "/usr/lib /etc /var/lib ${LOCALBASE}"
        with (tree.directory / "mk.conf").open("a") as conf:
            conf.writelines(f"{name}=\t{value}\n" for name, value in own.items())
        (code, scanned, _, _), ran = tree.scan()
    assert (code, scanned) == (1, 2) and "devel/slow cannot be scanned" in ran.stderr, ran.stderr
    (tried,) = re.findall(r"(?m)^CATEGORIES=(.*)$", (tree.directory / "pscan").read_text())
    caught = [place for place in (tree.directory, "/usr/lib", "/etc", "/var/lib") if any(Path(place).rglob("caught") if place is tree.directory else Path(place).glob("caught"))]
    left = subprocess.run(["pgrep", "-f", "sleep 61[79]"], capture_output=True, text=True, check=False).stdout
    assert not left, f"leftover processes: {left}"
    if tree.sandbox == "none":
        Path("/tmp/caught").unlink(missing_ok=True)
        assert "reaches-a-server" in tried and "sees-processes" in tried and caught, f"the test misses side effects: {tried}"
    else:
        assert (tried, caught) == ("has-its-own-tmp", []), f"{tried}; {caught}"
        assert not Path("/tmp/caught").exists() and str(tree.directory) not in Path("/proc/self/mountinfo").read_text()
    print("ok side effects of a makefile", "are not prevented" if tree.sandbox == "none" else "stay in its sandbox")


def cannot_start(tree):
    """A scan that cannot start reports why, and leaves nothing."""
    tree.configure(pkgsrc='"none"', client_prepare_chroot='"exit 3"')
    result = tree.run("scan")
    assert result.returncode == 1 and f"there is no package tree in {tree.directory}/none: set 'pkgsrc' in " in result.stderr, result
    tree.configure(pkgsrc='"tree"')
    tree.touch("devel/libone/Makefile")
    result = tree.run("scan")
    assert result.returncode == 1 and "client_prepare_chroot" in result.stderr, result
    tree.configure(client_prepare_chroot='""')
    result = tree.run("scan")
    assert "client_prepare_chroot" not in result.stderr and "cleaning up" not in result.stderr, result
    print("ok a scan that cannot start reports the reason, and leaves no files")


def refused(tree):
    """A machine without namespaces, simulated in a namespace: the message names the setting."""
    line = "cd /proc/sys/user && echo 0 >max_mnt_namespaces && echo 0 >max_user_namespaces && cd - && exec $0 bulk scan"
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", line, tree.tanto]
    result = subprocess.run(command, cwd=tree.directory, env=tree.environment, capture_output=True, text=True, check=False)
    why = result.stdout + result.stderr
    assert result.returncode == 1 and "cannot create a sandbox" in why and 'sandbox = "none"' in why, why
    print("ok without namespaces the error names the setting")


def can_create_sandboxes():
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", "--mount", "--pid", "--net", "--fork", *as_root, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def main():
    tanto = Path(sys.argv[1]).resolve()
    answers = []
    for sandbox in ("none", "overlay", "bind"):
        if sandbox != "none" and not can_create_sandboxes():
            print(f"{sandbox}: skipped: this machine cannot create sandboxes")
            continue
        print(f"sandbox = {sandbox}")
        with tempfile.TemporaryDirectory() as directory:
            tree = Tree(tanto, Path(directory), sandbox)
            count = again(tree)
            answers.append((tree.directory / "pscan").read_text().replace(directory, ""))
            if sandbox != "bind":
                changes(tree, count)
            if sandbox == "none":
                failures(tree, count)
                limited(tree)
                complaints(tree)
            side_effects(tree)
            if sandbox == "overlay":
                cannot_start(tree)
                refused(tree)
    assert len(set(answers)) == 1, "results depend on the sandbox"


main()
