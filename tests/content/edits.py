#!/usr/bin/env python3
"""Edits a tree at random, builds it with Tanto and now and then with ninja, and compares all outputs with those of a clean build.

    tests/content/edits.py TANTO [--seed N] [--edits N] [--real] [--keep DIR]

The tree has sources, headers, generated headers, stamps, groups and a library, and a compiler that only copies. With --real it is
Debian's lua, compiled with gcc (its sources are downloaded). Prints the seed. After each successful build, ninja must have nothing to
do."""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from harness import use_log_version_of_ninja

RULES = """
rule cc
  command = bin/gcc -Isrc/first -Isrc/second -Igen -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule kept
  command = bin/gcc -Isrc/first -Isrc/second -Igen -MD -MF $out.d -c $in -o $out
  depfile = $out.d
rule link
  command = bin/gcc $in -o $out
rule ar
  command = : && rm -f $out && bin/ar qc $out $in && :
rule gen
  command = sed s/NAME/$name/ $in > $out
rule restat
  command = sed s/NAME/$name/ $in > $out.tmp && if cmp -s $out.tmp $out; then rm $out.tmp; else mv $out.tmp $out; fi
  restat = 1
rule stamp
  command = cp $in side.txt && : > $out
rule side
  command = cat side.txt $in > $out
rule list
  command = cat $in > $out && wc -c < $out >> $out
"""


def sources(count):
    """Sources of the synthetic tree, by name."""
    files = {f"src/second/h{number}.h": f"header {number}\n" for number in range(count)}
    files["src/second/all.h"] = "".join(f'#include "h{number}.h"\n' for number in range(0, count, 2))
    for number in range(count):
        includes = f'#include "h{number}.h"\n#include "h{(number * 7 + 1) % count}.h"\n'
        generated = f'#include "g{number % 3}.h"\n' if number % 4 == 0 else ""
        every = '#include "all.h"\n' if number % 3 == 0 else ""
        files[f"src/s{number}.c"] = f"source {number}\n{includes}{generated}{every}"
    for number in range(3):
        files[f"src/g{number}.in"] = f"generated NAME {number}\n"
    files |= {"src/stamp.in": "stamp\n", "src/member.txt": "member\n", "src/use.in": "use\n", "src/note.txt": "note\n"}
    return files


def manifest(count):
    """The manifest of the synthetic tree."""
    lines = [RULES]
    for number in range(3):
        rule = "restat" if number == 1 else "gen"
        lines.append(f"build gen/g{number}.h: {rule} src/g{number}.in\n  name = n{number}\n")
    objects = []
    for number in range(count):
        rule = "kept" if number % 5 == 2 else "cc"
        objects.append(f"obj/s{number}.o")
        lines.append(f"build {objects[-1]}: {rule} src/s{number}.c || gen/g0.h gen/g1.h gen/g2.h\n")
    half = count // 2
    lines.append(f"build lib.a: ar {' '.join(objects[:half])}\n")
    lines.append(f"build app: link {' '.join(objects[half:])} lib.a\n")
    lines.append("build side.stamp: stamp src/stamp.in\n")
    lines.append("build used.txt: side src/use.in | side.stamp\n")
    lines.append("build group: phony src/member.txt src/note.txt\nbuild outer: phony group gen/g2.h\n")
    lines.append("build list.txt: list src/use.in | outer\n")
    lines.append("build list2.txt: list list.txt gen/g1.h\n")
    lines.append("build all: phony app used.txt list2.txt\ndefault all\n")
    return "".join(lines)


