#!/usr/bin/env python3
"""Tests tests/house.py: each rule finds a small breach in a temporary tree, and nothing in a tree that keeps the rules.

Prints "ok NAME" or "not ok NAME"."""

import subprocess
import sys
import tempfile
from pathlib import Path

HOUSE = Path(__file__).parent.parent / "house.py"
LINTS = "[lints]\nworkspace = true\n"
TREE = {
    "Cargo.toml": '[workspace]\nresolver = "3"\nmembers = ["crates/*"]\n[workspace.lints.rust]\nunsafe_code = "forbid"\n',
    "crates/tanto-exec/Cargo.toml": f'[package]\nname = "tanto-exec"\nedition = "2024"\n{LINTS}',
    "crates/tanto-exec/src/lib.rs": "//! Runs jobs.\n\npub mod job;\npub mod run;\n\npub use job::Job;\npub use run::Outcome;\n",
    "crates/tanto-exec/src/job.rs": "//! Jobs.\n\nuse crate::run::Outcome;\n\npub struct Job;\n",
    "crates/tanto-exec/src/run.rs": "//! The loop.\n\nmod step;\n\npub struct Outcome;\n",
    "crates/tanto-exec/src/run/step.rs": "//! Steps.\n\nuse super::Outcome;\n",
    "crates/tanto-exec/src/run/tests.rs": "//! Tests.\n\nuse crate::job::Job;\n\npub struct Job;\n",
    "crates/tanto-sys/Cargo.toml": (
        '[package]\nname = "tanto-sys"\nedition = "2024"\n[lints.clippy]\nundocumented_unsafe_blocks = "deny"\n'
    ),
    "crates/tanto-sys/src/lib.rs": "//! The operating system.\n",
    "test": '#!/bin/bash\nparts=(\n    "unit         qfl    5"\n)\n',
    "CONTRIBUTING.md": "| `unit` | tests | yes | 5 s |\n",
}
EXEC, SYS = "crates/tanto-exec", "crates/tanto-sys"
LONG_BODY = "    x();\n" * 70
WORDS = "plain text has words " * 40

