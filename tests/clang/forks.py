#!/usr/bin/env python3
"""Builds in which a fork server or its forks are killed, and compilers that change or cannot be forked.

    tests/clang/forks.py TANTO [NAME...]

A compile that is to be interrupted reads a named pipe, to which only the test writes. Prints "ok NAME" or "not ok
NAME"."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import run_tests

CLANG = Path(shutil.which("clang-19") or "/usr/bin/clang-19")
TEXT = "int gate;\n"
# Timeout of events that have to happen, in seconds.
LONG = 60


class Build:
    """A tree in which each line is built by one command, and a Tanto process."""

    def __init__(self, tanto, place, *lines, **variables):
        self.tanto, self.place, self.variables = tanto, place, variables
        os.mkfifo(place / "gate.c")
        (place / "a.c").write_text("int a(int x) { return x; }\n")
        rules = [f"rule r{n}\n  command = {line}\nbuild o{n}: r{n}\n" for n, line in enumerate(lines)]
        (place / "build.ninja").write_text("".join(rules))

    def start(self, *flags):
        environment = dict(os.environ, XDG_CACHE_HOME=f"{self.place}.cache", **self.variables)
        # Otherwise, the first compile is a process.
        mode = [] if any("--clang-worker" in flag for flag in flags) else ["--clang-worker=require"]
        command = [self.tanto, "build", "--format=jsonl", *mode, *flags]
        # A pipe could get full.
        self.events = Path(f"{self.place}.events")
        with self.events.open("wb") as events:
            self.process = subprocess.Popen(
                command, cwd=self.place, env=environment, stdout=events, stderr=subprocess.PIPE
            )
        return self

    def end(self):
        """Exit code; collects the events of finished commands by job."""
        _, self.errors = self.process.communicate(timeout=LONG)
        events = [json.loads(line) for line in self.events.read_text().splitlines()]
        self.ended = {it["job"]: it for it in events if it["event"] == "finished"}
        return self.process.returncode

    def run(self, *flags):
        self.start(*flags)
        return self.end()

    def ran_in_process(self):
        return [self.ended[job].get("in_process", False) for job in sorted(self.ended)]

    def server(self):
        """The process that ran the program by its real name."""
        return wait_for(lambda: next(iter(children(self.process.pid, CLANG.resolve().name)), None))

    def fork(self):
        return wait_for(lambda: next(iter(children(self.server(), CLANG.name)), None))

    def fork_that_waits(self):
        """The fork for the last command of a build with one job."""
        count = self.place.joinpath("build.ninja").read_text().count("\nbuild ")
        wait_for(lambda: self.events.read_bytes().count(b'"event":"started"') == count)
        return self.fork()

    def open_gate(self):
        with (self.place / "gate.c").open("w") as gate:
            gate.write(TEXT)

    def files(self):
        return sorted(it.name for it in self.place.iterdir() if not it.name.startswith("."))


def children(parent, name):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        front, _, rest = text.rpartition(") ")
        if int(rest.split()[1]) == parent and front.partition("(")[2] == name and rest[0] not in "ZX":
            found.append(int(front.split()[0]))
    return found


def wait_for(condition):
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.01)
    raise AssertionError("timed out")


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True


COMPILE = f"{CLANG} -c a.c -o $out"
GATE = f"{CLANG} -c gate.c -o $out"
INPUTS = ["a.c", "build.ninja", "gate.c"]
GATED = [*INPUTS, "gated.c"]


def server_is_killed(tanto, place):
    build = Build(tanto, place, GATE, COMPILE).start("-j1")
    build.fork()
    os.kill(build.server(), signal.SIGKILL)
    wait_for(lambda: children(build.process.pid, CLANG.name))
    build.open_gate()
    assert build.end() == 0, build.errors
    # A process, and a fork of a new server.
    assert build.ran_in_process() == [False, True], build.ended
    assert build.files() == sorted([*INPUTS, "o0", "o1"]), build.files()


def killed_fork_is_reported_as_a_killed_process(tanto, place):
    ends = []
    for mode in ("require", "off"):
        build = Build(tanto, fresh(place / "tree"), GATE).start(f"--clang-worker={mode}")
        of = build.server() if mode == "require" else build.process.pid
        os.kill(wait_for(lambda: next(iter(children(of, CLANG.name)), None)), signal.SIGKILL)
        code = build.end()
        ended = build.ended[0]
        ends.append([code, *(ended.get(key) for key in ("exit", "signal", "core", "output"))])
    assert ends[0] == ends[1], ends


def killed_server_leaves_no_temporary_file(tanto, place):
    build = Build(tanto, place, gated(place)).start()
    fork = build.fork()
    wait_for(lambda: set(build.files()) - set(GATED))
    os.kill(build.server(), signal.SIGKILL)
    wait_for(lambda: is_gone(fork))
    wait_for(lambda: children(build.process.pid, CLANG.name))
    build.open_gate()
    assert build.end() == 0, build.errors
    assert build.files() == sorted([*GATED, "o0.o"]), build.files()


# After a job that was killed, clang would preprocess the file once more.
JOBS = f"{CLANG} -fno-crash-diagnostics gate.c a.c -shared -fPIC -o $out"


def first_job(driver):
    """The process of a driver's job, which waits for the gate."""
    return wait_for(lambda: next(iter(children(driver, CLANG.resolve().name)), None))