class Tree:
    """A build directory, and the knowledge which edits its next builds can see."""

    def __init__(self, place, tanto, seed):
        self.place, self.tanto, self.random = place, tanto, random.Random(seed)
        self.clean = place.parent / "clean"
        # By source: contents that it had, for going back.
        self.past = {}
        # Ninja ran since everything was built by Tanto: edits that only content shows may stay unseen.
        self.ninja_ran = False
        self.counter = 0
        self.log = []

    def create(self, count=8):
        for name, text in sources(count).items():
            self.write(name, text)
        self.write("build.ninja", manifest(count))
        (self.place / "bin").mkdir()
        subprocess.run(["cc", "-O1", "-Wall", "-o", self.place / "bin/gcc", HERE / "compiler.c"], check=True)
        (self.place / "bin/ar").symlink_to("gcc")

    def write(self, name, text):
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def source(self):
        names = sorted(str(path.relative_to(self.place)) for path in (self.place / "src").rglob("*") if path.is_file())
        return self.random.choice(names)

    def text(self, name):
        text = (self.place / name).read_text()
        self.past.setdefault(name, []).append(text)
        return text

    def outputs(self):
        listed = subprocess.run(["ninja", "-t", "targets", "all"], cwd=self.place, capture_output=True, text=True, check=True)
        names = [line.split(": ")[0] for line in listed.stdout.splitlines() if not line.endswith(": phony")]
        return sorted(names)

    def run(self, *command, **more):
        return subprocess.run(command, cwd=self.place, capture_output=True, text=True, **more)

    def edit(self):
        """Makes one edit; returns its name."""
        visible = [self.change, self.comment, self.touch, self.rewrite, self.go_back, self.check_out, self.replace_by_new, self.touch_all, self.link_output,
                   self.delete_output, self.touch_output, self.age_output, self.move_header, self.break_and_mend,
                   self.copy_tree]
        hidden = [self.same_size_same_time, self.replace_by_old, self.swap, self.change_twice, self.go_back_in_time, self.turn_link]
        kind = self.random.choice(visible if self.ninja_ran else visible + hidden)
        kind()
        self.log.append(kind.__name__)
        return kind.__name__

    def number(self):
        self.counter += 1
        return self.counter

    def line(self, kind):
        """A new line for a source."""
        return f"{kind} {self.number()}\n"

    def change(self):
        name = self.source()
        self.write(name, self.text(name) + self.line("change"))

    def comment(self):
        name = self.source()
        self.write(name, self.text(name) + f"// comment {self.number()}\n")

    def touch(self):
        os.utime(self.place / self.source())

    def touch_all(self):
        for path in (self.place / "src").rglob("*"):
            os.utime(path)

    def rewrite(self):
        name = self.source()
        self.write(name, self.text(name))

    def go_back(self):
        name = self.source()
        if name in self.past:
            self.write(name, self.random.choice(self.past[name]))

    def check_out(self):
        """As git writes files of another branch, or of the same one again."""
        for path in sorted(path for path in (self.place / "src").rglob("*") if path.is_file()):
            name = str(path.relative_to(self.place))
            if self.random.random() < 0.5:
                self.write(name, self.random.choice([*self.past.get(name, []), self.text(name)]))

    def replace_by_new(self):
        name = self.source()
        self.write(name + ".new", self.text(name) + self.line("new"))
        os.replace(self.place / (name + ".new"), self.place / name)

    def move_header(self):
        """Moves a header to another directory, or back: compilers then report another file."""
        name = self.source()
        if name.startswith("src/second/h"):
            self.move(name, name.replace("second", "first"))
        elif name.startswith("src/first/h"):
            self.move(name, name.replace("first", "second"))

    def move(self, name, to):
        (self.place / to).parent.mkdir(exist_ok=True)
        os.replace(self.place / name, self.place / to)

    def turn_link(self):
        """A header becomes a link to one of two files."""
        name = self.source()
        if not name.endswith(".h") or name.endswith("all.h"):
            return
        path = self.place / name
        path.unlink()
        target = self.place / f"other/{self.random.choice('ab')}.txt"
        target.parent.mkdir(exist_ok=True)
        if not target.exists():
            target.write_text(f"{target.name}\n")
        path.symlink_to(os.path.relpath(target, path.parent))

    def delete_output(self):
        (self.place / self.random.choice(self.outputs())).unlink(missing_ok=True)

    def touch_output(self):
        path = self.place / self.random.choice(self.outputs())
        if path.exists():
            os.utime(path)

    def age_output(self):
        path = self.place / self.random.choice(self.outputs())
        if path.exists():
            os.utime(path, (1_000_000_000, 1_000_000_000))

    def link_output(self):
        """A second name for an output, as `cp -al` makes it. Its file must not get another time."""
        path = self.place / self.random.choice(self.outputs())
        if path.exists():
            (self.place / "links").mkdir(exist_ok=True)
            os.link(path, self.place / f"links/{self.number()}")

    def copy_tree(self):
        """The whole tree as a cache restores it: other inodes, all times kept."""
        copy = self.place.with_name("copy")
        subprocess.run(["cp", "-a", self.place, copy], check=True)
        shutil.rmtree(self.place)
        copy.rename(self.place)

    def break_and_mend(self):
        name = self.source()
        text = self.text(name)
        self.write(name, text + "#error\n")
        self.build("tanto", ["-k0"] if self.random.random() < 0.5 else [], may_fail=True)
        self.write(name, text if self.random.random() < 0.5 else text + self.line("mended"))

    def same_size_same_time(self):
        """Another digit in the last line, if that was added by an edit."""
        name = self.source()
        times = os.stat(self.place / name)
        text = self.text(name)
        last = text.splitlines()[-1] if text else ""
        if any(word in last for word in ("change", "new", "mended", "old", "digit")) and last[-1:].isdigit():
            self.write(name, text[:-2] + self.random.choice("0123456789") + "\n")
            os.utime(self.place / name, ns=(times.st_atime_ns, times.st_mtime_ns))

    def replace_by_old(self):
        name = self.source()
        self.write(name + ".old", self.text(name) + self.line("old"))
        os.utime(self.place / (name + ".old"), (1_000_000_000, 1_000_000_000))
        os.replace(self.place / (name + ".old"), self.place / name)

    def go_back_in_time(self):
        name = self.source()
        if name in self.past:
            self.write(name, self.random.choice(self.past[name]))
            os.utime(self.place / name, (1_100_000_000, 1_100_000_000))

    def swap(self):
        one, other = self.source(), self.source()
        if one.endswith(".h") and other.endswith(".h") and one != other and "all.h" not in one + other:
            (self.place / one).rename(self.place / "swap")
            (self.place / other).rename(self.place / one)
            (self.place / "swap").rename(self.place / other)

    def change_twice(self):
        """Two edits of the same size, with a build between them in the same moment."""
        name = self.source()
        text = self.text(name)
        line = self.line("digit")
        self.write(name, text + line)
        self.build("tanto", [], may_fail=True)
        self.write(name, text + line.replace("digit", "tigid"))

    def build(self, program, words, may_fail=False):
        command = [self.tanto, "build", *words] if program == "tanto" else ["ninja", *words]
        self.log.append(" ".join(["build:", *command[1:]]) if program == "tanto" else "build: ninja")
        built = self.run(*command)
        if built.returncode != 0 and not may_fail:
            raise AssertionError(f"{command} failed: {built.stdout}{built.stderr}")
        return built.stdout

    def step(self):
        """One to three edits, a build, and the comparison."""
        names = [self.edit() for _ in range(self.random.choice([1, 1, 1, 2, 3]))]
        draw = self.random.random()
        if draw < 0.1:
            self.ninja_ran = True
            self.build("ninja", [])
        elif draw < 0.2:
            self.build("tanto", [self.random.choice(self.outputs())], may_fail=True)
        elif draw < 0.25:
            self.build("tanto", ["-n"], may_fail=True)
        printed = self.build("tanto", [])
        self.check(names, printed)
        if self.ninja_ran and self.random.random() < 0.3:
            self.build("tanto", ["--again", *self.outputs()])
            self.ninja_ran = False
        return len(names)

    def check(self, names, printed):
        left = self.build("ninja", [])
        if "no work to do" not in left:
            raise AssertionError(f"after {names}, ninja had work to do: {left}\n{printed}")
        shutil.rmtree(self.clean, ignore_errors=True)
        self.clean.mkdir()
        for name in ("src", "bin", "other", "build.ninja", "lua5.4-deb-multiarch.h"):
            if (self.place / name).exists():
                subprocess.run(["cp", "-a", self.place / name, self.clean / name], check=True)
        subprocess.run(["ninja"], cwd=self.clean, check=True, capture_output=True)
        for name in self.outputs():
            ours, theirs = (self.place / name).read_bytes(), (self.clean / name).read_bytes()
            if ours != theirs:
                raise AssertionError(f"after {names}, {name} differs from a clean build's:\n{ours}\n{theirs}\n{printed}")


