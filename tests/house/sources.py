"""Reads the project's text files, and splits Rust into code and comments."""

import re
import subprocess
from pathlib import Path

# Comments first; then literals, which may contain the characters that begin a comment.
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)"""
    r"""|b?r(?P<hashes>\#*)"(?:.*?)"(?P=hashes)"""
    r"""|"(?:[^"\\]|\\.)*\""""
    r"""|'(?:[^'\\\n]|\\(?:u\{[^}]*\}|x..|.))'""",
    re.S,
)
# An item that is compiled for tests only: up to its closing brace, or one line.
TEST_ITEM = re.compile(r"^#\[cfg\(test\)\]\n(?:[^\n]*\{\n(?:.*?\n)??\}\n|[^\n]*\n)", re.M | re.S)
TEST_MODULE = re.compile(r"^#\[cfg\(test\)\]\n(?:pub(?:\([^)]*\))? )?mod (\w+);", re.M)


class Source:
    """A file: its name relative to the root, its text, and its language (None: not a programming language)."""

    def __init__(self, name, text):
        self.name, self.text, self.language = name, text, language(name, text)
        self.split = None

    def lines(self):
        return enumerate(self.text.split("\n"), 1)

    def code(self):
        """Rust without comments, literals and test items; the line numbers are the file's."""
        return TEST_ITEM.sub(newlines, self.halves()[0])

    def comments(self):
        """The comments of a Rust file; the line numbers are the file's."""
        return self.halves()[1]

    def halves(self):
        if self.split is None:
            code, comments, end = [], [], 0
            for token in TOKEN.finditer(self.text):
                comment = token["comment"]
                code += self.text[end : token.start()], newlines(token) if comment else blank_literal(token)
                comments += newlines_of(self.text[end : token.start()]), comment or newlines(token)
                end = token.end()
            self.split = "".join([*code, self.text[end:]]), "".join(comments)
        return self.split

    def is_test(self):
        return self.name.endswith("/tests.rs") or "/tests/" in self.name


def newlines_of(text):
    return "\n" * text.count("\n")


def newlines(match):
    return newlines_of(match[0])


def blank_literal(match):
    return '""' + newlines(match)


def language(name, text):
    """By the ending of the file's name, or its first line."""
    first = text.partition("\n")[0]
    if name.endswith(".rs"):
        return "rust"
    if name.endswith((".cc", ".h", ".c")):
        return "c"
    if name.endswith(".py") or (first.startswith("#!") and "python" in first):
        return "python"
    if name.endswith(".sh") or (first.startswith("#!") and first.endswith("sh")):
        return "shell"
    return None


def read(root):
    """All text files that git tracks or would track; without git, all files outside of build directories."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:
        skipped = {".git", "target", ".venv"}
        found = (path.relative_to(root) for path in Path(root).rglob("*") if path.is_file())
        names = [str(path) for path in found if path.parts[0] not in skipped]
    sources = []
    for name in sorted(names):
        path = root / name
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if b"\0" not in data:
                sources.append(Source(name, data.decode(errors="replace")))
    return sources
