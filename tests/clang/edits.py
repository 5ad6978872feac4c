#!/usr/bin/env python3
"""Random edits of a small tree, compiled from checkpoints and by clang: files and output are equal.

    tests/clang/edits.py WORKER [EDITS [SEED]]

Acts as a client of a checkpoint daemon, like Tanto (clang-worker/PROTOCOL.md). Edits are of main files (before and
after their last include), headers, the include path (a header of the same name earlier on it, a directory that appears
and disappears), flags and the environment. Prints "ok" or "not ok", and the number of compiles from checkpoints: none
would be a failure, too."""

import array
import os
import random
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLANG = Path("/usr/lib/llvm-19/bin/clang")
RUN, STARTED, ENDED, DECLINED, GONE, KEEP, KEPT, HOLDING, STOP = range(1, 10)
DIRECTORIES, HEADERS, MAINS = 3, 8, 12
MOST = 32
# Timeout in seconds.
PATIENCE = 60


def text(value):
    data = os.fsencode(value)
    return struct.pack("<I", len(data)) + data


def texts(values):
    return struct.pack("<I", len(values)) + b"".join(map(text, values))


def without(rest, files):
    """List of files without a checkpoint, and the reasons; follows the names in the frame."""

    def one():
        nonlocal rest
        length = struct.unpack("<I", rest[:4])[0]
        value, rest = rest[4 : 4 + length], rest[4 + length :]
        return os.fsdecode(value)

    for _ in range(files):
        one()
    count, rest = struct.unpack("<I", rest[:4])[0], rest[4:]
    return {one(): one() for _ in range(count)}


def read_all(reader):
    """Reads a pipe until all writers have closed it."""
    said = b""
    with open(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], PATIENCE)[0]:
            part = pipe.read(1 << 16)
            if not part:
                return said
            said += part
    raise SystemExit("not ok: a compile does not end")


