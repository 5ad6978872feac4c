#!/usr/bin/env python3
"""Dropped warnings before the pause of a compile on which later output depends.

    tests/clang/dropped.py WORKER

Clang drops thousands of warnings, mostly in system headers; a checkpoint is made all the same. In each case, something
was dropped or only remembered before the end of the includes, and the rest of the file, which is edited then, makes its
effect visible. The output from the checkpoint has to equal clang's, and to contain the expected text: otherwise the
case would test nothing. Prints "ok NAME" or "not ok NAME"."""

import shlex
import sys
import tempfile

import kept

ASSIGNS = "static inline int assigns(int a) { if (a = 1) return 2; return 3; }\n"
SYSTEM = "#pragma GCC system_header\n"
SILENT = "-Wno-everything"

# Name, language, flags, header, text before its include, the edited rest, and the expected output; "": no output.
CASES = [
    (
        "a warning that a deduction was made without, at its first use",
        "c++",
        "",
        """template <class T> struct S { [[deprecated("old")]] static int f(T); };
template <class T> auto g(T x) -> decltype(S<T>::f(x));
int g(int);
inline int first() { return g(1); }
""",
        "",
        "int second() { return g<int>(1); }\n",
        "'f' is deprecated: old",
    ),
    (
        "why a candidate was passed over",
        "c++",
        "",
        """template <class T> auto h(T x) -> typename T::type;
int h(...);
inline int first() { return h(1); }
""",
        "",
        "int second() { return h<int>(1); }\n",
        "type 'int' cannot be used prior to '::' because it has no members",
    ),
    (
        "why a constraint was not met",
        "c++",
        "-std=c++20",
        """template <class T> concept Has = requires(T t) { t.size(); };
template <class T> int k(T) requires Has<T>;
int k(...);
inline int first() { return k(1); }
""",
        "",
        "static_assert(Has<int>);\n",
        "would be invalid",
    ),
    (
        "a function that was declared by its call",
        "c",
        "-std=c90 -Wno-implicit-function-declaration",
        "static int first(void) { return helper(); }\n",
        "",
        "int *helper(void);\nint second(void) { return first(); }\n",
        "previous implicit declaration is here",
    ),
    (
        "a declaration with a dropped warning of its own",
        "c",
        "-Wall",
        f'{SYSTEM}{ASSIGNS}__attribute__((deprecated("old"))) int f(int);\n',
        "",
        "int second(void) { return f(assigns(1)); }\n",
        "has been explicitly marked deprecated here",
    ),
    (
        "a function that is declared where warnings are off, and never defined",
        "c",
        "",
        """#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-internal"
static int unknown(void);
#pragma clang diagnostic pop
static int other(void);
""",
        "",
        "int second(void) { return unknown() + other(); }\n",
        "function 'other' has internal linkage but is not defined",
    ),
    (
        "warnings that a header has switched off for good",
        "c",
        "-Wall",
        '#pragma clang diagnostic ignored "-Wunused-variable"\n#pragma clang diagnostic ignored "-Wparentheses"\n' + ASSIGNS,
        "",
        "int second(void) { int unused; return 1; }\n",
        "",
    ),
    (
        "warnings that a header has switched off, and the rest switches on",
        "c",
        "-Wall",
        '#pragma clang diagnostic push\n#pragma clang diagnostic ignored "-Weverything"\n' + ASSIGNS,
        "",
        "int second(int a) { int unused; if (a = 1) return 1; return 2; }\n#pragma clang diagnostic pop\nint third(int a) { int unused; return a; }\n",
        "unused variable 'unused'",
    ),
    (
        "a warning that a header has made an error",
        "c",
        "-Wall",
        '#pragma clang diagnostic error "-Wunused-variable"\n',
        "",
        "int second(void) { int unused; return 1; }\n",
        "[-Werror,-Wunused-variable]",
    ),
    (
        "warnings as errors",
        "c",
        "-Wall -Werror",
        SYSTEM + ASSIGNS,
        "",
        "int second(int a) { if (a = 1) return 1; return assigns(2); }\n",
        "1 error generated",
    ),
    (
        "as many errors as may be, after many warnings",
        "c",
        f"{SILENT} -ferror-limit=1",
        "".join(ASSIGNS.replace("assigns", f"assigns{number}") for number in range(30)),
        "",
        "int second = wrong;\nint third = wrong;\n",
        "too many errors emitted",
    ),
    (
        "how many warnings there were",
        "c",
        f"{SILENT} -Wunused-variable",
        "".join(ASSIGNS.replace("assigns", f"assigns{number}") for number in range(30)),
        "",
        "int second(void) { int unused; return 1; }\n",
        "1 warning generated",
    ),
    (
        "all warnings, of system headers none",
        "c",
        "-Weverything -Wno-declaration-after-statement",
        f"{SYSTEM}#include <stdio.h>\n#include <stdlib.h>\n#define NOTHING 0\n{ASSIGNS}",
        "",
        "int *second(int a) { unsigned b = a; return b ? NOTHING : NULL; }\n",
        "implicit conversion changes signedness",
    ),
    (
        "a macro of a system header",
        "c++",
        "-Wzero-as-null-pointer-constant -Wold-style-cast",
        SYSTEM + "#define NOTHING 0\n#define CAST(x) ((int)(x))\ninline int first(double x) { return CAST(x); }\n",
        "",
        "int *second = NOTHING;\nint third = CAST(1.5);\nint fourth = (int)1.5;\n",
        "old-style cast",
    ),
    (
        "a template of a system header, with a type of the file's own",
        "c++",
        "-Wall -Wsign-compare",
        SYSTEM + "template <class T> bool less(T a, unsigned b) { return a < b; }\ninline bool first() { return less(1, 2); }\n",
        "",
        "bool second(long a, int b) { return less(a, 1u) && b < 1u; }\n",
        "comparison of integers of different signs",
    ),
    (
        "a macro that is unused before the rest",
        "c",
        "-Wunused-macros",
        "",
        "#define USED 1\n#define UNUSED 2\n",
        "int second = USED;\n",
        "macro is not used",
    ),
    (
        "a pragma that was never undone",
        "c",
        "",
        "",
        "#pragma pack(push, 1)\n",
        "struct second { char a; int b; };\n",
        "unterminated '#pragma pack (push, ...)' at end of file",
    ),
]


