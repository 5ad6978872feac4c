#!/usr/bin/env python3
"""Commands whose system calls are traced: each way in which their result could be reused wrongly.

    tests/cache/traced.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME". TANTO_SEED repeats random edits."""

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from tree import Tree, main

# For the commands of all rules.
TRACED = ("gcc", "--cache-rules=gen,sh*")
PYTHON = sys.executable
RULES = f"""
rule gen
  command = {PYTHON} -S ../gen.py $in -- $out
rule sh
  command = $line
rule sh_deps
  command = $line
  depfile = $out.d
  deps = gcc
"""
COPY = """
import sys
at = sys.argv.index("--")
text = "".join(open(name).read() for name in sys.argv[1:at])
for name in sys.argv[at + 1:]:
    open(name, "w").write(text)
"""


def tree(program, place, edges, files=(), gen=COPY, environment=()):
    """A tree with a manifest of these edges, in which the commands of all rules are traced."""
    found = Tree(program, place, {"build/build.ninja": RULES + edges, "gen.py": gen, **dict(files)}, TRACED)
    # Otherwise the first run of a program writes files that it did not declare.
    found.environment |= {"PYTHONDONTWRITEBYTECODE": "1", **dict(environment)}
    return found


def shell(program, place, line, files=(), **more):
    """A tree with one shell command, which makes `out`."""
    return tree(program, place, f"build out: sh\n  line = {line}\n", files, **more)


def refused(found, reason, **more):
    """The result must not be stored, for this reason."""
    for _ in range(2):
        built = found.judge("new", **more)
        reasons = set(built.reasons.values())
        assert any(reason in it for it in reasons), f"{reasons} instead of {reason}"


def inputs_and_outputs(tanto, place):
    found = tree(tanto, place, "build one two: gen ../a ../b\nbuild three: gen one\n", {"a": "a", "b": "b"})
    found.trap(lambda: found.write("b", "c"), "changed")
    found.fill()
    found.trap(lambda: found.write("gen.py", COPY.replace("text =", "text = 'x' +")), "changed")
    found.environment["ANYTHING"] = "1"
    found.judge("new")
    for name in ("SHLVL", "OLDPWD", "SSH_TTY", "CI_JOB_ID", "GITHUB_RUN_ID", "WINDOWID"):
        found.environment[name] = "7"
    found.judge("hit")
    found.environment["GITHUB_SHA"] = "1234"
    found.judge("new")


def results_of_a_clean_build_follow_a_hit(tanto, place):
    """A generated header is restored, then a compile that needs it is restored, too."""
    edges = "rule cc\n  command = gcc -I. -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n"
    edges += "build g.h: gen ../a\nbuild a.o: cc ../a.c || g.h\n"
    found = tree(tanto, place, edges, {"a": "#define A 1\n", "a.c": '#include "g.h"\nint a = A;\n'})
    for text in ("#define A 2\n", "#define A 1\n", "#define A 3\n"):
        found.write("a", text)
        found.fill()
    found.write("a", "#define A 2\n")
    found.judge("hit")
    # The same in a build directory that is not empty.
    found.build()
    found.write("a", "#define A 1\n")
    found.judge(empty=False)


def printed_text_and_permissions(tanto, place):
    line = "echo said; echo complained >&2; echo '\\#!/bin/sh' > out; chmod +x out"
    found = shell(tanto, place, line.replace("\\#", "#"))
    built = found.fill()
    assert built.ends["out"][1] == "said\ncomplained\n" and built.files["out"][0] & 0o111 == 0o111


def permissions_of_outputs(tanto, place):
    for number, line in enumerate(("echo > out; chmod 444 out", "umask 077; echo > out", "t=$$(mktemp ./XXXXXX); echo > $$t; mv $$t out")):
        refused(shell(tanto, place / str(number), line), "other permissions")
    # The output of before keeps its permissions.
    found = shell(tanto, place / "kept", "cat ../a > out; if grep -q exec ../a; then chmod +x out; fi", {"a": "exec\n"})
    found.fill()
    found.write("a", "plain\n")
    found.build()
    found.judge()


def outputs_that_were_not_written(tanto, place):
    """An output of an earlier run is not stored as that of this one."""
    line = "cat ../a > one; if grep -q both ../a; then cat ../a > two; fi"
    found = tree(tanto, place, f"build one two: sh ../a\n  line = {line}\n", {"a": "both\n"})
    found.fill()
    found.write("a", "single\n")
    found.build()
    found.empty()
    built = found.build()
    assert "two" not in built.files, built.printed


