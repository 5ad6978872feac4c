"""Builds on a machine without a package tree: another one pushes it to the server.

    push.py TANTO
"""

import filecmp
import re
import sys
import tempfile
from pathlib import Path

from farm import Farm, until
from place import Some, can_create_sandboxes

LOCATIONS = ("base/zero", "trouble/broken")
SETTINGS = 'pushed_tree = true\nlimited_list = "list"\nblob_keep = "1s"\n[place]\n"*/*" = "away"\n"base/*" = "late"\n'


class WithoutTree(Farm):
    """A build whose package tree is in `received`. The directory `tree` belongs to another machine."""

    def __init__(self, tanto, directory):
        super().__init__(tanto, directory, LOCATIONS, SETTINGS, kind=Some)
        self.config = directory / "bulk.toml"
        self.config.write_text(self.config.read_text().replace('"tree', '"received'))
        (directory / "list").write_text("".join(f"{location}\n" for location in LOCATIONS))

    def push(self):
        """Returns the digest of the tree, and how many files were uploaded."""
        said = self.place.run("push-tree", "--join", "laptop.join", "--dir", "laptop", "tree")
        found = re.match(r"pushed tree (\w{64}) to \S+ \(build build\): (\d+) of \d+ files uploaded, ", said)
        assert found, said
        return found[1], int(found[2])

    def is_equal(self):
        return not differences(filecmp.dircmp(self.directory / "tree", self.directory / "received", ignore=[]))

    def mend(self):
        makefile = self.directory / "tree/trouble/broken/Makefile"
        makefile.write_text(makefile.read_text().replace("exit 1", "exit 0"))


def differences(compared):
    """Names that are in one of two directories only, or whose files differ."""
    differ = compared.left_only + compared.right_only + compared.diff_files + compared.funny_files
    return differ + [name for below in compared.subdirs.values() for name in differences(below)]


def a_pushed_tree_is_built(tanto, directory):
    """The build waits for its tree. A package is mended by another push, while the other one waits for a client."""
    with WithoutTree(tanto, directory) as farm:
        farm.serve()
        farm.token("builder")
        farm.place.run("token", "add", "laptop", "--role", "tree", "--output", "laptop.join")
        assert "no package tree was pushed yet" in farm.place.error("scan")
        client = farm.client("builder", "--slots", "2", "--label", "away")
        build = farm.start("build.log", "build")
        until(lambda: "waiting for a package tree" in farm.log("build.log"), "the build waits")
        assert "role tree" in farm.place.error("push-tree", "--join", "builder.join", "--dir", "builder", "tree")
        (directory / "tree/base/zero/note").write_text("old\n")
        _, uploaded = farm.push()
        assert uploaded > 20, uploaded
        until(lambda: "broken-1" in farm.log("build.log"), "a package fails")
        assert farm.is_equal()
        assert farm.place.state("broken-1")[0] == "failed", farm.log("build.log")
        farm.mend()
        (directory / "tree/base/none").mkdir()
        (directory / "tree/base/zero/note").unlink()
        assert farm.push()[1] == 1, "only the makefile has changed"
        farm.place.run("retry", "broken-1")
        until(lambda: farm.place.state("broken-1")[0] == "done", "it is mended")
        farm.token("late")
        farm.client("late", "--slots", "1", "--label", "away", "--label", "late")
        farm.wait(build, 0, "build.log")
        assert farm.is_equal()
        assert {"broken-1": "builder", "zero-0": "late"} == farm.clients_of(), farm.clients_of()
        assert client.poll() is None, farm.log("builder.log")
    print("ok push: a build gets its tree, and a mended one, from another machine")


def only_the_pinned_tree_is_built(tanto, directory):
    with WithoutTree(tanto, directory) as farm:
        farm.serve()
        farm.place.run("token", "add", "laptop", "--role", "tree", "--output", "laptop.join")
        digest, _ = farm.push()
        before = farm.config.read_text()
        farm.config.write_text(f'tree_digest = "{"0" * 64}"\n{before}')
        why = farm.place.error("scan")
        assert digest in why and "'tree_digest' requires 0000" in why, why
        assert not (directory / "received").exists()
        farm.config.write_text(f'tree_digest = "{digest}"\n{before}')
        farm.place.run("scan", "--output", "records")
        assert farm.is_equal()
        records = (directory / "records").read_text()
        expected = (directory / "pscan").read_text()
        assert {line for line in expected.splitlines() if line.startswith("PKGNAME=")} <= set(records.splitlines()), records
        (directory / "tree/base/zero/note").write_text("new\n")
        farm.push()
        assert "'tree_digest' requires" in farm.place.error("scan")
        assert not farm.is_equal(), "the pinned tree stays"
        # A directory with other files is left alone.
        farm.config.write_text(before.replace('pkgsrc = "received"', 'pkgsrc = "kit"'))
        assert "has other files" in farm.place.error("scan")
        assert (directory / "kit/from-the-kit").exists()
    print("ok push: another tree than the pinned one is refused")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not can_create_sandboxes(None):
        print("push: skipped: this machine permits no sandboxes")
        return
    for test in (a_pushed_tree_is_built, only_the_pinned_tree_is_built):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
