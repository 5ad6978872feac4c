#!/usr/bin/env python3
"""Situations in which a build by content could go wrong, each in a small tree.

    tests/content/traps.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import run_tests, use_log_version_of_ninja
from tree import FILES, MANIFEST, Tree


def touched_sources_need_no_command(tanto, place):
    tree = Tree(tanto, place)
    tree.touch(*tree.sources())
    assert tree.build() == [] and "5 files have new timestamps but the same content" in tree.printed, tree.printed
    assert "--again" in tree.printed
    tree.is_done()
    assert tree.build("-n") == []


def a_dry_run_changes_nothing(tanto, place):
    tree = Tree(tanto, place)
    tree.touch(*tree.sources())
    before = {path: path.stat().st_mtime_ns for path in place.iterdir()}
    assert tree.build("-n") == [] and "same content" in tree.printed
    assert {path: path.stat().st_mtime_ns for path in place.iterdir()} == before


def other_content_runs_commands(tanto, place):
    tree = Tree(tanto, place)
    tree.write("include/a.h", "#define A 2\nint f(void);\n")
    tree.touch("text")
    assert tree.build() == ["a.o", "app", "b.o"], tree.printed
    assert tree.run("./app").returncode == 2
    tree.is_done()


def a_comment_does_not_link_again(tanto, place):
    tree = Tree(tanto, place)
    tree.write("include/a.h", "#define A 1\nint f(void);\n// comment\n")
    assert tree.build() == ["a.o", "b.o"], tree.printed
    tree.is_done()
    tree.touch("a.o", "b.o")
    assert tree.build() == []
    tree.is_done()


def explanations_name_the_reason(tanto, place):
    tree = Tree(tanto, place)
    tree.touch("text")
    assert tree.build("-d", "explain") == []
    assert "made is up to date: mtime changed, content equal" in tree.printed, tree.printed
    tree.write("text", "other\n")
    tree.touch("text", ns=10**18)
    assert tree.build("-d", "explain") == ["made", "read", "used"]
    assert "content of text changed since made was built" in tree.printed, tree.printed


def again_runs_commands_that_are_up_to_date(tanto, place):
    tree = Tree(tanto, place)
    assert tree.build("--again", "made") == ["made"], tree.printed
    assert tree.build("--again", "used", "app") == ["app", "used"]
    tree.is_done()
    failed = tree.run(tanto, "build", "--again")
    assert failed.returncode == 1 and "name the targets" in failed.stderr + failed.stdout


def an_older_file_with_other_content_runs_commands(tanto, place):
    tree = Tree(tanto, place)
    tree.write("old", "old\n")
    tree.touch("old", ns=10**18)
    os.replace(tree.path("old"), tree.path("text"))
    assert tree.build() == ["made", "read", "used"], tree.printed
    assert tree.read("used") == "old\n"
    tree.is_done()


def equal_size_and_times_do_not_hide_a_change(tanto, place):
    tree = Tree(tanto, place)
    times = tree.path("text").stat()
    tree.write("text", "TEXT\n")
    os.utime(tree.path("text"), ns=(times.st_atime_ns, times.st_mtime_ns))
    assert tree.build() == ["made", "read", "used"], tree.printed
    tree.is_done()


def swapped_files_are_seen(tanto, place):
    tree = Tree(tanto, place)
    for old, new in [("text", "x"), ("marked", "text"), ("x", "marked")]:
        os.rename(tree.path(old), tree.path(new))
    tree.build()
    assert (tree.read("used"), tree.read("side.txt"), tree.read("read")) == ("marked\n", "text\n", "text\nmarked\n")
    tree.is_done()


def a_link_to_another_file_is_seen(tanto, place):
    tree = Tree(tanto, place)
    tree.write("other", "other\n")
    tree.touch("other", ns=10**18)
    tree.path("text").unlink()
    tree.path("text").symlink_to("other")
    assert tree.build() == ["made", "read", "used"], tree.printed
    tree.write("same", "other\n")
    tree.path("text").unlink()
    tree.path("text").symlink_to("same")
    assert tree.build() == [], tree.printed
    tree.is_done()


def two_changes_in_one_moment_are_seen(tanto, place):
    tree = Tree(tanto, place)
    for number in range(20):
        tree.write("text", f"{number:4}\n")
        tree.build()
        tree.write("text", f"{-number:4}\n")
        tree.build()
        assert tree.read("used") == f"{-number:4}\n", number


def stamps_do_not_hide_side_outputs(tanto, place):
    """The stamp is empty before and after, but what its command wrote beside it differs."""
    tree = Tree(tanto, place)
    tree.write("marked", "other\n")
    assert tree.build() == ["mark", "read"], tree.printed
    assert tree.read("read") == "other\ntext\n"
    tree.is_done()
    tree.touch("marked", "text", "mark")
    assert tree.build() == [], tree.printed
    tree.is_done()


FAILING = """
rule stamp
  command = cp $in side.txt && if test -e fail; then sleep 2; false; fi && : > $out
