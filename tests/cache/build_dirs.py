#!/usr/bin/env python3
"""Build directories of one checkout that share a cache: what one has stored must be right for the others.

    tests/cache/build_dirs.py TANTO [NAME...]

Prints "ok NAME" or "not ok NAME"."""

import shutil
from pathlib import Path

from places import FILES, WIDE, git
from tree import CLANG, GCC, Tree, main, of_each

SOURCE = '#include "gen.h"\nint f(void) { return GEN; }\n'
DIRECTIVES = "#ifndef GEN\n#define GEN 1 /* a\n value */\n#endif\n"
OUTER, OWN = "-ffile-prefix-map={root}=ROOT", "-ffile-prefix-map={cwd}=DIR"


class Dirs:
    """A repository with build directories and one cache."""

    def __init__(self, tanto, place, files, kind=GCC, names=("build-a", "b"), repo="repo"):
        self.tanto, self.place, self.kind = tanto, place, kind
        self.repo = place / repo
        self.repo.mkdir(parents=True)
        for name, text in files.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(text)
        git(self.repo, "init")
        self.trees = [self.tree(self.repo, name) for name in names]

    def tree(self, root, name):
        tree = Tree(self.tanto, root, {}, self.kind, build=name, cache=self.place / "xdg")
        tree.generated = lambda file, text: tree.write(f"{name}/{file}", text)
        return tree

    def plan(self, flags, source="../a.c", edges="build a.o: cc SOURCE\n"):
        for tree in self.trees:
            fill = lambda text: text.replace("{cwd}", str(tree.build_dir))
            tree.plan(fill(flags), fill(edges.replace("SOURCE", source)))

    def generate(self, name, text):
        for tree in self.trees:
            tree.generated(name, text.replace("{cwd}", str(tree.build_dir)))

    def judge(self, shared=None, stored=True):
        """Builds in the first, and then in the others. `shared`: whether these are hits. `stored`: whether each result is kept."""
        first, *others = [tree.judge() for tree in self.trees]
        assert first.code == 0, first.printed
        for other in others:
            if shared is not None:
                expected = "hit" if shared else "new"
                assert set(other.uses.values()) == {expected}, f"{other.uses}, not {expected}: {other.reasons}"
        for tree in self.trees if stored else []:
            # A result that turned out to depend on the directory is stored when it is made again.
            assert tree.judge().hits() or tree.judge("hit")
        return [first, *others]


def in_new_places(cases, tanto, place, kind):
    """Judges each case with a cache and a repository of its own: files, flags, source, generated files, and whether it is shared."""
    problems = []
    for number, (files, flags, source, generated, shared) in enumerate(cases):
        dirs = Dirs(tanto, place / str(number), files, kind)
        for name, text in generated.items():
            dirs.generate(name, text)
        dirs.plan(flags, source)
        try:
            dirs.judge(shared)
        except AssertionError as error:
            problems.append(f"{flags} {source} {generated}: {error}")
    assert not problems, "\n".join(problems)


@of_each()
def flags_that_share_results(tanto, place, kind):
    dirs = Dirs(tanto, place, FILES, kind)
    dirs.generate("gen/gen.h", DIRECTIVES)
    for flags, source, shared in (
            ("-O2 -I../inc", "../a.c", True),
            ("-O2 -I{root}/inc", "{root}/a.c", True),
            ("-O2 -I{root}/inc -I{cwd}/gen -include gen.h", "{root}/a.c", True),
            (f"-O2 {OUTER} -I{{root}}/inc -I{{cwd}}/gen -include gen.h", "{root}/a.c", True),
            (f"-g {OWN} -I../inc -Igen -include gen.h", "../a.c", True),
            (f"-g3 -gz {OWN} -I{{root}}/inc -I{{cwd}}/gen -include gen.h", "{root}/a.c", True),
            (f"-g {OUTER} {OWN} -I{{root}}/inc -I{{cwd}}/gen -include gen.h", "{root}/a.c", True),
            (f"-g {OWN} {OUTER} -I{{root}}/inc -I{{cwd}}/gen -include gen.h", "{root}/a.c", False),
            ("-O2 -I{cwd}/../inc", "../a.c", False),
            ("-g -I../inc", "../a.c", False),
            (f"-g {OUTER} -I../inc", "../a.c", False),
            ("-g -ffile-prefix-map={cwd}/=X -I../inc", "../a.c", False),
            ("-g -fmacro-prefix-map={cwd}=X -I../inc", "../a.c", False),
            ("-DCWD={cwd} -I../inc", "../a.c", False),
            (f"-g {OWN} -ffile-prefix-map={{root}}/gone={{cwd}} -I../inc", "../a.c", False)):
        dirs.plan(flags, source)
        try:
            dirs.judge(shared)
        except AssertionError as error:
            raise AssertionError(f"{flags}: {error}") from error


