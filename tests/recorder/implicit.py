#!/usr/bin/env python3
"""What programs use without naming it in a call: the calendar, shared libraries, and programs in PATH.

    tests/recorder/implicit.py TANTO

Libraries are compared with the names in the system calls that strace sees."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILERS = [it for it in ("gcc", "g++", "clang-14", "clang-16", "clang-19", "clang++-19") if shutil.which(it)]
# Programs without libraries that are searched by path, one whose libraries have an `RPATH`, one with a `RUNPATH`.
PROGRAM = "int one(void);\nint main(void) { return one(); }\n"
LIBRARY = "int one(void) { return 0; }\n"
LATER = '#include <dlfcn.h>\nint main(void) { return !dlopen("libone.so", RTLD_NOW); }\n'
SEARCH = """#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(void) {
  char *words[] = {"tool", 0};
  pid_t child;
  if (posix_spawnp(&child, "tool", 0, 0, words, environ)) return 1;
  waitpid(child, 0, 0);
  return execvp("none", words) + execlp("tool", "tool", (char *)0);
}
"""
FILES = """#include <fcntl.h>
#include <locale.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(void) {
  char *words[] = {"true", 0};
  pid_t child;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "input", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "output", O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (posix_spawn(&child, "/bin/true", &actions, 0, words, environ) == 0) waitpid(child, 0, 0);
  setlocale(LC_CTYPE, "");
  return mkdir("made", 0777) + truncate("cut", 1);
}
"""


def make(place, name, text, *options, compiler="gcc"):
    (place / f"{name}.c").write_text(text)
    subprocess.run([compiler, "-w", f"{name}.c", "-o", name, *options], cwd=place, check=True)


def record(tanto, place, *command, **variables):
    """The lines of the list, split, without what `tanto run` needs itself."""
    environment = {**os.environ, **variables}
    result = subprocess.run(
        [tanto, "run", "--record-inputs", place / "list", "--", *command], cwd=place, env=environment, capture_output=True, text=True
    )
    assert "incomplete" not in result.stderr, result.stderr
    return [tuple(line.split("\t")) for line in (place / "list").read_text().splitlines()]


def named(lines, *words):
    return {line[1] for line in lines if line[0] in words}


def calendar(tanto, place):
    (place / "plain.cc").write_text("#include <string>\nstd::string a = __FILE__;\n")
    for compiler in COMPILERS:
        for macro in ("__DATE__", "__TIME__", "__TIMESTAMP__"):
            (place / "a.c").write_text(f"const char *a = {macro};\n")
            assert ("calendar",) in record(tanto, place, compiler, "-c", "a.c"), (compiler, macro)
        source = "plain.cc" if "++" in compiler else "a.c"
        (place / "a.c").write_text("int a;\n")
        for options in ((), ("-g",), ("-O2",), ("-O2", "-g", "-MD"), ("-save-temps",)):
            assert ("calendar",) not in record(tanto, place, compiler, *options, "-c", source), (compiler, options)


# Successful and failed calls of the loader.
OPENED = re.compile(r'^\d+ +openat\(AT_FDCWD, "([^"]*\.so[.0-9]*)".* = (-1|\d+)')
PROCESSOR_DIRS = ("glibc-hwcaps", "tls", "x86_64", "haswell", "avx512_1", "xeon_phi")


def absolute(place, path):
    return os.path.normpath(os.path.join(place, path))


def processor_dir(path):
    """The first directory in a path that is for some processors."""
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts) if part in PROCESSOR_DIRS and at > 2), None)
    return None if at is None else "/".join(parts[: at + 1])


def check_libraries(tanto, place, *command, **variables):
    lines = record(tanto, place, *command, **variables)
    log = place / "strace"
    subprocess.run(
        ["strace", "-f", "-e", "trace=openat", "-o", log, *command], cwd=place, env={**os.environ, **variables}, capture_output=True
    )
    loaded, absent = ({os.path.normpath(path) for path in named(lines, word)} for word in ("library", "absent"))
    for path, result in filter(None, (match and match.groups() for match in map(OPENED.match, log.read_text().splitlines()))):
        path = absolute(place, path)
        if result != "-1":
            assert path in loaded, (command, path, loaded)
        else:
            assert path in absent or processor_dir(path) in absent, (command, path, absent)
    assert {("read", "/etc/ld.so.cache"), ("unset", "LD_AUDIT")} <= set(lines)
    assert not any("tanto" in path for path in loaded), loaded
    return loaded


def libraries(tanto, place):
    for directory in ("first", "second", "second/glibc-hwcaps/x86-64-v2", "third"):
        (place / directory).mkdir(parents=True)
    make(place, "second/libone.so", LIBRARY, "-shared", "-fPIC")
    for name, options in (("plain", []), ("runpath", ["-Wl,--enable-new-dtags"]), ("rpath", ["-Wl,--disable-new-dtags"])):
        dirs = [] if name == "plain" else ["-Wl,-rpath,$ORIGIN/first:second"]
        make(place, name, PROGRAM, *options, *dirs, "-Lsecond", "-lone")
    make(place, "later", LATER, "-Wl,-rpath,$ORIGIN/second")
    one = f"{place}/second/libone.so"
    for name in ("plain", "runpath", "rpath"):
        variables = {"LD_LIBRARY_PATH": "third:second:"} if name == "plain" else {}
        assert one in check_libraries(tanto, place, f"./{name}", **variables)
    assert one in check_libraries(tanto, place, "./later")
    machine = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True).stdout.strip()
    make(place, "alone", PROGRAM, f"-Wl,-z,nodefaultlib,-rpath,$ORIGIN/first:second:/lib/{machine}", "-Lsecond", "-lone")
    assert one in check_libraries(tanto, place, "./alone")
    # Another one for newer processors, and one that comes first.
    shutil.copy(place / "second/libone.so", place / "second/glibc-hwcaps/x86-64-v2/libone.so")
    assert one not in check_libraries(tanto, place, "./runpath")
    shutil.copy(place / "second/libone.so", place / "third/libone.so")
    assert f"{place}/third/libone.so" in check_libraries(tanto, place, "./runpath", LD_LIBRARY_PATH="third")
    (place / "a.c").write_text("int a;\n")
    for compiler in COMPILERS:
        assert any("/libc.so.6" in path for path in check_libraries(tanto, place, compiler, "-c", "a.c"))


def programs_in_path(tanto, place):
    for directory in ("none", "bin", "later"):
        (place / directory).mkdir()
    for directory in ("bin", "later"):
        (place / directory / "tool").symlink_to("/bin/true")
    make(place, "search", SEARCH)
    path = f"{place}/none::{place}/bin:{place}/later"
    lines = record(tanto, place, "./search", PATH=path)
    assert ("variable", "PATH", path) in lines, lines
    assert {f"{place}/none/tool", f"{place}/tool", f"{place}/none/none", f"{place}/later/none"} <= named(lines, "absent"), lines
    assert f"{place}/bin/tool" in named(lines, "exists") and f"{place}/later/tool" not in named(lines, "exists", "absent"), lines


def other_calls(tanto, place):
    for name in ("cut", "input"):
        (place / name).write_text("text")
    make(place, "files", FILES)
    lines = record(tanto, place, "./files", LANG="C.UTF-8")
    assert named(lines, "written") == {f"{place}/{name}" for name in ("made", "cut", "output")}, lines
    assert {f"{place}/cut", f"{place}/input"} <= named(lines, "read"), lines
    assert ("variable", "LANG", "C.UTF-8") in lines and "LANGUAGE" in named(lines, "unset"), lines


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    for test in (calendar, libraries, programs_in_path, other_calls):
        with tempfile.TemporaryDirectory(prefix="implicit") as directory:
            test(tanto, Path(directory).resolve())
        print(f"ok recorder: {test.__name__.replace('_', ' ')}")


main()
