"""Meson as a client, in a directory with a space and a quote in its path."""

from pathlib import Path

MESON = Path(__file__).resolve().parent.parent.parent / ".venv/bin/meson"
NO_WORK = "ninja: no work to do."


def meson(tree, purpose, command, *more, **expected):
    return tree.run(purpose, str(MESON), command, *more, **expected)


def write_project(tree):
    tree.write(
        "meson.build",
        """
        project('meson client', 'c')
        cp = find_program('cp')
        made = custom_target('made', input: 'value.txt', output: 'made.h', command: [cp, '@INPUT@', '@OUTPUT@'])
        part = static_library('part', 'part.c', made)
        shared = shared_library('shared', 'shared.c')
        app = executable('app', 'main.c', link_with: [part, shared])
        test('runs', app)
        """,
    )
    tree.write("value.txt", "#define VALUE 0\n")
    tree.write("part.h", "int part(void); int shared(void);\n")
    tree.write("part.c", '#include "part.h"\n#include "made.h"\nint part(void) { return VALUE; }\n')
    tree.write("shared.c", '#include "part.h"\nint shared(void) { return 0; }\n')
    tree.write("main.c", '#include "part.h"\nint main(void) { return part() + shared(); }\n')


def project(tree):
    """Meson: configure, build, touch, rebuild, clean, test."""
    write_project(tree)
    meson(tree, "configure", "setup", "build")
    meson(tree, "first build", "compile", "-C", "build")
    meson(tree, "nothing to do", "compile", "-C", "build", says=NO_WORK, rebuilt=[])
    tree.touch("part.h")
    link = ["static target libpart.a", "Linking target app"]
    shared = ["shared.c.o", "Linking target libshared.so", "libshared.so.symbols"]
    meson(tree, "a header touched", "compile", "-C", "build", rebuilt=["main.c.o", "part.c.o"] + shared + link)
    tree.touch("part.c")
    meson(tree, "a source touched", "compile", "-C", "build", rebuilt=["part.c.o"] + link)
    tree.touch("value.txt")
    made = ["Generating made", "part.c.o"]
    meson(tree, "a generated header made again", "compile", "-C", "build", rebuilt=made + link)
    tree.touch("shared.c")
    meson(tree, "a shared library keeps its symbols", "compile", "-C", "build", rebuilt=shared)
    tree.write("shared.c", '#include "part.h"\nint more;\nint shared(void) { return more; }\n')
    meson(tree, "a shared library gets a symbol", "compile", "-C", "build", rebuilt=shared + ["target app"])
    meson(tree, "one target", "compile", "-C", "build", "app", says=NO_WORK)
    tree.touch("part.c")
    meson(tree, "test builds first", "test", "-C", "build", says="Ok:")
    tree.touch("meson.build")
    meson(tree, "meson.build touched", "compile", "-C", "build", rebuilt=["Regenerating build files"])
    meson(tree, "nothing to do after regeneration", "compile", "-C", "build", says=NO_WORK)
    meson(tree, "clean", "compile", "-C", "build", "--clean")
    meson(tree, "after clean", "compile", "-C", "build")
    meson(tree, "test", "test", "-C", "build", says="Ok:")
    tree.run("ninja test", str(tree.ninja), "-C", "build", "test", says="Ok:")
