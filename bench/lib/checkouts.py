"""Checkouts of real projects, with manifests that compile them."""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from lib import compiles, machine

PLACE = machine.PLACE / "action-cache"
# State of ninja, Tanto and rninja, and all outputs.
STATE = ("out", ".ninja_log", ".ninja_deps", ".tanto", ".rninja", ".ninja_lock")
RULE = "rule compile\n  command = {line} -MMD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n"
CXX = {"clang": "clang++", "gcc": "g++", "cc": "c++"}
WHO = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


def git(directory, *words):
    subprocess.run(["git", "-C", directory, *WHO, *words], check=True, capture_output=True)


@dataclass(frozen=True)
class Checkout:
    """The root of a checkout, which is the build directory too. The sources are in src."""

    root: Path
    project: compiles.Project
    files: tuple

    def write_manifest(self, name, launcher, compiler, flags):
        """`compiler` is the name of a C compiler, such as gcc or clang-19, or the path of a link to one."""
        words = self.project.line.format(here=self.root / "src").split()
        its = cxx(compiler) if "++" in words[0] else compiler
        line = " ".join([launcher + its, *words[1:], flags, "-Wall -Wextra"])
        text, objects = [RULE.format(line=line)], []
        for file in self.files:
            objects.append(object_of(file))
            text.append(f"build {objects[-1]}: compile {self.root / 'src' / file}\n")
        # rninja requires a default, and runs forever if that is phony and all commands have hits.
        text.append(f"default {' '.join(objects)}\n")
        (self.root / f"{name}.ninja").write_text("".join(text))

    def compiled(self):
        """Returns this checkout with the files whose objects are there."""
        return replace(self, files=tuple(file for file in self.files if (self.root / object_of(file)).exists()))

    def forget(self):
        """Empties the build directory."""
        for name in STATE:
            path = self.root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def objects(self):
        return {path.name: path.read_bytes() for path in sorted((self.root / "out").glob("*.o"))}

    def touch(self):
        now = time.time_ns()
        for path in (self.root / "src").rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.utime(path, ns=(now, now))
        for name in self.project.headers:
            os.utime(self.root / name, ns=(now, now))

    def common_header(self, ninja, manifest):
        """Returns the header of the project whose share of the objects is nearest to a half, and the number of the objects.
        Ninja must have built them."""
        line = [ninja, "-f", f"{manifest}.ninja", "-t", "deps"]
        said = subprocess.run(line, cwd=self.root, capture_output=True, text=True, check=True).stdout
        used = Counter(re.findall(rf"^    ({re.escape(str(self.root / 'src'))}/.+)$", said, re.MULTILINE))
        headers = {name: count for name, count in used.items() if name.endswith((".h", ".hpp"))}
        half = len(self.files) / 2
        name = min(headers, key=lambda it: (abs(headers[it] - half), it))
        return self.root / name, headers[name]


def object_of(file):
    return f"out/{str(file).replace('/', '-')}.o"


def cxx(compiler):
    """The C++ compiler that belongs to a C compiler."""
    path, slash, name = compiler.rpartition("/")
    return path + slash + re.sub(r"^(clang|gcc|cc)\b", lambda found: CXX[found[0]], name)


def make(name, project):
    """Returns two checkouts of a repository with the sources of a project."""
    place = PLACE / name
    shutil.rmtree(place, ignore_errors=True)
    first, second = place / "first", place / "elsewhere/second"
    shutil.copytree(project.directory(), first / "src", symlinks=True)
    for file, content in project.headers.items():
        (first / file).write_text(content)
    (first / ".gitignore").write_text("".join(f"/{name}\n" for name in STATE) + "/*.ninja\n")
    git(place, "init", "-q", first)
    git(first, "add", "-f", "src", ".gitignore", *project.headers)
    git(first, "commit", "-q", "-m", "all")
    git(first, "worktree", "add", "-q", "--detach", second)
    files = tuple(project.files())
    return Checkout(first, project, files), Checkout(second, project, files)


def tiny(count):
    """Returns a directory with sources whose objects are tiny, but that include headers of the C library."""
    root = PLACE / f"tiny-{count}"
    shutil.rmtree(root, ignore_errors=True)
    (root / "src").mkdir(parents=True)
    headers = "".join(f"#include <{name}.h>\n" for name in ("stdio", "stdlib", "string", "unistd", "math", "time", "signal"))
    files = tuple(Path(f"f{number}.c") for number in range(count))
    for number, file in enumerate(files):
        (root / "src" / file).write_text(f"{headers}int f{number}(void) {{ return {number}; }}\n")
    return Checkout(root, compiles.Project("", "", (), "gcc"), files)
