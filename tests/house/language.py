"""Plain language in comments and documents, module heads, and text that must not be committed."""

import collections
import re

WORD = re.compile(r"[A-Za-z']+")
# Taken apart, so that this file does not break its own rules.
FORMULA = re.compile(r"\b(?:do|does|did) not kn" r"ow\b|\b(?:don|doesn)'t kn" r"ow\b|\bkn" r"ows? (?:nothing|neither)\b", re.I)
UNFINISHED = re.compile(r"\b(to" r"do!|unimple" r"mented!|db" r"g!\(|FIX" r"ME|XX" r"X\b|HA" r"CK\b|TO" r"DO\b)")
LOCAL_PATH = re.compile(r"(?<![\w.$}])/(home|ro" r"ot|wo" r"rk|Us" r"ers)/\w")


def prose(sources):
    """The comments of Rust files and the text of documents, by the name of the file."""
    for source in sources:
        if source.language == "rust":
            yield source.name, source.comments()
        elif source.name.endswith(".md"):
            yield source.name, source.text


def word_frequency(sources, limits):
    """`limits` maps a group of words to its most uses per 1,000 words."""
    total, uses = 0, collections.defaultdict(collections.Counter)
    for name, text in prose(sources):
        words = [word.lower() for word in WORD.findall(text)]
        total += len(words)
        for group in limits:
            uses[group][name] = sum(word in group for word in words)
    for group, limit in limits.items():
        found = 1000 * sum(uses[group].values()) / max(total, 1)
        if found > limit:
            yield f"{', '.join(group)}: {found:.1f} uses per 1,000 words (at most {limit})"
            for name, count in uses[group].most_common(10):
                yield f"    {name}: {count} uses"


def formula(sources):
    for name, text in prose(sources):
        for found in FORMULA.finditer(text):
            yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]}"


def module_heads(sources):
    for source in sources:
        if source.language == "rust" and not re.match(r"//! \S", source.text):
            yield f"{source.name}:1: the first line does not say what the module does (//!)"


def unwanted_text(sources):
    for source in sources:
        for number, line in source.lines():
            for pattern, why in ((UNFINISHED, "unfinished"), (LOCAL_PATH, "a path of one machine")):
                found = pattern.search(line)
                if found:
                    yield f"{source.name}:{number}: {why}: {found[0]}"
