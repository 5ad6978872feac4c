#!/usr/bin/env python3
"""Other compilers under the same name: a cached result of one must not be taken for that of another.

    tests/cache/compilers.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import os
import shutil
import socket
import subprocess
import threading

from tree import CLANG, GCC, Tree, main, make_wrapper, of_each  # Finds the harness.
from harness import can_mount

FILES = {
    "a.c": '#include "h.h"\nint f(void) { return H + VERSION; }\n',
    "inc/h.h": "#define H 1\n#ifndef VERSION\n#define VERSION 0\n#endif\n",
}


def put_first(tree, *dirs):
    """Puts directories of the tree first in PATH."""
    rest = tree.environment.setdefault("REST_OF_PATH", tree.environment["PATH"])
    tree.environment["PATH"] = ":".join([*(str(tree.path(name)) for name in dirs), rest])


@of_each(("gcc",), ("clang",))
def a_compiler_is_replaced(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    real = "gcc" if kind == GCC else "clang-19"
    program = tree.path("bin") / kind[0]
    make_wrapper(program, real, "-DVERSION=1")
    put_first(tree, "bin")
    tree.trap(lambda: make_wrapper(program, real, "-DVERSION=2"), "changed")

    def same_times():
        times = program.stat()
        content = program.read_bytes()
        changed = content.replace(b"-DVERSION=2", b"-DVERSION=3")
        assert changed != content
        program.write_bytes(changed)
        os.utime(program, ns=(times.st_atime_ns, times.st_mtime_ns))

    tree.trap(same_times, "changed")


@of_each(("cc",))
def a_link_to_a_compiler_is_retargeted(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    for number in (1, 2):
        make_wrapper(tree.path(f"opt/{number}/bin/gcc"), "gcc", f"-DVERSION={number}")
    put_first(tree, "bin")
    tree.link("bin/cc", "../opt/1/bin/gcc")
    tree.trap(lambda: tree.link("bin/cc", "../opt/2/bin/gcc"), "changed")
    tree.trap(lambda: tree.link("bin/cc", shutil.which("clang-19") or "gcc"))
    # A link to a directory on the way.
    tree.link("opt/now", "1")
    tree.link("bin/cc", "../opt/now/bin/gcc")
    tree.trap(lambda: tree.link("opt/now", "2"))


@of_each(("gcc",))
def another_compiler_is_found_first(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    for number in (1, 2):
        make_wrapper(tree.path(f"bin{number}/gcc"), "gcc", f"-DVERSION={number}")
    put_first(tree, "bin1", "bin2")
    tree.trap(lambda: put_first(tree, "bin2", "bin1"))
    tree.trap(lambda: tree.path("bin2/gcc").unlink())
    make_wrapper(tree.path("bin3/gcc"), "gcc", "-DVERSION=3")
    put_first(tree, "bin4", "bin2", "bin1")
    tree.trap(lambda: tree.path("bin3").rename(tree.path("bin4")))
    # It cannot be executed yet.
    make_wrapper(tree.path("bin4/gcc"), "gcc", "-DVERSION=4")
    tree.path("bin4/gcc").chmod(0o644)
    tree.trap(lambda: tree.path("bin4/gcc").chmod(0o755))


@of_each(GCC)
def another_assembler_is_found_first(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    tree.path("bin").mkdir()
    put_first(tree, "bin")
    tree.trap(lambda: make_wrapper(tree.path("bin/as"), "as", "--defsym=one=1"), "changed")
    tree.trap(lambda: make_wrapper(tree.path("bin/as"), "as", "--defsym=two=1"), "changed")
    tree.trap(lambda: tree.path("bin/as").chmod(0o644))
    tree.trap(lambda: tree.path("bin/as").chmod(0o755), cached=False)
    tree.trap(lambda: tree.path("bin/as").unlink())
    # Beside PATH: -B, and the directories in which gcc looks for its own programs.
    tree.plan("-I../inc -B../tools")
    tree.path("tools").mkdir()
    tree.trap(lambda: make_wrapper(tree.path("tools/as"), "as", "--defsym=six=1"), "changed")
    tree.trap(lambda: tree.path("tools/as").chmod(0o644))
    tree.trap(lambda: tree.path("tools/as").chmod(0o755), cached=False)


@of_each(GCC)
def an_assembler_that_is_a_script(tanto, place, kind):
    """Shells read variables in a way that the recorder does not see."""
    tree = Tree(tanto, place, FILES, kind)
    real = shutil.which("as")
    tree.write("bin/as", f'#!/bin/sh\nexec {real} $MY_FLAGS "$@"\n')
    tree.path("bin/as").chmod(0o755)
    put_first(tree, "bin")
    for shell in ("/bin/sh", "/bin/bash"):
        tree.write("bin/as", f'#!{shell}\nexec {real} $MY_FLAGS "$@"\n')
        for value in ("", "--defsym=one=1", "--defsym=two=1"):
            tree.environment["MY_FLAGS"] = value
            tree.judge()
            tree.judge()
    tree.write("bin/as", f'#!/bin/sh\nif test "$USER" = x; then set -- --defsym=x=1 "$@"; fi\nexec {real} "$@"\n')
    for user in ("y", "x"):
        tree.environment["USER"] = user
        tree.judge()


@of_each(GCC)
def a_script_that_an_option_names(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind, flags="-I../inc -no-integrated-cpp -B../tools")
    real = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True).stdout.strip()
    tree.write("tools/cc1", f'#!/bin/sh\nexec {real} $MY_FLAGS "$@"\n')
    tree.path("tools/cc1").chmod(0o755)
    tree.plan("-I../inc -B../tools")
    for value in ("", "-DVERSION=5", "-DVERSION=6"):
        tree.environment["MY_FLAGS"] = value
        tree.judge()
        tree.judge()


@of_each(("gcc",))
def compilers_that_are_scripts_are_not_cached(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    tree.write("bin/gcc", f'#!/bin/sh\nexec {shutil.which("gcc")} -DVERSION=$MY_VERSION "$@"\n')
    tree.path("bin/gcc").chmod(0o755)
    put_first(tree, "bin")
    for version in "12":
        tree.environment["MY_VERSION"] = version
        for _ in range(2):
            assert tree.judge().hits() == []


def hiding(place, body, *options):
    """A compiler in C with this body; `words` are those of the real one."""
    source = f"""
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {{
  char *real = "{shutil.which('gcc')}", **words = argv;
  int status = 0; (void)argc; (void)status; words[0] = real;
  {body}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}}
