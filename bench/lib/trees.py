"""The made-up trees: makes those that are not there, and says where a build of them is started. Does not know who
builds them."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lib.machine import PLACE, ROOT

GENERATOR = ROOT.parent / "shared/tools/gen_manifest.rs"


@dataclass(frozen=True)
class Trees:
    """Large trees lie in `place`, each named by its kind and its scale: aosp-0.1."""

    place: Path
    scale: float
    generator: Path

    def directory(self, kind):
        """Where a build of `aosp` or `chromium` is started."""
        tree = self._at(self.place / f"{kind}-{self.scale:g}", kind, "--scale", str(self.scale))
        return tree / "out/Default" if kind == "chromium" else tree

    def tiny(self, program):
        """Ten edges, a tree for each program: this one is really built."""
        return self._at(PLACE / f"tiny-{program.replace(' ', '-').replace('/', '-')}", "tiny")

    def _at(self, tree, *making):
        if not tree.exists():
            unfinished = tree.with_name(f"{tree.name}.unfinished")
            unfinished.mkdir(parents=True, exist_ok=True)
            subprocess.run([self._compiled_generator(), *making, "--out", unfinished], check=True)
            os.rename(unfinished, tree)
        return tree

    def _compiled_generator(self):
        if not self.generator.exists():
            sys.exit(f"there is no {self.generator}: name the trees' generator, gen_manifest.rs, with --generator")
        PLACE.mkdir(parents=True, exist_ok=True)
        program = PLACE / "gen_manifest"
        subprocess.run(["rustc", "--edition", "2021", "-O", "-o", program, self.generator], check=True, cwd=PLACE)
        return program


def add_arguments(parser):
    parser.add_argument("--scale", type=float, default=0.1, help="of the large trees (0.1); 1 is AOSP's, 4 GB")
    parser.add_argument("--trees", type=Path, default=PLACE, help="where they are, or are made (target/bench)")
    parser.add_argument("--generator", type=Path, default=GENERATOR, help="gen_manifest.rs")


def from_arguments(arguments):
    return Trees(arguments.trees.absolute(), arguments.scale, arguments.generator)
