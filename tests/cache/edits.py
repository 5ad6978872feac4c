#!/usr/bin/env python3
"""Edits trees at random, builds them with the action cache from emptied build directories, and compares with builds without.

    tests/cache/edits.py TANTO [--seed N] [--edits N] [--keep DIR]

Two worktrees of one repository share a cache, and so do build directories for gcc and clang, with relative and with
absolute paths. Edits are of sources, generated and shadowed headers, links, branches, variables and compilers. Prints the
seed and the rate of hits."""

import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from places import git
from tree import CLANG, GCC, Tree, compare, make_wrapper, use_log_version_of_ninja

SOURCES, HEADERS = 6, 5
MAP = "-ffile-prefix-map={root}=."
# Build directory: compiler, flags, and the name of the source directory in commands.
CONFIGURATIONS = {
    "relative": (GCC, "-O1 -I../inc/first -I../inc/second -I../inc/third -Igen", ".."),
    "mapped": (GCC, f"-g {MAP} -I{{root}}/inc/first -I{{root}}/inc/second -I{{root}}/inc/third -Igen", "{root}"),
    "debug": (GCC, "-g -I../inc/first -I../inc/second -I../inc/third -Igen", ".."),
    "clang": (CLANG, f"-g {MAP} -I{{root}}/inc/first -I{{root}}/inc/second -I{{root}}/inc/third -Igen", "{root}"),
    # A compiler that has just changed cannot be forked.
    "forks": (("clang-19",), "-O1 -I../inc/first -I../inc/second -I../inc/third -Igen", ".."),
}
GENERATED = "rule gen\n  command = sed s/NAME/g/ $in > $out\n"
# The least share of hits.
FLOOR = 0.3


def source_text(number):
    lines = [f'#include "h{number % HEADERS}.h"', f'#include "h{(number * 3 + 1) % HEADERS}.h"']
    if number % 3 == 0:
        lines.append('#include "gen.h"')
    if number % 2 == 0:
        lines.append('#if __has_include("maybe.h")\n#include "maybe.h"\n#endif')
    lines.append("#if __has_include(<env.h>)\n#include <env.h>\n#endif")
    lines += ["#ifdef assert", "#undef assert", "#endif", "#include <assert.h>"]
    lines.append(f"int f{number}(int a) {{ assert(a); return a + {number}; }}")
    return "\n".join(lines) + "\n"


def files():
    found = {f"src/s{number}.{'cpp' if number == 5 else 'c'}": source_text(number) for number in range(SOURCES)}
    for number in range(HEADERS):
        once = "#pragma once\n" if number % 2 else f"#ifndef H{number}\n#define H{number}\n"
        end = "" if number % 2 else "#endif\n"
        found[f"inc/second/h{number}.h"] = f"{once}static const int v{number} = 100;\n#line 1000\n{end}"
    # One that is found only by its second name, and one that includes the next of its name.
    found["inc/first/h4.h"] = "#include_next <h4.h>\nstatic const int first4 = 100;\n"
    found |= {"inc/third/unused.h": "", "gen.in": "static const int NAME = 100;\n", ".gitignore": "build*\n"}
    found["env/env.h"] = "static const int env = 100;\n"
    return found


def edges(source):
    lines = [GENERATED, "build gen/gen.h: gen ../gen.in\n"]
    for number in range(SOURCES):
        name = f"s{number}.{'cpp' if number == 5 else 'c'}"
        rule = "kept" if number == 2 else "cc"
        lines.append(f"build s{number}.o: {rule} {source}/src/{name} || gen/gen.h\n")
    return "".join(lines)


