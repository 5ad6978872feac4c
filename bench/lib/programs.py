"""The programs to compare: Tanto and other ninjas."""

import argparse
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from lib import machine

OWN = machine.ROOT / "target/as-ninja/ninja"
REFERENCE = "ninja 1.13.2"
DONE = re.compile(r"no work to do|nothing to do")


@dataclass(frozen=True)
class Program:
    """A ninja and its kind of state: v5 or v7 (log versions of ninja), or n2."""

    name: str
    path: Path
    state: str

    def command(self, *arguments):
        """Returns a command for a large tree, which has a manifest for each kind of state."""
        return [str(self.path), "-f", f"build-{self.state}.ninja", *arguments]


def state_of(path):
    """Returns the log version of a ninja."""
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()
    return "v5" if (int(major), int(minor)) < (1, 12) else "v7"


def find_tanto(path):
    """Returns the named program, or builds that of this repository."""
    if path == OWN:
        machine.need("need_rust; build_tanto")
    return Program("tanto", path.absolute(), "v7")


def installed(program):
    """Copies the program, as an installation does. A freshly linked file is in the page cache in single pages, because the
    linker writes through a mapping; a small build then takes a third longer."""
    place = machine.PLACE / "installed"
    place.mkdir(parents=True, exist_ok=True)
    copy = place / program.path.name
    copy.unlink(missing_ok=True)
    shutil.copy(program.path, copy)
    return replace(program, path=copy)


def find_peers(named):
    """Returns ninja 1.13.2 and 1.11.1, and those of --peer."""
    machine.need("need_packages ninja-build=/usr/bin/ninja; need_venv")
    known = [(REFERENCE, machine.ROOT / ".venv/bin/ninja", None), ("ninja 1.11.1", Path("/usr/bin/ninja"), None)]
    return [Program(name, path, state or state_of(path)) for name, path, state in known + named]


def peer(text):
    """Parses NAME=PATH, or NAME=PATH:STATE if --version does not imply the state."""
    form = re.fullmatch(r"([^=]+)=(.+?)(?::(v5|v7|n2))?", text)
    if not form:
        raise argparse.ArgumentTypeError("expected NAME=PATH, or NAME=PATH:STATE with v5, v7 or n2 as STATE")
    if not Path(form[2]).is_file():
        raise argparse.ArgumentTypeError(f"no such file: {form[2]}")
    return form[1], Path(form[2]).absolute(), form[3]


def add_tanto_argument(parser):
    parser.add_argument("--tanto", type=Path, default=OWN, help="the program to measure")


def check_noop(command, directory, environment):
    """Runs a build. Returns None if it succeeded and there was nothing to do, else its output."""
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    said = ended.stdout + ended.stderr
    if ended.returncode == 0 and DONE.search(said):
        return None
    return said[-1000:] or f"exit code {ended.returncode}"
