"""A small tree of compiles, links and copies."""

import os
import re
import subprocess
import time

MANIFEST = """
rule cc
  command = gcc -Iinclude -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
rule link
  command = gcc $in -o $out
rule copy
  command = cat $in > $out
rule stamp
  command = cp $in side.txt && : > $out
rule side
  command = cat side.txt $in > $out
build a.o: cc a.c
build b.o: cc b.c
build app: link a.o b.o
build made: copy text
build used: copy made
build mark: stamp marked
build read: side text | mark
"""
FILES = {
    "build.ninja": MANIFEST,
    "a.c": '#include "a.h"\nint main(void) { return f(); }\n',
    "b.c": '#include "a.h"\nint f(void) { return A; }\n',
    "include/a.h": "#define A 1\nint f(void);\n",
    "text": "text\n",
    "marked": "marked\n",
}


class Tree:
    """A small tree, built once by Tanto."""

    def __init__(self, tanto, place, files=FILES):
        self.tanto, self.place = tanto, place
        for name, text in files.items():
            self.write(name, text)
        self.build()
        self.is_done()

    def path(self, name):
        return self.place / name

    def write(self, name, text):
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text)

    def read(self, name):
        return self.path(name).read_text()

    def run(self, *command, **more):
        return subprocess.run(command, cwd=self.place, capture_output=True, text=True, **more)

    def build(self, *words, program=None):
        """The outputs of the commands that ran, in alphabetical order."""
        built = self.run(*(program or [self.tanto, "build"]), "--verbose", *words)
        assert built.returncode == 0, built.stdout + built.stderr
        self.printed = built.stdout + built.stderr
        # A command's output follows -o or >.
        lines = re.findall(r"^\[\d+/\d+\] (.*)$", built.stdout, re.M)
        return sorted(re.search(r"(?:-o|>) (\S+)", line).group(1) for line in lines)

    def is_done(self, by_ninja=True):
        """Neither Tanto nor ninja has anything to do."""
        assert self.build() == [], self.printed
        assert not by_ninja or "no work to do" in self.run("ninja").stdout, self.run("ninja", "-n", "-d", "explain")

    def touch(self, *names, ns=None):
        for name in names:
            ns = ns or time.time_ns()
            os.utime(self.path(name), ns=(ns, ns))

    def sources(self):
        return [name for name in FILES if name != "build.ninja"]
