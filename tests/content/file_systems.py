#!/usr/bin/env python3
"""Builds by content on file systems that are full, were made alike, or have whole seconds.

    tests/content/file_systems.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME". Most of it needs root."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import can_mount, run_tests, use_log_version_of_ninja
from tree import Tree


def a_full_disk_is_no_error(tanto, place):
    """The record needs more space than is left."""
    if not can_mount():
        print("# skipped: needs root and mounts")
        return
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
    try:
        tree = Tree(tanto, disk)
        tree.write("text", "other\n")
        free = os.statvfs(disk)
        (disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 12 * 4096))
        built = tree.run(tanto, "build")
        (disk / "filler").unlink()
        tree.touch("text")
        tree.build()
        assert tree.read("used") == "other\n", built.stdout
        tree.is_done()
    finally:
        subprocess.run(["umount", disk], check=True)


def images_with_equal_times_are_told_apart(tanto, place):
    """Two read-only images, made alike: the same inodes, sizes and times, with other content."""
    if os.getuid() != 0 or not shutil.which("mksquashfs"):
        print("# skipped: needs root and squashfs-tools")
        return
    for name, text in (("one", "text\n"), ("two", "TEXT\n")):
        (place / name).mkdir()
        (place / name / "text").write_text(text)
        command = ["mksquashfs", place / name, place / f"{name}.img", "-quiet", "-no-progress", "-all-time", "1000000000", "-mkfs-time", "0"]
        subprocess.run(command, check=True, capture_output=True)
    (place / "mounted").mkdir()
    if not mount_image(place / "one.img", place / "mounted", "ro"):
        return
    try:
        manifest = "rule copy\n  command = cat $in > $out\nbuild out: copy mounted/text\n"
        tree = Tree(tanto, place, {"build.ninja": manifest})
        before = tree.path("mounted/text").stat()
        subprocess.run(["umount", place / "mounted"], check=True)
        assert mount_image(place / "two.img", place / "mounted", "ro")
        after = tree.path("mounted/text").stat()
        assert (after.st_ino, after.st_size, after.st_mtime_ns, after.st_dev) == (
            before.st_ino, before.st_size, before.st_mtime_ns, before.st_dev), "the trap is not set"
        assert tree.build() == ["out"], tree.printed
        assert tree.read("out") == "TEXT\n"
    finally:
        subprocess.run(["umount", place / "mounted"])


def mount_image(image, directory, mode):
    """Returns whether that was possible."""
    mounted = subprocess.run(["mount", "-o", f"loop,{mode}", image, directory], capture_output=True, text=True)
    if mounted.returncode != 0:
        print("# skipped:", mounted.stderr.strip())
    return mounted.returncode == 0


def renewed_outputs_are_not_trusted_if_times_are_whole_seconds(tanto, place):
    """An output that is renewed and then overwritten in the same second has the same times."""
    disk, image = place / "disk", place / "disk.img"
    disk.mkdir()
    image.touch()
    os.truncate(image, 16 << 20)
    # Inodes of 128 bytes have no fractions of seconds.
    if os.getuid() != 0 or not shutil.which("mkfs.ext4"):
        print("# skipped: needs root and mkfs.ext4")
        return
    subprocess.run(["mkfs.ext4", "-q", "-I", "128", image], check=True, capture_output=True)
    if not mount_image(image, disk, "rw"):
        return
    try:
        tree = Tree(tanto, disk, {"build.ninja": "rule copy\n  command = cat $in > $out\nbuild out: copy text\n", "text": "text\n"})
        renew_and_overwrite(tree)
        time.sleep(1)
        tree.touch("text")
        assert tree.build() == ["out"], tree.printed
        assert tree.read("out") == "text\n"
    finally:
        subprocess.run(["umount", disk], check=True)


def renew_and_overwrite(tree):
    def times():
        found = tree.path("out").stat()
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns

    while True:
        # Files that changed just now are not recorded.
        for words in ("--again", "out"), ():
            time.sleep(2.5)
            tree.build(*words)
        # All that follows happens in one second. The clock of file systems lags a little.
        time.sleep(1.1 - time.time() % 1)
        tree.touch("text")
        assert tree.build() == [], tree.printed
        renewed = times()
        assert renewed[2] % 10**9 == 0, "the trap is not set"
        tree.write("out", "TEXT\n")
        if times() == renewed:
            return
        tree.write("out", "text\n")


if __name__ == "__main__":
    TESTS = [test for name, test in list(globals().items()) if hasattr(test, "__code__")
             and test.__code__.co_varnames[:2] == ("tanto", "place")]
    use_log_version_of_ninja()
    run_tests(__doc__, TESTS)
