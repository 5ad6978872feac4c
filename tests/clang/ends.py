#!/usr/bin/env python3
"""Builds in which the compile worker or its jobs are killed, and compilers that the worker does not replace.

    tests/clang/ends.py TANTO [NAME...]

A compile that is to be interrupted reads a named pipe, to which only the test writes. Prints "ok NAME" or "not ok
NAME"."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

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
        command = [self.tanto, "build", "--format=jsonl", *flags]
        self.process = subprocess.Popen(
            command, cwd=self.place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        return self

    def end(self):
        """Exit code; collects the events of finished commands by job."""
        out, self.errors = self.process.communicate(timeout=LONG)
        events = [json.loads(line) for line in out.splitlines()]
        self.ended = {it["job"]: it for it in events if it["event"] == "finished"}
        return self.process.returncode

    def run(self, *flags):
        self.start(*flags)
        return self.end()

    def ran_in_process(self):
        return [self.ended[job].get("in_process", False) for job in sorted(self.ended)]

    def worker(self):
        return wait_for(lambda: next(iter(children(self.process.pid, "clang-worker")), None))

    def fork(self):
        return wait_for(lambda: next(iter(children(self.worker(), "clang-worker")), None))

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


def worker_is_killed(tanto, place):
    build = Build(tanto, place, GATE, COMPILE).start("-j1")
    build.fork()
    os.kill(build.worker(), signal.SIGKILL)
    wait_for(lambda: children(build.process.pid, CLANG.name))
    build.open_gate()
    assert build.end() == 0, build.errors
    assert build.ran_in_process() == [False, False], build.ended
    assert build.files() == sorted([*INPUTS, "o0", "o1"]), build.files()


def fork_is_killed(tanto, place):
    build = Build(tanto, place, GATE, COMPILE).start("-j1")
    os.kill(build.fork(), signal.SIGSEGV)
    wait_for(lambda: children(build.process.pid, CLANG.name))
    build.open_gate()
    assert build.end() == 0, build.errors
    assert build.ran_in_process() == [False, True], build.ended


def gated(place):
    """A compile that waits in a header, after it has created its temporary object."""
    (place / "gated.c").write_text('#include "gate.c"\n')
    return f"{CLANG} -c gated.c -o $out.o"


def killed_fork_leaves_no_temporary_file(tanto, place):
    build = Build(tanto, place, gated(place), COMPILE).start("-j1")
    fork = build.fork()
    assert any(name.endswith(".o.tmp") for name in wait_for(lambda: set(build.files()) - set(GATED)))
    os.kill(fork, signal.SIGKILL)
    wait_for(lambda: children(build.process.pid, CLANG.name))
    # A remaining file belongs to the process.
    assert len([name for name in build.files() if name.endswith(".tmp")]) <= 1, build.files()
    build.open_gate()
    assert build.end() == 0, build.errors
    assert build.ran_in_process() == [False, True], build.ended
    assert build.files() == sorted([*GATED, "o0.o", "o1"]), build.files()


def two_files(place):
    """A compile of two files that waits in the second one; and the directory of its temporary files."""
    gated(place)
    temporary = place / "temporary"
    temporary.mkdir()
    return f"{CLANG} -shared -fPIC a.c gated.c -o $out", temporary


def wait_for_second_compile(temporary):
    """Waits until the second compile runs, and returns the temporary files. While the first one runs, it has a temporary
    object, too; if that compile is killed, the driver continues with the second one."""
    wait_for(lambda: list(temporary.glob("gated-*.o.tmp")))
    made = set(temporary.iterdir())
    assert len(made) == 3, made
    return made


def job_of(fork, name="clang-worker"):
    return wait_for(lambda: next(iter(children(fork, name)), None))


def killed_compile_of_two_files_leaves_nothing(tanto, place):
    for signal_of_job in (signal.SIGKILL, signal.SIGTERM):
        line, temporary = two_files(fresh(place / "tree"))
        build = Build(tanto, place / "tree", line, COMPILE, TMPDIR=str(temporary)).start("-j1")
        fork = build.fork()
        made = wait_for_second_compile(temporary)
        os.kill(job_of(fork), signal_of_job)
        wait_for(lambda: children(build.process.pid, CLANG.name))
        assert not made & set(temporary.iterdir()), made
        build.open_gate()
        assert build.end() == 0, build.errors
        assert build.ran_in_process() == [False, True], build.ended
        assert not list(temporary.iterdir()) and (place / "tree/o0").exists()


def killed_fork_of_two_files_leaves_nothing(tanto, place):
    line, temporary = two_files(place)
    build = Build(tanto, place, line, COMPILE, TMPDIR=str(temporary)).start("-j1")
    fork = build.fork()
    made, job = wait_for_second_compile(temporary), job_of(fork)
    os.kill(fork, signal.SIGKILL)
    wait_for(lambda: children(build.process.pid, CLANG.name))
    assert is_gone(job) and not made & set(temporary.iterdir()), made
    build.open_gate()
    assert build.end() == 0, build.errors
    assert build.ran_in_process() == [False, True] and not list(temporary.iterdir()), build.ended


def linker_ends_with_its_fork(tanto, place):
    """A linker waits while its fork, the worker or Tanto is killed."""

    def started():
        line, temporary = f"{CLANG} --ld-path=./waits a.c -o $out", fresh(place / "tree") / "temporary"
        build = Build(tanto, place / "tree", line, TMPDIR=str(temporary))
        temporary.mkdir()
        linker = place / "tree/waits"
        linker.write_text("#!/bin/sh\nread line <gate.c\n")
        linker.chmod(0o755)
        build.start()
        return build, build.worker(), build.fork(), job_of(build.fork(), "waits"), temporary

    for victim in (0, 1):
        build, *processes, linker, temporary = started()
        left = list(temporary.iterdir())
        assert len(left) == 1, left
        os.kill(processes[victim], signal.SIGKILL)
        wait_for(lambda: children(build.process.pid, CLANG.name))
        wait_for(lambda: is_gone(linker))
        assert not left[0].exists()
        build.open_gate()
        assert build.end() == 0 and build.ran_in_process() == [False], (build.ended, build.errors)
        assert not list(temporary.iterdir())
    build, worker, fork, linker, temporary = started()
    build.process.send_signal(signal.SIGINT)
    assert build.end() == 130
    wait_for(lambda: is_gone(fork) and is_gone(linker) and is_gone(worker))
    assert not list(temporary.iterdir())
    build, worker, fork, linker, temporary = started()
    build.process.kill()
    build.process.communicate()
    wait_for(lambda: is_gone(fork) and is_gone(linker) and is_gone(worker))
    assert not list(temporary.iterdir())


def time_of_jobs_counts(tanto, place):
    (place / "slow").write_text("#!/bin/sh\ni=0\nwhile [ $i -lt 200000 ]; do i=$((i+1)); done\n")
    (place / "slow").chmod(0o755)
    build = Build(tanto, place, f"{CLANG} --ld-path=./slow a.c -o $out", f"{CLANG} --ld-path=/bin/true a.c -o $out")
    assert build.run("-j1") == 0 and build.ran_in_process() == [True, True], (build.ended, build.errors)
    slow, quick = [build.ended[job]["user_us"] for job in (0, 1)]
    assert slow > 2 * quick, (slow, quick)


def killed_tanto_leaves_no_temporary_file(tanto, place):
    build = Build(tanto, place, gated(place)).start()
    fork, worker = build.fork(), build.worker()
    wait_for(lambda: set(build.files()) - set(GATED))
    build.process.kill()
    build.process.communicate()
    wait_for(lambda: is_gone(fork) and is_gone(worker))
    assert build.files() == sorted(GATED), build.files()


def killed_worker_leaves_no_temporary_file(tanto, place):
    build = Build(tanto, place, gated(place)).start()
    fork = build.fork()
    wait_for(lambda: set(build.files()) - set(GATED))
    os.kill(build.worker(), signal.SIGKILL)
    wait_for(lambda: is_gone(fork))
    wait_for(lambda: children(build.process.pid, CLANG.name))
    build.open_gate()
    assert build.end() == 0, build.errors
    assert build.files() == sorted([*GATED, "o0.o"]), build.files()


def build_is_interrupted(tanto, place):
    build = Build(tanto, place, GATE).start()
    fork = build.fork()
    worker = build.worker()
    build.process.send_signal(signal.SIGINT)
    assert build.end() == 130, build.process.returncode
    assert is_gone(fork) and is_gone(worker)
    assert build.files() == INPUTS, build.files()


def tanto_is_killed(tanto, place):
    build = Build(tanto, place, GATE).start()
    fork, worker = build.fork(), build.worker()
    build.process.kill()
    build.process.wait()
    wait_for(lambda: is_gone(fork) and is_gone(worker))
    build.process.communicate()


def monitor_ends_a_fork(tanto, place):
    build = Build(tanto, place, GATE)
    assert build.run("--timeout=1s") == 124, build.errors
    assert build.ended[0]["exit"] == 124, build.ended


def worker_is_no_leftover(tanto, place):
    build = Build(tanto, place, COMPILE, COMPILE)
    assert build.run("-j1", "--leftovers=kill") == 0
    assert build.ran_in_process() == [True, True] and not build.errors, (build.ended, build.errors)


def worker_cannot_start(tanto, place):
    build = Build(tanto, place, COMPILE, TANTO_CLANG_WORKER="/bin/false")
    assert build.run() == 0 and build.ran_in_process() == [False]
    shutil.rmtree(place)
    place.mkdir()
    build = Build(tanto, place, COMPILE, TANTO_CLANG_WORKER="/bin/false")
    assert build.run("--clang-worker=require") == 1
    assert b"compile worker /bin/false" in build.errors, build.errors


def flag_overrides_variable(tanto, place):
    build = Build(tanto, place, COMPILE, TANTO_SPAWN_CC1="1")
    assert build.run() == 0 and build.ran_in_process() == [False]
    (place / "a.c").write_text("int changed;\n")
    (place / "o0").unlink()
    assert build.run("--clang-worker=require") == 0 and build.ran_in_process() == [True]


def require_names_the_obstacle(tanto, place):
    build = Build(tanto, place, COMPILE, CLANG_SPAWN_CC1="1")
    assert build.run("--clang-worker=require") == 1
    assert b"CLANG_SPAWN_CC1" in build.errors, build.errors


def require_names_unsupported_commands(tanto, place):
    foreign = place / "clang-14"
    shutil.copy("/bin/true", foreign)
    others = place / "cc"
    shutil.copy("/bin/true", others)
    cases = [
        (f"{others} -c a.c -o $out", b"cc is not clang"),
        (f"{foreign} -c a.c -o $out", b"clang-14 is not the clang that the worker is built from"),
        (f"{COMPILE} && true", b"it needs a shell"),
        (f"{CLANG} -c -x assembler /dev/null -o $out", b"its job is another program's"),
        (f"{COMPILE} -mllvm -inline-threshold=1", b"-mllvm"),
    ]
    for command, why in cases:
        build = Build(tanto, fresh(place / "tree"), COMPILE, command)
        assert build.run("-j1", "--clang-worker=require") == 1, command
        # Some are declined at their start, others by the worker.
        output = build.errors + build.ended.get(1, {}).get("output", "").encode()
        assert b"--clang-worker=require" in output and why in output, (command, output)
        assert command.replace("$out", "o1").encode() in output, output
    # Options in a response file count.
    for text, code in (("-O1\n'-c' a.c", 1), ("-v", 0)):
        build = Build(tanto, fresh(place / "tree"), COMPILE, f"{others} @args.rsp -o $out && touch $out")
        (place / "tree/args.rsp").write_text(text)
        assert build.run("-j1", "--clang-worker=require") == code, (text, build.errors)
        assert (b"it needs a shell" in build.errors and b"@args.rsp" in build.errors) == bool(code), build.errors
    build = Build(tanto, fresh(place / "tree"), f"{CLANG} @args.rsp -o $out", f"{CLANG} @more.rsp -o $out")
    (place / "tree/args.rsp").write_text("-c a.c")
    (place / "tree/more.rsp").write_text("@args.rsp -mllvm -inline-threshold=1")
    assert build.run("-j1", "--clang-worker=require") == 1
    assert build.ran_in_process() == [True, False], build.ended
    output = build.ended[1]["output"]
    assert "--clang-worker=require" in output and "-mllvm" in output and "@more.rsp" in output, output
    # Commands that do not compile are exempt, and the compiler reports errors.
    build = Build(tanto, fresh(place / "tree"), COMPILE, f"{CLANG} o0 -shared -o $out", "true && touch $out")
    assert build.run("-j1", "--clang-worker=require") == 0, build.errors
    build = Build(tanto, fresh(place / "tree"), f"{COMPILE} -fnonsense")
    assert build.run("--clang-worker=require") == 1
    assert "-fnonsense" in build.ended[0]["output"] and b"require" not in build.errors, (build.ended, build.errors)


def fresh(place):
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def clang_of_another_build_is_a_process(tanto, place):
    """A distribution's patches need not change the version."""
    (place / "bin").mkdir()
    (place / "lib").mkdir()
    program = place / "bin/clang"
    shutil.copy(CLANG.resolve(), program)
    command = f"{program} -c a.c -o $out"
    build = Build(tanto, fresh(place / "tree"), command)
    assert build.run() == 0 and build.ran_in_process() == [True], (build.ended, build.errors)
    library = next(CLANG.resolve().parent.parent.glob("lib/libclang-cpp.so.19*")).resolve()
    for file, original in ((place / "lib" / library.name, library), (program, CLANG.resolve())):
        shutil.copy(original, file)
        change_build_id(file)
        build = Build(tanto, fresh(place / "tree"), command)
        assert build.run() == 0 and build.ran_in_process() == [False], (file, build.ended, build.errors)
        file.unlink()
    # Cached facts about a program become invalid with it, even if its times are equal.
    shutil.copy(CLANG.resolve(), program)
    build = Build(tanto, fresh(place / "tree"), command)
    assert build.run() == 0 and build.ran_in_process() == [True], (build.ended, build.errors)
    change_build_id(program)
    known = place / "tree/.tanto/clang-worker"
    known.write_bytes(restamped(known.read_bytes(), program))
    (place / "tree/o0").unlink()
    assert build.run() == 0 and build.ran_in_process() == [False], (build.ended, build.errors)


