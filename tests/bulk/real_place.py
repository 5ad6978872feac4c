"""`tanto bulk` on the directories of `limited-list` in a prepared package tree."""

import hashlib
import os
import re
import sys
import tarfile
import tomllib

from place import ROOT, Place

sys.path.insert(0, str(ROOT / "bench"))

from lib import pkgsrc  # noqa: E402, F401

# Values that depend on the time and place of the build.
OF_ONE_BUILD = ("+BUILD_INFO", "+BUILD_VERSION", "+SIZE_PKG", "+SIZE_ALL")
# C's __DATE__ and __TIME__, and the linker's build ID, a digest of the content with these.
OF_ONE_COMPILATION = re.compile(
    rb"[A-Z][a-z]{2} [ \d]\d \d{4}|\d\d:\d\d:\d\d|\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0.{20}", re.DOTALL
)


class RealPlace(Place):
    """Settings for builds of the tree. Some packages of an old tree do not build on a new system."""

    ends = (0, 1)

    def __init__(self, tanto, directory, tree, settings):
        self.tanto, self.directory, self.as_user = tanto, directory, []
        self.environment = dict(os.environ)
        own = tomllib.loads(settings)
        limited = {"limited_list": str(tree.place / "limited-list")}
        config = tree.write_settings(directory, omitted=own.keys(), **limited)
        config.write_text(f"{config.read_text()}{settings}")
        self.run("scan", "--output", "pscan")
        self.run("resolve", "--partial", "--scan", "pscan", "--output", "presolve")

    def archive_kit(self):
        """It is an archive."""

    def contents(self):
        return {path.name: dict(content(path, OF_ONE_COMPILATION)) for path in (self.directory / "packages/All").glob("*.tgz")}


def content(path, ignored=re.compile(b"(?!)")):
    """Content of a binary package without the parts that differ in every build. `ignored`: other such parts of its files."""
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name in OF_ONE_BUILD:
                continue
            data = archive.extractfile(member).read() if member.isreg() else b""
            if member.name == "+CONTENTS":
                data = re.sub(rb"(?m)^@comment MD5:.*\n", b"", data)
            rights = (member.mode, member.uname, member.gname, member.linkname)
            yield member.name, (*rights, hashlib.sha256(ignored.sub(b"", data)).hexdigest())
