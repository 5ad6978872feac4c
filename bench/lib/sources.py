"""Debian source packages as projects to build."""

import subprocess
import sys

from lib import machine

# The package lists of the machine rarely include sources.
LIST = """Types: deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def debian(package, within=".", only_that=False):
    """Returns the path `within` the unpacked sources of a package; with `only_that`, unpacks nothing else."""
    place = machine.PLACE / "sources"
    found = sorted(place.glob(f"{package}-*/{within}"))
    if not found:
        machine.need("need_packages dpkg-dev=dpkg-source")
        (place / "lists/partial").mkdir(parents=True, exist_ok=True)
        (place / "debian.sources").write_text(LIST)
        settings = ("Etc::sourcelist=/dev/null", f"Etc::sourceparts={place}", f"State::lists={place}/lists")
        apt = ["apt-get", "-qq", *(f"-oDir::{setting}" for setting in settings)]
        for arguments in (["update"], ["source", *(["--download-only"] if only_that else []), package]):
            done = subprocess.run([*apt, *arguments], cwd=place, stdout=subprocess.DEVNULL)
            if done.returncode != 0:
                sys.exit(f"apt-get failed to download the sources of {package}; a network is required")
        if only_that:
            unpack(place, package, within)
        found = sorted(place.glob(f"{package}-*/{within}"))
    if not found:
        sys.exit(f"no {within} in the sources of {package}")
    return found[-1]


def unpack(place, package, within):
    archive = max(place.glob(f"{package}_*.orig.tar.*"))
    directory = place / f"{package}-part"
    directory.mkdir(exist_ok=True)
    line = ["tar", "-xf", archive, "-C", directory, "--strip-components=1", "--wildcards", f"*/{within}/*"]
    subprocess.run(line, check=True)
