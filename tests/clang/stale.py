#!/usr/bin/env python3
"""Checkpoints whose headers change without a trace: equal name, device, inode, size and times, but other bytes. And
file systems that are unmounted while there are checkpoints of their files.

    tests/clang/stale.py WORKER

Acts as a client of a checkpoint daemon in its own mount namespace. Each case makes a checkpoint, changes one of its
inputs, edits the main file, and compares the result with clang's. Images of squashfs and ext4 need root and loop
devices; without them, a message is printed. Prints "ok NAME", "not ok NAME" or "skipped NAME: why"."""

import mmap
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import edits
from forks import is_gone

ALONE = "TANTO_TEST_IN_NAMESPACE"
COMMAND = "clang-19 -g -MD -MF main.d -I first -I sdk -c main.c -o main.o"
HEAD = '#include <stddef.h>\n#include "v.h"\n'
# Large enough that a compiler maps it.
LARGE = 64 << 10


def header(digit):
    return f"#ifndef V\n#define V {digit}\nstatic inline int value(void) {{ return V; }}\n#endif\n"


class Place:
    """A directory with a main file, the headers of an SDK, and a daemon."""

    def __init__(self, worker, directory):
        self.place = Path(directory).resolve()
        self.sdk, self.main = self.place / "sdk", self.place / "main.c"
        for path in (self.sdk, self.place / "first"):
            path.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "LANG": "C"}
        self.edit("int first(void) { return value(); }")
        self.daemon = edits.Daemon(worker, self.place)

    def edit(self, text):
        self.main.write_text(f"{HEAD}{text}\n")

    def keep(self):
        return self.daemon.keep([(shlex.split(COMMAND), self.environment)])

    def use(self):
        """The daemon's reply, and the resulting files."""
        said = self.daemon.run(shlex.split(COMMAND), self.environment)
        return said, self.made()

    def made(self):
        found = {name: (self.place / name).read_bytes() for name in ("main.o", "main.d") if (self.place / name).exists()}
        for name in found:
            (self.place / name).unlink()
        return found

    def clang(self):
        done = subprocess.run(
            shlex.split(COMMAND), cwd=self.place, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True
        )
        return (done.returncode, done.stdout + done.stderr), self.made()

    def is_used(self):
        """A compile continues from the checkpoint, with clang's result."""
        self.edit("int second(void) { return value() + __LINE__; }")
        return self.use() == self.clang()

    def is_refused(self):
        """A compile does not continue from it."""
        self.edit("int third(void) { return value() - __LINE__; }")
        return self.use() == (None, {})


def store_through_a_mapping(place, say):
    """On tmpfs, at most the first store through a shared mapping changes the file's times."""
    file = place.sdk / "v.h"
    file.write_text(header(1))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
        at = mapped.find(b"#define V 1") + len(b"#define V ")
        mapped[at : at + 1] = b"2"
        mapped.flush()
        before = file.stat()
        say("a checkpoint is made beside a shared mapping", place.keep() == 1)
        say("and used while nothing changes", place.is_used())
        mapped[at : at + 1] = b"3"
        after = file.stat()
        say("a store leaves no trace in the file's times", stamp(before) == stamp(after))
        say("not used: a header with another byte and the same times", place.is_refused())


def stamp(it):
    return it.st_dev, it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns


def main_file_becomes_a_header(place, say):
    """The main file is replaced by a link to a header with the same beginning."""
    (place.sdk / "v.h").write_text(header(1).replace("#endif", '#include "twin.h"\n#endif'))
    twin = place.sdk / "twin.h"
    twin.write_text(f"{HEAD}static int twin;\n")
    ways = (("a symbolic link", lambda: place.main.symlink_to(twin)), ("a hard link", lambda: os.link(twin, place.main)))
    for name, link in ways:
        place.main.unlink()
        place.edit("int first(void) { return twin; }")
        assert place.keep() == 1, place.daemon.without
        place.main.unlink()
        link()
        say(f"not used: {name} to a header in place of the main file", place.use() == (None, {}))


def mount(image, at):
    subprocess.run(["mount", "-o", "loop,ro", image, at], check=True, stderr=subprocess.PIPE)


def squashfs(tree, image):
    line = ["mksquashfs", tree, image, "-all-time", "1000000000", "-mkfs-time", "1000000000", "-noappend", "-quiet"]
    subprocess.run(line, check=True, capture_output=True)