class World:
    """Two worktrees with their build directories, and a compiler that can be replaced."""

    def __init__(self, tanto, place, seed):
        self.tanto, self.place, self.random = tanto, place, random.Random(seed)
        self.counter, self.log, self.uses = 0, [], collections.Counter()
        self.roots = [place / "one", place / "the/second"]
        self.variables = {}
        self.wrap("first")
        self.wrap("second")
        self.dirs = ["first"]
        one = self.roots[0]
        for name, text in files().items():
            (one / name).parent.mkdir(parents=True, exist_ok=True)
            (one / name).write_text(text)
        git(one, "init")
        self.commit(one)
        git(one, "branch", "other")
        (place / "the").mkdir()
        git(one, "worktree", "add", "-b", "third", self.roots[1])
        self.trees = {}
        for root in self.roots:
            for name, (kind, flags, source) in CONFIGURATIONS.items():
                tree = Tree(tanto, root, {}, kind, build=f"build-{name}", cache=place / "xdg")
                tree.plan(flags, edges(source))
                self.trees[root, name] = tree

    def commit(self, root):
        git(root, "add", "-A")
        git(root, "commit", "--allow-empty", "-m", "x")

    def wrap(self, name, version=0):
        for compiler in ("gcc", "clang-19"):
            make_wrapper(self.place / "bin" / name / compiler, compiler, f"-DVERSION_{version}=1" if version % 2 else "-O2")

    def number(self):
        self.counter += 1
        return 100 + self.counter % 900

    def header(self, root):
        found = [path for path in (root / "inc").rglob("*.h") if path.is_file()] + [root / "gen.in"]
        return self.random.choice(sorted(found))

    # ---- edits ----

    def change(self, root):
        """Another number of the same length, now and then with the old times."""
        path = self.header(root)
        times = path.stat()
        text = path.read_text()
        position = text.find("= ")
        path.write_text(text[:position + 2] + str(self.number()) + text[position + 5:] if position >= 0 else text + "\n")
        if self.random.random() < 0.5:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def change_source(self, root):
        path = self.random.choice(sorted((root / "src").iterdir()))
        path.write_text(path.read_text() + f"int more{self.number()}_{self.counter};\n")

    def clock_backwards(self, root):
        self.change(root)
        path = self.header(root)
        os.utime(path, (1_000_000_000 + self.counter, 1_000_000_000 + self.counter))

    def shadow(self, root):
        """A header that is found before another, or no longer."""
        name = f"h{self.random.randrange(HEADERS)}.h"
        directory = self.random.choice(("inc/first", "src", "build-relative", "build-clang/gen"))
        path = root / directory / name
        if path.exists() or path.is_symlink():
            path.unlink()
        elif path.parent.is_dir():
            path.write_text(f"#define H{name[1]}\nstatic const int shadow = {self.number()};\n")

    def maybe(self, root):
        path = root / self.random.choice(("inc/first", "inc/third")) / "maybe.h"
        if path.exists():
            path.unlink()
        else:
            path.write_text(f"static const int maybe = {self.number()};\n")

    def turn_link(self, root):
        """A header becomes a link to one of two files, or another one."""
        path = root / f"inc/second/h{self.random.randrange(HEADERS)}.h"
        target = root / f"links/{self.random.choice('ab')}.h"
        target.parent.mkdir(exist_ok=True)
        if not target.exists():
            target.write_text(f"#pragma once\nstatic const int link_{target.stem} = 100;\n")
        path.unlink(missing_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))

    def turn_directory(self, root):
        """The third directory is a link to another, or a directory of its own."""
        third = root / "inc/third"
        if third.is_symlink():
            third.unlink()
        else:
            shutil.rmtree(third)
        choice = self.random.choice(("first", "second", "copy", "own"))
        if choice == "copy":
            shutil.copytree(root / "inc/first", third, symlinks=True)
        elif choice == "own":
            third.mkdir()
            (third / f"h{self.random.randrange(HEADERS)}.h").write_text(f"static const int own = {self.number()};\n")
        else:
            third.symlink_to(choice)

    def remove(self, root):
        path = self.header(root)
        if path.name.startswith("h"):
            path.unlink()

    def restore_all(self, root):
        git(root, "checkout", "-f", ".")

    def switch(self, root):
        """Commits, and checks out another branch, or the commit before."""
        git(root, "add", "-A")
        git(root, "commit", "--allow-empty", "-m", str(self.counter))
        target = self.random.choice(("HEAD~1", "HEAD", "main~1" if self.counter > 20 else "main", "third"))
        git(root, "checkout", "-f", "--detach", target)

    def same_in_both(self, root):
        """The other worktree gets these sources."""
        other = self.roots[1 - self.roots.index(root)]
        for name in ("inc", "src", "gen.in", "links"):
            if (other / name).is_dir():
                shutil.rmtree(other / name)
            if (root / name).is_dir():
                shutil.copytree(root / name, other / name, symlinks=True)
            elif (root / name).exists():
                shutil.copy(root / name, other / name)

    def touch_all(self, root):
        for path in [*(root / "inc").rglob("*"), *(root / "src").rglob("*")]:
            os.utime(path, follow_symlinks=False)

    def variable(self, _):
        """CPATH is unset, relative, or leads into one of the trees."""
        name = self.random.choice(("CPATH", "C_INCLUDE_PATH"))
        value = self.random.choice((None, "../env", f"{self.roots[0]}/env", f"{self.roots[0]}/nothing", "../inc/third"))
        self.variables = {name: value} if value else {}

    def environment_header(self, root):
        path = root / "env/env.h"
        if path.exists():
            path.write_text(f"static const int env = {self.number()};\nconst char *const env_file = __FILE__;\n")

    def message(self, root):
        self.header(root).open("a").write(f"#warning number {self.number()}\n")

    def compiler(self, _):
        if self.random.random() < 0.5:
            self.wrap(self.random.choice(("first", "second")), self.random.randrange(4))
        else:
            self.dirs = self.random.choice((["first"], ["second"], ["first", "second"], []))

    def precompile(self, root):
        """A directory with the name of a precompiled header, or an empty file."""
        path = root / "inc/second" / f"h{self.random.randrange(HEADERS)}.h.gch"
        if path.is_dir():
            path.rmdir()
        elif path.exists():
            path.unlink()
        elif self.random.random() < 0.5:
            path.mkdir()
        else:
            path.write_text("no precompiled header")

    def edit(self, root):
        often = [self.change, self.change_source, self.shadow, self.maybe, self.turn_link, self.turn_directory, self.switch,
                 self.same_in_both, self.same_in_both, self.restore_all, self.restore_all, self.clock_backwards]
        rare = [self.variable, self.environment_header, self.compiler, self.precompile, self.message, self.touch_all,
                self.remove]
        kind = self.random.choice(often if self.random.random() < 0.75 else rare)
        self.log.append(f"{kind.__name__} {root.name}")
        kind(root)

    # ---- builds ----

    def prepare(self, tree):
        path = [str(self.place / "bin" / name) for name in self.dirs]
        tree.environment["PATH"] = ":".join([*path, os.environ["PATH"]])
        for name in ("CPATH", "C_INCLUDE_PATH"):
            tree.environment.pop(name, None)
        tree.environment |= self.variables

    def step(self):
        """One to three edits, and a build of each tree that is chosen."""
        root = self.random.choice(self.roots)
        count = self.random.choice((1, 1, 2, 3))
        for _ in range(count):
            self.edit(root)
        for name in self.random.sample(list(CONFIGURATIONS), 2):
            for tree_root in self.random.sample(self.roots, self.random.choice((1, 2))):
                self.judge(tree_root, name)
        return count

    def judge(self, root, name):
        tree = self.trees[root, name]
        self.prepare(tree)
        self.log.append(f"judge {root.name} {name} {self.variables} {self.dirs}")
        words = ("-k0",)
        if self.random.random() < 0.4:
            # First in the directory as it is.
            tree.build("on", *words)
        tree.empty()
        if self.random.random() < 0.2:
            shutil.rmtree(tree.build_dir / "gen", ignore_errors=True)
        cached = tree.build("on", *words)
        if cached.code == 0:
            tree.assert_done(cached.printed)
        tree.empty()
        plain = tree.build("off", *words)
        compare(cached, plain)
        self.uses.update(use for use in cached.uses.values() if use != "not cacheable")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tanto")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--edits", type=int, default=300)
    parser.add_argument("--keep", help="where to put a copy of the trees that fail")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    use_log_version_of_ninja()
    with tempfile.TemporaryDirectory() as place:
        world = World(str(Path(options.tanto).absolute()), Path(place).resolve(), options.seed)
        edits, began = 0, time.monotonic()
        try:
            while edits < options.edits:
                edits += world.step()
        except AssertionError as error:
            if options.keep:
                shutil.copytree(place, options.keep, symlinks=True)
            print(f"not ok after {edits} edits: {error}\nlast edits: {world.log[-12:]}")
            sys.exit(1)
        rate = world.uses["hit"] / max(sum(world.uses.values()), 1)
        print(f"{dict(world.uses)}, {time.monotonic() - began:.0f} s")
        if rate < FLOOR:
            print(f"not ok: only {rate:.0%} of the compiles were hits")
            sys.exit(1)
    print(f"ok {edits} edits, {rate:.0%} hits, all outputs as without the cache")


if __name__ == "__main__":
    main()
