"""Small trees for tests of the action cache. The oracle is always a build of the same tree with the cache off."""

import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import run_tests, use_log_version_of_ninja

RULES = """
rule cc
  command = $cc $flags -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule kept
  command = $cc $flags -MD -MF $out.d -c $in -o $out
  depfile = $out.d
rule copy
  command = cat $in > $out
"""
# Compiler and more words for Tanto. Clang compiles in forks, too.
GCC, CLANG, CLANG_FORK = ("gcc",), ("clang-19", "--clang-worker=off"), ("clang-19", "--clang-worker=require")
KINDS = [GCC, CLANG, CLANG_FORK]
# Variables that tests set themselves.
REMOVED = ("CI", "CPATH", "C_INCLUDE_PATH", "SOURCE_DATE_EPOCH", "COMPILER_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "LC_ALL")


@dataclass
class Built:
    """The result of a build."""

    code: int
    printed: str
    # By outputs: exit code and text; and how the cache was used, or the reason why not.
    ends: dict = field(default_factory=dict)
    uses: dict = field(default_factory=dict)
    reasons: dict = field(default_factory=dict)
    # By name: mode and content.
    files: dict = field(default_factory=dict)
    deps: str = ""

    def hits(self):
        return sorted(name for name, use in self.uses.items() if use == "hit")


class Tree:
    """A source tree with a build directory in it, and a cache beside it."""

    def __init__(self, tanto, place, files, kind=GCC, build="build", cache=None, flags="-I../inc"):
        self.tanto, self.place, self.kind = tanto, Path(place), kind
        self.build_dir = self.place / build
        self.environment = {name: text for name, text in os.environ.items() if name not in REMOVED}
        self.environment |= {"XDG_CACHE_HOME": str(cache or self.place / "xdg"), "PWD": str(self.build_dir)}
        self.manifest = next((name for name in files if name.endswith("build.ninja")), None)
        for name, text in files.items():
            self.write(name, text)
        if not self.manifest:
            self.plan(flags)

    def plan(self, flags, edges="build a.o: cc ../a.c\n"):
        """Writes the manifest. The root of the tree is {root} in flags and edges."""
        head = f"cc = {self.kind[0]}\nflags = {flags}\n" + RULES
        self.build_dir.mkdir(parents=True, exist_ok=True)
        (self.build_dir / "build.ninja").write_text((head + edges).replace("{root}", str(self.place)))

    def path(self, name):
        return self.place / name

    def cache(self, name=""):
        return Path(self.environment["XDG_CACHE_HOME"]) / "tanto/cache" / name

    def write(self, name, text):
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(text.encode() if isinstance(text, str) else text)

    def link(self, name, target):
        """Makes or retargets a symbolic link."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.exists():
            path.unlink()
        path.symlink_to(target)

    def run(self, *command, **more):
        more = {"cwd": self.build_dir, "env": self.environment, **more}
        # Nothing here takes long: a build that does not end is a failure.
        return subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=120, **more)

    def words(self, mode, *words):
        return [self.tanto, "build", f"--cache={mode}", *self.kind[1:], *words]

    def build(self, mode="on", *words, cwd=None):
        """Builds; reads the events of the build."""
        ran = self.run(*self.words(mode, "--format=jsonl", *words), cwd=cwd or self.build_dir)
        built = Built(ran.returncode, ran.stdout + ran.stderr)
        events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        names = {event["job"]: " ".join(event["outputs"]) for event in events if event["event"] == "started"}
        for event in events:
            if event["event"] == "finished":
                name = names[event["job"]]
                built.ends[name] = (event.get("exit", event.get("signal")), event.get("output", ""))
                built.uses[name] = event.get("cache", "")
                built.reasons[name] = event.get("cache_reason", "")
        built.files, built.deps = self.outputs(), self.deps()
        return built

    def deps(self):
        text = self.run("ninja", "-t", "deps").stdout
        # Without the times.
        blocks = re.sub(r"deps mtime \d+", "deps", text).split("\n\n")
        return "\n\n".join(sorted(block.strip() for block in blocks))

    def output_names(self):
        listed = self.run("ninja", "-t", "targets", "all")
        assert listed.returncode == 0, listed.stderr
        names = [line.split(": ")[0] for line in listed.stdout.splitlines() if not line.endswith(": phony")]
        return sorted([*names, *(name + ".d" for name in names)])

    def outputs(self):
        found = {}
        for name in self.output_names():
            path = self.build_dir / name
            if path.is_file():
                found[name] = (path.stat().st_mode, path.read_bytes())
        return found

    def empty(self):
        """Removes all that builds have made."""
        for name in [*self.output_names(), ".ninja_log", ".ninja_deps", ".tanto"]:
            path = self.build_dir / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def assert_done(self, printed=""):
        said = self.run("ninja", "-n", "-d", "explain")
        assert "no work to do" in said.stdout, f"ninja has work to do: {said.stdout}{said.stderr}\n{printed}"

    def judge(self, expected=None, mode="on", empty=True, words=()):
        """Builds from an empty directory (or continues in this one), and compares with a build without the cache.
        `expected`: how each command uses the cache, or a dictionary of that."""
        if empty:
            self.empty()
        cached = self.build(mode, *words)
        if cached.code == 0:
            self.assert_done(cached.printed)
        if not empty:
            # What ran in earlier builds is part of the result.
            cached = Built(cached.code, cached.printed, {}, cached.uses, cached.reasons, cached.files, cached.deps)
        self.empty()
        plain = self.build("off", *words)
        if not empty:
            plain.ends = {}
        compare(cached, plain)
        if expected is not None:
            wanted = expected if isinstance(expected, dict) else dict.fromkeys(cached.uses, expected)
            found = {name: cached.uses[name] for name in wanted}
            assert found == wanted, f"{found} instead of {wanted}: {cached.reasons}\n{cached.printed}"
        return cached

    def fill(self):
        """Builds until everything is a hit."""
        first = self.judge()
        assert first.code == 0, first.printed
        self.judge("hit")
        return first

    def trap(self, edit, expected=None, changes=True, cached=True):
        """Fills the cache, edits, and judges. With `changes`, the edit has to change what a build gives. Without `cached`,
        results need not be hits before the edit."""
        before = self.fill() if cached else self.judge()
        edit()
        after = self.judge(expected)
        results = [(built.files, built.ends, built.deps) for built in (before, after)]
        assert not changes or results[0] != results[1], "the trap is not set"
        return after


def compare(cached, plain):
    """Fails if a build with the cache differs from one without."""
    assert cached.code == plain.code, f"exit code {cached.code} instead of {plain.code}\n{cached.printed}\n{plain.printed}"
    assert cached.ends == plain.ends, f"ended with {cached.ends}\nnot with {plain.ends}"
    for name in sorted(cached.files.keys() | plain.files.keys()):
        one, other = (normal(name, built.files.get(name)) for built in (cached, plain))
        assert one == other, f"{name} differs from that of a build without the cache ({cached.uses}): {difference(one, other)}"
    assert cached.deps == plain.deps, f"deps {cached.deps}\nnot {plain.deps}"


def normal(name, file):
    """Compilers wrap the lines of depfiles by the lengths of names."""
    return (file[0], b" ".join(file[1].replace(b"\\\n", b" ").split())) if file and name.endswith(".d") else file


def difference(one, other):
    """Describes two files: where they differ first, or their modes."""
    if not one or not other or one[0] != other[0]:
        return f"{one and oct(one[0])}, {other and oct(other[0])}"
    pairs = list(zip(one[1], other[1]))
    at = next((at for at, (left, right) in enumerate(pairs) if left != right), len(pairs))
    return f"byte {at}: {one[1][max(at - 40, 0):at + 40]}, {other[1][max(at - 40, 0):at + 40]}"


def describe(error):
    """The error, and where in the test it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[1:])
    return f"{type(error).__name__} at {places}: {error}"