def swap_images(place, say):
    """Two images of an SDK, mounted one after the other at the same path."""
    images, tree = [], place.place / "tree"
    for digit in (1, 2):
        tree.mkdir()
        (tree / "v.h").write_text(header(digit))
        images.append(place.place / f"{digit}.img")
        squashfs(tree, images[-1])
        shutil.rmtree(tree)
    try:
        mount(images[0], place.sdk)
    except (OSError, subprocess.CalledProcessError) as error:
        return print(f"skipped swapped images: no image can be mounted: {getattr(error, 'stderr', error)!r}", flush=True)
    # Another process may take the loop device meanwhile.
    for _ in range(5):
        before = (place.sdk / "v.h").stat()
        say("a checkpoint is made with headers of an image", place.keep() == 1)
        say("and used while it is mounted", place.is_used())
        subprocess.run(["umount", place.sdk], check=True)
        mount(images[1], place.sdk)
        if stamp(before) == stamp((place.sdk / "v.h").stat()):
            say("not used: the header of another image with the same numbers", place.is_refused())
            break
        images.reverse()
    else:
        say("two images have the same numbers", False)
    subprocess.run(["umount", place.sdk], check=True)


def mounted_sdk_can_be_removed(place, say):
    """Headers on a separate file system: one that is read, a large one, one that is only looked up, and a directory."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place.sdk], check=True)
    (place.sdk / "v.h").write_text(header(1).replace("#endif", '#include "large.h"\n#if __has_include("seen.h")\n#endif\n#endif'))
    (place.sdk / "large.h").write_text("// " + "x" * LARGE + "\n")
    (place.sdk / "seen.h").write_text("int seen;\n")
    say("a checkpoint is made with headers of a mounted file system", place.keep() == 1)
    say("and used while it is mounted", place.is_used())
    say("it can be unmounted meanwhile", is_unmounted(place.sdk))
    say("not used: without its headers", place.is_refused())


def build_directory_can_be_unmounted(place, say):
    """Sources, objects and the daemon's directory on one file system. The daemon exits when it is unmounted."""
    (place.sdk / "v.h").write_text(header(1))
    say("a checkpoint is made in a mounted directory", place.keep() == 1)
    say("and used there", place.is_used())
    process = int((place.daemon.place / "pid").read_text())
    os.close(place.daemon.directory)
    say("the directory can be unmounted meanwhile", is_unmounted(place.place))
    end = time.monotonic() + edits.PATIENCE
    while not is_gone(process) and time.monotonic() < end:
        time.sleep(0.05)
    say("and the daemon ends", is_gone(process))


def is_unmounted(place):
    """Retries while a process still reads a file there."""
    for _ in range(3):
        if subprocess.run(["umount", place], capture_output=True).returncode == 0:
            return True
        time.sleep(0.05)
    return False


def pending_request_holds_no_directory(place, say):
    """A pending request does not keep a file system busy."""
    (place.sdk / "v.h").write_text(header(1))
    connection, *_ = place.daemon.connect()
    place.daemon.ask(connection, edits.KEEP, shlex.split(COMMAND), place.environment, place.daemon.nothing)
    # No checkpoints are made while a client is connected; the second query shows that the first was processed.
    other, _, wanted = place.daemon.connect()
    say("a request waits while a build is connected", wanted == 1)
    os.close(place.daemon.directory)
    say("the directory can be unmounted meanwhile", is_unmounted(place.place))
    connection.close()
    other.close()


CASES = [
    store_through_a_mapping,
    main_file_becomes_a_header,
    swap_images,
    mounted_sdk_can_be_removed,
    build_directory_can_be_unmounted,
    pending_request_holds_no_directory,
]


def is_root_of_the_machine():
    return Path("/proc/self/uid_map").read_text().split()[:2] == ["0", "0"] and os.getuid() == 0


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if ALONE not in os.environ:
        alone = ["--mount"] if is_root_of_the_machine() else ["--user", "--map-root-user", "--mount"]
        os.execvpe("unshare", ["unshare", *alone, sys.executable, *sys.argv], os.environ | {ALONE: "1"})
    good = []

    def say(name, ok):
        print("ok" if ok else "not ok", name, flush=True)
        good.append(ok)

    for case in CASES:
        if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
            continue
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=True)
            place = Place(sys.argv[1], directory)
            case(place, say)
            if os.path.ismount(directory):
                place.daemon.stop()
                subprocess.run(["umount", "--lazy", directory], check=True)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