class RealTree(Tree):
    """The sources of a real project, and its compiler."""

    def create(self):
        sys.path.insert(0, str(HERE.parent.parent / "bench"))
        from lib import compiles

        project = compiles.PROJECTS["lua"]
        here = project.directory()
        for path in sorted([*here.glob("*.c"), *here.glob("*.h")]):
            self.write(f"src/{path.name}", path.read_text())
        for name, text in project.headers.items():
            self.write(name, text)
        rules = "rule cc\n  command = gcc -DLUA_USE_LINUX -I. -O1 -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n"
        rules += "rule ar\n  command = rm -f $out && ar qcD $out $in\nrule link\n  command = gcc $in -o $out -lm -ldl\n"
        objects = [f"obj/{file.stem}.o" for file in project.files() if file.stem not in ("lua", "luac")]
        lines = [f"build {name}: cc src/{Path(name).stem}.c\n" for name in [*objects, "obj/lua.o"]]
        lines += [f"build liblua.a: ar {' '.join(objects)}\n", "build lua: link obj/lua.o liblua.a\n"]
        self.write("build.ninja", rules + "".join(lines) + "build all: phony lua\ndefault all\n")

    def line(self, kind):
        number = self.number()
        # Changes the object. One compile can read it several times.
        definition = f"static char {kind}_{number}[{number}] __attribute__((used));\n"
        return f"extern int {kind};  // {number}\n" if kind == "comment" else definition

    def swap(self):
        self.change()

    def turn_link(self):
        self.change()

    def move_header(self):
        self.comment()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tanto")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--real", action="store_true", help="edit a real project")
    parser.add_argument("--keep", help="where to put a copy of a tree that fails")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        top = Path(place).resolve() / "tree"
        top.mkdir()
        kind = RealTree if options.real else Tree
        tree = kind(top, str(Path(options.tanto).absolute()), options.seed)
        tree.create()
        # Not before: the library for measurements sets a version too.
        use_log_version_of_ninja()
        tree.build("tanto", [])
        edits = 0
        try:
            while edits < options.edits:
                edits += tree.step()
        except AssertionError as error:
            if options.keep:
                shutil.copytree(top, options.keep, symlinks=True)
            print(f"not ok after {edits} edits: {error}\nall edits: {tree.log}")
            sys.exit(1)
    print(f"ok {edits} edits, all outputs as in a clean build")


if __name__ == "__main__":
    main()