@of_each()
def build_directories_of_two_worktrees(tanto, place, kind):
    dirs = Dirs(tanto, place, FILES, kind, names=("x", "yy"))
    (dirs.repo / ".gitignore").write_text("x\nyy\nz*\n")
    git(dirs.repo, "add", ".")
    git(dirs.repo, "commit", "-m", "x")
    git(dirs.repo, "worktree", "add", "--detach", place / "other/tree")
    dirs.trees += [dirs.tree(place / "other/tree", name) for name in ("x", "zzz")]
    dirs.generate("gen.h", DIRECTIVES)
    dirs.plan(f"-g {OUTER} {OWN} -I{{root}}/inc -I{{cwd}} -include gen.h", "{root}/a.c")
    dirs.judge(True)
    dirs.plan("-O2 -I../inc -I. -include gen.h")
    dirs.judge(True)
    # Code in the header: it is shared as the root allows.
    dirs.generate("gen.h", DIRECTIVES + "static const char *own(void) { return __FILE__; }\nconst char *get(void) { return own(); }\n")
    dirs.plan(f"-O2 {OUTER} -I{{root}}/inc -I{{cwd}} -include gen.h", "{root}/a.c")
    built = dirs.judge()
    assert [built.uses["a.o"] for built in built] == ["new", "new", "hit", "new"], [built.uses for built in built]


@of_each()
def generated_headers(tanto, place, kind):
    dirs = Dirs(tanto, place, {"a.c": SOURCE}, kind)
    dirs.generate("gen/gen.h", DIRECTIVES)
    dirs.plan("-O2 -I{cwd}/gen", "{root}/a.c")
    dirs.judge(True)
    one, two = dirs.trees
    two.trap(lambda: two.generated("gen/gen.h", "#define GEN 2\n"), "changed")
    one.judge("hit")
    one.trap(lambda: one.generated("gen/gen.h", "#define GEN 2\n"), "hit")
    two.trap(lambda: two.generated("gen.h", "#define GEN 3\n"), changes=False)
    one.trap(lambda: one.write("gen.h", "#define GEN 4\n"), "changed")
    # A header is found first in one of them only.
    two.trap(lambda: two.generated("gen/sub/x.h", "#define X\n"), changes=False)
    two.plan(f"-O2 -I{two.build_dir}/gen", "build a.o: cc ../a.c\n")
    two.judge()


# Ways in which the name of a generated header gets into an object.
OWN_NAMES = {
    "plain": "static const char *own(void) { return __FILE__; }\nconst char *get(void) { return own(); }\n",
    "wide": WIDE.replace("@", "own"),
    "folded": "int get(void) { return sizeof __FILE__ + __FILE__[sizeof __FILE__ - 8]; }\n",
    "assert": "#include <assert.h>\nint get(int a) { assert(a); return a; }\n",
    "builtin": "const char *get(void) { return __builtin_FILE(); }\nint size(void) { return __builtin_strlen(__builtin_FILE()); }\n",
    "pasted": "#define J_(a, b) a##b\n#define J(a, b) J_(a, b)\nint get(void) { return sizeof J(__FI, LE__); }\n",
    "after trigraphs": '#define A "??/" /* "\nint get(void) { return sizeof __FILE__; }\n#define B /* */\n',
    "spliced": "int get(void) { return sizeof __FI\\\nLE__; }\n",
    "in a comment": "/* \n */ int get(void) { return sizeof __FILE__; } /* */\n",
    "after a directive": "#define A /* \n */ 1\nint get(void) { return sizeof __FILE__; }\n#define B\n",
    "base": "const char *get(void) { return __BASE_FILE__; }\nint size(void) { return sizeof __BASE_FILE__; }\n",
    "ident": "#ident __FILE__\n",
    "pragma": '_Pragma("weak get") int get(void) { return sizeof __FILE__; }\n',
    "line": "#line 7 __FILE__\nint get(void) { return sizeof __FILE__; }\n",
    "message": "#warning look\n#pragma message __FILE__\n",
    "incbin": '__asm__(".section .rodata\\n.incbin \\"{cwd}/data\\"\\n.text");\n',
}


