"""The structure of each crate: unique type names, and top-level modules without cycles."""

import collections
import re

from house.sources import TEST_MODULE

IN_CRATE = re.compile(r"crates/([^/]+)/src/(.+)\.rs")
TYPE = re.compile(r"^\s*pub(?:\([^)]*\))? (?:unsafe )?(?:struct|enum|union|trait|type) (\w+)", re.M)
PATH = re.compile(r"\b(crate|super(?:::super)*)::(\w+|\{)")
EXPORT = re.compile(r"^pub(?:\([^)]*\))? use (?:crate::|self::)?(\w+)::([^;]+);", re.M)
PANICS = re.compile(r"\.unwrap(_err)?\(\)|\bpanic!|\bunreachable!\(\)")


class Module:
    """A source file of a crate, without its tests. `path` is () for the crate's root."""

    def __init__(self, source, path):
        self.name, self.path, self.code = source.name, path, source.code()

    def line(self, offset):
        return f"{self.name}:{self.code.count(chr(10), 0, offset) + 1}"


def crates(sources):
    """Maps each crate to its modules. Modules that are compiled for tests only are left out."""
    found, tests = collections.defaultdict(list), collections.defaultdict(set)
    for source in sources:
        match = IN_CRATE.fullmatch(source.name)
        if match and not source.is_test():
            path = tuple(match[2].split("/"))
            path = path[:-1] if path[-1] in ("lib", "main", "mod") else path
            tests[match[1]] |= {(*path, name) for name in TEST_MODULE.findall(source.text)}
            found[match[1]].append(Module(source, path))
    return {
        crate: [it for it in modules if not any(it.path[:n] in tests[crate] for n in range(len(it.path) + 1))]
        for crate, modules in found.items()
    }


def duplicate_types(sources, allowed):
    for crate, modules in crates(sources).items():
        places = collections.defaultdict(list)
        for module in modules:
            for match in TYPE.finditer(module.code):
                places[match[1]].append(module.line(match.start(1)))
        for name, where in sorted(places.items()):
            if len(where) > 1 and (crate, name) not in allowed:
                yield f"{crate}: {name} is declared {len(where)} times: {' '.join(where)}"


def module_cycles(sources):
    for crate, modules in crates(sources).items():
        exports = root_exports(modules)
        edges = collections.defaultdict(dict)
        for module in modules:
            for name, offset in references(module) if module.path else ():
                target, top = exports.get(name, name), module.path[0]
                if target != top:
                    edges[top].setdefault(target, module.line(offset))
        for cycle in strongly_connected(edges):
            yield f"{crate}: {', '.join(cycle)} use each other"
            for a in cycle:
                yield from (f"    {a} uses {b}: {edges[a][b]}" for b in cycle if b in edges[a])


def root_exports(modules):
    """Names that the crate's root exports from its modules: a path through one is a path to the module."""
    exports = {}
    for root in (module for module in modules if not module.path):
        for module, names in EXPORT.findall(root.code):
            exports |= {name: module for name in re.findall(r"\w+", names)}
    return exports


def references(module):
    """Yields (first name after the crate's root, offset) of each path through `crate::` or a chain of `super::`."""
    for match in PATH.finditer(module.code):
        if match[1] == "crate" or match[1].count("super") == len(module.path):
            for name in group(module.code, match.end()) if match[2] == "{" else [match[2]]:
                yield name, match.start()


def group(code, start):
    """The first name of each path in a group in braces that opens before `start`."""
    depth, names, expected = 1, [], True
    for token in re.finditer(r"\w+|[{},]", code[start:]):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return names
        if depth == 1 and token[0] == ",":
            expected = True
        elif expected and token[0] not in "{}":
            names.append(token[0])
            expected = False
    return names


def strongly_connected(edges):
    """Groups of nodes that reach each other, each sorted."""
    reach = {}
    for start in edges:
        reach[start], waiting = set(), list(edges[start])
        while waiting:
            node = waiting.pop()
            if node not in reach[start]:
                reach[start].add(node)
                waiting += edges.get(node, ())
    cycles = {
        tuple(sorted(other for other in reach[node] if node in reach.get(other, ()))) for node in edges if node in reach[node]
    }
    return sorted(cycles)


def panics(sources):
    """Input never panics: outside of tests, `expect` says why it cannot fail; `unwrap` gives no reason."""
    for modules in crates(sources).values():
        for module in modules:
            for found in PANICS.finditer(module.code):
                yield f"{module.line(found.start())}: {found[0]} outside of tests"