def text(number, between, rest):
    """The main file, which pauses before the rest."""
    return f'#include <stddef.h>\n{between}#include "dropped{number}.h"\n{rest}'


def check(place, say):
    cases = []
    for number, (name, language, flags, header, between, rest, expected) in enumerate(CASES):
        file, program = (f"dropped{number}.cc", "clang++-19") if language == "c++" else (f"dropped{number}.c", "clang-19")
        (place.place / f"dropped{number}.h").write_text(header)
        (place.place / file).write_text(text(number, between, "int first_of_all;\n"))
        command = f"{program} {flags} -c {file} -o dropped{number}.o"
        cases.append((name, file, command, text(number, between, rest), expected))
    place.daemon.keep([(shlex.split(command), place.environment) for _, _, command, _, _ in cases])
    for number, (name, file, command, edited, expected) in enumerate(cases):
        (place.place / file).write_text(edited)
        own, its_files = place.from_checkpoint(command, {}), place.made(f"dropped{number}")
        done = place.clang(command, {})
        said = done.stdout + done.stderr
        same = own == (done.returncode, said) and its_files == place.made(f"dropped{number}")
        speaks = expected.encode() in said if expected else not said
        say(name if same and speaks else f"{name}\n  {own}\n  {said}\n  {place.daemon.without.get(file)}", same and speaks)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    good = []

    def say(name, ok):
        print("ok" if ok else "not ok", name, flush=True)
        good.append(ok)

    with tempfile.TemporaryDirectory() as directory:
        place = kept.Place(sys.argv[1], directory)
        check(place, say)
        place.daemon.stop()
    sys.exit(0 if good and all(good) else 1)


if __name__ == "__main__":
    main()