def jobs_of_a_driver_are_forks(tanto, place):
    build = Build(tanto, place, JOBS).start()
    driver = build.fork()
    job = first_job(driver)
    # It was not executed: then the library would be missing.
    assert "/memfd:" in Path(f"/proc/{job}/maps").read_text()
    # The driver, which it forks from, and the job.
    all_of_driver = [driver, job, *children(driver, CLANG.name)]
    assert len(all_of_driver) == 3, all_of_driver
    build.open_gate()
    assert build.end() == 0, (build.errors, build.ended)
    assert build.ran_in_process() == [True] and (place / "o0").exists()
    assert all(is_gone(pid) for pid in all_of_driver)


def killed_job_of_a_driver_is_reported_as_a_killed_process(tanto, place):
    said = []
    for mode in ("require", "off"):
        build = Build(tanto, fresh(place / "tree"), JOBS).start(f"--clang-worker={mode}")
        of = build.server() if mode == "require" else build.process.pid
        driver = wait_for(lambda: next(iter(children(of, CLANG.name)), None))
        os.kill(first_job(driver), signal.SIGKILL)
        code = build.end()
        ended = build.ended[0]
        said.append([code, *(ended.get(key) for key in ("exit", "signal", "core", "output"))])
    assert said[0] == said[1] and "signal" in said[0][4], said


def killed_server_ends_the_jobs_of_drivers(tanto, place):
    build = Build(tanto, place, JOBS).start()
    job = first_job(build.fork())
    os.kill(build.server(), signal.SIGKILL)
    wait_for(lambda: is_gone(job))
    driver = wait_for(lambda: next(iter(children(build.process.pid, CLANG.name)), None))
    first_job(driver)
    build.open_gate()
    assert build.end() == 0 and build.ran_in_process() == [False], (build.errors, build.ended)
    assert build.files() == sorted([*INPUTS, "o0"]), build.files()


