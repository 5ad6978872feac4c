#!/usr/bin/env python3
"""CMake, Meson and pip with the action cache, in two worktrees of a repository or two build directories of one: the second takes all
objects from the cache, also under the variables of another terminal or another CI job, and they are those of a build without a cache.

    tests/cache/clients.py TANTO [NAME...]"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import run_tests, use_log_version_of_ninja

SOURCES = {
    "part.h": '#include <string>\nstd::string one(); int two();\n',
    "one.cpp": '#include "part.h"\n#include <cassert>\n#include "made.h"\nstd::string one() { assert(MADE); return __FILE__; }\n',
    "two.cpp": '#include "part.h"\nint two() { return 2; }\n',
    "main.cpp": '#include "part.h"\n#include <iostream>\nint main() { std::cout << one() << two() << "\\n"; }\n',
    "made.in": "#define MADE 1\n",
}
CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(cache CXX)
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
add_custom_command(OUTPUT made.h COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/made.in made.h DEPENDS made.in)
add_library(part STATIC one.cpp two.cpp ${CMAKE_BINARY_DIR}/made.h)
target_include_directories(part PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
add_executable(app main.cpp)
target_link_libraries(app part)
"""
MESON = """
project('cache', 'cpp')
add_project_arguments('-ffile-prefix-map=' + meson.project_source_root() + '=.', language: 'cpp')
made = configure_file(input: 'made.in', output: 'made.h', copy: true)
part = static_library('part', 'one.cpp', 'two.cpp', made)
executable('app', 'main.cpp', link_with: part)
"""
OBJECTS = 3
WHEEL = {
    "pyproject.toml": '[build-system]\nbuild-backend = "mesonpy"\nrequires = ["meson-python"]\n[project]\nname = "cached"\nversion = "1"\n',
    "meson.build": """
project('cached', 'c', version: '1')
python = import('python').find_installation()
shared_module('cached', 'one.c', 'two.c', name_prefix: '', install: true, install_dir: python.get_install_dir(pure: false))
""",
    "one.c": "#include <stddef.h>\nint two(void);\nvoid *PyInit_cached(void) { return two() ? NULL : (void *)1; }\n",
    "two.c": "int two(void) { return 2; }\n",
}
# Where ./test installs Meson, or anywhere.
VENV = Path(__file__).resolve().parent.parent.parent / ".venv/bin"
MESON_PROGRAM = shutil.which("meson", path=f"{VENV}{os.pathsep}{os.environ['PATH']}") or "meson"
# Variables of another CI job, in another terminal.
ELSEWHERE = {"CI": "true", "CI_JOB_ID": "77", "TERM": "vt100", "COLUMNS": "40", "SHLVL": "9", "OLDPWD": "/", "TMPDIR": "{tmp}"}


def run(words, directory, **more):
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, env={**os.environ, **more})
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def repository(place, files):
    """A repository and a second worktree with a name of another length."""
    first, second = place / "first", place / "another/second"
    first.mkdir()
    for name, content in files.items():
        (first / name).write_text(content)
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    run(["git", "init", "-q"], first)
    run(["git", "add", "."], first)
    run(["git", *identity, "commit", "-q", "-m", "all"], first)
    run(["git", "worktree", "add", "-q", str(second)], first)
    return first, second


def build(tanto, out, *words, **more):
    """Returns what the cache did for each command, by its first output."""
    lines = run([tanto, "build", "--format=jsonl", *words], out, **more).splitlines()
    events = [json.loads(line) for line in lines]
    names = {event["job"]: event["outputs"][0] for event in events if event["event"] == "started"}
    return {names[event["job"]]: event.get("cache") for event in events if event["event"] == "finished"}


def objects(out):
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.o")}


def no_work(out):
    said = run(["ninja", "-n"], out)
    assert "no work to do" in said, said


def check(tanto, place, files, configure):
    first, second = repository(place, files)
    cache = {"XDG_CACHE_HOME": str(place / "cache")}
    run(configure, first)
    filled = build(tanto, first / "out", "--cache=on", **cache)
    assert sum(use == "new" for use in filled.values()) == OBJECTS, filled
    (place / "tmp").mkdir()
    more = {name: value.format(tmp=place / "tmp") for name, value in ELSEWHERE.items()}
    run(configure, second)
    hits = build(tanto, second / "out", "--cache=on", **cache, **more)
    assert sum(use == "hit" for use in hits.values()) == OBJECTS, hits
    no_work(second / "out")
    assert run(["./app"], second / "out") in ("./one.cpp2\n", "../one.cpp2\n")
    found = objects(second / "out")
    shutil.rmtree(second / "out")
    run(configure, second)
    build(tanto, second / "out", "--cache=off", **cache)
    assert len(found) == OBJECTS and objects(second / "out") == found, "other objects than without a cache"
    (first / "two.cpp").write_text("int two() { return 22; }\n")
    again = build(tanto, first / "out", "--cache=on", **cache)
    assert [use for use in again.values() if use in ("new", "changed", "hit")] == ["changed"], again
    assert run(["./app"], first / "out").strip().endswith("22")
    no_work(first / "out")


