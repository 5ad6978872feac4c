#!/usr/bin/env python3
"""Checkouts that share a cache: what one has stored must be right for the other.

    tests/cache/places.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import os
import shutil
import subprocess
from pathlib import Path

from tree import CLANG, CLANG_FORK, GCC, Tree, main, of_each

FILES = {
    "a.c": '#include <assert.h>\n#include "h.h"\nconst char *b = __BASE_FILE__;\nint f(int a) { assert(a); return h(a); }\n',
    "inc/h.h": "#ifndef H\n#define H\nstatic inline int h(int a) { assert(a > 1); return a + __FILE__[0]; }\n#endif\n",
}
WIDE = '#define J_(a, b) a##b\n#define J(a, b) J_(a, b)\nstatic const int *const wide_@ = (const int *)J(L, __FILE__);\n'
WIDE += "const int *get_@(void) { return wide_@; }\n"

EDGES = "build a.o: cc ../a.c\n"


def git(place, *words):
    more = ["-c", "user.name=x", "-c", "user.email=x", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *more, *words], cwd=place, check=True, capture_output=True)


class Pair:
    """A repository and a worktree of it, with one cache. The names have different lengths."""

    def __init__(self, tanto, place, files, kind=GCC, flags="-I../inc", edges=EDGES, names=("one", "the/second")):
        make = lambda name: Tree(tanto, place / name, {}, kind, cache=place / "xdg")
        self.one = make(names[0])
        for name, text in files.items():
            self.one.write(name, text)
        git(self.one.place, "init")
        self.one.write(".gitignore", "build\n")
        git(self.one.place, "add", ".")
        git(self.one.place, "commit", "-m", "x")
        git(self.one.place, "worktree", "add", "--detach", place / names[1])
        self.two = make(names[1])
        self.trees = [self.one, self.two]
        self.plan(flags, edges)

    def plan(self, flags, edges=EDGES):
        for tree in self.trees:
            tree.plan(flags, edges)

    def judge(self, shared=None):
        """Builds in the first, and then in the second. `shared`: whether that is a hit."""
        first = self.one.judge()
        assert first.code == 0, first.printed
        second = self.two.judge()
        if shared is not None:
            expected = "hit" if shared else "new"
            assert set(second.uses.values()) == {expected}, f"{second.uses}, not {expected}: {second.reasons}"
        for tree in self.trees:
            # A result that turned out to depend on the place is stored when it is made again.
            assert tree.judge().hits() or tree.judge("hit")
        return first, second


MAP = "-ffile-prefix-map={root}=NEW"


@of_each()
def prefix_maps_share_results(tanto, place, kind):
    pair = Pair(tanto, place, FILES, kind, edges="build a.o: cc {root}/a.c\n")
    for flags in ("-g", "-O2 -g", "-gdwarf-4 -gz", "-g -fdebug-types-section", "-g3", "-O2"):
        pair.plan(f"{flags} {MAP} -I{{root}}/inc", "build a.o: cc {root}/a.c\n")
        pair.judge(True)
    pair.plan("-g -fdebug-prefix-map={root}=. -fmacro-prefix-map={root}=. -I../inc")
    pair.judge(True)


@of_each()
def relative_paths_share_results(tanto, place, kind):
    pair = Pair(tanto, place, FILES, kind, flags="-O2 -I../inc")
    pair.judge(True)
    pair.one.trap(lambda: pair.one.write("inc/h.h", FILES["inc/h.h"] + "int more;\n"), "changed")
    pair.two.judge("hit")
    pair.two.trap(lambda: pair.two.write("inc/h.h", FILES["inc/h.h"] + "int more;\n"), "hit")
    pair.two.trap(lambda: pair.two.write("inc/h.h", FILES["inc/h.h"] + "int less;\n"), "changed")
    pair.one.judge("hit")


@of_each(GCC, CLANG)
def results_that_depend_on_the_place_are_not_shared(tanto, place, kind):
    pair = Pair(tanto, place, FILES, kind)
    cases = [("-g -I../inc", "../a.c"), ("-I{root}/inc", "../a.c"), ("-I../inc", "{root}/a.c"), ("-g -gz -I../inc", "../a.c"),
             ("-g -fmacro-prefix-map={root}=. -I../inc", "../a.c"), ("-fdebug-prefix-map={root}=. -I{root}/inc", "../a.c"),
             ("-DROOT={root} -I../inc", "../a.c"), ("-g -ffile-prefix-map={root}={root}/x -I../inc", "../a.c"),
             ("-g -ffile-prefix-map={root}/build=x -I../inc", "{root}/a.c"), ("-I../inc -include {root}/inc/h.h", "../a.c")]
    for flags, source in cases:
        pair.plan("-include assert.h " + flags, f"build a.o: cc {source}\n")
        pair.judge(False)


@of_each()
def hidden_paths_of_files(tanto, place, kind):
    """A wide __FILE__ is not found by a search for the path."""
    files = {"a.c": WIDE.replace("@", "source") + '#include "h.h"\n', "inc/h.h": WIDE.replace("@", "header")}
    pair = Pair(tanto, place, files, kind)
    for flags, source in (("-I../inc", "../a.c"), ("-I{root}/inc", "../a.c"), ("-I../inc", "{root}/a.c"),
                          (MAP + " -I{root}/inc", "{root}/a.c"), ("-fmacro-prefix-map={root}=x -I{root}/inc", "../a.c")):
        pair.plan("-O2 " + flags, f"build a.o: cc {source}\n")
        pair.judge()


@of_each()
def directories_from_variables(tanto, place, kind):
    """CPATH puts absolute paths into the object, although all words are relative."""
    for text in ("const char *name(void) { return __FILE__; }\n", WIDE.replace("@", "header")):
        number = len(list(place.iterdir()))
        pair = Pair(tanto, place / str(number), {"a.c": '#include "h.h"\n', "inc/h.h": text}, kind, flags="-O2")
        for name in ("CPATH", "C_INCLUDE_PATH"):
            for tree in pair.trees:
                tree.environment.pop("CPATH", None)
                tree.environment[name] = str(tree.place / "inc")
            pair.judge()


@of_each(GCC)
def system_headers_with_long_names(tanto, place, kind):
    """Gcc takes the real path of a system header if that is shorter."""
    for names in (("o", "a_name/that/is/very/long/and/longer/still"), ("a_name/that/is/very/long/and/longer/still", "o")):
        number = len(list(place.iterdir()))
        files = {"a.c": "#include <h.h>\n", "inc/h.h": WIDE.replace("@", "header")}
        pair = Pair(tanto, place / str(number), files, kind, names=names)
        length = len(str(pair.one.place) + str(pair.two.place)) // 4
        for tree in pair.trees:
            tree.environment["C_INCLUDE_PATH"] = "../inc/" + "../inc/" * (length // 7)
        pair.plan("-O2")
        pair.judge()
        for tree in pair.trees:
            del tree.environment["C_INCLUDE_PATH"]
        pair.plan("-O2 -isystem ../inc/" + "../inc/" * (length // 7))
        pair.judge()


def pair_with_header(place, tanto, kind, text):
    """Both checkouts have this header; {one} is the path of the first."""
    pair = Pair(tanto, place, {"a.c": '#include "config.h"\nint f(void) { return H; }\n', "inc/h.h": "#define H 1\n"}, kind)
    for tree in pair.trees:
        tree.write("inc/config.h", text.replace("{one}", str(pair.one.place)))
    return pair


@of_each()
def an_include_of_the_first_checkout(tanto, place, kind):
    pair = pair_with_header(place, tanto, kind, '#include "{one}/inc/h.h"\n')
    pair.one.fill()
    pair.one.write("inc/h.h", "#define H 2\n")
    # The header of the first has changed.
    pair.two.judge()
    pair.one.judge()
    pair.two.judge()


@of_each(GCC, CLANG)
def an_include_of_the_first_checkout_by_macros(tanto, place, kind):
    """No file contains the path as a text."""
    text = "#define A {parent}\n#define B {name}\n#define S_(a) #a\n#define S(a) S_(a)\n".replace("{parent}", str(place))
    cases = [("#include S(A/B/inc/h.h)\n", ""), ("#define P S(A/B/inc/h.h)\n#include P\n", ""), ("#include P\n", "-DP=S(A/B/inc/h.h)"),
             ("#def\\\nine/**/P/**/S(A/B/inc/h.h)\n#include P /* a header */\n", ""),
             ("#define P Q\n#define Q S(A/B/inc/h.h)\n#include P\n", ""), ("#define P <A/B/inc/h.h>\n#include P\n", ""),
             ("#define /* /* */ P S(A/B/inc/h.h)\n#include P\n", ""), ("#include\x0bS(A/B/inc/h.h)\n", ""),
             ("#define\x0bP S(A/B/inc/h.h)\n#include P\n", ""), ("#define $P S(A/B/inc/h.h)\n#include $P\n", ""),
             ("#if __has_include(S(A/B/inc/h.h))\n#include <limits.h>\n#endif\n#include S(A/B/inc/h.h)\n", ""),
             ("/*\n// */ #include S(A/B/inc/h.h)\n", ""), ("/* *\\\n/#include S(A/B/inc/h.h)\n", ""),
             ("/**//**/#include S(A/B/inc/h.h)\n", "")]
    for number, (more, flags) in enumerate(cases):
        pair = pair_with_header(place / str(number), tanto, kind, "")
        for tree in pair.trees:
            tree.write("inc/config.h", text.replace("{name}", f"{number}/one") + more)
        pair.plan(f"-I../inc '{flags}'" if flags else "-I../inc")
        pair.one.judge()
        pair.one.write("inc/h.h", "#define H 2\n")
        pair.two.judge()


@of_each()
def includes_by_macros_share_results(tanto, place, kind):
    """limits.h has a comment that begins like a directive."""
    config = '#include <limits.h>\n#if defined(USER_H)\n#include USER_H\n#endif\n#define H_H "h.h"\n#include H_H\n'
    files = {"a.c": '#include "config.h"\nint f(void) { return H + INT_MAX; }\n', "inc/config.h": config, "inc/h.h": "#define H 1\n"}
    pair = Pair(tanto, place, files, kind)
    pair.plan(f"-g {MAP} -I{{root}}/inc", "build a.o: cc {root}/a.c\n")
    pair.judge(True)
    pair.two.trap(lambda: pair.two.write("inc/h.h", "#define H 2\n"), "changed")


@of_each()
def headers_that_mention_includes_share_results(tanto, place, kind):
    """As LLVM's and GoogleTest's do."""
    header = """#ifndef __has_include