# The constructors of a program's libraries run before the preload library takes over. This one answers in its place:
# `ANSWER` is a number of bytes, then "r" for the beginning of a frame of the right kind, or "s" to stay.
IMPOSTOR = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
__attribute__((constructor)) static void load(void) {
  static char bytes[300000] = "\5\0\0\0\12\3\0\0\0";
  const char *server = getenv("TANTO_FORK_SERVER"), *answer = getenv("ANSWER");
  if (!server) return;
  size_t length = strtoul(answer, 0, 10);
  for (size_t at = 0; at < length && !strchr(answer, 'r'); at++) bytes[at] = (char)(at * 7 + length);
  if (length) send(atoi(server), bytes, length, 0);
  if (strchr(answer, 's')) sleep(600);
  _exit(0);
}
"""


def compiler_with_initializer(place, initializer):
    """A program that runs this code before its `main`, and then the compiler; old enough to be forked."""
    program = place / "bin/clang-19"
    program.parent.mkdir()
    (place / "library.c").write_text(initializer)
    (place / "main.c").write_text(
        f'#include <unistd.h>\nint main(int n, char **words) {{ return execv("{CLANG}", words); }}\n'
    )
    library = program.with_name("libinitializer.so")
    subprocess.run([CLANG, "-shared", "-fPIC", place / "library.c", "-o", library], check=True)
    linked = ["-Wl,--no-as-needed", library, "-Wl,-rpath,$ORIGIN"]
    subprocess.run([CLANG, place / "main.c", *linked, "-o", program], check=True)
    time.sleep(1.1)
    return program


def nonsense_from_a_server_makes_processes(tanto, place):
    program = compiler_with_initializer(place, IMPOSTOR)
    for answer in ("0", "1", "400", "130000", "200000", "9r", "9rs", "64s", "0s"):
        build = Build(tanto, fresh(place / "tree"), *[f"{program} -c a.c -o $out"] * 3, ANSWER=answer)
        assert build.run("-j1", "--clang-worker=auto") == 0, (answer, build.errors, build.ended)
        assert build.ran_in_process() == [False] * 3, (answer, build.ended)
        assert not list(processes_of(program)), answer


SLOW_START = """
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void start(void) { if (getenv("TANTO_FORK_SERVER")) sleep(7); }
"""


def slow_start_is_awaited_if_forks_are_required(tanto, place):
    program = compiler_with_initializer(place, SLOW_START)
    for mode, in_process in (("require", True), ("auto", False)):
        build = Build(tanto, fresh(place / "tree"), *[f"{program} -c a.c -o $out"] * 2)
        assert build.run("-j1", f"--clang-worker={mode}") == 0, (mode, build.errors, build.ended)
        assert build.ran_in_process()[1] == in_process, (mode, build.ended)


def processes_of(program):
    for exe in Path("/proc").glob("[0-9]*/exe"):
        try:
            if exe.readlink() == program:
                yield exe.parent.name
        except OSError:
            continue


def first_compile_is_a_process(tanto, place):
    build = Build(tanto, place, COMPILE, COMPILE)
    assert build.run("-j1", "--clang-worker=auto") == 0
    assert build.ran_in_process() == [False, True], build.ended


def first_compile_of_a_large_build_is_a_fork(tanto, place):
    build = Build(tanto, place, *[COMPILE] * 8)
    assert build.run("-j1", "--clang-worker=auto") == 0
    assert build.ran_in_process() == [False] + [True] * 7, build.ended
    for n in range(8):
        (place / f"o{n}").unlink()
    # Now the cost of the compiler is known.
    assert build.run("-j1", "--clang-worker=auto") == 0
    assert build.ran_in_process() == [True] * 8, build.ended


def code_of_a_large_build_is_in_huge_pages(tanto, place):
    build = Build(tanto, place, *[COMPILE] * 299, GATE).start("-j1")
    fork = build.fork_that_waits()
    # Code of processes is in mapped files.
    maps = Path(f"/proc/{fork}/maps").read_text().splitlines()
    moved = [line for line in maps if " r-xp 00000000 00:00 0" in line and len(line.split()) == 5]
    build.open_gate()
    assert build.end() == 0 and all(build.ran_in_process()), build.errors
    assert len({(place / f"o{n}").read_bytes() for n in range(299)}) == 1
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    major, minor = (int(number) for number in os.uname().release.split(".")[:2])
    free = int(re.search(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text())[1])
    assert moved or "[never]" in setting or (major, minor) < (6, 1) or free < 5 << 20, maps


def flag_overrides_variable(tanto, place):
    build = Build(tanto, place, COMPILE, TANTO_SPAWN_CC1="1")
    assert build.run("--clang-worker=off") == 0 and build.ran_in_process() == [False]
    (place / "o0").unlink()
    assert build.run("--clang-worker=require") == 0 and build.ran_in_process() == [True]


def require_names_the_obstacle(tanto, place):
    others = place / "cc"
    shutil.copy("/bin/true", others)
    cases = [
        (f"{others} -c a.c -o $out", b"cc is not clang", {}),
        (f"{COMPILE} && true", b"it needs a shell", {}),
        (COMPILE, b"LD_DEBUG in the environment", {"LD_DEBUG": "versions"}),
    ]
    for command, why, variables in cases:
        build = Build(tanto, fresh(place / "tree"), command, **variables)
        assert build.run("--clang-worker=require") == 1, command
        assert b"--clang-worker=require" in build.errors and why in build.errors, (command, build.errors)
    # Options in a response file count.
    for text, code in (("-O1\n'-c' a.c", 1), ("-v", 0)):
        build = Build(tanto, fresh(place / "tree"), COMPILE, f"{others} @args.rsp -o $out && touch $out")
        (place / "tree/args.rsp").write_text(text)
        assert build.run("-j1", "--clang-worker=require") == code, (text, build.errors)
    # Commands that do not compile are exempt.
    build = Build(tanto, fresh(place / "tree"), COMPILE, "true && touch $out")
    assert build.run("-j1", "--clang-worker=require") == 0, build.errors


def installation(place):
    """A copy of the compiler that can be changed, old enough to be forked."""
    program = place / "bin/clang-19"
    program.parent.mkdir()
    shutil.copy(CLANG.resolve(), program)
    time.sleep(1.1)
    return program


def compiler_replaced_during_the_build(tanto, place):
    """The second compiler defines a macro. The command that replaces it runs between two compiles."""
    program = installation(place)
    new = place / "new"
    source = place / "new.c"
    source.write_text(f'#include <unistd.h>\nint main(int n, char **w) {{\n  char *all[50] = {{"{CLANG}", "-DNEW"}};\n'
                      "  for (int i = 1; i <= n; i++) all[i + 1] = w[i];\n  return execv(all[0], all);\n}\n")
    subprocess.run([CLANG, source, "-o", new], check=True)
    tree = fresh(place / "tree")
    compiles = f"{program} -S -emit-llvm m.c -o $out"
    build = Build(tanto, tree, compiles, compiles, f"cp {new} {program}.x && mv {program}.x {program} && touch $out", compiles)
    (tree / "m.c").write_text("#ifdef NEW\nint new_one;\n#else\nint old_one;\n#endif\n")
    assert build.run("-j1", "--clang-worker=auto") == 0, (build.errors, build.ended)
    assert build.ran_in_process()[1], build.ended
    assert "old_one" in (tree / "o1").read_text() and "new_one" in (tree / "o3").read_text()


def library_appears_during_the_build(tanto, place):
    """An empty file comes before a library of the compiler in the search path: a new process cannot start, and neither
    may a fork."""
    libraries = place / "libraries"
    libraries.mkdir()
    time.sleep(1.1)
    library = f"touch {libraries}/libz.so.1 && touch $out"
    build = Build(tanto, fresh(place / "tree"), COMPILE, COMPILE, library, COMPILE, LD_LIBRARY_PATH=str(libraries))
    assert build.run("-j1", "--clang-worker=auto", "-k0") != 0, build.ended
    assert build.ran_in_process()[1], build.ended
    assert "file too short" in build.ended[3]["output"], build.ended


def limits_are_those_of_a_process(tanto, place):
    (place / "large.c").write_text("char all[1 << 22] = {1};\n")
    said = []
    for mode in ("require", "off"):
        for limit in ("-f 1000", "-v 300000", "-s 100"):
            tree = fresh(place / "tree")
            shutil.copy(place / "large.c", tree)
            build = Build(tanto, tree, f"{CLANG} -c large.c -o $out")
            build.tanto = tanto
            command = f"ulimit {limit}; exec {tanto} build --format=jsonl --clang-worker={mode}"
            done = subprocess.run(["bash", "-c", command], cwd=tree, capture_output=True, text=True)
            ended = [json.loads(line) for line in done.stdout.splitlines() if '"finished"' in line]
            said.append([limit, *((it.get("exit"), it.get("signal")) for it in ended)])
    assert said[:3] == said[3:], said


def many_forks_at_once(tanto, place):
    build = Build(tanto, place, *[COMPILE] * 500)
    assert build.run("-j500") == 0, build.errors
    assert all(build.ran_in_process()), build.ended


def crash_writes_one_reproducer(tanto, place):
    (place / "crash.c").write_text("#pragma clang __debug crash\n")
    temporary = place / "temporary"
    temporary.mkdir()
    build = Build(tanto, place, f"{CLANG} -c crash.c -o $out", TMPDIR=str(temporary))
    assert build.run() == 1 and build.ran_in_process() == [True], build.ended
    assert sorted(it.suffix for it in temporary.iterdir()) == [".c", ".sh"], list(temporary.iterdir())


def full_disk_is_an_error_of_the_compiler(tanto, place):
    said = []
    for mode in ("require", "off"):
        build = Build(tanto, fresh(place / "tree"), f"{CLANG} -c a.c -o /dev/full")
        code = build.run(f"--clang-worker={mode}")
        ended = build.ended[0]
        said.append([code, ended.get("exit"), ended.get("signal"), ended["output"].splitlines()[0]])
    assert said[0] == said[1] and "No space left" in said[0][3], said


def doctor_names_the_compilers(tanto, place):
    build = Build(tanto, place, COMPILE)
    assert "no build here has run" in doctor(tanto, place)
    assert build.run() == 0, build.errors
    output = doctor(tanto, place)
    assert f"{CLANG.resolve()}: clang 19" in output and "fork server" in output, output


def wrapper_runs_as_a_process(tanto, place):
    wrapper = place / "clang"
    wrapper.write_text(f'#!/bin/sh\nexec {CLANG} -DWRAPPED "$@"\n')
    wrapper.chmod(0o755)
    build = Build(tanto, place, f"{wrapper} -c a.c -o $out")
    assert build.run("--clang-worker=auto") == 0 and build.ran_in_process() == [False], build.ended


def damaged_costs_are_measured_again(tanto, place):
    build = Build(tanto, place, COMPILE)
    costs = place / ".tanto/fork-servers"
    assert build.run() == 0
    whole = costs.read_bytes()
    for text in (b"", whole[: len(whole) // 2], b"\xff" * 1000):
        costs.write_bytes(text)
        (place / "o0").unlink()
        assert build.run() == 0 and build.ran_in_process() == [True], build.errors
        assert costs.read_bytes().startswith(b"fork servers 1\n")


def gated(place):
    """A compile that waits in a header, after it has created its temporary object."""
    (place / "gated.c").write_text('#include "gate.c"\n')
    return f"{CLANG} -c gated.c -o $out.o"


def time_of_jobs_counts(tanto, place):
    (place / "slow").write_text("#!/bin/sh\ni=0\nwhile [ $i -lt 200000 ]; do i=$((i+1)); done\n")
    (place / "slow").chmod(0o755)
    build = Build(tanto, place, f"{CLANG} --ld-path=./slow a.c -o $out", f"{CLANG} --ld-path=/bin/true a.c -o $out")
    assert build.run("-j1") == 0 and build.ran_in_process() == [True, True], (build.ended, build.errors)
    slow, quick = [build.ended[job]["user_us"] for job in (0, 1)]
    assert slow > 2 * quick, (slow, quick)


def killed_tanto_leaves_no_temporary_file(tanto, place):
    build = Build(tanto, place, gated(place)).start()
    fork, server = build.fork(), build.server()
    wait_for(lambda: set(build.files()) - set(GATED))
    build.process.kill()
    build.process.communicate()
    wait_for(lambda: is_gone(fork) and is_gone(server))
    assert build.files() == sorted(GATED), build.files()


def build_is_interrupted(tanto, place):
    build = Build(tanto, place, GATE).start()
    fork = build.fork()
    server = build.server()
    build.process.send_signal(signal.SIGINT)
    assert build.end() == 130, build.process.returncode
    assert is_gone(fork) and is_gone(server)
    assert build.files() == INPUTS, build.files()


def tanto_is_killed(tanto, place):
    build = Build(tanto, place, GATE).start()
    fork, server = build.fork(), build.server()
    build.process.kill()
    build.process.wait()
    wait_for(lambda: is_gone(fork) and is_gone(server))
    build.process.communicate()


def monitor_ends_a_fork(tanto, place):
    build = Build(tanto, place, GATE)
    assert build.run("--timeout=1s") == 124, build.errors
    assert build.ended[0]["exit"] == 124, build.ended


def server_is_no_leftover(tanto, place):
    build = Build(tanto, place, COMPILE, COMPILE)
    assert build.run("-j1", "--leftovers=kill") == 0
    assert build.ran_in_process() == [True, True] and not build.errors, (build.ended, build.errors)


def fresh(place):
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def doctor(tanto, place, **variables):
    done = subprocess.run([tanto, "doctor"], cwd=place, env=dict(os.environ, **variables), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shell_syntax_runs_in_the_shell(tanto, place):
    build = Build(tanto, place, f"{COMPILE} && true", f"true; {COMPILE}", COMPILE, COMPILE)
    assert build.run("-j1", "--clang-worker=auto") == 0
    assert build.ran_in_process() == [False, False, False, True], build.ended


def umask_is_inherited(tanto, place):
    old = os.umask(0o027)
    try:
        build = Build(tanto, place, COMPILE)
        assert build.run() == 0 and build.ran_in_process() == [True]
    finally:
        os.umask(old)
    assert (place / "o0").stat().st_mode & 0o777 == 0o640


TESTS = [
    server_is_killed,
    killed_fork_is_reported_as_a_killed_process,
    killed_server_leaves_no_temporary_file,
    jobs_of_a_driver_are_forks,
    killed_job_of_a_driver_is_reported_as_a_killed_process,
    killed_server_ends_the_jobs_of_drivers,
    nonsense_from_a_server_makes_processes,
    slow_start_is_awaited_if_forks_are_required,
    first_compile_is_a_process,
    first_compile_of_a_large_build_is_a_fork,
    code_of_a_large_build_is_in_huge_pages,
    flag_overrides_variable,
    require_names_the_obstacle,
    compiler_replaced_during_the_build,
    library_appears_during_the_build,
    limits_are_those_of_a_process,
    many_forks_at_once,
    crash_writes_one_reproducer,
    full_disk_is_an_error_of_the_compiler,
    doctor_names_the_compilers,
    wrapper_runs_as_a_process,
    damaged_costs_are_measured_again,
    time_of_jobs_counts,
    killed_tanto_leaves_no_temporary_file,
    build_is_interrupted,
    tanto_is_killed,
    monitor_ends_a_fork,
    server_is_no_leftover,
    shell_syntax_runs_in_the_shell,
    umask_is_inherited,
]


if __name__ == "__main__":
    run_tests(__doc__, TESTS)
