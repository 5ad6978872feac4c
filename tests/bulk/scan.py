"""`tanto bulk init` and `tanto bulk scan` on the tree in testdata/pkgsrc, with Debian's bmake.

    scan.py TANTO"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What was changed so shortly before a scan may be changed again without looking different, and is not relied on.
SETTLE = 0.3


class Tree:
    """A copy of the tree, with a configuration beside it."""

    def __init__(self, tanto, directory):
        self.tanto, self.directory = tanto, directory
        self.tree = directory / "tree"
        shutil.copytree(ROOT / "testdata/pkgsrc", self.tree)
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "MAKECONF": str(directory / "mk.conf")}
        (directory / "mk.conf").write_text(f"LOCALBASE=\t{directory}/pkg\n")
        self.run("init")
        self.configure(pkgsrc='"tree"', prefix='"pkg"')

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
        """The exit code, how many directories were scanned, how many were not, and how many commands were run."""
        time.sleep(SETTLE)
        ran = self.run("scan", "--output", "pscan", *args)
        counts = re.search(r"; (\d+) were scanned, (\d+) are as before\n(\d+) commands were run\n", ran.stdout)
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
    assert "PKGNAME=" not in ran.stdout, "answers are no messages"
    first = (tree.directory / "pscan").read_bytes()
    assert {"libone-1.2nb3", "py312-thing-1.0", "py311-thing-1.0"} <= set(tree.names())
    for args in ((), ("--config", "bulk.toml")):
        assert tree.scan(*args)[0] == (0, 0, scanned, 0), "something was run though nothing has changed"
    assert (tree.directory / "pscan").read_bytes() == first
    tree.environment["TERM"] = "other"
    assert tree.scan()[0] == (0, 0, scanned, 0), "another terminal makes no difference"
    assert tree.scan("--verify-scan", "100%")[1].stdout.endswith(f"{scanned} were scanned to compare; 0 differ\n")
    print("ok a second scan runs nothing")
    return scanned


def changes(tree, count):
    for name, expected in (
        ("devel/libone/Makefile", 1),
        # It was looked for, or could have been.
        ("devel/libone/hacks.mk", 1),
        # Two read it: the package itself, and the `make` that another asks for the package's options.
        ("devel/options/options.mk", 2),
        # Two packages, one directory.
        ("mk/python.mk", None),
    ):
        tree.touch(name)
        scanned = tree.scan()[0][1]
        # What lies in mk is looked for by all.
        assert expected is None or scanned == expected, f"{name}: {scanned} directories were scanned"
        assert scanned > 0 and tree.scan()[0] == (0, 0, count, 0), name
    (tree.tree / "devel/libone/DESCR").write_text("nobody reads this for a scan\n")
    assert tree.scan()[0] == (0, 0, count, 0)
    print("ok a changed makefile is scanned again, and little else")
    for what in ("mk.conf", "environment"):
        if what == "mk.conf":
            (tree.directory / "mk.conf").open("a").write("PYTHON_VERSIONS=\t312 313\n")
        else:
            tree.environment["SOMETHING"] = "else"
        assert tree.scan()[0][1:3] == (count, 0), f"{what}: not all was scanned again"
        assert tree.scan()[0] == (0, 0, count, 0), what
    assert "py313-thing-1.0" in tree.names()
    print("ok mk.conf and the environment count for all")


def failures(tree, count):
    (tree.directory / "mk.conf").open("a").write("TEST_EXTRA=\tyes\n")
    (code, scanned, _, _), ran = tree.scan()
    assert (code, scanned) == (1, count + 4), "the categories were not read again"
    assert "extra/unscannable cannot be scanned:" in ran.stderr and "missing.mk" in ran.stderr, ran.stderr
    assert tree.names().count("libone-1.2nb3") == 1 and "cycle-a-1" in tree.names()
    assert "warning: libone-1.2nb3 is made in devel/libone and in extra/" in ran.stderr, ran.stderr
    assert tree.scan()[0] == (1, 1, count + 3, 1), "what has failed is tried again, and nothing else"
    (tree.tree / "extra/unscannable/missing.mk").write_text("")
    assert tree.scan()[0][:2] == (0, 1) and "unscannable-1" in tree.names()
    print("ok a directory that cannot be scanned stops no other")


def limited(tree):
    (tree.directory / "list").write_text("# only these\ndevel/app3\ndevel/tool\n")
    tree.configure(limited_list='"list"', state='"other"')
    code, ran = tree.scan()
    needed = {"app3-3.1", "libthree-3.1", "libtwo-2.0rc1", "libone-1.2nb3", "tool-1", "py312-thing-1.0", "py313-thing-1.0"}
    assert (code[0], set(tree.names())) == (0, needed), ran.stderr
    assert tree.scan()[0] == (0, 0, code[1], 0)
    print("ok a limited list brings what it needs")


def complaints(tree):
    told = tree.run("init")
    assert told.returncode == 1 and "bulk.toml: File exists" in told.stderr, told.stderr
    tree.configure(make_jobs="-1")
    told = tree.run("scan")
    assert told.returncode == 1 and "expected a number from 0 to 4096\nmake_jobs = -1\n            ^" in told.stderr, told.stderr
    print("ok what is wrong with the configuration is told with its place")


def main():
    tanto = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as directory:
        tree = Tree(tanto, Path(directory))
        count = again(tree)
        changes(tree, count)
        failures(tree, count)
        limited(tree)
        complaints(tree)


main()