"""
    place.parent.mkdir(exist_ok=True)
    subprocess.run(["gcc", "-x", "c", "-w", *options, "-o", place, "-"], input=source.encode(), check=True)


HIDING = {
    "a static program": ("execv(real, words);", "-static"),
    "no library for the child": ('unsetenv("LD_PRELOAD"); execv(real, words);',),
    "no variables for the child": ('char *none[] = {"PATH=/usr/bin:/bin", 0}; execve(real, words, none);',),
    "a fork by a system call": (
        "int child = (int)syscall(SYS_fork); if (!child) execv(real, words); waitpid(child, &status, 0);",),
    "execve by a system call": ("syscall(SYS_execve, real, words, environ);",),
    "execve by a system call in a fork": (
        "int child = fork(); if (!child) syscall(SYS_execve, real, words, environ); waitpid(child, &status, 0);",),
    "another group of processes": (
        "int child = vfork(); if (!child) { setsid(); execv(real, words); } waitpid(child, &status, 0);",),
}


@of_each(("gcc",))
def compilers_that_hide_what_they_do(tanto, place, kind):
    for number, (what, (body, *options)) in enumerate(HIDING.items()):
        tree = Tree(tanto, place / str(number), FILES, kind)
        hiding(tree.path("bin/gcc"), body, *options)
        put_first(tree, "bin")
        try:
            for text in ("#define H 1\n#define VERSION 1\n", "#define H 2\n#define VERSION 1\n"):
                tree.write("inc/h.h", text)
                tree.judge()
                tree.judge()
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error


class Server:
    """Compiles for others, as distcc, icecc and sccache do."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client = self.socket.accept()[0]
            with client, client.makefile("rw") as file:
                cwd, *words = file.readline().rstrip("\n").split("\t")
                ran = subprocess.run(["gcc", *words], cwd=cwd)
                file.write(str(ran.returncode))


@of_each(("gcc",))
def a_compiler_that_asks_a_server(tanto, place, kind):
    """The server reads the files, so the recorder does not see that."""
    tree = Tree(tanto, place, FILES, kind)
    Server(place / "socket")
    body = f"""
  struct sockaddr_un to = {{AF_UNIX, "{place / 'socket'}"}};
  char text[9000]; int at = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(at, (struct sockaddr *)&to, sizeof to)) return 9;
  getcwd(text, 4000);
  for (int i = 1; i < argc; i++) strcat(strcat(text, "\\t"), argv[i]);
  write(at, strcat(text, "\\n"), strlen(text) + 1);
  return read(at, text, 1) == 1 ? text[0] - '0' : 9;
"""
    hiding(tree.path("bin/gcc"), body)
    put_first(tree, "bin")
    for number in (1, 2):
        tree.write("inc/h.h", f"#define H {number}\n#define VERSION 1\n")
        tree.judge()
        assert tree.judge().hits() == []