def of_each(*kinds):
    """Calls a test with each kind of compiler, in directories of their own."""

    def decorate(test):
        def call(tanto, place):
            problems = []
            for number, kind in enumerate(kinds or KINDS):
                (place / str(number)).mkdir()
                try:
                    test(tanto, place / str(number), kind)
                except Exception as error:
                    problems.append(f"with {' '.join(kind)}: {describe(error)}")
            assert not problems, "\n".join(problems)

        call.__name__ = test.__name__
        return call

    return decorate


# A compiler that calls another one. Meets with the test before and after, with calls that the recorder does not see.
WRAPPER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static int there(const char *path) { return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }
static void meet(const char *moment) {
  char path[4096] = MEETING, *end = path + strlen(path);
  if (!path[0] || !there(path)) return;
  strcat(strcpy(end, moment), ".here");
  close((int)syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY, 0666));
  strcat(strcpy(end, moment), ".go");
  while (!there(path)) usleep(1000);
}
int main(int argc, char **argv) {
  static char *words[1000];
  int count = 0, status, child;
  words[count++] = REAL;
  for (int at = 1; at < argc && count < 990; at++) words[count++] = argv[at];
  if (EXTRA[0]) words[count++] = EXTRA;
  meet("/before");
  if (posix_spawn(&child, REAL, 0, 0, words, environ)) return 99;
  while (waitpid(child, &status, 0) < 0) {}
  meet("/after");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}
"""


def make_wrapper(path, real="gcc", extra="", meeting=""):
    """A program that passes its words and `extra` to a compiler."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = {"REAL": shutil.which(real) or real, "EXTRA": extra, "MEETING": str(meeting)}
    defined = [f'-D{name}="{text}"' for name, text in words.items()]
    temporary = path.with_name(path.name + ".new")
    subprocess.run(["gcc", "-x", "c", "-w", *defined, "-o", temporary, "-"], input=WRAPPER.encode(), check=True)
    temporary.replace(path)


def main(usage, names):
    """Runs the tests of a script: its functions of (tanto, place)."""
    tests = [test for test in names.values() if hasattr(test, "__code__") and test.__module__ == "__main__"
             or getattr(test, "__qualname__", "").startswith("of_each.")]
    tests = [test for test in tests if test.__code__.co_varnames[:2] == ("tanto", "place")]
    use_log_version_of_ninja()
    run_tests(usage, tests)
