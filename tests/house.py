#!/usr/bin/env python3
"""Checks the rules that neither rustc nor clippy checks: house.py [ROOT]

Prints a line for each rule, and each breach with its place. The limits and all exceptions are below; tests/house/ holds
the checks, and tests/house/breaches.py tests them."""

import sys
from pathlib import Path

from house import language, packages, sizes, structure
from house.sources import read

FUNCTION_LINES = 70
FILE_LINES = 600

# Uses per 1,000 words of Rust comments and documents.
WORDS = {("what",): 6, ("who", "whom", "whose"): 1.5}

# Names of types that a crate may declare twice: (crate, name).
DUPLICATE_TYPES = set()

# Files called mod.rs and folders called build.
LAYOUT = set()

# The crates that each crate may depend on.
DEPENDENCIES = {
    "tanto-testing": set(),
    "tanto-trees": set(),
    "tanto-sys": set(),
    "tanto-exec": {"tanto-sys"},
    "tanto-ninja": {"tanto-sys", "tanto-exec", "tanto-cas"},
    "tanto-record": {"tanto-sys", "tanto-exec"},
    "tanto-bench": {"tanto-sys", "tanto-exec"},
    "tanto-cas": {"tanto-sys"},
    "tanto-cache": {"tanto-sys", "tanto-exec", "tanto-cas"},
    "tanto-protocol": set(),
    "tanto-serve": {"tanto-sys", "tanto-protocol", "tanto-cas"},
    "tanto-bulk": {"tanto-sys", "tanto-exec", "tanto-record", "tanto-protocol", "tanto-cas"},
}
UNRESTRICTED = {"tanto", "tanto-fuzz"}
MAY_BE_UNSAFE = {"tanto-sys"}


def check(root):
    """Maps each rule to its breaches."""
    sources = read(root)
    members = packages.packages(root)
    rules = {
        f"functions of at most {FUNCTION_LINES} lines, files of at most {FILE_LINES}": sizes.sizes(
            sources, FUNCTION_LINES, FILE_LINES
        ),
        "no mod.rs, no source folder called build": sizes.folders(sources, LAYOUT),
        "each module's first line says what it does": language.module_heads(sources),
        "plain words in comments and documents": language.word_frequency(sources, WORDS),
        "no list of what a module is ignorant of": language.formula(sources),
        "nothing unfinished, no path of one machine": language.unwanted_text(sources),
        "no unwrap() and no panic!() outside of tests": structure.panics(sources),
        "type names are unique within a crate": structure.duplicate_types(sources, DUPLICATE_TYPES),
        "no cycle between the top-level modules of a crate": structure.module_cycles(sources),
        "crates depend on each other as ARCHITECTURE.md says": packages.dependencies(members, DEPENDENCIES, UNRESTRICTED),
        "unsafe code is forbidden outside of tanto-sys": packages.unsafe_code(members, root, MAY_BE_UNSAFE),
        "budgets in CONTRIBUTING.md are those of ./test": packages.budgets(sources),
    }
    return {rule: list(breaches) for rule, breaches in rules.items()}


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    results = check(root)
    for rule, breaches in results.items():
        print("not ok" if breaches else "ok", rule)
        for breach in breaches:
            print("   ", breach)
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
