"""Runs pbulk with its own scripts: a scan, and a whole build with clients on this machine.

The path of the configuration is fixed in the scripts, so a run uses modified copies. Each client has a chroot: this system
with an empty prefix, package database and work directory."""

import re
import shutil
import socket
from pathlib import Path

# The installed configuration, for the paths of programs.
CONF = "etc/pbulk.conf"
CHANGED = """
master_mode=yes
master_ip=127.0.0.1
master_port_scan=127.0.0.1:{scan_port}
master_port_build=127.0.0.1:{build_port}
scan_clients="{clients}"
build_clients="{clients}"
bootstrapkit={bootstrapkit}
unprivileged_user={unprivileged_user}
bulklog={place}/bulklog
packages={place}/packages
prefix={prefix}
pkgsrc={pkgsrc}
pkgdb={pkgdb}
varbase={place}/var
limited_list={place}/limited-list
pkg_info={tools}/pkg_info
pkg_add={pkg_add}
pkg_delete={pkg_delete}
make={make}
loc=${{bulklog}}/meta
client_prepare=:
rsync=:
mail=:
"""


class Pbulk:
    """A run in a directory. `clients` are chroots, or empty strings for plain processes. In chroots, work directories and
    temporary files can be in memory."""

    def __init__(self, tree, place, clients, limited=(), memory=False, **changes):
        self.tree, self.place, self.memory = tree, place, memory
        self.installed = tree.pbulk.resolve()
        self.scripts = place / "scripts"
        self.loc = place / "bulklog/meta"
        self.loc.mkdir(parents=True)
        (place / "packages").mkdir()
        self.ports = {"scan": free_port(), "build": free_port()}
        settings = {**tree.settings, **changes}
        conf = (self.installed / CONF).read_text() + CHANGED.format(
            scan_port=self.ports["scan"],
            build_port=self.ports["build"],
            clients=" ".join(map(str, clients)),
            place=place,
            tools=Path(settings["pkg_add"]).parent,
            **{name: settings[name] for name in SETTINGS},
        )
        (place / "limited-list").write_text("\n".join([*(limited or tree.limited()), ""]))
        self.copy_scripts()
        (place / "pbulk.conf").write_text(self.own_scripts(conf))
        self.settings, self.clients = settings, clients
        self.pkgsrc, self.make = settings["pkgsrc"], settings["make"]

    def copy_scripts(self):
        theirs = self.installed / "libexec/pbulk"
        shutil.copytree(theirs, self.scripts)
        for path in self.scripts.iterdir():
            text = re.sub(r"(?m)^\. \S+/pbulk\.conf$", f". {self.place}/pbulk.conf", path.read_text())
            # Skips summaries and digests after the build.
            text = re.sub(r"(?ms)^date '\+BUILD_END_ISO.*", "", text)
            # The master may crash if a client connects before this script has ended.
            text = re.sub(r"(?m)^(\s+)(chroot .*) &$", r"\1(sleep 0.2; \2) &", text)
            path.write_text(self.own_scripts(text))

    def own_scripts(self, text):
        return text.replace(str(self.installed / "libexec/pbulk"), str(self.scripts))

    def program(self, name):
        return str(self.installed / "bin" / name)

    def scan_command(self, output):
        """Returns a command that scans the whole tree with clients as plain processes, and waits for them, so that their CPU
        time is included."""
        master_at = f"127.0.0.1:{self.ports['scan']}"
        program, make, ready = self.program("pbulk-scan"), self.make, self.place / "ready"
        self.script("say-ready", f": >{ready}\n")
        client = f"{program} -c {master_at} -M {make} {self.pkgsrc} &\n"
        return [
            self.script(
                "scan-all",
                f"rm -rf {ready} {self.place}/cache; export PBULK_CACHE_DIRECTORY={self.place}/cache\n"
                f"{program} -I {self.place}/say-ready -m {master_at} -M {make} {self.pkgsrc} {output} &\n"
                f"until [ -e {ready} ]; do sleep 0.01; done\n{client * len(self.clients)}wait\n",
            )
        ]

    def script(self, name, text):
        path = self.place / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return str(path)

    def build_command(self):
        """Returns a command for all phases in a mount namespace of its own."""
        lines = ["set -e", "mount --make-rprivate /", *self.mounts(self.place / "own", "")]
        for root in self.clients:
            lines += [f"mkdir -p {root}", f"mount --bind / {root}"]
            lines += [f"mount -t tmpfs -o mode=1777 none {root}/tmp"] if self.memory else []
            lines += [f"mount --rbind {at} {root}{at}" for at in ("/dev", "/proc", "/sys")]
            lines += [f"mkdir -p {root}{at} && mount --bind {at} {root}{at}" for at in (self.tree.place, self.place)]
            lines += self.mounts(Path(f"{root}-own"), root)
            if self.memory:
                lines += [f"mount -t tmpfs -o mode=1777 none {root}{self.settings['wrkobjdir']}"]
            lines += [f"chroot {root} {self.scripts}/client-clean"]
        lines += [f"export PBULK_CACHE_DIRECTORY={self.place}/cache"]
        lines += [f"{self.scripts}/{phase}" for phase in ("scan", "build")]
        return ["unshare", "--mount", self.script("whole", "\n".join([*lines, ""]))]

    def mounts(self, own, root):
        """Yields commands that mount private directories, which protect those of the machine."""
        for at in dict.fromkeys((self.settings["prefix"], self.settings["pkgdb"], self.settings["wrkobjdir"])):
            mode = "1777" if at == self.settings["wrkobjdir"] else "755"
            yield f"mkdir -p {at} && mkdir -p -m {mode} {own}{at} && mount --bind {own}{at} {root}{at}"

    def names(self, outcome):
        """Returns the packages listed in `success` or in `error`."""
        path = self.loc / outcome
        return set(path.read_text().split()) if path.exists() else set()


SETTINGS = ("bootstrapkit", "unprivileged_user", "prefix", "pkgsrc", "pkgdb", "pkg_add", "pkg_delete", "make")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
