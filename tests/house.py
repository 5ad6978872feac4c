"""The rules of the house that neither rustc nor clippy holds: sizes, arrows between crates, words, and tables that
stand in two places. Prints a line for each rule, and each breach with its place."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES = 70
FILE_LINES = 900

# Which crate may name which in its dependencies. The program and the fuzzer may name all, and all tests TESTING.
ARROWS = {
    "tanto-testing": set(),
    "tanto-trees": set(),
    "tanto-sys": set(),
    "tanto-exec": {"tanto-sys"},
    "tanto-ninja": {"tanto-sys", "tanto-exec"},
    "tanto-record": {"tanto-sys", "tanto-exec"},
    "tanto-protocol": set(),
    "tanto-bulk": {"tanto-sys", "tanto-exec", "tanto-record", "tanto-protocol"},
}
FREE = {"tanto", "tanto-fuzz"}
TESTING = "tanto-testing"
MAY_BE_UNSAFE = {"tanto-sys"}

# Taken apart, so that this file does not break its own rule.
UNFINISHED = re.compile(r"\b(to" r"do!|unimple" r"mented!|db" r"g!\(|FIX" r"ME|XX" r"X\b|HA" r"CK\b|TO" r"DO\b)")
PLACES = re.compile(r"(?<![\w.$}])/(home|ro" r"ot|wo" r"rk|Us" r"ers)/\w")
FUNCTIONS = {
    "rust": re.compile(
        r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:default )?(?:const )?(?:async )?(?:unsafe )?(?:extern \S+ )?fn (\w+)"
    ),
    "python": re.compile(r"^(\s*)(?:async )?def (\w+)"),
    "shell": re.compile(r"^(\s*)(?:function )?(\w+)\(\) [{(]$"),
}
# One item that only tests have: up to its closing brace, or one line.
OF_TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:[^\n]*\{\n(?:.*?\n)??\}\n|[^\n]*\n)", re.M | re.S)
PANICS = re.compile(r"\.unwrap(_err)?\(\)|\bpanic!|\bunreachable!\(\)")


def files():
    """The project's own text files: what git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        skipped = {".git", "target", ".venv"}
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        names = [str(path) for path in found if path.parts[0] not in skipped]
    for name in sorted(names):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if b"\0" not in data:
                yield name, data.decode(errors="replace")


def language(name, text):
    """What a file is written in: its ending says so, or its first line."""
    first = text.partition("\n")[0]
    if name.endswith(".rs"):
        return "rust"
    if name.endswith(".py") or (first.startswith("#!") and "python" in first):
        return "python"
    if name.endswith(".sh") or (first.startswith("#!") and first.endswith("sh")):
        return "shell"
    return None


def ends_function(line, indent, written_in):
    """Is this the last line of a function that began at this depth? Formatted code closes one with a brace at its own
    depth, a declaration with a semicolon; in Python it is the first line that is no part of it."""
    if written_in == "rust":
        return line == indent + "}" or (line.startswith(indent + ")") and line.endswith(";"))
    if written_in == "shell":
        return line in (indent + "}", indent + ")")
    # A signature of several lines ends with a parenthesis at that depth.
    return line.strip() and not line.startswith((indent + " ", indent + ")"))


def long_functions(name, text, written_in):
    lines = text.rstrip().split("\n")
    for start, line in enumerate(lines):
        opened = FUNCTIONS[written_in].match(line)
        if not opened or line.endswith((";", "}")):
            continue
        ends = (n for n in range(start + 1, len(lines)) if ends_function(lines[n], opened[1], written_in))
        end = next(ends, len(lines))
        if written_in == "python":
            end -= 1
            while not lines[end].strip():
                end -= 1
        length = end - start + 1
        if length > FUNCTION_LINES:
            yield f"{name}:{start + 1}: {opened[2]} has {length} lines (at most {FUNCTION_LINES})"


def sizes(sources):
    for name, text in sources:
        written_in = language(name, text)
        if not written_in:
            continue
        length = text.count("\n")
        if length > FILE_LINES:
            yield f"{name}: {length} lines (at most {FILE_LINES})"
        yield from long_functions(name, text, written_in)


