"""`tanto bulk shell`: a shell in the sandbox of a failed package. As root and, where possible, as an ordinary user,
with and without a terminal.

    shell.py TANTO
"""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Some, can_create_sandboxes

# A user ID without an account on this machine.
USER = 61234
PACKAGES = ("base/kit", "devel/libone", "trouble/broken")
# Timeout of each step.
PATIENCE = 60


def place_of(tanto, directory, settings, user):
    """A directory in which one package has failed after its dependencies were built."""
    place = Some(tanto, directory, PACKAGES, f"keep_wrkdir = true\nkeep_prefix = true\n{settings}")
    makefile = directory / "tree/trouble/broken/Makefile"
    makefile.write_text(
        makefile.read_text().replace(
            "do-build=", "DEPENDS= libone>=1:../../devel/libone\ndo-build= mkdir -p ${LOCALBASE}/made; echo half >half;"
        )
    )
    (directory / "pscan").write_text("".join(place.scan(PACKAGES)))
    place.run("resolve", "--scan", "pscan", "--output", "presolve")
    if user is not None:
        shutil.copy(tanto, directory / "tanto")
        place.tanto = str(directory / "tanto")
        place.as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        subprocess.run(["chown", "-R", f"{user}:{user}", directory], check=True)
    place.build(1)
    return place


def shell(place, *words, code=0):
    """Output of a command in the sandbox, and Tanto's own messages."""
    result = subprocess.run(
        place.command("shell", *words),
        cwd=place.directory,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert result.returncode == code, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout, result.stderr


def check_leftovers(place):
    assert str(place.directory) not in Path("/proc/self/mountinfo").read_text(), "something is still mounted"
    left = [path.name for path in (place.directory / "state/shells").rglob("*") if path.name not in ("1", "lock")]
    assert not left, f"left: {left}"


def commands(tanto, directory, settings, user):
    place = place_of(tanto, directory, settings, user)
    prefix = place.directory / "prefix"
    out, err = shell(place, "broken", f"pwd; cat {prefix}/share/libone.txt; ls -d {prefix}/made")
    assert out.splitlines() == [
        str(directory / "tree/trouble/broken"),
        "libone-1.2nb3 share/libone.txt",
        f"{prefix}/made",
    ], (out, err)
    assert "the work directory is empty" not in err, err
    out, _ = shell(place, "broken", "make show-var VARNAME=WRKDIR; make show-var VARNAME=BATCH; cat /scratch/trouble/broken/src/half")
    assert out == "/scratch/trouble/broken\n1\nhalf\n", out
    # Successful stages are not repeated, and the failed one fails again.
    out, err = shell(place, "broken-1", "rm /scratch/trouble/broken/src/half; make all && exit 3; cat /scratch/trouble/broken/src/half")
    assert out.endswith("half\n") and "broken.c:1: error: it does not compile" in out + err, (out, err)
    shell(place, "broken", "exit 7", code=7)
    shell(place, "broken", "kill -TERM $$", code=128 + signal.SIGTERM)
    assert not prefix.exists() and not Path("/scratch").exists(), "created outside of the sandbox"
    check_leftovers(place)
    # Nothing is kept of another one, and several may be open.
    inner = " ".join(f"'{word}'" for word in place.command("shell", "libone", "echo again"))
    with subprocess.Popen(
        place.command("shell", "libone", "echo ready; read line; ls -A /scratch; exit 0"),
        cwd=directory,
        env=place.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout.readline() == "ready\n"
        second = subprocess.run(["/bin/sh", "-c", inner], cwd=directory, env=place.environment, capture_output=True, text=True, check=True)
        assert second.stdout == "again\n", second
        out, err = first.communicate("\n", timeout=PATIENCE)
        assert out == "" and "is done: opening a sandbox like that of its build" in err, (out, err)
        assert "set keep_wrkdir = true to keep it" in err, err
    assert place.state("broken-1")[0] == "failed", "the shell changed the build"
    assert "there is no package 'none'" in place.error("shell", "none") and "arguments were not provided: <PACKAGE>" in place.error("shell")
    assert "unexpected argument 'c'" in place.error("shell", "a", "b", "c")


class Terminal:
    """A command on a pseudoterminal."""

    def __init__(self, place, *words):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(place.directory)
            command = place.command(*words)
            os.execvpe(command[0], command, {**place.environment, "SHELL": "/bin/bash", "TERM": "dumb"})

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, text):
        """Reads until this text; drops earlier output."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, f"no {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    more = os.read(self.fd, 4096)
                except OSError:
                    more = b""
                assert more, f"the terminal was closed before {text!r}: {self.seen!r}"
                self.seen += more.decode(errors="replace")
        self.seen = self.seen[self.seen.index(text) + len(text) :]

    def end(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.fd, 4096).decode(errors="replace")
                except OSError:
                    break
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def terminal(tanto, directory, settings, user):
    """A shell with job control: Ctrl-C ends its command, not the shell."""
    place = place_of(tanto, directory, settings, user)
    it = Terminal(place, "shell", "broken")
    it.type("echo $((40 + 2)):$(case $- in *m*) echo jobs ;; esac):$(test -t 0 && echo terminal)\n")
    it.until("42:jobs:terminal")
    it.type("sh -c 'echo up$((1 + 1)); exec sleep 1000'\n")
    it.until("up2")
    it.type("\x03")
    it.type("echo then:$((40 + 3))\n")
    it.until("then:43")
    it.type("make all\n")
    it.until("broken.c:1: error: it does not compile")
    it.type("exit 9\n")
    assert it.end() == 9, it.seen
    check_leftovers(place)


def refused(tanto, directory):
    place = Some(tanto, directory, ("base/kit", "trouble/broken"), 'sandbox = "none"\n')
    place.build(1)
    assert 'packages are built without a sandbox (sandbox = "none")' in place.error("shell", "broken")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as directory:
        refused(tanto, Path(directory))
    print("ok refused: without a sandbox there is no shell")
    users = [(None, "us")] + ([(USER, "an ordinary user")] if os.geteuid() == 0 else [])
    for user, name in users:
        if not can_create_sandboxes(user):
            print(f"shell: skipped for {name}: this machine cannot create a sandbox")
            continue
        for kind in ("bind", "overlay"):
            for test in (commands, terminal):
                with tempfile.TemporaryDirectory() as directory:
                    Path(directory).chmod(0o755)
                    test(tanto, Path(directory), f'sandbox = "{kind}"\n', user)
                print(f"ok {test.__name__}: {kind}, {name}")


main()