@of_each(GCC, CLANG)
def names_of_generated_headers(tanto, place, kind):
    cases = []
    for name, text in OWN_NAMES.items():
        if kind != GCC and name == "ident":
            text = "#define NO_IDENT\n"
        for flags, source in (("-O2 -I{cwd}/gen", "../a.c"), ("-O2 -Igen", "../a.c"), (f"-g {OWN} -I{{cwd}}/gen", "../a.c"),
                              (f"-O2 {OUTER} -I{{cwd}}/gen", "{root}/a.c")):
            cases.append(({"a.c": SOURCE}, "-w " + flags, source, {"gen/gen.h": DIRECTIVES + text, "data": "x"}, None))
    in_new_places(cases, tanto, place, kind)


@of_each(GCC, CLANG)
def generated_sources(tanto, place, kind):
    text = WIDE.replace("@", "s") + "const char *base = __BASE_FILE__;\nint size(void) { return sizeof __FILE__; }\n"
    files, generated = {"a.c": ""}, {"gen/s.c": text}
    cases = [(files, flags, source, generated, shared) for flags, source, shared in (
        ("-O2", "gen/s.c", True), ("-O2", "./gen/../gen/s.c", True), ("-O2", "{cwd}/gen/s.c", False),
        (f"-O2 {OWN}", "{cwd}/gen/s.c", True), (f"-g {OWN}", "gen/s.c", True), (f"-O2 {OUTER}", "{cwd}/gen/s.c", False),
        ("-O2 -I{cwd}", "gen/s.c", None), ("-O2 -I{cwd}/gen -include s.c", "../a.c", False))]
    more = "#ifndef AGAIN\n#define AGAIN\n#define wide_s wide_t\n#define get_s get_t\n#define base base_t\n#define size size_t\n"
    # This one has two names in one compile.
    cases.append((files, "-O2 -I{cwd}", "gen/s.c", {"gen/s.c": text + more + "#include <gen/s.c>\n#endif\n"}, None))
    in_new_places(cases, tanto, place, kind)


@of_each(GCC, CLANG)
def directories_of_other_depth(tanto, place, kind):
    """`..` means another directory there."""
    files = FILES | {"out/a.c": "int other;\n", "out/inc/h.h": "int unused;\n"}
    dirs = Dirs(tanto, place, files, kind, names=("build", "out/debug", "out/release"))
    dirs.generate("gen.h", "#warning look\n")
    dirs.plan("-O2 -I{root}/inc -I{cwd} -include gen.h", "{root}/a.c")
    dirs.judge(True)
    for flags in ("-O2 -I../inc", "-O2 -isystem ../inc", f"-g {OWN} -I../inc", "-O2 -I{root}/out/../inc -I../inc"):
        dirs.plan(flags)
        built = dirs.judge()
        assert built[1].uses["a.o"] == "new"
    dirs.generate("up.h", '#include "../a.c"\n')
    dirs.plan("-O2 -I../inc -I{root}/inc", "up.h", edges="build a.o: cc SOURCE\n  cc = CC -x c\n".replace("CC", kind[0]))
    dirs.judge()
    dirs.plan("-O2 -include up.h -I{root}/inc", "{root}/inc/e.c")
    (dirs.repo / "inc/e.c").write_text("")
    dirs.judge()