def change_build_id(file):
    """Changes the build-id and nothing else."""
    notes = subprocess.run(["readelf", "-n", file], capture_output=True, text=True, check=True).stdout
    build = bytes.fromhex(notes.partition("Build ID:")[2].split()[0])
    with file.open("r+b") as opened:
        start = opened.read(1 << 16)
        assert start.count(build) == 1
        opened.seek(start.index(build))
        opened.write(bytes(byte ^ 1 for byte in build))


def restamped(known, file):
    """Cache content with the current stamp of this file, as if it had not changed."""
    it = file.stat()
    numbers = f"file {it.st_dev} {it.st_ino} {it.st_size} {it.st_mtime_ns} {it.st_ctime_ns} {file}\n".encode()
    lines = known.splitlines(keepends=True)
    assert any(line.startswith(b"file ") and line.endswith(b" %s\n" % bytes(file)) for line in lines)
    return b"".join(numbers if line.startswith(b"file ") and line.endswith(b" %s\n" % bytes(file)) else line for line in lines)


def doctor_names_the_clangs(tanto, place):
    build = Build(tanto, place, COMPILE)
    output = doctor(tanto, place)
    assert "stands for Debian clang version 19" in output or "stands for clang version 19" in output, output
    assert "no build here has used a clang" in output, output
    assert build.run() == 0, build.errors
    assert f"builds here: {CLANG.resolve()} runs in it" in doctor(tanto, place)
    output = doctor(tanto, place, TANTO_CLANG_WORKER="/bin/false")
    assert "stands for nothing" in output and "./install" in output, output