#  define __has_include(x) 0
#endif
#if __has_include(<limits.h>)
#include <limits.h>
#endif
// The following header is
// #included by this one.
//#include OTHER(name)
struct place { int IncludeLoc; };
static inline int line(struct place it) { return it.IncludeLoc; }
"""
    files = {"a.c": '#include "h.h"\nint f(struct place it) { return line(it) + INT_MAX; }\n', "inc/h.h": header}
    pair = Pair(tanto, place, files, kind)
    pair.plan(f"-g {MAP} -I{{root}}/inc", "build a.o: cc {root}/a.c\n")
    pair.judge(True)


@of_each(GCC, CLANG)
def deps_in_the_first_checkout(tanto, place, kind):
    pair_with_header(place, tanto, kind, '#include "{one}/inc/h.h"\n').judge()


@of_each(GCC, CLANG)
def an_include_of_the_second_checkout(tanto, place, kind):
    """The prefix map of the first does not change its name, that of the second does."""
    text = '#include "{root}/inc/h.h"\nconst char *name(void) { return file(); }\n'
    files = {"a.c": '#include "config.h"\n', "inc/h.h": "static const char *file(void) { return __FILE__; }\n"}
    for flags in (f"-g {MAP} -I../inc", f"-O2 {MAP} -I../inc", "-O2 -I../inc"):
        number = len(list(place.iterdir()))
        pair = Pair(tanto, place / str(number), files, kind)
        for tree in pair.trees:
            tree.write("inc/config.h", text.replace("{root}", str(pair.two.place)))
        pair.plan(flags)
        pair.judge()


@of_each(GCC, CLANG)
def a_line_directive_about_the_second_checkout(tanto, place, kind):
    """The same with the name that a source gives itself."""
    for flags in (f"-g {MAP}", f"-O2 {MAP}"):
        number = len(list(place.iterdir()))
        pair = Pair(tanto, place / str(number), {"a.c": ""}, kind, flags=flags)
        for tree in pair.trees:
            tree.write("a.c", f'#line 1 "{pair.two.place}/x.y"\nconst char *n = __FILE__;\nint f(void) {{ return 1; }}\n')
        pair.judge()


@of_each(GCC, CLANG)
def a_path_that_ends_like_the_root(tanto, place, kind):
    """/usr/src/h.h is not in /src."""
    pair = Pair(tanto, place, {"a.c": '#include <h.h>\n'}, kind, flags=f"-O2 -g {MAP}")
    inner = place / "deep" / str(pair.one.place).lstrip("/") / "inc"
    inner.mkdir(parents=True)
    (inner / "h.h").write_text("#warning look\nint h;\n")
    for tree in pair.trees:
        tree.environment["CPATH"] = str(inner)
    pair.judge()
    for tree in pair.trees:
        tree.environment["CPATH"] = ""
    pair.plan(f"-O2 -g {MAP} -I{inner}")
    pair.judge()


@of_each(GCC, CLANG)
def a_message_about_the_first_checkout(tanto, place, kind):
    pair = pair_with_header(place, tanto, kind, "#define H 1\n#warning see {one}/inc/h.h\n")
    first, second = pair.judge()
    assert str(pair.one.place) in second.ends["a.o"][1]


@of_each(GCC, CLANG)
def a_text_with_the_path_of_the_first_checkout(tanto, place, kind):
    pair_with_header(place / "narrow", tanto, kind, '#define H 1\nconst char *root = "{one}";\n').judge()
    pair_with_header(place / "wide", tanto, kind, '#define H 1\nconst int *root = (const int *)L"{one}";\n').judge()


@of_each(GCC, CLANG)
def a_neighbour_whose_name_begins_alike(tanto, place, kind):
    """Prefix maps change /tree2, too, if they are for /tree."""
    text = "const char *name(void) { return __FILE__; }\n"
    for tail in ("2", "-more", ".x", "_x", "%x", "@x", ",x", "=x"):
        number = len(list(place.iterdir()))
        pair = Pair(tanto, place / str(number), {"a.c": '#include "n.h"\n', "x": ""}, kind, flags=f"-O2 -g {MAP}")
        neighbour = place / str(number) / ("one" + tail)
        neighbour.mkdir()
        (neighbour / "n.h").write_text(text)
        for tree in pair.trees:
            tree.environment["CPATH"] = str(neighbour)
        pair.judge()
        pair.trees.reverse()
        pair.one, pair.two = pair.two, pair.one
        shutil.rmtree(pair.one.cache())
        pair.judge()


def a_system_header_with_the_root_in_its_path(tanto, place):
    """The depfile names /usr/lib/gcc/..., which is not in the checkout /gcc."""
    root = Path("/gcc")
    if os.getuid() != 0 or root.exists():
        print("# skipped: needs root, and no /gcc")
        return
    try:
        pair = Pair(tanto, place, {"a.c": "#include <stddef.h>\nsize_t s;\n"}, flags="-O2", names=(root, "second"))
        built = pair.judge()
        assert all("/usr/lib/gcc" in each.deps for each in built), built[0].deps
    finally:
        shutil.rmtree(root)


@of_each()
def depfiles_and_messages_name_the_right_checkout(tanto, place, kind):
    files = {"a.c": '#include "h.h"\nint f(void) { int unused; return 1; }\n', "inc/h.h": "#warning look\n#define A __FILE__\n"}
    pair = Pair(tanto, place, files, kind)
    edges = "build a.o: cc {root}/a.c\nbuild b.o: kept {root}/a.c\nbuild {root}/build/sub/c.o: cc {root}/a.c\n"
    pair.plan(f"-g -Wall {MAP} -I{{root}}/inc", edges)
    first, second = pair.judge(True)
    for tree, built in zip(pair.trees, (first, second), strict=True):
        other = pair.two if tree is pair.one else pair.one
        text = built.deps + built.ends["a.o"][1] + built.files["b.o.d"][1].decode()
        assert f"{tree.place}/inc/h.h" in text and str(other.place) not in text, text
    pair.plan(f"-g -Wall -fdiagnostics-color=always {MAP} -I{{root}}/inc", edges)
    pair.judge(True)


@of_each(GCC, CLANG)
def names_that_depfiles_quote(tanto, place, kind):
    files = {"a.c": '#include <h.h>\nint f(void) { return H; }\n', "inc/h.h": "#define H 1\n#warning look\n"}
    for character in "# $%:@=,~+&é'":
        number = len(list(place.iterdir()))
        names = (f"o{character}ne", f"a{character}second")
        pair = Pair(tanto, place / str(number), files, kind, names=names, flags="-O2")
        for tree in pair.trees:
            if character != ":":
                tree.environment["CPATH"] = str(tree.place / "inc")
            else:
                tree.plan("-O2 -I../inc")
        try:
            pair.judge()
        except AssertionError as error:
            raise AssertionError(f"with {character} in the path: {error}") from error


@of_each(GCC, CLANG)
def checkouts_in_each_other(tanto, place, kind):
    """A worktree in the repository; and a submodule, which belongs to the repository around it."""
    pair = Pair(tanto, place, FILES, kind, names=("one", "one/trees/two"), flags="-O2 -I../inc")
    pair.judge(True)
    pair.plan(f"-g {MAP} -I{{root}}/inc", "build a.o: cc {root}/a.c\n")
    pair.judge(True)
    # The inner one uses headers of the outer one.
    pair.two.plan(f"-g {MAP} -I{pair.one.place}/inc", "build a.o: cc {root}/a.c\n")
    pair.two.trap(lambda: pair.one.write("inc/h.h", FILES["inc/h.h"] + "int more;\n"), "changed")


@of_each(GCC, CLANG)
def links_between_checkouts(tanto, place, kind):
    """A header of the second is a link into the first; the trees are named through links."""
    pair = Pair(tanto, place, FILES | {"inc/x.h": "#define X 1\n"}, kind, flags="-g -I../inc " + MAP)
    pair.judge(True)
    pair.two.link("inc/h.h", pair.one.place / "inc/h.h")
    pair.two.judge()
    pair.two.trap(lambda: pair.one.write("inc/h.h", FILES["inc/h.h"] + "int more;\n"))
    pair.two.link("../link", pair.two.place)
    pair.two.environment["PWD"] = str(pair.two.place / "../link/build")
    pair.two.judge()
    (place / "link").symlink_to(pair.two.place)
    pair.two.environment["PWD"] = str(place / "link/build")
    pair.two.judge()
    pair.two.plan(f"-g -I{place}/link/inc {MAP}", f"build a.o: cc {place}/link/a.c\n")
    pair.two.judge()
    # The other checkout is now what the name means, and its headers differ.
    (place / "link").unlink()
    (place / "link").symlink_to(pair.one.place)
    pair.two.judge()


@of_each(GCC, CLANG)
def moving_a_checkout(tanto, place, kind):
    pair = Pair(tanto, place, FILES, kind, flags="-g -I../inc")
    pair.judge(False)
    moved = Tree(tanto, place / "moved", {}, kind, cache=place / "xdg")
    shutil.rmtree(place / "moved")
    pair.one.place.rename(place / "moved")
    moved.plan("-g -I../inc")
    moved.judge("new")
    # Another one has its place.
    shutil.copytree(place / "moved", pair.one.place)
    pair.one.write("inc/h.h", FILES["inc/h.h"] + "int more;\n")
    pair.one.judge("changed")


@of_each(GCC, CLANG)
def other_directories_of_the_same_checkout(tanto, place, kind):
    files = FILES | {"sub/a.c": FILES["a.c"]}
    pair = Pair(tanto, place, files, kind, flags="-g -I../inc " + MAP)
    other = Tree(tanto, pair.one.place, {}, kind, build="other", cache=place / "xdg")
    pair.judge(True)
    other.plan("-g -I../inc " + MAP)
    other.judge("new")
    deep = Tree(tanto, pair.one.place, {}, kind, build="sub/build", cache=place / "xdg")
    deep.plan("-g -I../../inc " + MAP)
    deep.judge("new")
    # In the root itself.
    os.symlink("inc", pair.one.place / "include")
    for tree in pair.trees:
        top = Tree(tanto, tree.place, {}, kind, build=".", cache=place / "xdg")
        for flags in ("-g -Iinc " + MAP, "-g -Iinc -ffile-prefix-map={root}=", "-g -Iinc -ffile-prefix-map={root}/="):
            top.plan(flags, "build a.o: cc a.c\n")
            top.judge()


if __name__ == "__main__":
    main(__doc__, globals())
