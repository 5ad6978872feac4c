"""The synthetic trees of bench/trees, written if missing."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lib.machine import PLACE, ROOT, need

GENERATOR = ROOT / "target/release/tanto-trees"


@dataclass(frozen=True)
class Trees:
    """Large trees in `place`, named by kind and scale, such as aosp-0.1."""

    place: Path
    scale: float

    def directory(self, kind):
        """Returns the build directory of `aosp` or `chromium`."""
        tree = self._at(self.place / f"{kind}-{self.scale:g}", kind, "--scale", str(self.scale))
        return tree / "out/Default" if kind == "chromium" else tree

    def tiny(self, program):
        """Returns a tree of ten edges for one program."""
        return self._at(PLACE / f"tiny-{program.replace(' ', '-').replace('/', '-')}", "tiny")

    def _at(self, tree, *making):
        if not tree.exists():
            unfinished = tree.with_name(f"{tree.name}.unfinished")
            unfinished.mkdir(parents=True, exist_ok=True)
            need("need_rust; cargo build -q --release -p tanto-trees; link_built release tanto-trees")
            subprocess.run([GENERATOR, *making, "--out", unfinished], check=True)
            os.rename(unfinished, tree)
        return tree


def add_arguments(parser):
    parser.add_argument("--scale", type=float, default=0.1, help="scale of the large trees (0.1); 1 is the size of AOSP, 4 GB")
    parser.add_argument("--trees", type=Path, default=PLACE, help="directory of the trees (target/bench)")


def from_arguments(arguments):
    return Trees(arguments.trees.absolute(), arguments.scale)