def permissions_of_inputs(tanto, place):
    files = {"a": "a", "x/f": "f"}
    for number, (line, edit) in enumerate((
        ("cp ../a out", lambda found: found.path("a").chmod(0o600)),
        ("stat -c %a ../a > out", lambda found: found.path("a").chmod(0o755)),
        ("ls -ld ../x | cut -c1-10 > out", lambda found: found.path("x").chmod(0o700)),
        ("cat ../x/f/g > out 2>&1 || true", lambda found: found.path("x/f").unlink()),
        ("find ../x -type d > out", lambda found: (found.path("x/f").unlink(), found.path("x/f").mkdir())),
    )):
        found = shell(tanto, place / str(number), line, files)
        found.trap(lambda: edit(found), cached=False)


def failures_are_reported_and_not_cached(tanto, place):
    for number, line in enumerate(("echo x > out; exit 7", "kill -9 $$$$", "kill -15 $$$$", "none-such-program", "sh -c 'kill -11 $$$$'")):
        found = shell(tanto, place / str(number), line)
        for _ in range(2):
            built = found.judge("new")
            assert built.code != 0 and not list(found.cache("actions").glob("*/*")), line


def depfiles_and_response_files(tanto, place):
    line = "cat ../a ../b > out; echo 'out: ../b' > out.d"
    found = tree(tanto, place, f"build out: sh_deps ../a\n  line = {line}\n", {"a": "a", "b": "b"})
    found.trap(lambda: found.write("b", "c"), "changed")
    edges = "build out: sh\n  line = cat words > out\n  rspfile = words\n  rspfile_content = {}\n"
    found = tree(tanto, place / "rsp", edges.format("one"))
    found.trap(lambda: found.write("build/build.ninja", RULES + edges.format("two")), "new")


def names_that_appear(tanto, place):
    line = "for dir in ../x ../y; do if test -e $$dir/f; then cat $$dir/f > out; break; fi; done"
    found = shell(tanto, place, line, {"x/other": "", "y/f": "y"})
    found.trap(lambda: found.write("x/f", "x"), "changed")
    found = shell(tanto, place / "list", "ls ../x > out", {"x/a": ""})
    found.trap(lambda: found.write("x/b", ""), "changed")
    listed = place / "temporary"
    listed.mkdir()
    found = shell(tanto, place / "listed", f"ls {listed} > out", environment={"TEMP": str(listed)})
    found.trap(lambda: (listed / "name").write_text(""), "changed")
    found = shell(tanto, place / "path", "tool > out", {"bin2/tool": "#!/bin/sh\necho two\n", "bin1/other": ""})
    (found.path("bin2/tool")).chmod(0o755)
    found.environment["PATH"] = f"{found.path('bin1')}:{found.path('bin2')}:{found.environment['PATH']}"

    def appear():
        found.write("bin1/tool", "#!/bin/sh\necho one\n")
        found.path("bin1/tool").chmod(0o755)

    found.trap(appear, "changed")


def links(tanto, place):
    files = {"x/f": "x", "y/f": "y"}
    for number, line in enumerate(("cat ../l/f > out", "readlink ../l > out; cat ../l/f >> out", "cd ../l; cat f > ../build/out",
                                   "cd ../l/..; cat l/f > build/out")):
        found = shell(tanto, place / str(number), line, files)
        found.link("l", "x")
        found.trap(lambda: found.link("l", "y"), "changed")
    found = shell(tanto, place / "plain", "if test -L ../x; then echo link; else echo none; fi > out", files)

    def turn():
        found.path("x").rename(found.path("z"))
        found.link("x", "z")

    found.trap(turn, "changed")


def programs_and_their_interpreters(tanto, place):
    files = {"tool": "#! ../inner word\n", "inner": f"#!/bin/sh\necho $*\n"}
    found = shell(tanto, place, "../tool > out", {**files, "tool": f"#!{place}/inner word\n"})
    for name in files:
        found.path(name).chmod(0o755)

    def edit():
        found.write("inner", "#!/bin/sh\necho other $*\n")
        found.path("inner").chmod(0o755)

    # The kernel permits scripts as interpreters.
    found.trap(edit, "changed")


