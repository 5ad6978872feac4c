"""Synthetic packages in the format of pkg_install, and a sandbox to install them as layers or by pkg_add.

The bootstrap kit with pkg_add is the one in bulk.toml of a prepared tree."""

import io
import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

# Required by pkg_add.
BUILD_INFO = f"OPSYS=Linux\nOS_VERSION={platform.release()}\nMACHINE_ARCH={platform.machine()}\nPKGTOOLS_VERSION=20091115\n"
SCRIPT = '#!/bin/sh\n[ "$2" != POST-INSTALL ] || echo "$1" >"$PKG_PREFIX/share/$1.by-script"\n'


class Made:
    """A package: files with contents, links with targets, and lines of +CONTENTS."""

    def __init__(self, name, files=(), *, symlinks=(), hard_links=(), lines=(), script=None):
        self.name, self.files, self.script = name, dict(files), script
        self.symlinks, self.hard_links, self.lines = dict(symlinks), dict(hard_links), list(lines)

    def contents(self, prefix):
        paths = [*self.files, *self.hard_links, *self.symlinks]
        return "\n".join([f"@name {self.name}", f"@cwd {prefix}", *self.lines, *paths, ""])

    def write(self, directory, prefix):
        meta = {"+CONTENTS": self.contents(prefix), "+COMMENT": "made up\n", "+DESC": "Made up.\n"}
        meta |= {"+INSTALL": self.script} if self.script else {}
        meta["+BUILD_INFO"] = BUILD_INFO
        with tarfile.open(directory / f"{self.name}.tgz", "w:gz", compresslevel=1, format=tarfile.PAX_FORMAT) as archive:
            for path, text in {**meta, **self.files}.items():
                add(archive, path, text.encode(), mode=0o555 if path.startswith(("bin/", "+INSTALL")) else 0o644)
            for path, target in self.hard_links.items():
                add(archive, path, b"", kind=tarfile.LNKTYPE, target=target)
            for path, target in self.symlinks.items():
                add(archive, path, b"", kind=tarfile.SYMTYPE, target=target)


def add(archive, path, content, mode=0o644, kind=tarfile.REGTYPE, target=""):
    member = tarfile.TarInfo(path)
    member.size, member.mode, member.mtime = len(content), mode, 1_500_000_000
    member.type, member.linkname, member.uname, member.gname = kind, target, "root", "root"
    archive.addfile(member, io.BytesIO(content))


def one_of_each_kind():
    """Yields a package for each kind of installation."""
    yield Made("plain-1.0", {"bin/plain": "#!/bin/sh\n", "share/doc/plain/README": "text\n"})
    deep = "/".join(["share", *("a-directory-with-a-long-name" for _ in range(8)), "file"])
    yield Made("long-1.0", {deep: "deep\n"}, lines=["@pkgdep plain>=1"])
    links = {"lib/liblinks.so": "liblinks.so.1", "lib/gone": "nowhere", "lib/" + "l" * 120: "t" * 120}
    yield Made("links-2.1nb3", {"lib/liblinks.so.1": "code\n"}, symlinks=links, hard_links={"lib/b": "lib/liblinks.so.1"})
    yield Made("dirs-1.0", lines=["@pkgdir var/empty", "@pkgdir share/doc", "@pkgdep links-[0-9]*", "@pkgdep {none,plain}"])
    yield Made("script-1.0", {"lib/script": "x\n"}, lines=["@pkgdep plain", "@pkgdir share/doc"], script=SCRIPT)
    yield Made("exec-1.0", {"lib/exec": "x\n"}, lines=["@exec echo exec >>%D/share/by-exec", "@pkgdep dirs>=1"])
    yield Made("user-1.0", {"lib/user": "x\n"}, lines=["@pkgdep script>=0.9", "@pkgdep plain>=1.0<2", "@pkgdep dirs-1.0"])
    yield Made("top-1.0", {"bin/top": "x\n"}, lines=["@pkgdep user-[0-9]*", "@pkgdep exec-[0-9]*"])