def doctor(tanto, place, **variables):
    done = subprocess.run([tanto, "doctor"], cwd=place, env=dict(os.environ, **variables), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wrapper_runs_as_a_process(tanto, place):
    wrapper = place / "clang"
    wrapper.write_text(f'#!/bin/sh\nexec {CLANG} -DWRAPPED "$@"\n')
    wrapper.chmod(0o755)
    # The same wrapper as a program: it prints the right version, but another installation directory.
    source = place / "wrapper.c"
    source.write_text(
        f'#include <unistd.h>\nint main(int n, char **w) {{ (void)n; w[0] = "{CLANG}"; return execv(w[0], w); }}\n'
    )
    subprocess.run([CLANG, source, "-o", place / "clang-wrapped"], check=True)
    build = Build(tanto, place, f"{wrapper} -c a.c -o $out", f"{place}/clang-wrapped -c a.c -o $out")
    assert build.run() == 0 and build.ran_in_process() == [False, False], build.ended


def shell_syntax_runs_in_the_shell(tanto, place):
    build = Build(tanto, place, f"{COMPILE} && true", f"true; {COMPILE}", COMPILE)
    assert build.run() == 0 and build.ran_in_process() == [False, False, True], build.ended


def damaged_cache_is_ignored(tanto, place):
    build = Build(tanto, place, COMPILE)
    known = place / ".tanto/clang-worker"
    assert build.run() == 0 and build.ran_in_process() == [True]
    whole = known.read_bytes()
    for text in (b"", whole[: len(whole) // 2], b"\xff" * 1000, whole.replace(b"ours", b"other"), whole):
        known.write_bytes(text)
        (place / "o0").unlink()
        assert build.run() == 0, build.errors
    # The cache was read: it contained "other" once, and "ours" at the end.
    assert build.ran_in_process() == [True]
    os.chmod(place / ".tanto", 0o500)
    (place / "o0").unlink()
    assert build.run() in (0, 1)
    os.chmod(place / ".tanto", 0o700)


def umask_is_inherited(tanto, place):
    old = os.umask(0o027)
    try:
        build = Build(tanto, place, COMPILE)
        assert build.run() == 0 and build.ran_in_process() == [True]
    finally:
        os.umask(old)
    assert (place / "o0").stat().st_mode & 0o777 == 0o640


def links_equal_lld(tanto, place):
    link = f"{CLANG} -fuse-ld=lld a.o main.o -o $out"
    (place / "main.c").write_text("int a(int); int main(void) { return a(0); }\n")
    (place / "broken.c").write_text("int b(int); int main(void) { return b(0); }\n")
    (place / "a.c").write_text("int a(int x) { return x; }\n")
    for name in ("a", "main", "broken"):
        subprocess.run([CLANG, "-c", f"{name}.c", "-o", f"{name}.o"], cwd=place, check=True)
    broken = f"{CLANG} -fuse-ld=lld broken.o -o $out"
    build = Build(tanto, place, link, broken, f"{link} -Wl,--build-id -Wl,--icf=all")
    assert build.run("-k0") == 1
    assert build.ran_in_process() == [True, False, True], build.ended
    with_it = [(place / name).read_bytes() for name in ("o0", "o2")]
    said = build.ended[1]["output"]
    subprocess.run([place / "o0"], check=True)
    for name in ("o0", "o2"):
        (place / name).unlink()
    assert build.run("-k0", "--clang-worker=off") == 1
    assert with_it == [(place / name).read_bytes() for name in ("o0", "o2")]
    assert said == next(it["output"] for it in build.ended.values() if "output" in it)


TESTS = [
    worker_is_killed,
    fork_is_killed,
    killed_fork_leaves_no_temporary_file,
    killed_compile_of_two_files_leaves_nothing,
    killed_fork_of_two_files_leaves_nothing,
    linker_ends_with_its_fork,
    time_of_jobs_counts,
    killed_tanto_leaves_no_temporary_file,
    killed_worker_leaves_no_temporary_file,
    build_is_interrupted,
    tanto_is_killed,
    monitor_ends_a_fork,
    worker_is_no_leftover,
    worker_cannot_start,
    flag_overrides_variable,
    require_names_the_obstacle,
    require_names_unsupported_commands,
    clang_of_another_build_is_a_process,
    doctor_names_the_clangs,
    wrapper_runs_as_a_process,
    shell_syntax_runs_in_the_shell,
    damaged_cache_is_ignored,
    umask_is_inherited,
    links_equal_lld,
]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tanto = str(Path(sys.argv[1]).absolute())
    good = True
    for test in TESTS:
        if sys.argv[2:] and test.__name__ not in sys.argv[2:]:
            continue
        with tempfile.TemporaryDirectory() as place:
            try:
                test(tanto, Path(place))
                print("ok", test.__name__.replace("_", " "), flush=True)
            except Exception:
                print("not ok", test.__name__.replace("_", " "), flush=True)
                traceback.print_exc(file=sys.stdout)
                good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