def programs_without_the_c_library(tanto, place):
    """A static program that opens files by system calls, below an open directory."""
    code = r"""
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  char text[100];
  int dir = syscall(SYS_openat, AT_FDCWD, "..", O_RDONLY | O_DIRECTORY, 0), file = syscall(SYS_openat, dir, "a", O_RDONLY, 0);
  int length = syscall(SYS_read, file, text, sizeof(text));
  int out = syscall(SYS_openat, AT_FDCWD, "new", O_WRONLY | O_CREAT | O_EXCL, 0666);
  syscall(SYS_write, out, text, length);
  return syscall(SYS_renameat2, AT_FDCWD, "new", AT_FDCWD, "out", 0);
}
"""
    found = shell(tanto, place, "../tool", {"a": "a"})
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", found.path("tool")], input=code.encode(), check=True)
    found.trap(lambda: found.write("a", "b"), "changed")


def threads_and_processes(tanto, place):
    code = r"""
import os, sys, threading
def read(name, results):
    results[name] = open("../" + name).read()
results = {}
threads = [threading.Thread(target=read, args=(name, results)) for name in "abcd"]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
if os.fork() == 0:
    os.chdir("..")
    open("build/part", "w").write(open("e").read())
    os._exit(0)
os.wait()
open("out", "w").write("".join(results[name] for name in "abcd") + open("part").read())
os.unlink("part")
"""
    files = {name: name for name in "abcde"}
    found = tree(tanto, place, "build out: gen\n", files, gen=code)
    for name in "ae":
        found.write(name, name)
        found.trap(lambda: found.write(name, "changed"), "changed")


def temporary_files(tanto, place):
    """Files that the command makes and removes are no inputs."""
    lines = (
        "mkdir tmp.d && cat ../a > tmp.d/x && cat tmp.d/x tmp.d/x > out && rm -r tmp.d",
        "t=$$(mktemp) && cat ../a > $$t && cat $$t > out && rm $$t",
        "cat ../a > out.tmp && mv out.tmp out",
        "cat ../a > one && ln one two && cat two > out && rm one two",
        "ls ../a | xargs cat > out",
        "sort ../a | cat > out",
    )
    for number, line in enumerate(lines):
        found = shell(tanto, place / str(number), line, {"a": "a\n"})
        found.trap(lambda: found.write("a", "b\n"), "changed")


def states_of_temporary_files(tanto, place):
    """A temporary file that exists before, or whose directory does not, changes the result."""
    for number, (line, edit) in enumerate((
        ("cat ../a >> tmp; cat tmp > out; rm tmp", lambda found: found.write("build/tmp", "old")),
        ("if mkdir lock 2>/dev/null; then echo got > out; rmdir lock; else echo locked > out; fi", lambda found: found.path("build/lock").mkdir()),
        ("cat ../a > ../scratch/t; cat ../scratch/t > out; rm ../scratch/t", lambda found: found.path("scratch").rmdir()),
        ("mkdir ../p/q && rmdir ../p/q && echo made > out || echo none > out", lambda found: found.path("p").rmdir()),
        ("ln -s ../x l; if test -e l/f; then echo f; else echo none; fi > out; rm l", lambda found: found.write("x/f", "")),
    )):
        found = shell(tanto, place / str(number), line, {"a": "a\n"})
        for name in ("scratch", "p", "x"):
            found.path(name).mkdir()
        found.judge()
        edit(found)
        found.empty()
        built = found.build()
        assert built.uses == {"out": "changed" if number < 4 else "new"}, f"{line}: {built.printed}"


def calls_that_fail(tanto, place):
    """They do not make a file the command's own."""
    for number, (call, error) in enumerate((("os.rename('../none', '../b')", ""), ("os.link('../none', '../b')", ""), ("open('../b/', 'w')", ""))):
        gen = f"import os\ntry:\n    {call}\nexcept OSError:\n    pass\nopen('out', 'w').write(str(os.path.exists('../b')))\n"
        found = tree(tanto, place / str(number), "build out: gen\n", gen=gen)
        found.trap(lambda: found.write("b", ""), "changed")
    found = shell(tanto, place / "kept", "cat ../a > n; mv -n n out; rm -f n", {"a": "1"})
    found.fill()
    found.write("a", "2")
    found.build()
    found.judge()


