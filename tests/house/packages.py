"""Rules of the manifests: dependencies between crates, unsafe code, and the budgets of ./test."""

import json
import re
import subprocess
import sys
from pathlib import Path

TESTING = "tanto-testing"


def packages(root):
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"]
    done = subprocess.run(command, cwd=root, capture_output=True)
    if done.returncode != 0:
        sys.exit("cargo metadata failed: " + done.stderr.decode())
    return json.loads(done.stdout)["packages"]


def dependencies(members, allowed, unrestricted):
    """`allowed` maps a crate to the crates that it may depend on. All tests may use TESTING."""
    for package in members:
        name = package["name"]
        if name not in unrestricted | set(allowed):
            yield f"{name}: add its dependencies to tests/house.py and ARCHITECTURE.md"
            continue
        for dependency in package["dependencies"]:
            to = dependency["name"]
            if to == TESTING:
                good = dependency["kind"] == "dev" or name == "tanto-fuzz"
            else:
                good = name in unrestricted or to in allowed[name] or not to.startswith("tanto")
            if not good:
                yield f"{name} may not depend on {to}"


def unsafe_code(members, root, may_be_unsafe):
    workspace = (root / "Cargo.toml").read_text()
    if not re.search(r'^unsafe_code = "forbid"$', workspace, re.M):
        yield 'Cargo.toml: [workspace.lints.rust] has no unsafe_code = "forbid"'
    for package in members:
        manifest = Path(package["manifest_path"]).read_text()
        if package["name"] in may_be_unsafe:
            if not re.search(r'^undocumented_unsafe_blocks = "deny"$', manifest, re.M):
                yield f"{package['name']}: undocumented_unsafe_blocks is not denied"
        elif not re.search(r"^\[lints\]\nworkspace = true$", manifest, re.M):
            yield f"{package['name']}: does not inherit the workspace's lints, which forbid unsafe code"


def budgets(sources):
    """The budgets of ./test and the table in CONTRIBUTING.md are the same."""
    texts = {source.name: source.text for source in sources}
    script = re.findall(r'^    "(\w+) +[qfl]+ +(\d+)"$', texts.get("test", ""), re.M)
    table = re.findall(r"^\| `(\w+)` \|.*\| *(\d+) s \|$", texts.get("CONTRIBUTING.md", ""), re.M)
    if script != table:
        yield f"CONTRIBUTING.md: the budgets {table} differ from those of ./test, {script}"
