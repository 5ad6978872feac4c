#!/usr/bin/env python3
"""Damaged and unusual cache directories, several builds at once, and builds that are killed.

    tests/cache/damage.py TANTO [NAME...]

CACHE_KILLS: how many builds are killed (default 30), and CACHE_SEED: the seed for all that is random, which is printed. Prints
"ok NAME" or "not ok NAME"."""

import os
import random
import shutil
import signal
import subprocess
import time

from tree import GCC, Tree, main, of_each  # Finds the harness.
from harness import can_mount

FILES = {
    "a.c": '#include "h.h"\n#warning look\nint f(void) { return H; }\n',
    "b.c": '#include "h.h"\nint g(void) { return H; }\n',
    "inc/h.h": "#define H 1\n",
}
EDGES = "build a.o: cc ../a.c\nbuild b.o: cc ../b.c\n"
SEED = int(os.environ.get("CACHE_SEED") or random.randrange(1 << 32))
KILLS = int(os.environ.get("CACHE_KILLS", 30))


def filled(place, tanto, edges=EDGES, files=FILES):
    tree = Tree(tanto, place, files)
    tree.plan("-I../inc", edges)
    tree.fill()
    return tree


def warnings(built):
    lines = [line for line in built.printed.splitlines() if "warning" in line]
    return [line for line in lines if '"level":"warning"' in line or not line.startswith("{")]


def judge_with(tree, what, most=1):
    """The build succeeds, is right, and prints at most one line of warning."""
    try:
        built = tree.judge()
        assert built.code == 0, built.printed
        assert len(warnings(built)) <= most, warnings(built)
        return built
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error


def cache_files(tree):
    """The files that decide about results."""
    found = [path for path in tree.cache().rglob("*") if path.is_file() and path.name not in ("clock",)]
    return sorted(found)