def files_by_their_descriptors(tanto, place):
    for number, code in enumerate(("fd = os.open('../a', os.O_PATH); text = open(f'/proc/self/fd/{fd}').read()",
                                   "fd = os.open('../a', os.O_PATH); text = str(os.fstat(fd).st_size)",
                                   "fd = os.open('..', os.O_RDONLY); text = open(f'/dev/fd/{fd}/a').read()",
                                   "text = open('//proc/self/cwd/../a').read()",
                                   "text = open('/sys/fs/cgroup/../../..' + os.path.abspath('../a')).read()")):
        found = tree(tanto, place / str(number), "build out: gen\n", {"a": "a"}, gen=f"import os\n{code}\nopen('out', 'w').write(text)\n")
        found.trap(lambda: found.write("a", "other"), cached=False)
    gen = "import os\nfd = os.open('../a', os.O_PATH)\nopen(f'/proc/self/fd/{fd}', 'w').write('b')\nopen('out', 'w')\n"
    refused(tree(tanto, place / "write", "build out: gen\n", {"a": "b"}, gen=gen), "changes a file")
    found = tree(tanto, place / "gone", "build out: gen\n", {"f": "f"},
                 gen="import os\nos.mkdir('d')\nos.chdir('d')\nos.rmdir('../d')\ntext = os.path.exists('../../f')\nopen(os.environ['PWD'] + '/out', 'w').write(str(text))\n")
    found.trap(lambda: found.path("f").unlink(), changes=False, cached=False)


def links_to_own_and_ignored_files(tanto, place):
    for number, (line, one, other) in enumerate((("cat ../l > out", "/proc/version", "/etc/hostname"), ("cat ../a > ../l/out", "build", "x"),
                                                ("echo x > tmp; cat ../l > out; rm tmp", "build/tmp", "a"))):
        found = shell(tanto, place / str(number), line, {"a": "a", "x/f": ""})
        found.link("l", one)
        found.judge()
        found.link("l", other)
        found.empty()
        built = found.build()
        assert built.uses != {"out": "hit"}, f"{line}: {built.printed}"


def signals_that_interrupt_calls(tanto, place):
    """The shell has a handler for SIGCHLD. A result of interrupted calls is not stored."""
    line = "for i in $$(seq 40); do /bin/true & test -e /etc/passwd || echo BAD; : < /etc/passwd || echo BAD; done > out 2>&1; wait"
    found = shell(tanto, place, line)
    for _ in range(4):
        found.empty()
        built = found.build()
        stored = not built.reasons.get("out")
        assert not stored or built.code == 0 and b"BAD" not in built.files["out"][1], built.printed


def commands_that_fail_by_an_interruption(tanto, place):
    """Opening a file is interrupted only while it is traced. The command runs again."""
    code = """
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>
static void ignore(int signal) { (void)signal; }
int main(void) {
    struct sigaction action = {.sa_handler = ignore};
    struct itimerval timer = {{0, 50}, {0, 50}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &timer, 0);
    for (int number = 0; number < 20000; number++) {
        int file = open("/etc/passwd", O_RDONLY);
        if (file < 0) return errno == EINTR ? 3 : 4;
        close(file);
    }
    return fclose(fopen("out", "w"));
}
"""
    found = shell(tanto, place, "../tool")
    subprocess.run(["gcc", "-x", "c", "-", "-o", found.path("tool")], input=code.encode(), check=True)
    for _ in range(20):
        found.empty()
        built = found.build()
        assert built.code == 0, built.printed
        if "runs again" in built.printed:
            assert "a signal interrupted" in built.reasons["out"], built.reasons
            return
    raise AssertionError("no call was interrupted")


def orphans_end(tanto, place):
    """A process whose parent has ended disappears when it ends."""
    line = "pid=$$(sh -c 'sleep 100 > /dev/null & echo $$!'); kill $$pid; while kill -0 $$pid 2> /dev/null; do sleep 0.02; done; echo x > out"
    assert shell(tanto, place, line).judge().code == 0


def variables_of_make(tanto, place):
    found = shell(tanto, place, "echo $$MAKEFLAGS | grep -o 'X=.' > out || echo none > out")
    found.trap(lambda: found.environment.update(MAKEFLAGS=" -- X=2"), "new", changes=False)


def undeclared_files(tanto, place):
    place = place / "x"
    for number, (line, reason) in enumerate((
        ("echo x > out; echo y > other", "it wrote"),
        ("echo x > out; mkdir -p dir", "it wrote"),
        ("echo x > out; ln -s out link", "creates a symbolic link"),
        ("echo x > out; echo y >> ../a", "changes a file"),
        ("echo x > out; touch ../a", "changes a file"),
        ("echo x > out; chmod 600 ../a", "changes a file"),
        ("echo x > out; cp ../a ../b", "changes a file"),
        ("cp ../a ../c; mv ../b out; mv ../c ../b", "removes a file"),
        ("echo x > out; rm -f ../none ../b; echo b > ../b", "removes a file"),
    )):
        found = shell(tanto, place / str(number), line, {"a": "a\n", "b": "a\n"})

        def clean():
            for name in ("other", "dir", "link"):
                path = found.build_dir / name
                path.is_dir() and path.rmdir()
                path.unlink(missing_ok=True)

        for _ in range(2):
            clean()
            found.empty()
            built = found.build()
            assert built.code == 0 and built.uses == {"out": "new"} and reason in built.reasons["out"], f"{line}: {built.printed}"