def is_test(name):
    """The file holds tests only."""
    return name.endswith("/tests.rs") or "/tests/" in name


def module_heads(sources):
    for name, text in sources:
        if name.endswith(".rs") and not re.match(r"//! \S", text):
            yield f"{name}:1: the first line does not say what the module is (//!)"


def words(sources):
    for name, text in sources:
        for number, line in enumerate(text.split("\n"), 1):
            for pattern, why in ((UNFINISHED, "unfinished"), (PLACES, "a path of one machine")):
                found = pattern.search(line)
                if found:
                    yield f"{name}:{number}: {why}: {found[0]}"


def panics(sources):
    """Input never panics: outside of tests `expect` says why it cannot fail, `unwrap` says nothing."""
    for name, text in sources:
        if not re.match(r"crates/[^/]+/src/", name) or is_test(name):
            continue
        blank = OF_TESTS.sub(lambda item: "\n" * item[0].count("\n"), text)
        for number, line in enumerate(blank.split("\n"), 1):
            found = PANICS.search(line.split("//")[0])
            if found:
                yield f"{name}:{number}: {found[0]} outside of tests"


def packages():
    out = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"], cwd=ROOT, capture_output=True
    )
    if out.returncode != 0:
        sys.exit("cargo metadata failed: " + out.stderr.decode())
    return json.loads(out.stdout)["packages"]


def arrows(members):
    for package in members:
        name = package["name"]
        if name not in FREE | set(ARROWS):
            yield f"{name}: no arrows known for this crate; add them to tests/house.py and ARCHITECTURE.md"
            continue
        for dependency in package["dependencies"]:
            to = dependency["name"]
            if to == TESTING:
                allowed = dependency["kind"] == "dev" or name == "tanto-fuzz"
            else:
                allowed = name in FREE or to in ARROWS[name] or not to.startswith("tanto")
            if not allowed:
                yield f"{name} may not depend on {to}"


def unsafe_code(members):
    workspace = (ROOT / "Cargo.toml").read_text()
    if not re.search(r'^unsafe_code = "forbid"$', workspace, re.M):
        yield 'Cargo.toml: [workspace.lints.rust] has no unsafe_code = "forbid"'
    for package in members:
        manifest = Path(package["manifest_path"]).read_text()
        inherits = re.search(r"^\[lints\]\nworkspace = true$", manifest, re.M)
        if package["name"] in MAY_BE_UNSAFE:
            if not re.search(r'^undocumented_unsafe_blocks = "deny"$', manifest, re.M):
                yield f"{package['name']}: undocumented_unsafe_blocks is not denied"
        elif not inherits:
            yield f"{package['name']}: does not inherit the workspace's lints, so unsafe is not forbidden"


def budgets(sources):
    """The budgets of ./test and the table in CONTRIBUTING.md are the same."""
    texts = dict(sources)
    script = re.findall(r'^    "(\w+) +[qfl]+ +(\d+)"$', texts["test"], re.M)
    table = re.findall(r"^\| `(\w+)` \|.*\| *(\d+) s \|$", texts.get("CONTRIBUTING.md", ""), re.M)
    if script != table:
        yield f"CONTRIBUTING.md: the budgets {table} are not those of ./test, {script}"


def main():
    sources = list(files())
    members = packages()
    rules = {
        f"functions of at most {FUNCTION_LINES} lines, files of at most {FILE_LINES}": sizes(sources),
        "each module's first line says what it is": module_heads(sources),
        "nothing unfinished, no path of one machine": words(sources),
        "no unwrap() and no panic!() outside of tests": panics(sources),
        "crates depend on each other as ARCHITECTURE.md says": arrows(members),
        "unsafe code is forbidden outside of tanto-sys": unsafe_code(members),
        "budgets in CONTRIBUTING.md are those of ./test": budgets(sources),
    }
    bad = 0
    for rule, found in rules.items():
        breaches = list(found)
        print("not ok" if breaches else "ok", rule)
        for breach in breaches:
            print("   ", breach)
        bad += bool(breaches)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
