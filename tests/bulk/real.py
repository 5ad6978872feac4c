"""A real package tree: `tanto bulk` compared with pbulk, the commands of docs/pkgsrc-tutorial.md, and the keys in
docs/bulk-config.md.

    real.py TANTO

TANTO_PKGSRC names the tree; bench/lib/pkgsrc.py lists its contents. Without it, the test is skipped. Builds use
sandboxes, or else the directories in the tree's bulk.toml. The tutorial needs only a bare tree, but root and some
minutes for pkgsrc's bootstrap.
"""

import json
import os
import pwd
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from place import ROOT
from real_place import content, pkgsrc

from lib.pbulk import Pbulk

# Number of directories to build.
BUILT = 3


def run(command, directory, ends=(0,), **more):
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace", **more)
    assert result.returncode in ends, f"{command}: {result.returncode}\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
    return result.stdout


def scan(tanto, tree, place):
    """Asks pbulk once for the directories that Tanto found."""
    config = tree.write_settings(place, limited_list=str(tree.place / "limited-list"))
    run([tanto, "bulk", "scan", "--config", config, "--output", "pscan"], place)
    found = re.findall(r"(?m)^PKG_LOCATION=(.*)$", (place / "pscan").read_text())
    program = str(tree.pbulk / "bin/pbulk-scan")
    command = [program, "-l", "-M", tree.settings["make"], str(tree.source()), "pscan.pbulk"]
    own = {**os.environ, "PBULK_CACHE_DIRECTORY": str(place / "cache")}
    run(command, place, input="".join(f"{location}\n" for location in dict.fromkeys(found)), env=own)
    ours, theirs = pkgsrc.records(place / "pscan"), pkgsrc.records(place / "pscan.pbulk")
    assert ours == theirs, f"{sorted(set(ours) ^ set(theirs))[:1]}"
    print(f"ok real scan: {len(ours)} records equal those of pbulk")


def resolve(tanto, tree, place):
    ours = run([tanto, "bulk", "resolve", "--partial", "--scan", "pscan"], place)
    theirs = run([str(tree.pbulk / "bin/pbulk-resolve"), "-p", "pscan"], place)
    assert ours == theirs, "differs from pbulk-resolve"
    print(f"ok real resolve: {ours.count('DEPENDS=')} lines equal those of pbulk-resolve")


def build(tanto, tree, place):
    few = tree.limited()[:BUILT]
    (place / "few").write_text("".join(f"{location}\n" for location in few))
    config = tree.write_settings(place, limited_list=str(place / "few"), state=str(place / "state-of-few"))
    # Some packages of an old tree do not build on a new system.
    run([tanto, "bulk", "build", "--config", config], place, ends=(0, 1))
    ours = sorted(path.name for path in (place / "packages/All").glob("*.tgz"))
    assert ours, "no package was built"
    print(f"ok real build: {len(ours)} packages of {BUILT} directories and their dependencies are built")
    if os.geteuid() != 0:
        print("real build: not compared with pbulk, which requires root for its chroots")
        return
    peer = Pbulk(tree, place / "pbulk", [place / "pbulk/client"], limited=few)
    run(peer.build_command(), place)
    theirs = sorted(path.name for path in (place / "pbulk/packages/All").glob("*.tgz"))
    assert ours == theirs, f"pbulk built other packages: {theirs}"
    for name in ours:
        mine, its = (dict(content(place / where / "All" / name)) for where in ("packages", "pbulk/packages"))
        other = [key for key in mine.keys() | its.keys() if mine.get(key) != its.get(key)]
        assert not other, f"{name}: {other[:5]} differ"
    print(f"ok real build: {len(ours)} packages have the same content as pbulk's")


# Instructions before blocks of commands that are not run as they are.
BLOCK = re.compile(r"(?m)^(?:<!-- test: (.*) -->\n)?```sh\n((?:.*\n)*?)```$")
SKIPPED = "skipped, "


def commands(values, is_old):
    """The page's commands with other values."""
    page = (ROOT / "docs/pkgsrc-tutorial.md").read_text()
    wanted = {"": True, "for an older tree": is_old, "for a newer tree": not is_old}
    script, found = ["set -eux"], set()
    for instruction, text in BLOCK.findall(page):
        found.add(instruction)
        if instruction == "its own values":
            names = re.findall(r"(?m)^(\w+)=", text)
            assert names == list(values), f"the page sets {names}"
            script += [f"{name}='{value}'" for name, value in values.items()]
        elif not instruction.startswith(SKIPPED) and wanted[instruction]:
            script.append(text)
    assert found >= {"its own values", "for an older tree", "for a newer tree", ""}, f"blocks are missing in the page: {found}"
    return "\n".join(script)