@of_each(GCC, CLANG)
def names_of_directories(tanto, place, kind):
    for names in (("b+1", "c,2@x"), ("x.y", "x.y.z"), ("b~1", "b 2"), ("b", "b=c"), ("b%", "#b"), ("build", "build2"), ("b", "b/x"),
                  ("src/src/src", "src"), ("é", "e")):
        number = len(list(place.iterdir()))
        dirs = Dirs(tanto, place / str(number), {"a.c": SOURCE + "#warning look\n"}, kind, names=names)
        dirs.generate("gen.h", DIRECTIVES)
        for tree in dirs.trees:
            tree.plan("-O2 -I.", "build a.o: cc {root}/a.c\nbuild b.o: kept {root}/a.c\n")
        try:
            dirs.judge(True if names[0] in ("b+1", "x.y") else None)
        except AssertionError as error:
            raise AssertionError(f"in {names}: {error}") from error


@of_each(GCC, CLANG)
def a_header_of_the_other_directory(tanto, place, kind):
    text = "#define GEN 1\n#warning look\nstatic const char *own(void) { return __FILE__; }\nconst char *get(void) { return own(); }\n"
    for names in (("build", "build-b"), ("build", "build/x"), ("build2", "build")):
        for header in (text, DIRECTIVES):
            number = len(list(place.iterdir()))
            dirs = Dirs(tanto, place / str(number), {"a.c": SOURCE}, kind, names=names)
            dirs.generate("gen/gen.h", header)
            for of in dirs.trees:
                for flags in ("-O2", f"-O2 {OWN}", f"-g {OUTER} {OWN}") if header == text else ("-O2",):
                    dirs.plan(f"{flags} -I{of.build_dir}/gen", "{root}/a.c")
                    dirs.judge()
                    dirs.plan(f"{flags} -I../{names[0]}/gen", "{root}/a.c")
                    if "/" not in names[1]:
                        # The way to it has the working directory under another name, which changes during the compile.
                        dirs.judge(stored=False)
            one = dirs.trees[0]
            dirs.plan(f"-O2 -I{one.build_dir}/gen", "{root}/a.c")
            dirs.trees[1].trap(lambda: one.generated("gen/gen.h", header + "#define MORE\nint more;\n"))


@of_each(GCC, CLANG)
def an_include_by_an_absolute_name(tanto, place, kind):
    """A source names a header of one of the directories."""
    text = "static const char *own(void) { return __FILE__; }\nconst char *get(void) { return own(); }\n#define GEN 1\n"
    for flags in ("-O2", f"-O2 {OWN}", f"-g {OUTER} {OWN}"):
        for first in (0, 1):
            number = len(list(place.iterdir()))
            dirs = Dirs(tanto, place / str(number), {"a.c": ""}, kind, names=("build-a", "build-b"))
            dirs.generate("gen.h", text)
            (dirs.repo / "a.c").write_text(f'#include "{dirs.repo}/build-a/gen.h"\nint f(void) {{ return GEN; }}\n')
            dirs.plan(flags)
            if first:
                dirs.trees.reverse()
            dirs.judge()


@of_each(GCC, CLANG)
def a_source_with_the_path_of_the_checkout(tanto, place, kind):
    """It is shared by the build directories of that checkout."""
    dirs = Dirs(tanto, place, {"a.c": SOURCE}, kind, names=("build-a", "build-b", "build-c"))
    dirs.generate("gen.h", DIRECTIVES + f'#define TOP "{dirs.repo}"\n')
    for flags, source in (("-O2 -I.", "../a.c"), ("-O2 -I{cwd}", "{root}/a.c"), (f"-g {OUTER} {OWN} -I{{cwd}}", "../a.c")):
        dirs.plan(flags, source)
        dirs.judge(True)


@of_each(GCC, CLANG)
def a_line_directive_about_one_directory(tanto, place, kind):
    """The prefix map of the directory changes that name, that of the other one does not."""
    for directive in ("#line 1", "# 1", "#  line\t7", "%:line 1", "/* */ #line 1", "#define F {file}\n#line 1 F\n", "#\\\nline 1"):
        number = len(list(place.iterdir()))
        dirs = Dirs(tanto, place / str(number), {}, kind, names=("build-a", "build-b"))
        name = f'"{dirs.repo}/build-b/x.y"'
        line = directive.replace("{file}", name) if "{file}" in directive else f"{directive} {name}"
        (dirs.repo / "a.c").write_text(f"{line}\nint f(int a) {{ return a; }}\nconst char *n = __builtin_FILE();\n")
        dirs.plan(f"-g {OWN}")
        dirs.judge()


