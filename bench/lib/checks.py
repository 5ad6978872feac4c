"""Up-to-date checks of thousands of synthetic packages by Tanto, and of some by pbulk's script. The results must be equal."""

import io
import json
import os
import random
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from lib import machine
from lib.pbulk import CONF
from lib.scenarios import ENVIRONMENT
from lib.timing import Entrant, Row, print_table, take_turns

CHECK, TANTO, PBULK = "check", "tanto", "pbulk's script"
PACKAGES, FILES, NEEDS, ASKED = 5000, 12, 6, 200
# One of this many packages has a changed file.
STALE = 50


def ident(package, number, version=1):
    return f"$NetBSD: file{number},v 1.{version} 2026/01/01 00:00:{package % 60:02} bench Exp $"


class Tree:
    """Synthetic packages, and the package tree with their sources."""

    def __init__(self, place):
        self.place = place
        shutil.rmtree(place, ignore_errors=True)
        (place / "packages/All").mkdir(parents=True)
        draw = random.Random(1)
        payload = random.Random(2).randbytes(100_000)
        self.needs = [sorted(draw.sample(range(it), min(it, draw.randrange(NEEDS)))) for it in range(PACKAGES)]
        for package in range(PACKAGES):
            self.make(package, payload)
        needs = (" ".join(self.name(it) for it in needs) for needs in self.needs)
        records = (
            f"PKGNAME={self.name(it)}\nPKG_LOCATION={self.location(it)}\nALL_DEPENDS=\nDEPENDS={depends}\n"
            for it, depends in enumerate(needs)
        )
        (place / "presolve").write_text("".join(records))
        (place / "bulk.toml").write_text('pkgsrc = "tree"\n')

    def name(self, package):
        return f"package{package}-1.{package}"

    def location(self, package):
        return f"bench/package{package}"

    def make(self, package, payload):
        directory = self.place / "tree" / self.location(package)
        directory.mkdir(parents=True)
        for number in range(FILES):
            changed = package % STALE == 0 and number == FILES - 1
            (directory / f"file{number}").write_text(f"# {ident(package, number, 1 + changed)}\n" + "X=\n" * 100)
        versions = (f"{self.location(package)}/file{it}:\t{ident(package, it)}\n" for it in range(FILES))
        needs = "".join(f"@blddep {self.name(it)}\n" for it in self.needs[package])
        members = {
            "+CONTENTS": f"@name {self.name(package)}\n@cwd /usr/pkg\n{needs}share/payload\n",
            "+COMMENT": "synthetic\n",
            "+DESC": "synthetic\n",
            "+BUILD_VERSION": "".join(versions),
            "+BUILD_INFO": "OPSYS=Linux\n",
        }
        path = self.file(package)
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            for name, content in [*((name, text.encode()) for name, text in members.items()), ("share/payload", payload)]:
                head = tarfile.TarInfo(name)
                head.size = len(content)
                archive.addfile(head, io.BytesIO(content))
        os.utime(path, (1_000_000 + package, 1_000_000 + package))

    def file(self, package):
        return self.place / f"packages/All/{self.name(package)}.tgz"


def script(tree, real):
    """Returns a copy of pbulk's script that reads these packages."""
    text = (real.pbulk / "libexec/pbulk/pkg-up-to-date").read_text()
    conf, path = tree.place / "pbulk.conf", tree.place / "pkg-up-to-date"
    tools = Path(real.settings["pkg_add"]).parent
    own = f"packages={tree.place}/packages\npkgsrc={tree.place}/tree\nskip_age_check=no\npkg_info={tools}/pkg_info\n"
    conf.write_text((real.pbulk.resolve() / CONF).read_text() + own)
    path.write_text(re.sub(r"(?m)^\. \S+/pbulk\.conf$", f". {conf}", text))
    path.chmod(0o755)
    return path


def beside(tree, real):
    """Returns pbulk's results for some packages, and its time per package in ms."""
    program, asked = script(tree, real), random.Random(3).sample(range(PACKAGES), ASKED)
    asked[0] = STALE
    said, began = {}, time.monotonic()
    for package in asked:
        words = [tree.name(it) for it in (package, *tree.needs[package])]
        ran = subprocess.run([program, *words], capture_output=True, env=ENVIRONMENT, check=False)
        said[tree.name(package)] = ran.returncode == 0
    return said, (time.monotonic() - began) * 1e3 / ASKED


def check(tanto, arguments, real, why):
    tree = Tree(machine.PLACE / "checks")
    command = [tanto, "bulk", "check", "--json", "--resolved", "presolve"]
    entrant = Entrant(Row(TANTO), command, tree.place, ENVIRONMENT)
    take_turns(machine.compile_c("timed"), arguments.runs, [entrant], [], 0)
    print_table(f"check: {PACKAGES:,} packages of {FILES} files each", [entrant.row])
    output = subprocess.run(command, cwd=tree.place, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    changed = {it["name"] for it in json.loads(output)["packages"] if it["why"].endswith(" has changed")}
    if len(changed) != PACKAGES // STALE:
        raise SystemExit(f"{len(changed)} packages have changed, not {PACKAGES // STALE}")
    rows = {(CHECK, TANTO): entrant.row}
    print(f"{TANTO}: {each(rows):.3f} ms of user+system time per package, including the start of the program")
    if real is None:
        print(f"{PBULK}: skipped: {why}")
        return rows
    said, took = beside(tree, real)
    if any(up_to_date == (name in changed) for name, up_to_date in said.items()):
        raise SystemExit("the results differ")
    print(f"{PBULK}: {took:.1f} ms per package for {ASKED} packages, with equal results")
    return rows


def each(rows):
    """User+system time per package in ms."""
    return rows[CHECK, TANTO].median("cpu") / PACKAGES
