"""The synthetic trees: writes those that are missing with bench/trees, and returns where their builds start."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lib.machine import PLACE, ROOT, need

GENERATOR = ROOT / "target/release/tanto-trees"


@dataclass(frozen=True)
class Trees:
    """Large trees lie in `place`, each named by its kind and its scale: aosp-0.1."""

    place: Path
    scale: float

    def directory(self, kind):
        """Where a build of `aosp` or `chromium` is started."""
        tree = self._at(self.place / f"{kind}-{self.scale:g}", kind, "--scale", str(self.scale))
        return tree / "out/Default" if kind == "chromium" else tree

    def tiny(self, program):
        """Ten edges, a tree for each program: its commands are run."""
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
    parser.add_argument("--scale", type=float, default=0.1, help="of the large trees (0.1); 1 is AOSP's, 4 GB")
    parser.add_argument("--trees", type=Path, default=PLACE, help="where they are, or are made (target/bench)")


def from_arguments(arguments):
    return Trees(arguments.trees.absolute(), arguments.scale)