class Daemon:
    def __init__(self, program, place, *more):
        self.place = place / "daemon"
        self.place.mkdir(mode=0o700)
        self.directory, self.nothing = os.open(place, os.O_RDONLY), os.open("/dev/null", os.O_RDWR)
        self.last = self.used = 0
        self.without = {}
        subprocess.run([program, "--keep", self.place, "-1", "600", *more], check=True)

    def connect(self):
        """A connection, and the numbers of checkpoints that exist and that are pending."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                # An abstract address, which is no file.
                connection.connect("\0" + (self.place / "address").read_text().strip())
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        connection.recv(1 << 17)
        holding = connection.recv(1 << 17)
        _, wanted, _, files = struct.unpack("<IIQI", holding[5:25])
        self.without = without(holding[25:], files)
        return connection, files, wanted

    def stop(self):
        connection, *_ = self.connect()
        connection.send(struct.pack("<IB", 1, STOP))
        connection.recv(1 << 17)

    def ask(self, connection, kind, words, environment, output):
        self.last += 1
        lines = [f"{name}={value}" for name, value in environment.items()]
        body = struct.pack("<BQI", kind, self.last, 0o022) + text(CLANG) + text("") + texts(words) + texts(lines)
        if kind == KEEP:
            body += struct.pack("<I", MOST)
        descriptors = array.array("i", [self.directory, self.nothing, output, output])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
        connection.sendmsg([struct.pack("<I", len(body)) + body], rights)

    def keep(self, commands):
        """Requests checkpoints and waits until none is pending. Returns their number."""
        connection, *_ = self.connect()
        for words, environment in commands:
            self.ask(connection, KEEP, words, environment, self.nothing)
        connection.close()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            time.sleep(0.2)
            connection, files, wanted = self.connect()
            connection.close()
            if wanted == 0:
                return files
        raise SystemExit("not ok: the daemon makes no progress")

    def run(self, words, environment):
        """Exit code and output; None: it has to run as a process."""
        connection, *_ = self.connect()
        reader, writer = os.pipe()
        self.ask(connection, RUN, words, environment, writer)
        os.close(writer)
        said = read_all(reader)
        code = None
        while True:
            frame = connection.recv(1 << 17)
            if not frame:
                raise SystemExit("not ok: the daemon is gone")
            kind, rest = frame[4], frame[13:]
            if kind == ENDED:
                code = struct.unpack("<I", rest[:4])[0]
                assert code & 0xFF == 0, f"killed: {code}"
                code >>= 8
            if kind in (DECLINED, GONE):
                connection.close()
                self.used += code is not None
                return None if code is None else (code, said)


class Tree:
    """Headers in several directories, and files that include some of them."""

    def __init__(self, place, chance):
        self.place, self.chance = place, chance
        self.flags = ["-O0", "-g"]
        self.environment = {"PATH": os.environ["PATH"], "LANG": "C"}
        for directory in range(DIRECTORIES):
            (place / f"d{directory}").mkdir()
        for header in range(HEADERS):
            self.write_header(chance.randrange(1, DIRECTORIES), header)
        self.heads = {}
        for main in range(MAINS):
            self.write_head(main)
            self.write_main(main)

    def write_header(self, directory, header):
        others = self.chance.sample(range(header), min(header, self.chance.randrange(3)))
        lines = [f"#ifndef H{header}", f"#define H{header} {self.chance.randrange(100)}"]
        lines += [f'#include "h{other}.h"' for other in others]
        lines += [f"static inline int f{header}(int x) {{ return x * {self.chance.randrange(1000)} + H{header}; }}", "#endif"]
        (self.place / f"d{directory}/h{header}.h").write_text("\n".join(lines) + "\n")

    def write_head(self, main):
        included = sorted(self.chance.sample(range(HEADERS), self.chance.randrange(1, 5)))
        lines = [f"// {self.chance.randrange(1000)}", "#include <stddef.h>"]
        for header in included:
            if self.chance.random() < 0.2:
                lines += ["#if 1", f'#include "h{header}.h"', "#endif"]
            else:
                lines.append(f'#include "h{header}.h"')
        self.heads[main] = "\n".join(lines) + "\n", included

    def write_main(self, main):
        head, included = self.heads[main]
        lines = [f"int g{n}(int x) {{ return f{self.chance.choice(included)}(x) ^ {n}; }}" for n in range(self.chance.randrange(9))]
        if self.chance.random() < 0.1:
            lines.append(f"int wrong = nothing_{self.chance.randrange(10)};")
        if self.chance.random() < 0.1:
            lines.append("int line = __LINE__; const char *file = __FILE__; /* " + "x" * self.chance.randrange(5000) + " */")
        if self.chance.random() < 0.1:
            lines.append(f'#include "h{self.chance.randrange(HEADERS)}.h"')
        (self.place / f"m{main}.c").write_text(head + "\n" * self.chance.randrange(4) + "\n".join(lines))

    def words(self, main):
        includes = [f"-I{self.place}/d{directory}" for directory in range(DIRECTORIES)]
        return ["clang-19", *self.flags, *includes, "-Wall", "-MMD", "-MF", "out.d", "-c", f"m{main}.c", "-o", "out.o"]

    def edit(self, main):
        """Mostly of the main file; other edits invalidate many checkpoints."""
        kind = self.chance.random()
        directory, header = self.chance.randrange(DIRECTORIES), self.chance.randrange(HEADERS)
        file = self.place / f"d{directory}/h{header}.h"
        if kind < 0.90:
            self.write_main(main)
        elif kind < 0.92:
            self.write_head(main)
            self.write_main(main)
        elif kind < 0.95:
            self.write_header(directory, header)
        elif kind < 0.97 and directory == 0:
            file.unlink(missing_ok=True)
        elif kind < 0.98:
            self.flags = [self.chance.choice(["-O0", "-O1"]), self.chance.choice(["-g", "-DX=1", "-DX=2"])]
        else:
            self.environment["CPATH"] = str(self.place / f"d{directory}")


def made(place):
    names = ("out.o", "out.d")
    return {name: (place / name).read_bytes() if (place / name).exists() else None for name in names}


def restore(place, files):
    for name, content in files.items():
        (place / name).unlink(missing_ok=True)
        if content is not None:
            (place / name).write_bytes(content)


def compiled_by_clang(tree, words):
    done = subprocess.run(
        words, cwd=tree.place, env=tree.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return (done.returncode, done.stdout), made(tree.place)


def check(daemon, tree, main):
    words = tree.words(main)
    before = made(tree.place)
    own = daemon.run(words, tree.environment)
    its_files = made(tree.place)
    restore(tree.place, before)
    expected, files = compiled_by_clang(tree, words)
    if own is None or (own, its_files) == (expected, files):
        return True
    print(f"not ok: {' '.join(words)}\n  {own}\n  {expected}")
    print(f"  {[name for name in files if files[name] != its_files[name]]}")
    return False


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    edits = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory).resolve()
        tree = Tree(place, random.Random(seed))
        daemon = Daemon(sys.argv[1], place)
        kept = 0
        for edit in range(edits):
            if edit % 50 == 0:
                kept += daemon.keep([(tree.words(file), tree.environment) for file in range(MAINS)])
            file = tree.chance.randrange(MAINS)
            tree.edit(file)
            if not check(daemon, tree, file):
                sys.exit(f"not ok: edit {edit} of seed {seed}")
        daemon.stop()
        good = daemon.used > 0
        print(f"{'ok' if good else 'not ok'} {edits} edits, {kept} checkpoints, used {daemon.used} times, seed {seed}")
        sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
