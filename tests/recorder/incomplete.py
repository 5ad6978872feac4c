#!/usr/bin/env python3
"""Commands whose list of inputs is incomplete, damaged or cannot be written, and the user's own LD_PRELOAD.

    tests/recorder/incomplete.py TANTO"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { return !fopen("read", "r") || !getenv("VALUE"); }\n'
FORKS = """#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  if (fork() == 0) { getenv("IN_FORK"); _exit(0); }
  wait(NULL);
  if (vfork() == 0) { chdir("/"); access("etc", 0); execl("/no/such", "such", NULL); _exit(1); }
  wait(NULL);
  access("read", 0);
  fopen("read", "r+");
  fopen("made", "w");
  chdir("sub");
  return !fopen("inner", "r") + system("true") + execlp("sh", "sh", "-c", ":", NULL);
}
"""
OTHER = "int other;\n"
STATIC = "the command ran without the recorder: it is static, or has other rights"
STARTED = "a program that it started ran without the recorder"
KILLED = "a process was killed or asked another one, or its record could not be written"


class Place:
    def __init__(self, tanto, directory):
        self.tanto, self.directory = tanto, directory
        (directory / "read").write_text("")
        (directory / "sub").mkdir()
        (directory / "sub/inner").write_text("")
        (directory / "program.c").write_text(PROGRAM)
        (directory / "forks.c").write_text(FORKS)
        (directory / "other.c").write_text(OTHER)
        for words in ("program.c -o program", "program.c -static -o static", "forks.c -o forks", "-shared -fPIC other.c -o other.so"):
            subprocess.run(["cc", "-w", *words.split()], cwd=directory, check=True)

    def record(self, *command, file="list", **variables):
        """Returns the exit code, standard error, and the lines of the list."""
        command = [self.tanto, "run", "--record-inputs", file, "--", *command]
        result = subprocess.run(
            command, cwd=self.directory, env={**os.environ, "TMPDIR": str(self.directory / "tmp"), **variables}, capture_output=True,
            text=True, check=False,
        )
        path = self.directory / file
        return result.returncode, result.stderr, path.read_text().splitlines() if path.is_file() else None

    def expect(self, why, code, *command):
        found, text, lines = self.record(*command)
        assert found == code and text == f"tanto: warning: list is incomplete: {why}\n", (command, found, text)
        assert not list((self.directory / "tmp").iterdir()), "files are left"
        return lines


def values(place):
    code, text, lines = place.record("./program", VALUE="a\tb\nc\\d")
    assert (code, text) == (0, ""), (code, text)
    assert f"read\t{place.directory}/read" in lines and "variable\tVALUE\ta\\tb\\nc\\\\d" in lines, lines
    assert f"program\t{place.directory}/program" in lines, lines


def processes(place):
    code, text, lines = place.record("./forks")
    assert (code, text) == (0, ""), (code, text)
    assert {"exists\t/etc", *(f"{word}\t{place.directory}/read" for word in ("exists", "read", "written"))} <= set(lines), lines
    assert f"written\t{place.directory}/made" in lines and f"read\t{place.directory}/made" not in lines, lines
    assert "unset\tIN_FORK" in lines and f"read\t{place.directory}/sub/inner" in lines, lines
    assert sum(line.startswith("program\t") for line in lines) == 2, lines


def incomplete(place):
    assert place.expect(STATIC, 1, "./static") == []
    # A shell does not put a program in its place if more follows.
    assert place.expect(STARTED, 0, "sh", "-c", "VALUE=x ./static; :")
    assert place.expect(STARTED, 0, "env", "-i", "VALUE=x", "./program")
    lines = place.expect(KILLED, 137, "sh", "-c", "kill -9 $$")
    assert any(line.startswith("program\t") for line in lines), lines
    lines = place.expect("the record is damaged", 0, "sh", "-c", 'printf "\\14" >>"$TANTO_RECORD"')
    assert lines == [], lines


def preloaded(place):
    other = str(place.directory / "other.so")
    code, text, _ = place.record("sh", "-c", 'grep -q other.so /proc/$$/maps && grep -q tanto-preload /proc/$$/maps', LD_PRELOAD=other)
    assert (code, text) == (0, ""), (code, text)


def not_written(place):
    code, text, lines = place.record("true", file="no/such/list")
    assert code == 125 and text.startswith("tanto: error: no/such/list: ") and lines is None, (code, text)
    code, text, _ = place.record("no-such-command")
    assert code == 127 and "no-such-command" in text and "incomplete" not in text, (code, text)
    code, text, _ = place.record("true", TMPDIR="/no/such")
    assert code == 125 and "tanto: error: " in text, (code, text)


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    for test in (values, processes, incomplete, preloaded, not_written):
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "tmp").mkdir()
            test(Place(tanto, Path(directory).resolve()))
        print(f"ok recorder: {test.__name__.replace('_', ' ')}")


main()