# Rule (its first words), the file that breaks it, and the file's text: appended to the text in TREE, or instead of it
# if it begins with "=".
BREACHES = [
    ("functions", f"{SYS}/src/lib.rs", f"fn long() {{\n{LONG_BODY}}}\n"),
    ("functions", f"{SYS}/src/lib.rs", f"mod a {{\n    fn long(\n        a: u8,\n    ) {{\n{LONG_BODY}    }}\n}}\n"),
    ("functions", "tests/a.py", f"def long():\n{LONG_BODY}"),
    ("functions", "tests/a.sh", f"long() {{\n{LONG_BODY}}}\n"),
    ("functions", f"{SYS}/src/lib.rs", "// A line.\n" * 600),
    ("functions", "clang-worker/a.cc", "int a;\n" * 601),
    ("no mod.rs", f"{SYS}/src/fs/mod.rs", "//! Files.\n"),
    ("no mod.rs", f"{SYS}/src/build/fs.rs", "//! Files.\n"),
    ("each module's", f"{SYS}/src/fs.rs", "pub struct File;\n"),
    ("each module's", f"{SYS}/src/fs.rs", "//!\n//! Files.\n"),
    ("plain words", "docs/a.md", WORDS + "wh" "at " * 2),
    ("plain words", "docs/a.md", WORDS + "whose"),
    ("plain words", f"{SYS}/src/lib.rs", f"// {WORDS}\nstatic A: &str = \"//\"; // Wh" "at it is, and wh" "at not.\n"),
    ("no list", "README.md", "It does not kn" "ow it.\n"),
    ("no list", f"{SYS}/src/lib.rs", "/// Kn" "ows nothing of it.\n"),
    ("nothing unfinished", f"{SYS}/src/lib.rs", "// FIX" "ME\n"),
    ("nothing unfinished", "docs/a.md", "See /ho" "me/me.\n"),
    ("no unwrap()", f"{EXEC}/src/run.rs", "fn a() {\n    b().unwrap();\n}\n"),
    ("no unwrap()", f"{EXEC}/src/run.rs", "fn a() {\n    c(\"//\", '\"'); panic!(\"\");\n}\n"),
    ("type names", f"{EXEC}/src/run/step.rs", "pub(super) struct Job;\n"),
    ("type names", f"{EXEC}/src/run/step.rs", "pub type Outcome = u8;\n"),
    ("no cycle", f"{EXEC}/src/run.rs", "use crate::job::Job;\n"),
    ("no cycle", f"{EXEC}/src/run.rs", "use crate::{\n    run::{step, job},\n    job::Job,\n};\n"),
    ("no cycle", f"{EXEC}/src/run/step.rs", "fn a() {\n    crate::job::start();\n}\n"),
    ("no cycle", f"{EXEC}/src/run/step.rs", "use super::super::job;\n"),
    ("no cycle", f"{EXEC}/src/run.rs", "use super::job;\n"),
    ("no cycle", f"{EXEC}/src/run.rs", "use crate::Job;\n"),
    ("crates depend", f"{SYS}/Cargo.toml", '[dependencies]\ntanto-exec = { path = "../tanto-exec" }\n'),
    ("crates depend", f"{EXEC}/Cargo.toml", f'=[package]\nname = "tanto-other"\nedition = "2024"\n{LINTS}'),
    ("unsafe code", "Cargo.toml", '=[workspace]\nmembers = ["crates/*"]\n[workspace.lints.rust]\nunsafe_code = "warn"\n'),
    ("unsafe code", f"{EXEC}/Cargo.toml", '=[package]\nname = "tanto-exec"\nedition = "2024"\n'),
    ("unsafe code", f"{SYS}/Cargo.toml", f'=[package]\nname = "tanto-sys"\nedition = "2024"\n{LINTS}'),
    ("budgets", "CONTRIBUTING.md", "=| `unit` | tests | yes | 6 s |\n"),
]
# Changes of a file that break no rule.
ALLOWED = [
    (f"{SYS}/src/lib.rs", f"fn long() {{\n{LONG_BODY[:612]}}}\n"),
    (f"{SYS}/src/lib.rs", 'static A: &str = "a wh' 'at";\n'),
    (f"{EXEC}/src/run.rs", "// crate::job and panic!()\n#[cfg(test)]\nmod tests {\n    use crate::job::Job;\n    pub struct Job;\n}\n"),
    (f"{EXEC}/src/run.rs", "#[cfg(test)]\nmod step;\nuse crate::run::Outcome as O;\n"),
    (f"{EXEC}/src/run/step.rs", "use super::step;\nstruct Job;\n"),
    ("docs/a.md", WORDS),
]


def broken(*changes):
    """Runs house.py on the tree with these changes, (file, text); returns the broken rules and the whole output."""
    with tempfile.TemporaryDirectory() as place:
        files = dict(TREE)
        for name, text in changes:
            files[name] = text[1:] if text.startswith("=") else files.get(name, "") + text
        for name, text in files.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, HOUSE, place], capture_output=True, text=True)
        found = [line.removeprefix("not ok ") for line in done.stdout.splitlines() if line.startswith("not ok ")]
        if done.returncode != bool(found):
            found.append(f"exit code {done.returncode}")
        return found, done.stdout + done.stderr


def main():
    cases = [(None, *change) for change in ALLOWED] + BREACHES
    good = not broken()[0]
    print("ok" if good else "not ok", "a tree without breaches", flush=True)
    for rule, name, text in cases:
        found, output = broken((name, text))
        expected = [it.startswith(rule) for it in found] == [True] if rule else not found
        print("ok" if expected else "not ok", f"{rule or 'nothing'} is broken by {name}: {text[:40]!r}", flush=True)
        if not expected:
            print(output)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