def cmake_in_two_worktrees(tanto, place):
    configure = ["cmake", "-S", ".", "-B", "out", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug"]
    check(tanto, place, {**SOURCES, "CMakeLists.txt": CMAKE}, configure)


def meson_in_two_worktrees(tanto, place):
    # Otherwise, Meson calls the compiler through ccache, if that is installed.
    os.environ["CXX"] = "c++"
    check(tanto, place, {**SOURCES, "meson.build": MESON}, [MESON_PROGRAM, "setup", "out"])


def a_code_generator_with_cmake(tanto, place):
    """The command of `add_custom_command` is restored, and then all that depends on it."""
    first, _ = repository(place, {**SOURCES, "CMakeLists.txt": CMAKE})
    cache = {"XDG_CACHE_HOME": str(place / "cache")}
    configure = ["cmake", "-S", ".", "-B", "out", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug"]
    words = ("--cache=on", "--cache-rules=CUSTOM_COMMAND")
    for expected in ("new", "hit"):
        shutil.rmtree(first / "out", ignore_errors=True)
        run(configure, first)
        uses = build(tanto, first / "out", *words, **cache)
        assert uses["made.h"] == expected, uses
        assert sum(use == expected for use in uses.values()) == OBJECTS + 1, uses
        no_work(first / "out")
        assert run(["./app"], first / "out") == "./one.cpp2\n"


def python_wheels(tanto, place):
    """meson-python compiles each wheel in a directory with a random name."""
    first, second = repository(place, WHEEL)
    (place / "bin").mkdir()
    (place / "bin/ninja").symlink_to(tanto)
    path = f"{VENV}{os.pathsep}{os.environ['PATH']}"
    flags = {"PATH": path, "NINJA": str(place / "bin/ninja"), "CC": "gcc", "XDG_CACHE_HOME": str(place / "cache")}
    pip = [VENV / "pip", "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "."]
    modules = []
    for number, (source, mode) in enumerate(((first, "on"), (first, "on"), (second, "on"), (first, "off"))):
        wheels = place / f"wheels{number}"
        run([*pip, "-w", str(wheels)], source, TANTO_FLAGS=f"--cache={mode}", **flags)
        wheel = zipfile.ZipFile(next(wheels.iterdir()))
        modules.append([wheel.read(name) for name in sorted(wheel.namelist()) if name.endswith(".so")])
    assert modules[0] and modules.count(modules[0]) == 4, "the wheels differ"
    counted = dict(line.rsplit(maxsplit=1) for line in run([tanto, "cache", "stat"], place, **flags).splitlines()[:6])
    assert (counted["hits"], counted["misses"]) == ("4", "2"), counted


def cmake_in_two_build_directories(tanto, place):
    """With CMake's own options for a release, also if a source is generated."""
    option = next(line for line in CMAKE.splitlines() if line.startswith("add_compile_options"))
    lists = CMAKE.replace(option, "").replace("two.cpp", "two.cpp copy.cpp")
    lists += "add_custom_command(OUTPUT copy.cpp COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/copy.in copy.cpp DEPENDS copy.in)\n"
    top, _ = repository(place, {**SOURCES, "CMakeLists.txt": lists, "copy.in": "int copy() { return sizeof __FILE__; }\n"})
    cache = {"XDG_CACHE_HOME": str(place / "cache")}
    found = {}
    for out in (top / "out-1", top / "build/release"):
        configure = ["cmake", "-S", ".", "-B", str(out), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
        run(configure, top)
        uses = build(tanto, out, "--cache=on", **cache)
        no_work(out)
        assert run(["./app"], out) == f"{top}/one.cpp2\n"
        shared = {name: use for name, use in uses.items() if name.endswith(".o") and "copy" not in name}
        expected = "hit" if found else "new"
        assert len(shared) == OBJECTS and set(shared.values()) == {expected}, f"{uses}, not {expected}"
        found[out] = objects(out)
        shutil.rmtree(out)
        run(configure, top)
        build(tanto, out, "--cache=off", **cache)
        assert objects(out) == found[out], "other objects than without a cache"


if __name__ == "__main__":
    use_log_version_of_ninja()
    tests = [cmake_in_two_worktrees, meson_in_two_worktrees, a_code_generator_with_cmake, python_wheels]
    run_tests(__doc__, [*tests, cmake_in_two_build_directories])
