"""The up-to-date check of `tanto bulk`: the tree in testdata/pkgsrc is built, changed and built again.

    check.py TANTO
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place

# Scans do not trust files that changed this recently: another change could leave the same timestamp.
SETTLE = 0.3
APP3, LIBONE, LIBTHREE, LIBTWO = "app3-3.1", "libone-1.2nb3", "libthree-3.1", "libtwo-2.0rc1"
THING, TOOL = "py312-thing-1.0", "tool-1"
# app3 needs libthree and libtwo, tool needs thing, and all of these libone.
ALL = [APP3, LIBONE, LIBTHREE, LIBTWO, THING, TOOL]


class Tree(Place):
    def __init__(self, tanto, directory):
        super().__init__(tanto, directory, (), 'limited_list = "list"\n')
        (directory / "list").write_text("devel/app3\ndevel/tool\n")
        time.sleep(SETTLE)

    def file(self, name):
        return self.directory / f"packages/All/{name}.tgz"

    def times(self):
        return {name: self.file(name).stat().st_mtime_ns for name in self.packages()}

    def built(self, *more):
        """Packages of the last build."""
        before = self.times()
        output = self.run("build", *more)
        assert "/-" not in output and "/0]" not in output, f"invalid counts:\n{output}"
        return sorted(name for name, time in self.times().items() if before.get(name) != time)

    def check(self, *more):
        """Reasons why packages are out of date."""
        before = self.times()
        packages = json.loads(self.run("check", "--json", *more))["packages"]
        assert self.times() == before, "the check changed the database"
        assert {it["state"] for it in packages} <= {"up-to-date", "out-of-date"}, packages
        due = {it["name"]: it["why"] for it in packages if it["state"] == "out-of-date"}
        text = self.run("check", *more)
        assert all(f"{name} (devel/" in text and why in text for name, why in due.items()), text
        assert f"{len(packages)} packages, {len(packages) - len(due)} up-to-date, {len(due)} out-of-date, 0" in text, text
        return due

    def change(self, makefile, old, new):
        path = self.directory / "tree" / makefile
        text = path.read_text()
        assert old in text, text
        path.write_text(text.replace(old, new))
        time.sleep(SETTLE)


def has_to_be_built(name):
    return f"{name}, which it was built with, has to be built"


def changes(tree):
    assert tree.check() == {name: "it was not built yet" for name in ALL}
    assert tree.built() == ALL
    assert tree.check() == {} and tree.built() == [], "rebuilt without a change"
    tree.change("devel/libtwo/Makefile", ",v 1.1 ", ",v 1.2 ")
    makefile = "devel/libtwo/Makefile has changed"
    due = tree.check()
    assert due == {LIBTWO: makefile, APP3: has_to_be_built(LIBTWO)}, due
    assert tree.built() == [APP3, LIBTWO]
    assert makefile in tree.run("why", LIBTWO) and tree.check() == {}
    assert f"{LIBTWO}, which it was built with, was built again" in tree.run("why", APP3)
    assert "it was up to date" in tree.run("why", LIBONE)
    print("ok changes: changed packages and their dependents are rebuilt, and no others")


def versions(tree):
    """A new version is a different package; packages built with the old one are out of date."""
    tree.change("devel/libone/Makefile", "libone-1.2nb3", "libone-1.2nb4")
    due = tree.check()
    assert due["libone-1.2nb4"] == "it was not built yet", due
    assert due[LIBTWO] == f"it needs libone-1.2nb4 instead of {LIBONE}", due
    built = tree.built()
    assert built == [APP3, "libone-1.2nb4", LIBTHREE, LIBTWO, THING, TOOL], built
    assert tree.check() == {}
    tree.file("libone-1.2nb4").write_bytes(b"")
    assert tree.check()["libone-1.2nb4"] == "the package is truncated"
    assert "libone-1.2nb4" in tree.built()
    print("ok versions: a package with a changed dependency version is rebuilt")


def ages(tree):
    os.utime(tree.file(THING))
    assert tree.check() == {TOOL: f"{THING}, which it was built with, is newer"}
    settings = tree.directory / "bulk.toml"
    text = settings.read_text()
    settings.write_text(text + "skip_age_check = true\n")
    assert tree.check() == {} and tree.built() == []
    tree.file(THING).unlink()
    assert tree.check() == {THING: "it was not built yet"} and tree.built() == [THING]
    settings.write_text(text)
    assert tree.built() == [TOOL]
    print("ok ages: a package older than a dependency is rebuilt, unless this is disabled")


def cutoff(tree):
    """A package stays up to date if its dependency is rebuilt with the same content."""
    makefile = "devel/libtwo/Makefile"
    tree.change(makefile, ",v 1.2 ", ",v 1.3 ")
    assert tree.built("--cutoff") == [LIBTWO]
    assert "it was up to date" in tree.run("why", APP3)
    assert tree.check("--cutoff") == {} and tree.built("--cutoff") == []
    assert tree.check() == {APP3: f"{LIBTWO}, which it was built with, is newer"}
    assert tree.built() == [APP3]
    tree.change(makefile, ",v 1.3 ", ",v 1.4 ")
    tree.change(makefile, "\nFILES=", "\nFILES=\tshare/more.txt")
    assert tree.built("--cutoff") == [APP3, LIBTWO], "wrong packages were rebuilt"
    print("ok cutoff: dependents of a rebuilt, unchanged package are not rebuilt with --cutoff")


def again(tree):
    """A killed build with --again continues as one."""
    before = tree.times()
    build = subprocess.Popen(
        tree.command("build", "--again"), cwd=tree.directory, env=tree.environment, stdout=subprocess.DEVNULL
    )
    while not any(before.get(name) != time for name, time in tree.times().items()):
        assert build.poll() is None, "the build ended too early"
        time.sleep(0.02)
    build.send_signal(signal.SIGKILL)
    build.wait()
    tree.run("build")
    wanted = [name for name in before if name != LIBONE]
    same = [name for name in wanted if tree.times()[name] == before[name]]
    assert not same, f"not rebuilt: {same}"
    assert "--again was given" in tree.run("why", TOOL)
    assert tree.built() == []
    print("ok again: --again rebuilds all packages, also after a kill")


def options(tree):
    """A change of mk.conf makes exactly the affected packages out of date."""
    settings, mk_conf = tree.directory / "bulk.toml", tree.directory / "mk.conf"
    settings.write_text("rebuild_on_options = true\n" + settings.read_text())

    def configure(text):
        before = mk_conf.read_text()
        mk_conf.write_text(f"{before}{text}\n")
        time.sleep(SETTLE)
        return before

    assert tree.built() == [], "recorded options were replaced by current ones"
    configure("UNUSED= yes")
    assert tree.check() == {} and tree.built() == [], "an unused variable made packages out of date"
    before = configure(".if ${PKGNAME:U:Mlibtwo-*} != \"\"\nPKG_OPTIONS= one two\n.endif")
    why = 'it was built with PKG_OPTIONS "", which is "one two" now'
    assert tree.check() == {LIBTWO: why, APP3: has_to_be_built(LIBTWO)}, tree.check()
    assert tree.built() == [APP3, LIBTWO] and tree.check() == {}
    assert why in tree.run("why", LIBTWO)
    # Each version of a package has its own record.
    configure(".if ${PYTHON_VERSION_REQD:U} == 312\nPKG_OPTIONS= python\n.endif")
    assert tree.check() == {THING: 'it was built with PKG_OPTIONS "", which is "python" now', TOOL: has_to_be_built(THING)}
    mk_conf.write_text(before)
    time.sleep(SETTLE)
    assert tree.check() == {LIBTWO: 'it was built with PKG_OPTIONS "one two", which is "" now', APP3: has_to_be_built(LIBTWO)}
    assert tree.built() == [APP3, LIBTWO]
    # All packages list this variable in BUILD_DEFS.
    configure("FETCH_SITE= http://127.0.0.1:9/")
    why = 'it was built with FETCH_SITE "http://127.0.0.1:1/", which is "http://127.0.0.1:9/" now'
    assert tree.check() == {name: why for name in (set(ALL) - {LIBONE}) | {"libone-1.2nb4"}}
    settings.write_text(settings.read_text().replace("rebuild_on_options = true", ""))
    assert tree.check() == {}, "a variable outside BUILD_DEFS made packages out of date"
    print("ok options: a change of mk.conf makes only the affected packages out of date")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as directory:
        tree = Tree(tanto, Path(directory))
        for test in (changes, versions, ages, cutoff, again, options):
            test(tree)


main()