rule side
  command = cat side.txt > $out
build mark: stamp marked
build read: side | mark
"""


def a_failed_command_runs_again_although_its_inputs_are_as_before(tanto, place):
    """It has changed a file beside its output, which nothing shows."""
    tree = Tree(tanto, place, {"build.ninja": FAILING, "marked": "marked\n"})
    for is_killed in (False, True):
        tree.write("marked", "other\n")
        tree.write("fail", "")
        building = subprocess.Popen([tanto, "build"], cwd=place, stdout=subprocess.DEVNULL)
        while tree.read("side.txt") != "other\n":
            time.sleep(0.01)
        if is_killed:
            building.kill()
        assert building.wait() != 0
        tree.path("fail").unlink()
        tree.write("marked", "marked\n")
        assert "mark" in tree.build(), tree.printed
        assert tree.read("side.txt") == "marked\n"
        tree.is_done()


def ninja_in_between_is_noticed(tanto, place):
    tree = Tree(tanto, place)
    tree.write("text", "ninja\n")
    assert "made" in tree.run("ninja").stdout
    tree.touch("text")
    # There is no record of what ninja ran, so times decide.
    assert tree.build() == ["made", "read", "used"], tree.printed
    tree.is_done()
    tree.touch("text")
    assert tree.build() == []


def linked_outputs_are_not_touched(tanto, place):
    """`cp -al` copies of a build directory share their files."""
    tree = Tree(tanto, place)
    copy = place.with_name(place.name + "-copy")
    subprocess.run(["cp", "-al", place, copy], check=True)
    try:
        tree.touch("text")
        # The command runs, as it would with ninja. It may write to the file that both share; Tanto does not.
        assert tree.build() == ["made", "read", "used"], tree.printed
        tree.is_done()
    finally:
        shutil.rmtree(copy)


def linked_outputs_of_commands_that_replace_them(tanto, place):
    """gcc removes its output before it writes it, so that a copy keeps its own."""
    tree = Tree(tanto, place)
    copy = place.with_name(place.name + "-copy")
    subprocess.run(["cp", "-al", place, copy], check=True)
    try:
        before = (copy / "a.o").stat()
        tree.touch("a.c")
        assert tree.build() == ["a.o", "app"], tree.printed
        assert (copy / "a.o").stat().st_mtime_ns == before.st_mtime_ns
    finally:
        shutil.rmtree(copy)


def edited_outputs_run_again_if_their_inputs_are_newer(tanto, place):
    tree = Tree(tanto, place)
    tree.write("made", "edited\n")
    tree.touch("text")
    assert tree.build() == ["made", "used"], tree.printed
    assert tree.read("used") == "text\n"
    tree.is_done()


def restored_build_directories_need_no_command(tanto, place):
    """A cache restores a build directory with its times, and the sources come from a fresh clone."""
    tree = Tree(tanto, place)
    packed = place.with_name(place.name + ".tar")
    subprocess.run(["tar", "-C", place, "-cf", packed, "."], check=True)
    shutil.rmtree(place)
    place.mkdir()
    subprocess.run(["tar", "-C", place, "-xf", packed], check=True)
    packed.unlink()
    tree.touch(*tree.sources())
    assert tree.build() == [], tree.printed
    tree.is_done()


def outputs_without_their_times_need_no_command(tanto, place):
    """As after `cp -r`: outputs are newer than their deps records."""
    tree = Tree(tanto, place)
    tree.touch(*tree.sources())
    tree.touch("a.o", "b.o", "app", "made", "used", "mark", "read")
    assert tree.build() == [], tree.printed
    tree.is_done()


def an_edit_between_reading_and_touching_is_not_lost(tanto, place):
    """The output gets the time that its input had before it was read, so that a later edit makes it out of date."""
    tree = Tree(tanto, place)
    tree.touch("text")
    command = ["strace", "-f", "-o", "/dev/null", "-e", "inject=utimensat:delay_enter=1000000", tanto, "build"]
    slow = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    tree.write("text", "edit\n")
    printed = slow.communicate()[0]
    assert slow.returncode == 0 and "same content" in printed, printed
    # By times too: for ninja, without any knowledge of content.
    assert "made" in tree.run("ninja", "-n", "--verbose").stdout
    assert tree.build() == ["made", "read", "used"], tree.printed
    tree.is_done()


def an_edit_while_a_command_runs_is_not_lost(tanto, place):
    manifest = "rule slow\n  command = cat $in > $out && sleep 0.5\nbuild out: slow text\n"
    for edit in ("write", "replace by an older file", "move a directory"):
        for name in place.iterdir():
            shutil.rmtree(name) if name.is_dir() else name.unlink()
        tree = Tree(tanto, place, {"build.ninja": manifest.replace("text", "dir/text"), "dir/text": "one\n", "new/text": "old\n"})
        tree.write("dir/text", "two\n")
        running = subprocess.Popen([tanto, "build"], cwd=place, stdout=subprocess.PIPE, text=True)
        while not tree.path("out").exists() or tree.read("out") != "two\n":
            time.sleep(0.01)
        if edit == "write":
            tree.write("dir/text", "six\n")
        elif edit == "move a directory":
            os.rename(tree.path("dir"), tree.path("gone"))
            os.rename(tree.path("new"), tree.path("dir"))
        else:
            tree.touch("new/text", ns=10**18)
            os.replace(tree.path("new/text"), tree.path("dir/text"))
        running.communicate()
        assert running.returncode == 0
        # A record of the new content would hide that the output has the old one.
        tree.touch("dir/text")
        tree.build()
        assert tree.read("out") == tree.read("dir/text"), edit


def headers_that_are_new_to_a_build_are_recorded(tanto, place):
    tree = Tree(tanto, place)
    tree.write("include/b.h", "#define B 3\n")
    tree.write("b.c", '#include "a.h"\n#include "b.h"\nint f(void) { return B; }\n')
    assert tree.build() == ["app", "b.o"], tree.printed
    tree.touch("include/b.h", "b.c")
    assert tree.build() == [], tree.printed
    tree.is_done()


def absolute_paths_of_headers_are_recorded(tanto, place):
    tree = Tree(tanto, place, FILES | {"build.ninja": MANIFEST.replace("-Iinclude", f"-I{place}/include")})
    tree.touch("include/a.h")
    assert tree.build() == [], tree.printed
    tree.is_done()


def generators_and_the_console_follow_times(tanto, place):
    rules = "rule console\n  command = cat $in > $out\n  pool = console\nrule gen\n  command = cat $in > $out\n  generator = 1\n"
    manifest = rules + "build one: console text\nbuild two: gen text\n"
    tree = Tree(tanto, place, {"build.ninja": manifest, "text": "text\n"})
    tree.touch("text")
    assert tree.build() == ["one", "two"], tree.printed


def outputs_of_the_console_can_be_inputs(tanto, place):
    rules = "rule console\n  command = cat $in > $out\n  pool = console\nrule copy\n  command = cat $in > $out\n"
    manifest = rules + "build made: console text\nbuild out: copy other | made\n"
    tree = Tree(tanto, place, {"build.ninja": manifest, "text": "text\n", "other": "other\n"})
    tree.touch("other")
    assert tree.build() == [], tree.printed
    tree.write("text", "changed\n")
    assert tree.build() == ["made", "out"], tree.printed
    tree.is_done()


def pipes_follow_times(tanto, place):
    """A compiler reads a header from a pipe. To open it again would wait for a writer."""
    manifest = "rule read\n  command = cat pipe > $out && echo $out: pipe text > $out.d\n  depfile = $out.d\nbuild out: read text\n"
    for name, text in {"build.ninja": manifest, "text": ""}.items():
        (place / name).write_text(text)
    os.mkfifo(place / "pipe")
    building = subprocess.Popen([tanto, "build"], cwd=place, stdout=subprocess.DEVNULL)
    with (place / "pipe").open("w") as pipe:
        pipe.write("content\n")
    assert building.wait(timeout=60) == 0
    assert (place / "out").read_text() == "content\n"


def directories_follow_times(tanto, place):
    manifest = "rule list\n  command = ls dir > $out\nbuild out: list dir\n"
    tree = Tree(tanto, place, {"build.ninja": manifest, "dir/a": ""})
    tree.write("dir/b", "")
    assert tree.build() == ["out"], tree.printed
    assert tree.read("out") == "a\nb\n"
    tree.touch("dir")
    assert tree.build() == ["out"], tree.printed


def groups_stand_for_their_members(tanto, place):
    manifest = "rule copy\n  command = cat a b > $out\nbuild group: phony a b\nbuild outer: phony group\nbuild out: copy | outer\n"
    tree = Tree(tanto, place, {"build.ninja": manifest, "a": "a\n", "b": "b\n"})
    tree.touch("a", "b")
    assert tree.build() == [], tree.printed
    tree.is_done()
    times = tree.path("b").stat().st_mtime_ns
    tree.write("b", "c\n")
    tree.touch("b", ns=times)
    assert tree.build() == ["out"], tree.printed
    tree.is_done()


def large_results_are_known_by_their_state(tanto, place):
    """A program of a gigabyte is not read after each link."""
    manifest = "rule big\n  command = head -c 70000000 /dev/zero > $out && cat $in >> $out\nbuild out: big text\n"
    tree = Tree(tanto, place, {"build.ninja": manifest, "text": "text\n"})
    for _ in range(2):
        tree.touch("text")
        assert tree.build() == [], tree.printed
        tree.is_done()
    times = tree.path("out").stat()
    with tree.path("out").open("r+b") as out:
        out.write(b"x")
    os.utime(tree.path("out"), ns=(times.st_atime_ns, times.st_mtime_ns))
    tree.touch("text")
    assert tree.build() == ["out"], tree.printed
    tree.is_done()


def a_damaged_record_is_no_record(tanto, place):
    tree = Tree(tanto, place)
    contents = tree.path(".tanto/contents")
    whole = contents.read_bytes()
    for text in (b"", b"nonsense", whole[: len(whole) // 2], bytes([whole[40] ^ 1]).join([whole[:40], whole[41:]])):
        contents.write_bytes(text)
        tree.touch("text")
        assert tree.build() in (["made", "read", "used"], []), tree.printed
        assert tree.read("used") == "text\n"
        tree.is_done()
        contents.write_bytes(whole)


def a_record_of_another_tree_is_not_used(tanto, place):
    """The same names with other content, and the record of the other tree."""
    one, other = place / "one", place / "other"
    Tree(tanto, one, FILES)
    tree = Tree(tanto, other, FILES | {"text": "other\n"})
    shutil.copy(one / ".tanto/contents", other / ".tanto/contents")
    tree.touch("text")
    assert "made" in tree.build(), tree.printed
    assert tree.read("used") == "other\n"


def an_unwritable_state_is_no_error(tanto, place):
    tree = Tree(tanto, place)
    tree.path(".tanto/contents").unlink()
    tree.path(".tanto/contents").mkdir()
    tree.write("text", "other\n")
    assert tree.build() == ["made", "read", "used"]
    assert "no record of file contents in .tanto" in tree.printed, tree.printed
    tree.is_done()


def killed_builds_leave_no_wrong_record(tanto, place):
    tree = Tree(tanto, place)
    for number in range(40):
        tree.write("text", f"kill {number}\n")
        tree.write("b.c", f'#include "a.h"\nint f(void) {{ return {number % 100}; }}\n')
        running = subprocess.Popen([tanto, "build"], cwd=place, stdout=subprocess.DEVNULL)
        time.sleep(number * 0.003)
        running.send_signal(signal.SIGKILL)
        running.wait()
        tree.touch("text", "b.c")
        tree.build()
        assert tree.read("used") == f"kill {number}\n" and tree.run("./app").returncode == number % 100
    tree.is_done()


def under_the_name_ninja_times_decide(tanto, place):
    program = place / "as/ninja"
    program.parent.mkdir()
    program.symlink_to(tanto)
    (place / "tree").mkdir()
    tree = Tree(tanto, place / "tree")
    tree.touch("text")
    assert tree.build(program=[program]) == ["made", "read", "used"], tree.printed
    off = tree.run(tanto, "build", "--content=off")
    assert "no work to do" in off.stdout, off.stdout
    tree.touch("text")
    assert tree.build("--content=off") == ["made", "read", "used"], tree.printed


if __name__ == "__main__":
    TESTS = [test for name, test in list(globals().items()) if hasattr(test, "__code__")
             and test.__code__.co_varnames[:2] == ("tanto", "place")]
    use_log_version_of_ninja()
    run_tests(__doc__, TESTS)
