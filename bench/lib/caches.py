"""Caches of compiles to compare: Tanto's, and its peers."""

import json
import os
import shutil
import socket
import subprocess
import time

from lib.scenarios import ENVIRONMENT

ON, OFF = "tanto, cache on", "tanto, cache off"
TICKS = os.sysconf("SC_CLK_TCK")


class Side:
    """A way to build. `manifest` says which of the manifests of a checkout it builds; `launcher` goes before the compiler.
    `place` is the directory of its cache, which is its own."""

    label = manifest = "ninja"
    launcher = ""

    def __init__(self, command, place):
        self.command, self.place, self.is_filled = [str(word) for word in command], place, False

    def line(self, jobs):
        return [*self.command, f"-j{jobs}", "-f", f"{self.manifest}.ninja"]

    def variables(self, root):
        """Returns variables that set the directory of the cache. `root` is the root of the checkout."""
        return {}

    def environment(self, root):
        return ENVIRONMENT | {name: str(value) for name, value in self.variables(root).items()}

    def enter(self, root):
        """The next build of the checkout is that of this side, in an empty build directory."""

    def empty(self):
        """Empties the cache. It may run until `stop`."""
        self.stop()
        self.is_filled = False
        shutil.rmtree(self.place, ignore_errors=True)
        self.start()

    def start(self):
        self.place.mkdir(parents=True, exist_ok=True)

    def stop(self):
        pass

    def server_ms(self):
        """Returns the processor time of its server so far."""
        return 0

    def note_output(self, text):
        """A build has printed this."""

    def counts(self):
        """Returns hits and misses so far; None if it does not count them."""
        return None

    def save(self):
        """Keeps a copy of the cache, which `restore` puts in its place."""
        saved = self.place.with_name(self.place.name + ".saved")
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(self.place, saved, symlinks=True)

    def restore(self):
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.place.with_name(self.place.name + ".saved"), self.place, symlinks=True)


class Tanto(Side):
    def __init__(self, tanto, mode, place):
        super().__init__([tanto, "build", f"--cache={mode}"], place)
        self.label = ON if mode == "on" else OFF

    def variables(self, root):
        return {"XDG_CACHE_HOME": self.place}

    def directory(self):
        return self.place / "tanto/cache"

    def counts(self):
        """A command that cannot be cached is a miss."""
        counters = self.directory() / "counters"
        if not counters.exists():
            return 0, 0
        numbers = dict(line.split() for line in counters.read_text().splitlines())
        return int(numbers["hits"]), int(numbers["misses"]) + int(numbers["not_cacheable"])


class Ccache(Side):
    label, manifest, launcher = "ccache + ninja", "ccache", "/usr/bin/ccache "
    is_relative = False

    def variables(self, root):
        # The file does not exist: default settings.
        own = {"CCACHE_DIR": self.place, "CCACHE_CONFIGPATH": self.place / "none"}
        return own | ({"CCACHE_BASEDIR": root} if self.is_relative else {})

    def counts(self):
        command = [self.launcher.strip(), "--print-stats"]
        done = subprocess.run(command, env=self.environment(self.place), capture_output=True, text=True, check=True)
        numbers = dict(line.split("\t") for line in done.stdout.splitlines())
        return int(numbers["direct_cache_hit"]) + int(numbers["preprocessed_cache_hit"]), int(numbers["cache_miss"])


class Sccache(Side):
    """Its server is started with the empty cache. It compiles and restores, so its time and that of its children counts."""

    label, manifest = "sccache + ninja", "sccache"

    def __init__(self, command, place, program):
        super().__init__(command, place)
        self.program, self.server = program, None
        self.launcher = f"{program} "
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def variables(self, root):
        return {"SCCACHE_DIR": self.place, "SCCACHE_CONF": self.place / "none", "SCCACHE_SERVER_PORT": self.port}

    def start(self):
        super().start()
        alone = {"SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1", "SCCACHE_IDLE_TIMEOUT": "3600"}
        environment = self.environment(self.place) | alone
        silent = subprocess.DEVNULL
        self.server = subprocess.Popen([self.program], env=environment, stdin=silent, stdout=silent, stderr=silent)
        end = time.monotonic() + 20
        while not self.answers():
            if time.monotonic() > end or self.server.poll() is not None:
                raise SystemExit("sccache: its server does not start")
            time.sleep(0.02)

    def answers(self):
        with socket.socket() as to:
            return to.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        if self.server is not None:
            self.server.terminate()
            self.server.wait()
            self.server = None

    def server_ms(self):
        with open(f"/proc/{self.server.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        # utime, stime, and those of children that have ended
        return sum(map(int, fields[11:15])) * 1000 / TICKS

    def counts(self):
        command = [self.program, "--show-stats", "--stats-format=json"]
        done = subprocess.run(command, env=self.environment(self.place), capture_output=True, text=True, check=True)
        stats = json.loads(done.stdout)["stats"]
        return tuple(sum(stats[name]["counts"].values()) for name in ("cache_hits", "cache_misses"))


class Rninja(Side):
    """A ninja with a cache of its own."""

    label = "rninja"

    def __init__(self, program, place):
        super().__init__([program, "--no-daemon"], place)
        self.hits = self.misses = 0

    def enter(self, root):
        # It does not make directories of outputs.
        (root / "out").mkdir(exist_ok=True)

    def variables(self, root):
        return {"RNINJA_CACHE_DIR": self.place, "RNINJA_CACHE_MODE": "local", "HOME": self.place}

    def note_output(self, text):
        lines = text.splitlines()
        self.hits += sum(line.endswith("(cached)") for line in lines)
        self.misses += sum(line.startswith("[") and not line.endswith("(cached)") for line in lines)

    def counts(self):
        return self.hits, self.misses


class Mbx(Side):
    """Puts programs with the names of compilers first in PATH. None has a version in its name."""

    label = "mbx + ninja"

    def __init__(self, program, ninja, place):
        super().__init__([program, "exec", "--", ninja], place)

    def variables(self, root):
        names = ("MBX_CACHE_DIR", "MBX_SHIMS_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
        return {name: self.place / name for name in names}


def input_lists(directory):
    """Yields the bytes and the number of the inputs of each list in a cache of Tanto. The format is that of
    crates/tanto-cache/src/entry.rs."""
    for path in directory.glob("actions/??/*"):
        content = path.read_bytes()
        if not content.startswith(b"TCA3"):
            raise SystemExit(f"{path}: not the format of this script")
        entries, at = content[37], 38
        for _ in range(entries):
            length = int.from_bytes(content[at + 8 : at + 12], "little")
            packed = content[at + 12 : at + 12 + length]
            # The last byte of a number is below 0x80.
            yield length, sum(byte < 0x80 for byte in packed)
            # The digest, and whether outputs must be absent.
            at += 12 + length + 32 + 1
            at += 4 + 65 * int.from_bytes(content[at : at + 4], "little")
            for _ in range(2):
                at += 33 if content[at] else 1
            at += 12
        if at != len(content):
            raise SystemExit(f"{path}: not the format of this script")