def old_outputs(tanto, place):
    """A command that reads its old output is repeated, unless there was none."""
    append = "cat ../a | tee -a out > /dev/null"
    exclusive = f"{PYTHON} -S -c \"open('out', 'x').write(open('../a').read())\" || true"
    update = "echo $$(cat ../a) > new; if cmp -s new out; then rm new; else mv new out; fi"
    count = "n=$$(cat out 2>/dev/null || echo 0); echo $$((n + 1)) > out; cat ../a >/dev/null"
    for number, line in enumerate((update, count, "cat out ../a > new 2>/dev/null; mv new out", "rm -f out; cp ../a out", append, exclusive,
                                   "dd if=../a of=out conv=notrunc 2> /dev/null")):
        found = shell(tanto, place / str(number), line, {"a": "a\n"})
        found.plan_edge = f"build out: sh ../a\n  line = {line}\n"
        found.write("build/build.ninja", RULES + found.plan_edge)
        found.trap(lambda: found.write("a", "b\n"), "changed", changes=False)
        # Now with an output of before.
        plain = Tree(tanto, place / f"plain{number}", {"a": "a\n", "build/build.ninja": RULES + found.plan_edge}, TRACED)
        found.write("a", "a\n")
        found.empty()
        for text in ("a\n", "b\n", "a\n", "c\n", "b\n"):
            for each, mode in ((found, "on"), (plain, "off")):
                each.write("a", text)
                os.utime(each.path("a"))
                each.build(mode)
            assert found.outputs() == plain.outputs(), f"{line}: {found.outputs()} instead of {plain.outputs()}"
    found = shell(tanto, place / "append", "cat ../a >> out", {"a": "a\n"})
    found.trap(lambda: found.write("a", "b\n"), "changed")


def the_network_and_other_processes(tanto, place):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        gen = f"import socket\nsocket.create_connection(('127.0.0.1', {port})).close()\nopen('out', 'w')\n"
        refused(tree(tanto, place / "tcp", "build out: gen\n", gen=gen), "uses the network")
    path = place / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        gen = f"import socket\nsocket.socket(socket.AF_UNIX).connect({str(path)!r})\nopen('out', 'w')\n"
        refused(tree(tanto, place / "unix", "build out: gen\n", gen=gen), "communicates with other processes")
    os.mkfifo(place / "fifo")
    gen = f"import os\nos.close(os.open({str(place / 'fifo')!r}, os.O_RDONLY | os.O_NONBLOCK))\nopen('out', 'w')\n"
    refused(tree(tanto, place / "pipe", "build out: gen\n", gen=gen), "opens a device, a pipe or a socket")


def the_state_of_the_system(tanto, place):
    refused(shell(tanto, place / "proc", "cat /proc/uptime /proc/self/cwd/../gen.py > /dev/null; echo > out"), "state of the system")
    refused(shell(tanto, place / "cwd", "cat /proc/self/cwd/../gen.py > out"), "state of the system")
    refused(shell(tanto, place / "sys", "cat /sys/kernel/uevent_seqnum > /dev/null; echo > out"), "state of the system")
    # Programs choose the number of threads by it.
    shell(tanto, place / "nproc", "nproc > /dev/null; cat /proc/self/status > /dev/null; echo > out").fill()


def other_rights_and_views(tanto, place):
    if os.getuid() != 0:
        print("# skipped: needs root")
        return
    found = shell(tanto, place / "setuid", "../true; echo > out")
    shutil.copy(shutil.which("true"), found.path("true"))
    found.path("true").chmod(0o4755)
    refused(found, "program with other rights")
    refused(shell(tanto, place / "mounts", "unshare -m true; echo > out"), "what it sees of the file system")
    refused(shell(tanto, place / "root", "chroot / true; echo > out"), "what it sees of the file system")


def signals_for_the_process_group(tanto, place):
    """They do not reach the process that traces the command."""
    shell(tanto, place, "trap '' USR1 TERM ALRM; kill -USR1 0; kill -TERM 0; kill -ALRM 0; echo x > out").fill()