def builder():
    """A user of this machine with a shell; None: root builds."""
    users = (user for user in pwd.getpwall() if user.pw_uid >= 1000 and user.pw_shell in ("/bin/sh", "/bin/bash"))
    return next((user.pw_name for user in users), "")


def page(tanto, place):
    """Checks without a tree: the shell parses all commands, and Tanto the settings."""
    values = dict.fromkeys(("PKGSRC", "PREFIX", "BULK", "BUILDER"), str(place))
    for is_old in (False, True):
        run(["bash", "-n", "-c", commands(values, is_old)], place)
    files = re.findall(r"(?m)^cat >(?:.*\n)*?END$", commands(values, False))
    run(["bash", "-c", "\n".join(files)], place, env={**os.environ, **values})
    output = subprocess.run([tanto, "bulk", "status"], cwd=place, capture_output=True, text=True, check=False).stderr
    assert "nothing was built yet" in output, output
    print("ok tutorial: the shell reads its commands, and Tanto its settings")


def keys(tanto, place):
    """docs/bulk-config.md lists each key of bulk.toml with its default."""
    run([tanto, "bulk", "init", place], place)
    defaults = {key: str(value).lower() for key, value in tomllib.loads((place / "bulk.toml").read_text()).items()}
    listed = {}
    for names, default in re.findall(r"(?m)^\| (`\w+`(?:, `\w+`)*) \|([^|]*)\|", (ROOT / "docs/bulk-config.md").read_text()):
        values = default.replace("`", "").replace('"', "").split(",")
        for name, value in zip(names.replace("`", "").split(", "), values, strict=True):
            listed[name] = value.strip().lower()
    wrong = [f"{key}: {listed.get(key)}" for key in defaults | listed if listed.get(key) != defaults.get(key)]
    assert not wrong, f"docs/bulk-config.md has other keys or defaults than the program: {wrong}"
    print(f"ok configuration: the documentation has all {len(defaults)} keys of bulk.toml with their defaults")


def tutorial(tanto, source, place):
    version = (source / "pkgtools/pkg_install/files/lib/version.h").read_text()
    is_old = int(re.search(r"PKGTOOLS_VERSION\s+(\d+)", version)[1]) < 20_200_000
    bulk = place / "bulk"
    values = {"PKGSRC": source, "PREFIX": place / "pkg", "BULK": bulk, "BUILDER": builder()}
    (place / "bin").mkdir()
    (place / "bin/tanto").symlink_to(tanto)
    environment = {name: os.environ[name] for name in ("HOME", "TERM", "LANG") if name in os.environ}
    environment["PATH"] = f"{place}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    run(["bash", "-c", commands(values, is_old)], place, env=environment)
    ten = (bulk / "first-ten").read_text().split()
    report = lambda: json.loads(run([tanto, "bulk", "report", "--json"], bulk))
    summary = report()
    built = {package["location"] for package in summary["packages"] if package["state"] == "done"}
    assert len(ten) == 10 and built >= set(ten) and list(summary["counts"]) == ["done"], summary["counts"]
    files = len(list((bulk / "packages/All").glob("*.tgz")))
    assert files == summary["counts"]["done"], f"{files} files of {summary['counts']['done']} packages"
    assert not list((bulk / "distfiles").glob("**/*.*")), "files were fetched again"
    run([tanto, "bulk", "build"], bulk)
    assert report()["costs"] == [], "packages were rebuilt"
    print(f"ok tutorial: the commands of the page build {files} packages")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    named = os.environ.get("TANTO_PKGSRC")
    tree, why = pkgsrc.find(named)
    if tree is None:
        print(f"real: skipped: {why}")
    else:
        beside_pbulk(tanto, tree)
    with tempfile.TemporaryDirectory() as directory:
        page(tanto, Path(directory))
    with tempfile.TemporaryDirectory() as directory:
        keys(tanto, Path(directory))
    source, why = pkgsrc.source(named)
    if source is None or os.geteuid() != 0:
        print(f"tutorial: skipped: {why or 'requires root'}")
        return
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o755)
        tutorial(tanto, source, place)


def beside_pbulk(tanto, tree):
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        # Other users read the results.
        place.chmod(0o755)
        scan(tanto, tree, place)
        resolve(tanto, tree, place)
        build(tanto, tree, place)


main()
