"""Real projects as manifests of nothing but compiles by clang 19, or links. Does not know what is measured with them."""

import re
import shutil
from dataclasses import dataclass, field

from lib import machine, sources

# What tests need is not there, and they are no part of what is built.
OF_TESTS = re.compile(r"test|benchmark|mock")
# So many links: one is over before a worker has started.
LINKS = 40


@dataclass(frozen=True)
class Project:
    """All that `patterns` find `within` a source package of Debian's. `line` compiles it; `{here}` is where it lies.
    `headers` are those that the package's own build would make, in the directory of the build."""

    package: str
    within: str
    patterns: tuple
    line: str
    headers: dict = field(default_factory=dict)

    only_that: bool = False

    def directory(self):
        return sources.debian(self.package, self.within, self.only_that).resolve()

    def files(self):
        here = self.directory()
        found = {file for pattern in self.patterns for file in here.glob(pattern)}
        return sorted(file.relative_to(here) for file in found if not OF_TESTS.search(str(file.relative_to(here))))


CXX = "clang++-19 -std=c++17 -pthread -I{here}"
PROJECTS = {
    "lua": Project(
        "lua5.4",
        "src",
        ("*.c",),
        "clang-19 -DLUA_USE_LINUX -DLUA_COMPAT_5_3 -I.",
        {"lua5.4-deb-multiarch.h": '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"\n'},
    ),
    "zstd": Project(
        "libzstd", "lib", ("*/*.c",), "clang-19 -DZSTD_DISABLE_ASM=1 -DZSTD_LEGACY_SUPPORT=1 -I{here} -I{here}/common"
    ),
    "re2": Project("re2", ".", ("re2/*.cc", "util/rune.cc", "util/strutil.cc"), CXX),
    "abseil": Project("abseil", ".", ("absl/**/*.cc",), CXX),
    # With the headers of the packages that the worker is built with.
    "llvm": Project(
        "llvm-toolchain-19",
        "llvm/lib/Support",
        ("*.cpp",),
        "clang++-19 -std=c++17 -fno-exceptions -fno-rtti -I/usr/lib/llvm-19/include -I{here}",
        only_that=True,
    ),
}


def compiles(project, flags):
    """A manifest that compiles all of a project, with depfiles that stay."""
    here = project.directory()
    line = project.line.format(here=here)
    text = [f"rule compile\n  command = {line} {flags} -Wall -Wextra -MMD -MF $out.d -c $in -o $out\n"]
    for file in project.files():
        text.append(f"build out/{str(file).replace('/', '-')}.o: compile {here / file}\n")
    return "".join(text)


def links(objects):
    """A manifest that links the same program again and again."""
    files = " ".join(map(str, objects))
    builds = "".join(f"build out/program{number}: link {files}\n" for number in range(LINKS))
    return f"rule link\n  command = clang-19 -fuse-ld=lld -o $out $in -lm -ldl\n{builds}"


def tree(name, text, headers):
    """A directory with this manifest, and these files."""
    directory = machine.PLACE / "clang" / name.replace(" ", "")
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in {"build.ninja": text, **headers}.items():
        (directory / file).write_text(content)
    return directory


def copied(name, project, flags):
    """A directory with a copy of a project, which may be edited, and a manifest that compiles all of it; and its files."""
    directory = machine.PLACE / "clang" / name
    shutil.rmtree(directory, ignore_errors=True)
    here = project.directory()
    shutil.copytree(here, directory / "src", symlinks=True)
    line = project.line.format(here="src")
    text = [f"rule compile\n  command = {line} {flags} -MMD -MF $out.d -c $in -o $out\n  depfile = $out.d\n"]
    objects = {}
    for file in project.files():
        objects[file] = f"out/{str(file).replace('/', '-')}.o"
        text.append(f"build {objects[file]}: compile src/{file}\n")
    (directory / "build.ninja").write_text("".join(text))
    return directory, objects