def processes_that_outlive_their_command(tanto, place):
    """Their calls go on, and the result is not stored."""
    line = "(sleep 0.3; cat ../a > ../late) > /dev/null 2>&1 & echo x > out"
    found = shell(tanto, place, line, {"a": "a"})
    built = found.build()
    assert built.code == 0 and built.reasons == {"out": "a process outlived it"}, built.printed
    end = time.monotonic() + 60
    while not found.path("late").exists() or found.path("late").read_text() != "a":
        assert time.monotonic() < end, "the process did not continue"
        time.sleep(0.01)


def edits_while_it_runs(tanto, place):
    """An input that changes between its use and the end of the command."""
    for number, edit in enumerate(("echo b > ../a", "rm ../a; echo b > ../a", "mv ../b ../a")):
        line = "cat ../a > out; touch-nothing; while test ! -e ../go; do sleep 0.01; done"
        found = shell(tanto, place / str(number), line.replace("touch-nothing; ", ""), {"a": "a\n", "b": "b\n", "editor.sh": edit})
        found.empty()
        running = subprocess.Popen(found.words("on"), cwd=found.build_dir, env=found.environment, stdout=subprocess.DEVNULL)
        while not (found.build_dir / "out").exists() or not (found.build_dir / "out").read_text():
            time.sleep(0.005)
        subprocess.run(["sh", "../editor.sh"], cwd=found.build_dir, check=True)
        found.write("go", "")
        assert running.wait() == 0
        found.judge()


def settings_are_respected(tanto, place):
    found = shell(tanto, place, "cat ../a > out", {"a": "a"})
    for words in ((), ("--cache-rules=other",), ("--cache-rules=s",)):
        found.kind = ("gcc", *words)
        found.judge("not cacheable")
    found.kind = TRACED
    found.judge("new")
    found.judge("hit")
    found.judge("hit", mode="read")
    found.write("a", "b")
    found.judge("changed", mode="read")
    found.judge("changed", mode="read")


GENERATOR = """
import os, sys
result = []
for name in sorted(os.listdir("../src")):
    path = "../src/" + name
    if os.path.islink(path):
        result.append(f"{name} -> {os.readlink(path)}")
    if os.path.isdir(path):
        result.append(name + "/")
    elif os.path.exists(path):
        result.append(f"{name}: {open(path).read()} {os.access(path, os.X_OK)}")
for place in ("../first", "../second"):
    if os.path.exists(place + "/config"):
        result.append(open(place + "/config").read())
        break
result.append(os.environ.get("FLAVOUR", ""))
open("list", "w").write("\\n".join(result))
"""


def random_edits(tanto, place):
    seed = int(os.environ.get("TANTO_SEED") or random.randrange(1 << 32))
    print(f"# seed {seed}")
    random.seed(seed)
    edges = "build list: gen\nbuild copy: sh list\n  line = cat list > copy\n"
    found = tree(tanto, place, edges, {"src/a": "a", "second/config": "config"}, gen=GENERATOR)
    names = ["src/a", "src/b", "src/c", "first/config", "second/config"]

    def edit():
        path = found.path(random.choice(names))
        path.parent.mkdir(exist_ok=True)
        action = random.choice(("write", "write", "remove", "link", "dir", "mode", "flavour", "swap"))
        if action == "flavour":
            found.environment["FLAVOUR"] = random.choice("xy")
        elif action == "mode" and path.is_file():
            path.chmod(random.choice((0o644, 0o755)))
        elif action == "swap":
            other = found.path(random.choice(names))
            if path.exists() and other.exists() and path != other and not path.is_symlink() and not other.is_symlink():
                path.rename(place / "swap")
                other.rename(path)
                (place / "swap").rename(other)
        elif action in ("write", "remove", "link", "dir"):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            path.unlink(missing_ok=True)
            if action == "write":
                path.write_text(random.choice("abc"))
            elif action == "link":
                path.symlink_to(random.choice(("a", "b", "../second/config", "none")))
            elif action == "dir" and "config" not in path.name:
                path.mkdir()

    uses = {}
    for _ in range(60):
        edit()
        built = found.judge()
        for use in built.uses.values():
            uses[use] = uses.get(use, 0) + 1
    print(f"# {uses}")
    assert uses.get("hit", 0) > 0 and uses.get("changed", 0) > 0, uses


main(__doc__.split("\n\n")[1], globals())
