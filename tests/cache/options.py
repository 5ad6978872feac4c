#!/usr/bin/env python3
"""Compiles with each option that the action cache knows, and checks what the cache assumes of it.

    tests/cache/options.py [--all] [WORD...]

Each option must be accepted by a compiler, and a compile with it must write no files but the object and the expected depfile.
If the cache calls the object independent of its place, compiles in two places must give the same. --all uses every compiler,
both languages and both kinds of paths; otherwise most options meet the first compiler that accepts them. With words, only
options that contain one of them are used. --all takes more than ten times as long."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
COMPILERS = ["gcc", "clang-19", "clang-16", "clang-14"]
MAP = ["-ffile-prefix-map={root}=NEW"]

# Everything that may put paths into objects.
COMMON = r"""
#include <wchar.h>
#include "h.h"
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
const char *f1(void) { return __FILE__; }
const char *f2(void) { return __BASE_FILE__; }
const wchar_t *f3(void) { return JOIN(L, __FILE__); }
int global_array[10];
int at(int i, int j) { assert(i < 10); return global_array[i] + i * j + (i << j) / j + header(i); }
void par(int *p) {
#pragma omp parallel for
  for (int i = 0; i < 100; i++) p[i] = i * i;
}
"""
SOURCES = {
    "a.c": "#include <assert.h>\n" + COMMON,
    "a.cpp": "#include <cassert>\n" + COMMON + r"""