def damages(text, choice):
    """Ways to damage a file."""
    at = choice.randrange(len(text)) if text else 0
    flipped = text[:at] + bytes([text[at] ^ (1 << choice.randrange(8))]) + text[at + 1:] if text else b"x"
    half, garbage, longer = text[:len(text) // 2], choice.randbytes(len(text)), text + b"\0" * 100
    return {"a flipped bit": flipped, "half of it": half, "nothing": b"", "garbage": garbage, "a longer one": longer}


def damaged_files(tanto, place):
    print(f"# seed {SEED}")
    choice = random.Random(SEED)
    tree = filled(place, tanto)
    names = [path.relative_to(tree.cache()) for path in cache_files(tree)]
    for name in names:
        for what in ("a flipped bit", "half of it", "nothing", "garbage", "a longer one"):
            path = tree.cache(name)
            if not path.exists():
                tree.judge()
            text = path.read_bytes() if path.exists() else b""
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(damages(text, choice)[what])
            judge_with(tree, f"{what} in {name}")
            judge_with(tree, f"after {what} in {name}")
    tree.judge("hit")


def files_of_other_kinds(tanto, place):
    """A directory, a link, a pipe or nothing in the place of each file; and files without permissions."""
    tree = filled(place, tanto)
    kinds = {
        "a directory": lambda path: path.mkdir(),
        "a full directory": lambda path: (path / "x").mkdir(parents=True),
        "a pipe": os.mkfifo,
        "a link": lambda path: path.symlink_to("/etc/passwd"),
        "a link to itself": lambda path: path.symlink_to(path),
        "nothing": lambda path: None,
    }
    names = [path.relative_to(tree.cache()) for path in cache_files(tree)]
    for what, make in kinds.items():
        for name in names:
            path = tree.cache(name)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            make(path)
            judge_with(tree, f"{what} in the place of {name}")
        shutil.rmtree(tree.cache())
        tree.fill()


def directories_of_other_kinds(tanto, place):
    tree = filled(place, tanto)
    for name in ("actions", "blobs", "blobs/temp", "blobs/bad", ""):
        for make in (lambda path: path.write_text("x"), lambda path: path.symlink_to("nowhere"), lambda path: path.mkdir(0)):
            path = tree.cache(name)
            if path.exists():
                shutil.rmtree(path)
            make(path)
            judge_with(tree, f"in the place of {name or 'the directory'}")
            if tree.cache().is_dir() and not tree.cache().is_symlink():
                shutil.rmtree(tree.cache())
            else:
                tree.cache().unlink()
            tree.fill()


def results_of_another_action(tanto, place):
    """Whole files, in each other's place."""
    tree = filled(place, tanto)
    for folder in ("actions", "blobs"):
        files = [path for path in cache_files(tree) if path.is_relative_to(tree.cache(folder))]
        for one in files:
            for other in files:
                if one != other and one.exists() and other.exists():
                    one.write_bytes(other.read_bytes())
                    judge_with(tree, f"{other} in the place of {one}")
    # The table of names of another cache.
    other = filled(place / "other", tanto, files=FILES | {"a.c": '#include "x.h"\n', "inc/x.h": ""})
    shutil.copy(other.cache("names"), tree.cache("names"))
    judge_with(tree, "names of another cache")
    judge_with(tree, "names of another cache")


def times_from_the_future(tanto, place):
    tree = filled(place, tanto)
    for when in (time.time() + 1e8, 0, 1e9):
        for path in tree.cache().rglob("*"):
            os.utime(path, (when, when))
        judge_with(tree, f"time {when}")
    tree.judge("hit")


def directories_that_are_not_private(tanto, place):
    tree = filled(place, tanto)
    tree.cache().chmod(0o777)
    built = judge_with(tree, "writable by others")
    assert built.hits() == [] and len(warnings(built)) == 1, built.printed
    tree.cache().chmod(0o700)
    if os.getuid() == 0:
        os.chown(tree.cache(), 65534, 65534)
        built = judge_with(tree, "of another user")
        assert built.hits() == [] and len(warnings(built)) == 1, built.printed
        os.chown(tree.cache(), 0, 0)
    tree.judge("hit")


def read_only_directories(tanto, place):
    """Root can write everywhere, so another user builds."""
    if os.getuid() != 0 or not shutil.which("setpriv"):
        print("# skipped: needs root and setpriv")
        return
    place.chmod(0o777)
    program = place / "tanto"
    shutil.copy(tanto, program)
    tree = Tree(str(program), place / "tree", FILES)
    tree.plan("-I../inc", EDGES)
    for parent in (place, *place.parents):
        if not parent.stat().st_mode & 0o001:
            print(f"# skipped: {parent} is private")
            return
    subprocess.run(["chown", "-R", "nobody", place / "tree"], check=True)
    # Directories that only root may search would be in the way.
    tree.environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    plain_run = tree.run
    drop = ["setpriv", "--reuid=65534", "--clear-groups"]
    tree.run = lambda *command, **more: plain_run(*drop, *command, **more)
    tree.fill()
    for name in ("", "actions", "blobs"):
        for path in (tree.cache(name), *tree.cache(name).rglob("*")):
            if path.is_dir():
                path.chmod(0o500)
        judge_with(tree, f"read-only {name}")
        tree.write("inc/h.h", f"#define H {len(name)}\n")
        judge_with(tree, f"read-only {name}")
        for path in (tree.cache(name), *tree.cache(name).rglob("*")):
            if path.is_dir():
                path.chmod(0o700)
    for path in cache_files(tree):
        path.chmod(0)
    judge_with(tree, "unreadable files")


def no_place_for_a_cache(tanto, place):
    tree = filled(place, tanto)
    before = dict(tree.environment)
    cases = [("XDG_CACHE_HOME", value) for value in (None, "", "relative", "/dev/null/x", "/proc/nothing")]
    for name, value in [*cases, ("HOME", None)]:
        tree.environment = dict(before)
        for unset in ("XDG_CACHE_HOME", "HOME"):
            tree.environment.pop(unset)
        if value is not None:
            tree.environment[name] = value
        if name == "XDG_CACHE_HOME" and value == "relative":
            tree.environment["HOME"] = str(place / "home")
        judge_with(tree, f"{name}={value}")


def a_home_that_does_not_exist(tanto, place):
    """It stays so: some systems give such a home to users who must not have files."""
    tree = filled(place, tanto)
    tree.environment |= {"HOME": str(place / "no/home")}
    del tree.environment["XDG_CACHE_HOME"]
    judge_with(tree, "no home")
    assert not (place / "no").exists(), sorted((place / "no").rglob("*"))[:3]


def a_full_disk(tanto, place):
    if not can_mount():
        print("# skipped: needs root and mounts")
        return
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
    try:
        tree = Tree(tanto, place / "tree", FILES, cache=disk)
        tree.plan("-I../inc", EDGES)
        for left in (0, 4096, 3 * 4096, 8 * 4096):
            (disk / "filler").unlink(missing_ok=True)
            tree.write("inc/h.h", f"#define H {left}\n")
            free = os.statvfs(disk)
            (disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - left))
            for _ in range(2):
                judge_with(tree, f"{left} bytes left")
        (disk / "filler").unlink()
        tree.fill()
        # The build directory has no space for a result, but the compiler neither.
        tree.judge("hit")
    finally:
        subprocess.run(["umount", disk], check=True)


