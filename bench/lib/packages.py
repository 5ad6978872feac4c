"""Converts external data about package trees (graphs, times, histories) to files for `tanto bulk`."""

import collections
import csv
import random
import subprocess


def text(path):
    """Returns the content of a .zst file."""
    return subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True, text=True).stdout


def write_resolved(graph, locations, makefiles, path):
    """Writes lines `NEEDED -> PACKAGE` as a resolved scan. Packages of one directory read the same makefiles."""
    needs = collections.defaultdict(list)
    packages = {}
    for line in graph.splitlines():
        needed, package = line.split(" -> ")
        packages[needed] = packages[package] = True
        needs[package].append(needed)
    with path.open("w") as file:
        for package in packages:
            location = locations.get(package, "unknown/unknown")
            file.write(f"PKGNAME={package}\nPKG_LOCATION={location}\nALL_DEPENDS=\n")
            file.write(f"SCAN_DEPENDS={makefiles.get(location, '')}\n")
            if needs[package]:
                file.write(f"DEPENDS={' '.join(needs[package])}\n")
    return path


def locations(scan):
    """Returns the directory of each package of a scan, and the makefiles read in each directory."""
    found, makefiles, name = {}, {}, None
    with scan.open() as file:
        for line in file:
            key, _, value = line.rstrip("\n").partition("=")
            if key == "PKGNAME":
                name = value
            elif key == "PKG_LOCATION":
                found[name] = value
            elif key == "SCAN_DEPENDS":
                makefiles.setdefault(found[name], value)
    return found, makefiles


def among(built, graph):
    """Returns the lines about built packages; dependents of failed packages were not tried."""
    lines = (line for line in graph.splitlines() if all(name in built for name in line.split(" -> ")))
    return "\n".join(lines)


def history(text_of_csv):
    """Returns the directories and the seconds of successful builds."""
    rows = [row for row in csv.DictReader(text_of_csv.splitlines()) if row["outcome"] == "success"]
    places = {row["pkgname"]: row["pkgpath"] for row in rows}
    return places, {row["pkgname"]: int(row["duration"]) / 1000 for row in rows}


def times(text_of_table):
    """Parses a table of seconds."""
    return {name: float(seconds) for name, seconds in (line.split("\t") for line in text_of_table.splitlines())}


def write_times(seconds, path):
    path.write_text("".join(f"{name}\t{took}\n" for name, took in seconds.items()))
    return path


def hide_half(seconds, seed):
    """Removes each package with a probability of one half."""
    draw = random.Random(seed)
    return {name: seconds[name] for name in sorted(seconds) if draw.random() < 0.5}