@of_each(GCC, CLANG)
def a_path_of_the_directory_in_a_source(tanto, place, kind):
    cases = [({"a.c": SOURCE}, flags, "../a.c", {"gen.h": text}, None)
             for flags in ("-O2 -I{cwd}", "-O2 -I.", f"-g {OUTER} {OWN} -I.")
             for text in ('#define GEN 1\n#define CWD "{cwd}"\n', '#define GEN 1\n#warning {cwd}/x\n', '#define GEN sizeof "{cwd}"\n')]
    in_new_places(cases, tanto, place, kind)


@of_each(GCC, CLANG)
def variables_that_name_the_directory(tanto, place, kind):
    dirs = Dirs(tanto, place, {"a.c": SOURCE}, kind)
    dirs.generate("gen/gen.h", DIRECTIVES + OWN_NAMES["plain"] + OWN_NAMES["wide"])
    dirs.plan("-O2")
    for name in ("CPATH", "C_INCLUDE_PATH"):
        for value in ("{cwd}/gen", "gen", "../x:gen", "{cwd}/../{name}/gen"):
            for tree in dirs.trees:
                tree.environment[name] = value.format(cwd=tree.build_dir, name=tree.build_dir.name)
            dirs.judge(stored=".." not in value)
        for tree in dirs.trees:
            del tree.environment[name]
    dirs.plan(f"-g {OWN} -Igen")
    dirs.judge(True)
    (place / "link").symlink_to(dirs.repo)
    for tree in dirs.trees:
        tree.environment["PWD"] = f"{place}/link/{tree.build_dir.name}"
    dirs.judge()
    for tree in dirs.trees:
        del tree.environment["PWD"]
        tree.environment["TMPDIR"] = str(tree.build_dir / "tmp")
        (tree.build_dir / "tmp").mkdir()
    dirs.judge()


def links_to_system_headers(tanto, place):
    """Gcc takes the real path of a system header if that is shorter than its name."""
    for names in (("b", "a/directory/with/a/very/long/name"), ("a/directory/with/a/very/long/name", "b")):
        number = len(list(place.iterdir()))
        dirs = Dirs(tanto, place / str(number), {"a.c": SOURCE}, names=names)
        dirs.generate("gen/gen.h", DIRECTIVES + OWN_NAMES["wide"])
        link = dirs.repo / "system/a/rather/long/name/of/a/link"
        link.parent.mkdir(parents=True)
        dirs.plan(f"-O2 -isystem {link}", "{root}/a.c")
        for tree in dirs.trees * 2:
            link.unlink(missing_ok=True)
            link.symlink_to(tree.build_dir / "gen")
            tree.judge()


@of_each(GCC, CLANG)
def two_names_of_one_file(tanto, place, kind):
    """Clang opens a file with two names once."""
    header = OWN_NAMES["plain"].replace("own", "OWN").replace("get", "GET") + "#undef OWN\n#undef GET\n"
    source = ('#define OWN own1\n#define GET get1\n#include "{root}/inc/two.h"\n'
              '#define OWN own2\n#define GET get2\n#include <gen/two.h>\nint f;\n')
    for link in (Path.symlink_to, Path.hardlink_to):
        number = len(list(place.iterdir()))
        dirs = Dirs(tanto, place / str(number), {"inc/two.h": header}, kind)
        (dirs.repo / "a.c").write_text(source.replace('"{root}/inc/two.h"', "<two.h>"))
        for tree in dirs.trees:
            (tree.build_dir / "gen").mkdir()
            link(tree.build_dir / "gen/two.h", dirs.repo / "inc/two.h")
        dirs.plan("-O2 -I{root}/inc -I{cwd}", "{root}/a.c")
        dirs.judge()