#if __cplusplus >= 202002L && __has_include(<source_location>) && (!defined __clang__ || __clang_major__ > 15)
#include <source_location>
const char *f4() { return std::source_location::current().file_name(); }
#endif
namespace { struct A { A(); ~A(); int x; }; int count; A::A() : x(count++) {} A::~A() { count--; } A a; }
const char *f5() { return __builtin_FILE(); }
""",
    "plain.c": "int f(int x) { return x + 1; }\nint g(int x) { return f(x) * 2; }\n",
    "plain.cpp": "static int f(int x) { return x + 1; }\nint g(int x) { return f(x) * 2; }\n",
    "a.S": '#include "empty.h"\n\t.text\n\t.globl f\nf:\tnop\n\tnop\n',
    "a.s": "\t.text\n\t.globl f\nf:\tnop\n\tnop\n",
    "a.i": "int f(int x) { return x + 1; }\n",
}
HEADERS = {
    "h.h": "static inline const char *hf(void) { return __FILE__; }\nstatic inline int header(int x) { return x + hf()[x]; }\n",
    "empty.h": "",
}

# How many samples at the end meet all compilers: those of words.rs.
OWN_RULES = 45

# Words and sources besides those of the list, with each compiler.
OTHERS = [
    ("a.S", "-MD"),
    ("a.s", "-MD"),
    ("a.i", "-MD -MF other.d"),
    ("a.S", "-g -ffile-prefix-map={root}=NEW"),
    ("a.s", "-g -ffile-prefix-map={root}=NEW"),
    ("a.S", "-g -gdwarf-4 -gz -ffile-prefix-map={root}=NEW"),
    ("a.cpp", "-g -ffile-prefix-map={root}/=NEW"),
    ("a.cpp", "-g -ffile-prefix-map={root}=. -ffile-prefix-map={root}/build=b"),
    ("a.cpp", "-g -ffile-prefix-map={root}/build=b -ffile-prefix-map={root}="),
    ("a.cpp", "-g -std=c++20 -ffile-prefix-map={root}=NEW"),
    ("a.cpp", "-g -flto -ffile-prefix-map={root}=NEW"),
    ("a.cpp", "-g -grecord-gcc-switches -ffile-prefix-map={root}=NEW"),
    ("a.cpp", "-g -fsanitize=undefined -ffile-prefix-map={root}=NEW"),
    ("a.cpp", "-g -DROOT=\"{root}\" -ffile-prefix-map={root}=NEW"),
    ("a.c", "-isystem ../inc/../inc/../inc/../inc/../inc/../inc/../inc/../inc/../inc/../inc/../inc/../inc"),
]

REFUSED = {
    "not a compile of gcc or clang": ["ld -o a b.o", "rustc -c a.rs -o a.o", "my-gcc-wrapper -c a.c -o a.o", "python3 x"],
    "links": ["gcc a.o -o a", "clang a.c -o a", "g++ -shared a.o b.o -o a.so"],
    "reads options from @flags": ["gcc -c a.c -o a.o @flags"],
    "several sources": ["gcc -c a.c b.c -o a.o"],
    "no source": ["gcc -c -o a.o"],
    "no output named by -o": ["gcc -c a.c"],
    "several outputs": ["gcc -c a.c -o a.o -o b.o"],
    "reads standard input": ["gcc -c -x c - -o a.o"],
    "prints to standard output": ["gcc -E a.c -o a.i", "gcc -M a.c -o a.d", "gcc -MM -c a.c -o a.d", "gcc -S a.c -o a.s"],
    "writes to /dev/null": ["gcc -c a.c -o /dev/null", "gcc -c a.c -o a.o -MD -MF /dev/null"],
    "writes to -": ["gcc -c a.c -o -", "gcc -c a.c -o a.o -MD -MF -"],
    "writes to a.o": ["gcc -c a.c -o a.o -MD -MF a.o"],
    "writes to a.pch": ["c++ -x c++-header a.h -o a.pch"],
    "an empty word": ["gcc -c a.c  -o a.o", "gcc -c a.c -o a.o -MD -MF "],
    "option -o without its value": ["gcc -c a.c -o"],
    "unknown language of a.m": ["gcc -c a.m -o a.o"],
    "unknown language of a.o": ["gcc -c a.o -o b.o"],
    "precompiles a header with clang": ["clang++-19 -x c++-header a.h -o a.gch"],
}
REFUSED_OPTIONS = """
--coverage -fprofile-arcs -ftest-coverage -fprofile-generate -fprofile-use -fprofile-use=x -fprofile-instr-generate
-fprofile-instr-use=x -fprofile-sample-use=x -fauto-profile -fbranch-probabilities -fcoverage-mapping -fcs-profile-generate
-fmemory-profile -fprofile-list=x -gsplit-dwarf -gsplit-dwarf=single -fstack-usage -fcallgraph-info -save-temps -save-temps=obj
--save-temps -ftime-trace -ftime-trace=x -ftime-report -fmem-report -fstats -fproc-stat-report -fmodules -fmodules-ts
-fmodule-file=x -fmodule-mapper=x -fimplicit-module-maps -fmodules-cache-path=x -gmodules -specs=x --specs=x -wrapper
-fplugin=x -fplugin-arg-x-y -fpass-plugin=x -fdump-tree-all -fdump-ipa-all -fdump-go-spec=x -dumpdir -dumpbase -dM -dA -da
-d -Xclang -Xpreprocessor -Xassembler -Xlinker -mllvm --config --config=x -include-pch -emit-pch -emit-llvm -emit-ast
-fopt-info -fopt-info-vec=x -fsave-optimization-record -foptimization-record-file=x -Rpass=inline -Rpass -fsyntax-only -v
-### -H -MG -MJ -MV -Wp,-E -Wp,-MD -Wp,-MD,a,b -Wp,-dM -Wp,-include,x -Wa,-a=x -Wa,-ahl -Wa,--MD,x -Wa,@x -Wa,-g -aux-info
-fembed-bitcode -fdirectives-only -fpreprocessed -fworking-directory -fdiagnostics-format=sarif-file
-fdiagnostics-add-output=sarif -freport-bug -gen-reproducer -fvtable-verify=std -fvtv-counts
-fcompare-debug -fsanitize-stats=x -fbasic-block-sections=list=x -finstrument-functions-exclude-file-list=x
-foffload=nvptx-none -fopenmp-targets=x -working-directory -ivfsoverlay -iprefix -iwithprefix -I- -isystem-after
-fno-such-option -mno-such-option -gnothing --no-such-option -fverify-debuginfo-preserve-export=x -index-store-path
-fapinotes -fxray-attr-list=x -cc1 -cc1as -fuse-ld=/x/ld -mdump-tune-features -ftarget-help --help --version --analyze
-fprebuilt-module-path=x -dependency-file -print-search-dirs -fdebug-prefix-map=x -ffile-prefix-map=a=b=c -fplugin-opt=x
-B -fself-test=x -remap -fada-spec-parent=x -fdbg-cnt=x -stats -C -CC -P -traditional -ObjC -arch --driver-mode=cl
-ffile-reproducible= -fprofile-dir=x -fgnat-encodings=all -fthinlto-index=x -fmodule-name=x -Og2 -std=
""".split()


@dataclass
class Job:
    """A compile with one compiler, in two places."""

    sample: str
    compiler: str
    source: str
    is_absolute: bool
    place: Path
    understood: tuple = ()
    accepted: bool = False
    problem: str = ""

    def roots(self):
        return [self.place / "one", self.place / "a_second_and_longer" / "tree"]

    def words(self, root):
        up = str(root) if self.is_absolute else ".."
        here = str(root / "build") + "/" if self.is_absolute else ""
        compiler = self.compiler
        if self.source.endswith("cpp"):
            compiler = compiler.replace("gcc", "g++").replace("clang", "clang++")
        more = ["-g"] + MAP if self.is_absolute and "prefix-map" not in self.sample else []
        output = "a.gch" if "-header" in self.sample else "a.o"
        words = [compiler, "-c", *more, *self.sample.split(), f"-I{up}/inc", "-o", here + output, f"{up}/src/{self.source}"]
        return [word.replace("{root}", str(root)) for word in words]

    def compile(self, root):
        """The object; None if the compiler refuses. Notes unexpected files."""
        for name, text in {"src/" + self.source: SOURCES[self.source], **{f"inc/{n}": t for n, t in HEADERS.items()}}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for name in "build", "temporary":
            (root / name).mkdir()
        (root / "list").write_text("")
        before = files(root)
        environment = dict(os.environ, TMPDIR=str(root / "temporary"))
        environment.pop("SOURCE_DATE_EPOCH", None)
        words = self.words(root)
        ran = subprocess.run(words, cwd=root / "build", env=environment, capture_output=True)
        output = root / "build" / words[words.index("-o") + 1]
        if ran.returncode or not output.exists():
            return None
        depfile = self.understood[1].replace("{root}", str(root))
        expected = {output} | ({root / "build" / Path(depfile).name} if depfile else set())
        if files(root) - before != expected:
            self.problem = f"wrote {sorted(map(str, files(root) - before))}, not {sorted(map(str, expected))}"
        return output.read_bytes()

    def run(self):
        if self.understood[0] != "ok":
            self.problem = f"is {self.understood}"
            return
        roots = self.roots() if self.understood[2] == "Independent" else self.roots()[:1]
        objects = [self.compile(root) for root in roots]
        shutil.rmtree(self.place, ignore_errors=True)
        self.accepted = None not in objects
        if self.accepted and len(set(objects)) > 1:
            self.problem = "differs by place"


def files(root):
    return {path for path in root.rglob("*") if path.is_file()}


def listing(*arguments, lines=()):
    command = ["cargo", "run", "--quiet", "--example", "options", "--", *arguments]
    ran = subprocess.run(command, cwd=TOP, input="\n".join(lines), stdout=subprocess.PIPE, text=True, check=True)
    return ran.stdout.splitlines()


def understand(commands):
    """How the cache understands each (root, cwd, words)."""
    lines = ["\t".join([str(root), str(cwd), *words]) for root, cwd, words in commands]
    return [tuple(line.split("\t")) for line in listing("parse", lines=lines)]


def sources_for(sample):
    """The last ones are for options that need no headers."""
    return ["plain.c"] if "--target=" in sample and "x86" not in sample else list(SOURCES)[:4]


def jobs_for(sample, number, compilers, use_all, place):
    """Alternatives: without --all, the first that is accepted is enough."""
    is_even = number % 2 == 0
    for source in sources_for(sample):
        for compiler in compilers:
            for is_absolute in [is_even, not is_even] if use_all else [is_even]:
                name = f"{number}/{source}{compiler}{is_absolute}"
                yield Job(sample, compiler, source, is_absolute, place / name)


def run_group(group, use_all):
    """Runs the jobs for one sample, and returns those that ran."""
    ran = []
    for job in group:
        if job.source.startswith("plain") and any(other.accepted for other in ran):
            break
        job.run()
        ran.append(job)
        if job.problem or (job.accepted and not use_all):
            break
    return ran


def check_options(compilers, use_all, filters, place):
    # The last lines are those with rules of their own, where compilers differ most.
    samples = listing()
    groups = []
    for number, sample in enumerate(samples):
        if filters and not any(word in sample for word in filters):
            continue
        thorough = use_all or number >= len(samples) - OWN_RULES
        groups.append((list(jobs_for(sample, number, compilers, thorough, place)), thorough))
    for number, (source, sample) in enumerate(OTHERS):
        jobs = [Job(sample, compiler, source, kind, place / f"other{number}{compiler}{kind}")
                for compiler in compilers for kind in (True, False)]
        if not filters or any(word in sample for word in filters):
            groups.append((jobs, True))
    jobs = [job for group, _ in groups for job in group]
    commands = [(job.roots()[0], job.roots()[0] / "build", job.words(job.roots()[0])) for job in jobs]
    for job, understood in zip(jobs, understand(commands), strict=True):
        job.understood = tuple(part.replace(str(job.roots()[0]), "{root}") for part in understood)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results, failed = [], 0
        for ran in pool.map(lambda pair: run_group(*pair), groups):
            results.append(ran)
            failed += has_failed(ran)
    same = sum(job.accepted and job.understood[2] == "Independent" for ran in results for job in ran)
    print(f"{len(results)} options, {sum(map(len, results))} compiles, {same} of them the same in two places")
    return failed


def has_failed(ran):
    """Prints what is wrong with the option that these jobs tested."""
    problems = [" ".join(job.words(Path("/ROOT"))) + ": " + job.problem for job in ran if job.problem]
    if not problems and not any(job.accepted for job in ran):
        problems = [ran[0].sample + ": no compiler accepts it"]
    for problem in problems:
        print("not ok", problem, flush=True)
    return bool(problems)


def check_refusals():
    cases = [(command.split(" "), text) for text, commands in REFUSED.items() for command in commands]
    cases += [(["gcc", "-c", "a.c", "-o", "a.o", word], None) for word in REFUSED_OPTIONS]
    failed = 0
    for (words, text), understood in zip(cases, understand(("/r", "/r", words) for words, _ in cases), strict=True):
        expected = text or f"option {words[-1]}"
        if understood[0] != "refused" or not understood[1].startswith(expected):
            print("not ok", " ".join(words) + ":", *understood)
            failed += 1
    print(f"{len(cases)} refusals")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    for compiler in COMPILERS:
        if not shutil.which(compiler):
            print(f"skipped {compiler}: not installed")
    compilers = [compiler for compiler in COMPILERS if shutil.which(compiler)]
    failed = check_refusals()
    with tempfile.TemporaryDirectory() as place:
        failed += check_options(compilers, options.all, options.words, Path(place).resolve())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