def small_caches(tanto, place):
    """The cache is emptied after each build, or while another one uses it."""
    tree = filled(place, tanto)
    for size in ("1K", "3K", "100K"):
        built = tree.judge(words=(f"--cache-size={size}",))
        assert built.code == 0, built.printed
        judge_with(tree, f"after a size of {size}")


def many(count):
    """Sources, and the edges that compile them."""
    files = {f"s{number}.c": f'#include "h.h"\nint f{number}(void) {{ return H + {number}; }}\n' for number in range(count)}
    edges = "".join(f"build s{number}.o: cc ../s{number}.c\n" for number in range(count))
    joined = "build all.txt: copy " + " ".join(f"s{number}.o" for number in range(count)) + "\n"
    return files | {"inc/h.h": "#define H 1\n"}, edges + joined


def two_builds_at_once(tanto, place):
    files, edges = many(16)
    trees = [Tree(tanto, place / name, files, cache=place / "xdg") for name in ("one", "two", "three")]
    for number in range(6):
        for tree in trees:
            tree.plan("-I../inc" if number % 2 else "-I../inc -O1", edges)
            tree.write("inc/h.h", f"#define H {number // 2}\n")
            tree.empty()
        sizes = ["--cache-size=40K"] if number == 4 else []
        command = lambda tree: [*tree.words("on", "-j4"), *sizes]
        running = [subprocess.Popen(command(tree), cwd=tree.build_dir, env=tree.environment, stdout=subprocess.PIPE, text=True)
                   for tree in trees]
        for tree, build in zip(trees, running, strict=True):
            printed = build.communicate()[0]
            assert build.returncode == 0, printed
            tree.assert_done()
        for tree in trees:
            tree.judge(empty=False)
    for tree in trees:
        tree.judge()


def killed_builds(tanto, place):
    """SIGKILL, and now and then SIGINT, at any moment of builds that fill and use the cache."""
    print(f"# seed {SEED}, {KILLS} kills")
    choice = random.Random(SEED)
    files, edges = many(8)
    tree = Tree(tanto, place, files)
    tree.plan("-I../inc", edges)
    tree.environment["XDG_CACHE_HOME"] = str(place / "xdg")
    tree.build()
    for number in range(KILLS):
        tree.write("inc/h.h", f"#define H {choice.randrange(4)}\n")
        if choice.random() < 0.6:
            tree.empty()
        how = signal.SIGINT if choice.random() < 0.2 else signal.SIGKILL
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running = subprocess.Popen(tree.words("on"), cwd=tree.build_dir, env=tree.environment, **quiet)
        time.sleep(choice.random() * 0.3)
        running.send_signal(how)
        running.wait()
        # Its commands end by themselves.
        time.sleep(0.05)
        for path in tree.build_dir.glob("*.d"):
            path.unlink()
        try:
            tree.judge(empty=choice.random() < 0.5)
        except AssertionError as error:
            raise AssertionError(f"kill {number} by {how}: {error}") from error
        left = [path.name for path in tree.build_dir.iterdir() if ".tanto-" in path.name]
        if left and how == signal.SIGINT:
            raise AssertionError(f"SIGINT left {left}")
        for name in left:
            (tree.build_dir / name).unlink()


@of_each(GCC)
def files_of_killed_builds(tanto, place, kind):
    """Temporary files with the names that a later build would choose."""
    tree = filled(place, tanto)
    for path in ("a.o", "b.o"):
        for number in range(4):
            for pid in range(os.getpid(), os.getpid() + 200):
                tree.write(f"build/{path}.tanto-{pid}-{number}", "left")
    judge_with(tree, "left files")


if __name__ == "__main__":
    main(__doc__, globals())
