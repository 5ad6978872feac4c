"""A copy of the tree in testdata/pkgsrc, and `tanto bulk` on it.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "testdata/pkgsrc"


class Place:
    """A copy of the tree, with everything that a bulk build needs."""

    # Exit codes of builds.
    ends = (0,)

    def __init__(self, tanto, directory, categories, settings):
        """Scans and resolves the packages of these categories. Settings without a sandbox mean none."""
        if "sandbox = " not in settings:
            settings = f'sandbox = "none"\n{settings}'
        self.tanto, self.directory = tanto, directory
        # Prefix of commands that run Tanto as another user.
        self.as_user = []
        shutil.copytree(TREE, directory / "tree")
        (directory / "kit").mkdir()
        (directory / "kit/from-the-kit").write_text("kit\n")
        (directory / "mk.conf").write_text(
            f"LOCALBASE= {directory}/prefix\nPKG_DBDIR= {directory}/prefix/pkgdb\nPACKAGES= {directory}/packages\n"
            f"DISTDIR= {directory}/distfiles\nWRKOBJDIR= {directory}/work\nOUTSIDE= {directory}/outside\nFLOOD_MB= 20\n"
        )
        tools = "".join(f'{tool} = "tree/tools/{tool}"\n' for tool in ("pkg_add", "pkg_delete"))
        (directory / "bulk.toml").write_text(
            f'pkgsrc = "tree"\nprefix = "prefix"\npkgdb = "prefix/pkgdb"\nbootstrapkit = "kit"\n'
            f'unprivileged_user = ""\n{tools}{settings}'
        )
        self.environment = {**os.environ, "MAKECONF": str(directory / "mk.conf")}
        if categories:
            (directory / "pscan").write_text("".join(self.scan(categories)))
            self.run("resolve", "--scan", "pscan", "--output", "presolve")

    def archive_kit(self):
        """Makes an archive of the kit, with the prefix in it."""
        prefix = str(self.directory / "prefix").lstrip("/")
        with tarfile.open(self.directory / "kit.tgz", "w:gz") as archive:
            archive.add(self.directory / "kit", prefix)
        config = self.directory / "bulk.toml"
        config.write_text(config.read_text().replace('bootstrapkit = "kit"', 'bootstrapkit = "kit.tgz"'))

    def make(self, place, *words):
        command = ["bmake", *words]
        directory = self.directory / "tree" / place
        return subprocess.run(
            command, cwd=directory, env=self.environment, capture_output=True, text=True, check=True
        ).stdout

    def scan(self, categories):
        for category in categories:
            for name in self.make(category, "show-subdir-var", "VARNAME=SUBDIR").split():
                for line in self.make(f"{category}/{name}", "pbulk-index").splitlines(keepends=True):
                    yield line
                    if line.startswith("PKGNAME="):
                        yield f"PKG_LOCATION={category}/{name}\n"

    def command(self, *words):
        return [*self.as_user, self.tanto, "bulk", *words]

    def run(self, *words, code=0):
        result = subprocess.run(
            self.command(*words), cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == code, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
        return result.stdout

    def error(self, *words):
        """Error message of a command that fails."""
        result = subprocess.run(
            self.command(*words), cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 1, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
        return result.stderr

    def build(self, code, *more):
        return self.run("build", "--resolved", "presolve", *more, code=code)

    def names(self):
        text = (self.directory / "presolve").read_text()
        return [line[8:] for line in text.splitlines() if line.startswith("PKGNAME=")]

    def packages(self):
        return sorted(path.name.removesuffix(".tgz") for path in (self.directory / "packages/All").glob("*.tgz"))

    def contents(self):
        """The modes, links and digests of the files in each package, but not the list of them, which has the prefix."""
        return {path.name: dict(members(path)) for path in (self.directory / "packages/All").glob("*.tgz")}

    def state(self, name):
        """The state and the reason."""
        _, _, said = self.run("why", name).partition("\n")[0].partition(": ")
        state, _, why = said.partition(" (")
        # A ready package of a running build says what it waits for.
        if state.startswith("waiting"):
            return "open", state
        return state, why.removesuffix(")")


def members(path):
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name == "+CONTENTS":
                continue
            data = archive.extractfile(member).read() if member.isreg() else b""
            yield member.name, (member.type, member.mode, member.linkname, hashlib.sha256(data).hexdigest())


class Some(Place):
    """A tree of which only some directories are built."""

    def scan(self, categories):
        for location in categories:
            for line in self.make(location, "pbulk-index").splitlines(keepends=True):
                yield line
                if line.startswith("PKGNAME="):
                    yield f"PKG_LOCATION={location}\n"


def can_create_sandboxes(user):
    """Whether this user can create sandboxes."""
    as_user = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    namespaces = ["unshare", "--mount", "--pid", "--net", "--fork"]
    as_root = [] if user is None and os.geteuid() == 0 else ["--user", "--map-root-user"]
    return subprocess.run([*as_user, *namespaces, *as_root, "true"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def memory_group(limit):
    """The file to join a control group with this memory limit; None if none can be created."""
    for place, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        directory = Path("/sys/fs/cgroup") / place / f"test-{os.getpid()}"
        try:
            directory.mkdir()
        except OSError:
            continue
        try:
            (directory / name).write_text(limit)
        except OSError:
            directory.rmdir()
            continue
        try:
            yield directory / "cgroup.procs"
        finally:
            directory.rmdir()
        return
    yield None
