"""Dependencies as layers and by pkg_add: a package sees the same files in both cases.

    layers.py TANTO

Needs namespaces and overlays; prints a line if they are missing. With a prepared tree in TANTO_PKGSRC
(bench/lib/pkgsrc.py), also compares with its pkg_add.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from place import ROOT, TREE, Place

sys.path.insert(0, str(ROOT / "bench"))
from lib import provide

SETTINGS = 'sandbox = "overlay"\nbuild_clients = 2\n'
CATEGORIES = ("kinds",)


# A user ID without an account on this machine.
USER = 61234


def can_create_sandboxes(user):
    """Whether sandboxes are possible. An ordinary user is root in a user namespace."""
    script = "mkdir l u w m && mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w$0 m"
    ways = ((["unshare", "-rm"], ",userxattr"),) if user or os.geteuid() != 0 else ((["unshare", "-m"], ""),)
    with tempfile.TemporaryDirectory() as directory:
        if user:
            os.chown(directory, user, user)
        command, more = ways[0]
        line = [*become(user), *command, "sh", "-c", script, more]
        return subprocess.run(line, cwd=directory, capture_output=True, check=False).returncode == 0


def become(user):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []


def place_of(tanto, directory, user):
    place = Place(tanto, directory, CATEGORIES, SETTINGS)
    if user:
        shutil.copy(tanto, directory / "tanto")
        place.tanto, place.as_user = str(directory / "tanto"), become(user)
        subprocess.run(["chown", "-R", f"{user}:{user}", directory], check=True)
    return place


def census(place, layers):
    """Files seen by a package that depends on all others."""
    text = (place.directory / "bulk.toml").read_text().replace("layers = false\n", "")
    (place.directory / "bulk.toml").write_text(("" if layers else "layers = false\n") + text)
    place.build(1)
    assert place.state("census-1.0")[0] == "failed"
    others = [name for name in place.names() if name != "census-1.0"]
    assert place.packages() == sorted(others), "packages are missing"
    lines = place.run("log", "census-1.0", "build").splitlines()
    return [line for line in lines if line.startswith("./")]


def same(tanto, directory, user):
    """One package of each kind, and enough for layer groups."""
    place = place_of(tanto, directory, user)
    by_layers = census(place, layers=True)
    kept = [path.name for path in (directory / "state/layers/layers").iterdir()]
    groups = [name for name in kept if name.startswith("group.")]
    assert groups, f"no groups in {kept}"
    whole = [name for name in kept if (directory / f"state/layers/layers/{name}/tree").exists()]
    assert not any(name.startswith("script-") for name in whole), "a package with a script was unpacked"
    by_pkg_add = census(place, layers=False)
    for line in set(by_layers) ^ set(by_pkg_add):
        print(f"    only {'layers' if line in by_layers else 'pkg_add'}: {line}")
    assert by_layers == by_pkg_add, "layers and pkg_add differ"
    for wanted in ("./lib/gone.so -> nowhere.so", "./var/dirs/empty drwxr-xr-x", "./share/seen-by-script.txt -rw"):
        assert any(line.startswith(wanted) for line in by_layers), f"{wanted} is not there:\n" + "\n".join(by_layers)
    user_name = "an ordinary user" if user else "the current user"
    print(f"ok same: {len(by_layers)} files are equal for {user_name}, with {len(groups)} groups of layers")
    return place, by_layers


def damage(place, expected):
    """Damage in the store, by a killed build or a bad disk, and a small limit are harmless."""
    store = place.directory / "state/layers"
    (store / "new/1-1/tree").mkdir(parents=True)
    for layer in (store / "layers").iterdir():
        (layer / "info").write_text("tanto layer 1\n")
    assert census(place, layers=True) == expected
    text = (place.directory / "bulk.toml").read_text()
    (place.directory / "bulk.toml").write_text('layers_size = "1K"\n' + text)
    assert census(place, layers=True) == expected
    (place.directory / "bulk.toml").write_text(text)
    print("ok damage: damaged layers are recreated, and the limit is exceeded if necessary")


def fallback(place, expected):
    """Packages that the rules do not cover are installed by pkg_add; here one with a list that differs from its files."""
    package = place.directory / "packages/All/links-1.0.tgz"
    whole, made = package.read_bytes(), package.stat()
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["tar", "-xzpf", package, "-C", directory], check=True)
        contents = Path(directory, "+CONTENTS")
        lines = contents.read_text().splitlines(keepends=True)
        contents.write_text("".join(line for line in lines if "gone.so" not in line))
        rest = ["share/links.txt", "lib/liblinks.so.1", "bin/other", "lib/liblinks.so"]
        meta = ["+CONTENTS", "+COMMENT", "+DESC", "+BUILD_VERSION", "+BUILD_INFO"]
        subprocess.run(["tar", "-czf", package, "-C", directory, *meta, *rest, "lib/gone.so"], check=True)
    # Its dependents are not out of date.
    os.utime(package, ns=(made.st_atime_ns, made.st_mtime_ns))
    seen = census(place, layers=True)
    strip = lambda lines: [line for line in lines if "links-1.0/+CONTENTS" not in line]
    assert strip(seen) == strip(expected)
    package.write_bytes(whole)
    print("ok fallback: packages outside the rules are installed by pkg_add")


def in_order(line):
    """The order of packages that share a directory does not matter."""
    before, word, names = line.partition("@pkgdir ")
    return before + word + " ".join(sorted(names.split()))


def real(tanto, directory, prepared):
    """Compared with a real pkg_add: packages of each kind, and many."""
    sandbox = provide.Sandbox(tanto, directory, tomllib.loads((prepared / "bulk.toml").read_text()))
    kinds, many = list(provide.one_of_each_kind()), list(provide.many(40, files=3))
    for made in [*kinds, *many]:
        made.write(sandbox.packages, sandbox.prefix)
    subprocess.run(["cp", TREE / "tools/census", directory], check=True)
    tools = Path(sandbox.pkg_add).parent
    look = f"for dir in {sandbox.prefix} {sandbox.pkgdb}; do {directory}/census $dir | grep -v byfile; done; "
    look += f"{tools}/pkg_admin -K {sandbox.pkgdb} dump | LC_ALL=C sort"
    for direct, indirect in (
        (["top-1.0", "plain-1.0"], [made.name for made in kinds]),
        (["many39-1.0", "links-2.1nb3"], [made.name for made in [*many, *kinds]]),
    ):
        indirect = [name for name in indirect if name not in direct]
        seen = []
        for layers in (True, False):
            command = sandbox.command(direct, indirect, layers=layers, then=look)
            ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
            assert "installs everything" not in ended.stdout, ended.stdout
            seen.append([in_order(line) for line in ended.stdout.splitlines() if line.startswith(("./", "file: "))])
        for line in sorted(set(seen[0]) ^ set(seen[1])):
            print(f"    only {'layers' if line in seen[0] else 'pkg_add'}: {line}")
        assert seen[0] == seen[1] and len(seen[0]) > 100, "a real pkg_add gives another result"
        print(f"ok real: {len(seen[0])} files and database entries equal those of a real pkg_add")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    for user in (None, USER) if os.geteuid() == 0 else (None,):
        if not can_create_sandboxes(user):
            print(f"same: skipped: {'an ordinary user' if user else 'the current user'} cannot mount an overlay")
            continue
        with tempfile.TemporaryDirectory() as directory:
            place, expected = same(tanto, Path(directory), user)
            if not user:
                damage(place, expected)
                fallback(place, expected)
    prepared = os.environ.get("TANTO_PKGSRC")
    if not prepared or os.geteuid() != 0:
        return print("real: skipped: requires root and a prepared tree in TANTO_PKGSRC")
    with tempfile.TemporaryDirectory() as directory:
        real(tanto, Path(directory), Path(prepared))


main()
