"""Results of `tanto bulk` compared with pbulk's.

    run.py TANTO

- golden: the scan of a whole tree and the result of pbulk-resolve, from ../shared/data beside the repository (or
TANTO_DATA).
- random: seeded small scans, resolved by Tanto and by the pbulk-resolve in TANTO_PBULK_RESOLVE.

Each is skipped, with a message, without its input.
"""

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("TANTO_DATA", ROOT.parent / "shared/data"))
SCANS = 500
BASES = ("aaaa", "aaab", "lib-x", "lib", "libfoo", "py311-a", "py312-a", "ab.c", "pgtk")
VERSIONS = (
    *("1", "1.0", "1.0nb1", "1.1", "2rc1", "2", "2alpha", "1.0a", "10", "1_2", "1pl2", "20240101", "3.0beta2nb4", "0"),
    *("1.0.0", "nb3", "1..2", "x", "1.0NB2", "1Rc2"),
)


def unpack(name, directory):
    """Unpacks a data file."""
    path = directory / name
    subprocess.run(["zstd", "-dqf", DATA / f"{name}.zst", "-o", path], check=True)
    return path


def resolve(tanto, scan):
    """Tanto's result, including packages with missing dependencies."""
    command = [tanto, "bulk", "resolve", "--partial", "--scan", scan]
    ended = subprocess.run(command, capture_output=True, check=True)
    return ended.stdout, ended.stderr


def depends(text):
    """DEPENDS of each package, by name."""
    lines = text.split(b"\n")
    return [line for line in lines if line.startswith((b"PKGNAME=", b"DEPENDS="))]


def golden(tanto, directory):
    ours, errors = resolve(tanto, unpack("pscan", directory))
    theirs = unpack("presolve", directory).read_bytes()
    assert depends(ours) == depends(theirs), "dependencies differ from pbulk's"
    packages = sum(line.startswith(b"PKGNAME=") for line in depends(ours))
    missing = errors.count(b"but no package matches")
    assert missing == theirs.count(b"could not resolve dependency"), f"{missing} dependencies are missing"
    print(f"ok golden: {packages:,} packages have the same dependencies as in pbulk")


def pattern(draw):
    base, low, high = draw.choice(BASES), draw.choice(VERSIONS), draw.choice(VERSIONS)
    return draw.choice(
        (
            *(f"{base}-[0-9]*", f"{base}>={low}", f"{base}>{low}<{high}", f"{base}<{low}", f"{base}>={low}<={high}"),
            *(f"{base}-{low}", f"{base}-{low}*", f"{{{base},{draw.choice(BASES)}}}-[0-9]*", f"{base}>={low}{{nb*,}}"),
            *(f"{base[:-1]}[{base[-1]}z]-*", f"{base[:2]}?*-{low}{{,nb[0-9]*,.{{1,2}}}}", f"{base}<={high}"),
        )
    )


def scan(draw):
    """Records, some with equal names."""
    names = {f"{draw.choice(BASES)}-{draw.choice(VERSIONS)}": None for _ in range(draw.randrange(2, 25))}
    for name in [*names, *draw.choices(list(names), k=draw.randrange(2))]:
        needs = " ".join(f"{pattern(draw)}:../../a/{draw.choice('xyz')}" for _ in range(draw.randrange(6)))
        yield f"PKGNAME={name}\nPKG_LOCATION=a/{draw.choice('xyz')}\nALL_DEPENDS={needs}\nX=\n"


def beside_pbulk(tanto, pbulk, directory):
    path = directory / "scan"
    for seed in range(SCANS):
        path.write_text("".join(scan(random.Random(seed))))
        theirs = subprocess.run([pbulk, "-p", path], capture_output=True, check=False).stdout
        assert resolve(tanto, path)[0] == theirs, f"seed {seed}: differs from pbulk-resolve"
    print(f"ok random: {SCANS} scans are resolved as by pbulk-resolve")


def main():
    tanto = Path(sys.argv[1]).resolve()
    pbulk = os.environ.get("TANTO_PBULK_RESOLVE")
    with tempfile.TemporaryDirectory() as directory:
        if (DATA / "pscan.zst").exists():
            golden(tanto, Path(directory))
        else:
            print(f"golden: skipped: there is no pscan.zst in {DATA}")
        if pbulk:
            beside_pbulk(tanto, pbulk, Path(directory))
        else:
            print("random: skipped: TANTO_PBULK_RESOLVE is not set to a pbulk-resolve")


main()