@of_each(GCC, CLANG)
def depfiles_and_messages_name_the_right_directory(tanto, place, kind):
    dirs = Dirs(tanto, place, {"a.c": SOURCE + "#warning see\nint g(void) { int unused; return 1; }\n"}, kind, names=("build-a", "out/b"))
    dirs.generate("gen/gen.h", DIRECTIVES + "#warning look\n")
    edges = "build a.o: cc SOURCE\nbuild b.o: kept SOURCE\nbuild {cwd}/sub/c.o: cc SOURCE\n"
    for flags in ("-O2 -Wall", "-O2 -Wall -fdiagnostics-color=always", f"-g -Wall {OUTER} {OWN}", "-O2 -fmessage-length=60"):
        dirs.plan(f"{flags} -I{{cwd}}/gen", "{root}/a.c", edges)
        built = dirs.judge()
        for tree, other, it in zip(dirs.trees, reversed(dirs.trees), built, strict=True):
            text = it.deps + it.ends["a.o"][1] + it.files["b.o.d"][1].decode()
            assert f"{tree.build_dir}/gen/gen.h" in text and str(other.build_dir) not in text, text


@of_each(GCC, CLANG)
def options_that_record_names(tanto, place, kind):
    more = ["-fsanitize=undefined", "-fsanitize=address", "-frecord-gcc-switches", "-g -grecord-gcc-switches", "-fopenmp"]
    more += ["-g -gdwarf-4 -gz " + OWN, "-g -fdebug-types-section " + OWN, "-g3 " + OWN, "-g -gdwarf-4 -gno-as-loc-support " + OWN]
    if kind == CLANG:
        more = [flag for flag in more if "as-loc" not in flag] + ["-flto", "-g -fdebug-compilation-dir=.", "-g -ffile-compilation-dir=X"]
    cases = [({"a.c": SOURCE + WIDE.replace("@", "a")}, f"-O1 {flag} {include}", source, {"gen/gen.h": DIRECTIVES}, None)
             for flag in more for include, source in (("-Igen", "../a.c"), ("-I{cwd}/gen", "{root}/a.c"))]
    in_new_places(cases, tanto, place, kind)


@of_each(GCC, CLANG)
def a_build_in_the_source_directory(tanto, place, kind):
    dirs = Dirs(tanto, place, FILES | {"gen.h": DIRECTIVES}, kind, names=(".", "build"))
    dirs.generate("gen.h", DIRECTIVES)
    for flags, source in (("-O2 -I{root}/inc -I{cwd} -include gen.h", "{root}/a.c"), (f"-g {OWN} -I{{root}}/inc", "{root}/a.c"),
                          ("-O2 -I{root}/inc -I. -include gen.h", "{root}/a.c")):
        dirs.plan(flags, source)
        dirs.judge()


@of_each(GCC, CLANG)
def a_renamed_directory(tanto, place, kind):
    """Another directory gets the name of the first."""
    dirs = Dirs(tanto, place, {"a.c": SOURCE}, kind)
    dirs.generate("gen.h", DIRECTIVES)
    dirs.plan("-O2 -I{cwd}", "{root}/a.c")
    dirs.judge(True)
    one, two = dirs.trees
    shutil.move(one.build_dir, dirs.repo / "moved")
    shutil.move(two.build_dir, one.build_dir)
    one.generated("gen.h", "#define GEN 5\n")
    moved = dirs.tree(dirs.repo, "moved")
    dirs.trees = [one, moved]
    dirs.plan("-O2 -I{cwd}", "{root}/a.c")
    one.judge("changed")
    moved.judge("hit")


@of_each(GCC, CLANG)
def assembler_sources(tanto, place, kind):
    text = '#include "gen.h"\n.globl x\nx: .long GEN\n.ascii NAME\n'
    cases = [({"a.S": text}, flags, "../a.S", {"gen.h": f"#define GEN 1\n{more}#define NAME __FILE__\n", "data": "d"}, None)
             for flags in ("-I{cwd}", "-I.", f"-g {OWN} -I{{cwd}}", f"-g {OUTER} {OWN} -I.")
             for more in ("", ".ascii __FILE__\n", '.incbin "data"\n')]
    in_new_places(cases, tanto, place, kind)


if __name__ == "__main__":
    main(__doc__, globals())