@of_each(("gcc",))
def ccache_is_not_cached(tanto, place, kind):
    if not shutil.which("ccache"):
        print("# skipped: no ccache")
        return
    tree = Tree(tanto, place, FILES, kind)
    make_wrapper(tree.path("real/gcc"), "gcc", "-DVERSION=1")
    tree.path("bin").mkdir()
    tree.link("bin/gcc", shutil.which("ccache"))
    put_first(tree, "bin", "real")
    tree.environment |= {"CCACHE_DIR": str(place / "ccache"), "CCACHE_COMPILERCHECK": "none"}
    for more in ({}, {"CCACHE_NOSTATS": "1"}, {"CCACHE_READONLY": "1"}):
        tree.environment |= more
        for _ in range(3):
            built = tree.judge()
            assert built.hits() == [], more
    # As the first word of a command.
    tree.kind = ("ccache gcc",)
    tree.plan("-I../inc")
    assert tree.judge().hits() == []


@of_each(("gcc",))
def a_library_of_the_compiler_is_replaced(tanto, place, kind):
    tree = Tree(tanto, place, FILES, kind)
    source = place / "lib.c"
    source.write_text("const char *extra(void) { return VERSION; }\n")
    main_source = place / "main.c"
    main_source.write_text(f"""
#include <unistd.h>
const char *extra(void);
int main(int argc, char **argv) {{
  char *words[100]; int n = 0; (void)argc;
  for (char **it = argv; *it && n < 90; it++) words[n++] = *it;
  words[n++] = (char *)extra(); words[n] = 0; words[0] = "{shutil.which('gcc')}";
  return execv(words[0], words);
}}
""")

    def library(directory, version):
        tree.path(directory).mkdir(exist_ok=True)
        new = tree.path(directory) / "new.so"
        command = ["gcc", "-shared", "-fPIC", f'-DVERSION="-DVERSION={version}"', "-o", new, source]
        subprocess.run(command, check=True)
        new.rename(tree.path(directory) / "libextra.so")

    library("lib", 1)
    tree.path("bin").mkdir()
    lib = tree.path("lib")
    command = ["gcc", main_source, f"-L{lib}", "-lextra", f"-Wl,-rpath,{lib}", "-o", tree.path("bin/gcc")]
    subprocess.run(command, check=True)
    put_first(tree, "bin")
    tree.trap(lambda: library("lib", 2), "changed")
    library("lib2", 3)
    tree.trap(lambda: tree.environment.update({"LD_LIBRARY_PATH": str(tree.path("lib2"))}))
    tree.trap(lambda: tree.environment.update({"LD_LIBRARY_PATH": f"{tree.path('lib0')}:{tree.path('lib2')}"}), changes=False)
    tree.fill()
    tree.trap(lambda: library("lib0", 4))
    tree.trap(lambda: tree.environment.pop("LD_LIBRARY_PATH"))


@of_each(GCC, CLANG)
def the_order_of_words(tanto, place, kind):
    """Other options are other commands, also if only their order differs."""
    files = {"a.c": '#include "h.h"\nint f(void) { return H; }\n', "x/h.h": "#define H 1\n", "y/h.h": "#define H 2\n"}
    tree = Tree(tanto, place, files, kind, flags="-Ix -I../x -I../y")
    tree.trap(lambda: tree.plan("-Ix -I../y -I../x"), "new")
    tree.trap(lambda: tree.plan("-Ix -I../x -I../y -O2 -O0 -DH_=1"), "new", changes=False)
    tree.plan("-Ix -I../x -I../y")
    tree.judge("hit")
    tree.plan('-I../x "-DA= " -I../y')
    tree.judge()


@of_each(GCC, CLANG)
def build_directories_are_told_apart(tanto, place, kind):
    """Two trees with one cache, without a checkout."""
    files = {"a.c": '#include <assert.h>\n#include "h.h"\nvoid f(int a) { assert(a); }\n', "inc/h.h": ""}
    trees = [Tree(tanto, place / name, files, kind, cache=place / "xdg") for name in ("one", "two")]
    for flags in ("-I../inc", "-g -I../inc", "-g -I{root}/inc"):
        for tree in trees:
            tree.plan(flags)
            tree.judge()
        for tree in trees:
            tree.judge("hit")


@of_each(GCC, CLANG)
def another_processor(tanto, place, kind):
    """Objects for the processor of this machine are not used on another one."""
    if not can_mount():
        print("# skipped: needs root and mounts")
        return
    tree = Tree(tanto, place, {**FILES, "cpuinfo": "model : of another machine\n"}, kind)
    mount = f"mount --bind {tree.path('cpuinfo')} /proc/cpuinfo"
    tree.write("elsewhere", f"#!/bin/sh\nexec unshare -m sh -c '{mount} && exec {tanto} \"$@\"' sh \"$@\"\n")
    tree.path("elsewhere").chmod(0o755)
    for flags, use in (("-I../inc", "hit"), ("-I../inc -march=native", "new")):
        tree.tanto = tanto
        tree.plan(flags)
        tree.fill()
        tree.tanto = tree.path("elsewhere")
        tree.judge(use)


if __name__ == "__main__":
    main(__doc__, globals())
