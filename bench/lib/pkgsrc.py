"""A prepared package tree.

TANTO_PKGSRC names the directory. It contains `bulk.toml` for `tanto bulk`; `limited-list`, the directories that can be built without
a network; and, for comparisons with pbulk, `pbulk`, a prefix with pkgtools/pbulk. Only directories that bulk.toml declares as
emptied are written to. For the tutorial (docs/pkgsrc-tutorial.md), TANTO_PKGSRC may also be a bare pkgsrc tree."""

import os
import random
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

# Seconds after which the mtime of a changed file is reliable.
SETTLED = 0.3


def find(place, needs_pbulk=True):
    """Returns the prepared tree, or None and the reason."""
    if not place:
        return None, "TANTO_PKGSRC names no prepared package tree"
    place = Path(place).resolve()
    wanted = ("bulk.toml", "limited-list", *(["pbulk"] if needs_pbulk else []))
    lacking = [name for name in wanted if not (place / name).exists()]
    return (None, f"{place} has no {lacking[0]}") if lacking else (Tree(place), None)


def source(place):
    """Returns the pkgsrc tree, prepared or bare, or None and the reason."""
    tree, why = find(place, needs_pbulk=False)
    source = tree.source() if tree else Path(place or ".").resolve()
    if (source / "bootstrap/bootstrap").exists():
        return source, None
    return None, why if tree is None else f"{source} has no bootstrap/bootstrap"


class Tree:
    """A prepared tree with its settings."""

    def __init__(self, place):
        self.place = place
        self.settings = tomllib.loads((place / "bulk.toml").read_text())
        self.pbulk = place / "pbulk"

    def source(self):
        return Path(self.settings["pkgsrc"])

    def limited(self):
        lines = (self.place / "limited-list").read_text().splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    def write_settings(self, directory, omitted=(), **changes):
        """Writes a bulk.toml for a run in this directory, without some keys."""
        own = {name: str(directory / name) for name in ("packages", "bulklog", "state")}
        path = directory / "bulk.toml"
        settings = {**self.settings, **own, **changes}
        path.write_text("".join(f"{name} = {written(it)}\n" for name, it in settings.items() if name not in omitted))
        return path

    def directories(self):
        """Yields all package directories of the tree."""
        for category in self.subdirs(self.source()):
            place = self.source() / category
            if place.is_dir():
                yield from (f"{category}/{name}" for name in self.subdirs(place) if (place / name).is_dir())

    def subdirs(self, directory):
        command = [self.settings["make"], "show-subdir-var", "VARNAME=SUBDIR"]
        return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout.split()

    def sample(self, count, seed, into):
        """Copies the tree with hard links, if possible, and lists only a random sample of its directories."""
        drawn = sorted(random.Random(seed).sample(sorted(self.directories()), count))
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(self.source(), into, symlinks=True, copy_function=link)
        by_category = {}
        for location in drawn:
            category, _, name = location.partition("/")
            by_category.setdefault(category, []).append(name)
        replace_subdirs(into / "Makefile", by_category)
        for category, names in by_category.items():
            replace_subdirs(into / category / "Makefile", names)
        return drawn


def written(value):
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, int) else f'"{value}"'


def link(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def replace_subdirs(makefile, names):
    """Replaces the Makefile, which is a hard link."""
    kept = [line for line in makefile.read_text().splitlines() if not re.match(r"\s*SUBDIR\s*\+?=", line)]
    makefile.unlink()
    makefile.write_text("\n".join([*(f"SUBDIR+=\t{name}" for name in names), *kept, ""]))


def records(path):
    """Returns the records of a scan in sorted order. The last one may lack its newline."""
    found = re.split(r"(?m)^(?=PKGNAME=)", path.read_text())
    return sorted(record.rstrip("\n") for record in found if record.strip())
