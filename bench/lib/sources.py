"""Real projects to build: Debian's source packages. Does not know what is measured with them."""

import subprocess
import sys

from lib import machine

# A list of packages of our own: that of the machine hardly ever names sources.
LIST = """Types: deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def debian(package, within=".", only_that=False):
    """The directory of a package's unpacked sources; `within` is a path in it that has to be there, and all of it that is
    unpacked if the rest is too large."""
    place = machine.PLACE / "sources"
    found = sorted(place.glob(f"{package}-*/{within}"))
    if not found:
        machine.need("need_packages dpkg-dev=dpkg-source")
        (place / "lists/partial").mkdir(parents=True, exist_ok=True)
        (place / "debian.sources").write_text(LIST)
        settings = ("Etc::sourcelist=/dev/null", f"Etc::sourceparts={place}", f"State::lists={place}/lists")
        apt = ["apt-get", "-qq", *(f"-oDir::{setting}" for setting in settings)]
        for what in (["update"], ["source", *(["--download-only"] if only_that else []), package]):
            done = subprocess.run([*apt, *what], cwd=place, stdout=subprocess.DEVNULL)
            if done.returncode != 0:
                sys.exit(f"apt-get could not get the sources of {package}: is there a network?")
        if only_that:
            unpack(place, package, within)
        found = sorted(place.glob(f"{package}-*/{within}"))
    if not found:
        sys.exit(f"the sources of {package} have no {within}")
    return found[-1]


def unpack(place, package, within):
    archive = max(place.glob(f"{package}_*.orig.tar.*"))
    directory = place / f"{package}-part"
    directory.mkdir(exist_ok=True)
    line = ["tar", "-xf", archive, "-C", directory, "--strip-components=1", "--wildcards", f"*/{within}/*"]
    subprocess.run(line, check=True)