def many(count, files=60):
    """Yields packages with dependencies; one in ten runs a script."""
    for number in range(count):
        needed = sorted({number // 2, number // 3, number - 1} - {number, -1})
        own = {f"share/many{number}/{it}": f"{number} {it}\n" * 200 for it in range(files)}
        script = SCRIPT if number % 10 == 9 else None
        yield Made(f"many{number}-1.0", own, lines=[f"@pkgdep many{it}-[0-9]*" for it in needed], script=script)


class Sandbox:
    """A sandbox in a directory, with a bootstrap kit and a store of layers."""

    def __init__(self, tanto, directory, settings):
        self.tanto, self.directory = tanto, directory
        self.prefix, self.pkgdb = settings["prefix"], settings["pkgdb"]
        self.pkg_add = settings["pkg_add"]
        self.packages, self.kit = directory / "packages", directory / "kit"
        for name in ("packages", "kit", "nothing", "place"):
            (directory / name).mkdir(parents=True)
        subprocess.run(["tar", "-xzf", settings["bootstrapkit"], "-C", self.kit], check=True)
        self.forget_layers()
        (directory / "place/plan").write_text("".join("\t".join(line) + "\n" for line in self.plan()))

    def forget_layers(self):
        shutil.rmtree(self.directory / "layers", ignore_errors=True)
        for name in ("new", "gone", "users", "layers"):
            (self.directory / "layers" / name).mkdir(parents=True)

    def plan(self):
        """Yields the sandbox plan in the format of tanto-exec/src/sandbox/text.rs."""
        inside = lambda place: self.kit / place.lstrip("/")
        yield from (("own", "/var", "493"), ("own", "/tmp", "1023"), ("devices", "/dev"), ("look", "/etc", "/etc"))
        for name in ("/bin", "/lib", "/lib64", "/sbin"):
            path = Path(name)
            yield ("link", name, str(path.readlink())) if path.is_symlink() else ("look", name, name)
        yield ("over", "/usr", *(str(it) for it in (inside("/usr"), Path("/usr")) if it.is_dir()))
        yield "look", str(self.directory), str(self.directory)
        places = [self.prefix] if Path(self.pkgdb).is_relative_to(self.prefix) else [self.prefix, self.pkgdb]
        for place in places:
            yield "over", place, str(inside(place) if inside(place).is_dir() else self.directory / "nothing")

    def needs(self, direct, indirect):
        """Writes the dependencies in the format of tanto-bulk/src/attempt/layers/layer_request.rs."""
        one = {
            "store": self.directory / "layers",
            "size": 0,
            "prefix": self.prefix,
            "pkgdb": self.pkgdb,
            "user": "false",
            "packages": self.packages,
            "suffix": ".tgz",
            "pkg_add": self.pkg_add,
        }
        lines = [*one.items(), *(("direct", it) for it in direct), *(("indirect", it) for it in indirect), ("end", "")]
        path = self.directory / "place/needs"
        path.write_text("".join(f"{key} {value}\n" for key, value in lines))
        return path

    def command(self, direct, indirect, *, layers, then=":"):
        """Returns a command that mounts the sandbox in a mount namespace, installs packages (`layers`: True for layers, False
        for pkg_add, None for no packages), and runs a line in it."""
        enter = f"'{self.tanto}' bulk enter --place='{self.directory}/place'"
        needs = f"--needs='{self.needs(direct, indirect)}' " if layers else ""
        provide = f'{enter} {needs}-- "$1"\n' if layers is not None else ""
        script = f'{enter} --fresh -- :\n{provide}{enter} -- "$2"\n{enter} --leave\n'
        by_pkg_add = f"PKG_PATH='{self.packages}' {self.pkg_add} -K '{self.pkgdb}' {' '.join(direct)}"
        return [shutil.which("unshare"), "-m", "--propagation", "private", "/bin/sh", "-ec", script, "sh", by_pkg_add, then]
