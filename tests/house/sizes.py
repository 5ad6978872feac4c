"""The lengths of functions and files, and the layout of folders."""

import re

FUNCTIONS = {
    "rust": re.compile(
        r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:default )?(?:const )?(?:async )?(?:unsafe )?(?:extern \S+ )?fn (\w+)"
    ),
    "python": re.compile(r"^(\s*)(?:async )?def (\w+)"),
    "shell": re.compile(r"^(\s*)(?:function )?(\w+)\(\) [{(]$"),
}


def sizes(sources, function_lines, file_lines):
    for source in sources:
        length = source.text.count("\n")
        if source.language and length > file_lines:
            yield f"{source.name}: {length} lines (at most {file_lines})"
        if source.language in FUNCTIONS:
            for line, function, length in functions(source):
                if length > function_lines:
                    yield f"{source.name}:{line}: {function} has {length} lines (at most {function_lines})"


def functions(source):
    """Yields (first line, name, number of lines) of each function."""
    lines = source.text.rstrip().split("\n")
    for start, line in enumerate(lines):
        opened = FUNCTIONS[source.language].match(line)
        if not opened or line.endswith((";", "}")):
            continue
        ends = (n for n in range(start + 1, len(lines)) if ends_function(lines[n], opened[1], source.language))
        end = next(ends, len(lines))
        if source.language == "python":
            end -= 1
            while not lines[end].strip():
                end -= 1
        yield start + 1, opened[2], end - start + 1


def ends_function(line, indent, language):
    """Whether this is the last line of a function that starts at `indent`. Formatted code closes a function with a brace
    at its own indentation, and a declaration with a semicolon. In Python it is the first line after the function."""
    if language == "rust":
        return line == indent + "}" or (line.startswith(indent + ")") and line.endswith(";"))
    if language == "shell":
        return line in (indent + "}", indent + ")")
    # A signature of several lines ends with a parenthesis at that indentation.
    return line.strip() and not line.startswith((indent + " ", indent + ")"))


def folders(sources, allowed):
    """Tools take a folder called `build` for generated files; modules are `x.rs` and `x/`."""
    seen = set()
    for source in sources:
        folder, _, file = source.name.rpartition("/")
        parts = folder.split("/")
        if "build" in parts and source.language == "rust":
            path = "/".join(parts[: parts.index("build") + 1])
            if path not in seen | allowed:
                yield f"{path}/: a source folder may not be called build"
            seen.add(path)
        if file == "mod.rs" and source.name not in allowed:
            yield f"{source.name}: name it {folder}.rs"
