"""Builds by two clients beside builds by two local slots, and the bytes that clients transfer."""

import hashlib
import os
import random
import re
import shutil
import subprocess

from lib import farms, machine, pkgsrc
from lib.timing import Row, print_table

BESIDE, REAL, BYTES = "beside", "real", "bytes"
CLIENTS = ("one", "two")
LOCAL, REMOTE = "2 slots", "2 clients"
# Packages, and seconds of processor time that each needs.
WORKING, SECONDS = 14, 3
# Packages with a megabyte that cannot be compressed, and package directories with files: in a build of a whole tree, a client
# transfers some gigabytes of packages, and a tree of which less than a hundred megabytes remain when it is compressed.
LARGE, DIRECTORIES = 14, 100
AGAIN = "nothing to do"


def beside(tanto, arguments):
    """Packages that compute, built by two slots and by two clients with one slot each. Both have built them once before: the
    clients have the package tree, and the order follows from the times."""
    farms.Working.turns = turns(SECONDS)
    return compare(tanto, arguments, BESIDE, (farms.Working, range(WORKING)), f"{WORKING} packages of {SECONDS} s")


def real(tanto, arguments):
    """The same with the packages of a prepared tree."""
    tree, why = pkgsrc.find(os.environ.get("TANTO_PKGSRC"), needs_pbulk=False)
    if tree is None:
        print(f"\n{REAL}: skipped: {why}")
        return {}
    return compare(tanto, arguments, REAL, (farms.RealPlace, tree), f"{len(tree.limited())} directories")


def compare(tanto, arguments, name, packages, title):
    kind, what = packages
    place = farms.begin("local")
    local = kind(tanto, place, what, 'sandbox = "bind"\nbuild_clients = 2\n')
    rows = {label: Row(label) for label in (LOCAL, REMOTE)}
    with farms.farm(tanto, name, kind, what) as farm:
        clients = [farm.client(client, 1) for client in CLIENTS]
        runs = {LOCAL: lambda: here(local), REMOTE: lambda: farm.run(clients, "--again")}
        for run in runs.values():
            run()
        for number in range(arguments.runs):
            for label in random.Random(number).sample(sorted(runs), 2):
                used = runs[label]()
                rows[label].wall.append(used.wall * 1e3)
                rows[label].cpu.append(used.cpu() * 1e3)
    shutil.rmtree(place)
    print_table(f"{name}: {title}", list(rows.values()))
    return {(name, label): row for label, row in rows.items()}


def turns(seconds):
    """Turns of bench/spin.c that take so much processor time."""
    trial = 200_000_000
    return int(trial * seconds / farms.finish(subprocess.Popen([machine.compile_c("spin"), str(trial)])))


def here(place):
    with (place.directory / "build.log").open("ab") as log:
        command = place.command("build", "--resolved", "presolve", "--again")
        build = subprocess.Popen(command, cwd=place.directory, env=place.environment, stdout=log, stderr=log)
        used = farms.finish(build)
    farms.check_end(build, place)
    return farms.Used(farms.span(place.directory), used)


class Large(farms.Place):
    """Packages of a megabyte, some of which need others, in a tree with many small files."""

    def scan(self, numbers):
        draw = random.Random(2)
        for number in range(DIRECTORIES):
            write_package_files(self.directory / f"tree/other/package{number}", draw)
        for number, needed in farms.graph(len(numbers)).items():
            place = self.directory / f"tree/large/large{number}"
            write_package_files(place, draw)
            depends = "".join(f"DEPENDS+= large{it}-[0-9]*:../../large/large{it}\n" for it in needed)
            (place / "Makefile").write_text(
                f"PKGNAME= large{number}-1\n{depends}do-build= head -c 1000000 /dev/urandom >large\n"
                f"HARDLINKS= share/large{number}:${{WRKSRC}}/large\n"
                '.include "../../mk/pkg.mk"\n'
            )
            yield farms.record(f"large{number}", "large", [f"large{it}" for it in needed])


def write_package_files(place, draw):
    """Writes files with about the sizes of those in pkgsrc."""
    place.mkdir(parents=True)
    words = [draw.randbytes(draw.randrange(2, 6)).hex() for _ in range(60)]
    for name, lines in (("Makefile", 25), ("DESCR", 8), ("PLIST", draw.randrange(4, 200))):
        (place / name).write_text("".join(" ".join(draw.choices(words, k=6)) + "\n" for _ in range(lines)))
    (place / "distinfo").write_text(f"SHA512 (distfile) = {draw.randbytes(64).hex()}\n")


def transferred(tanto, _):
    """Counts all bytes between two new clients and the server, and compares them with the files that the clients need."""
    with farms.farm(tanto, BYTES, Large, range(LARGE)) as farm:
        relays = {name: farms.Relay(farm.farm.port) for name in CLIENTS}
        clients = [farm.client(name, 1, port=relay.port) for name, relay in relays.items()]
        farm.run(clients)
        sent, needed = {name: relay.sent + relay.received for name, relay in relays.items()}, needs(farm.farm)
        for name in CLIENTS:
            print(f"{BYTES}: client {name}: {sent[name] / 1e6:.2f} MB transferred, {needed[name] / 1e6:.2f} MB needed", flush=True)
        before = counts(farm)
        farm.run(clients)
        blobs, bodies, uploads = (after - then for after, then in zip(counts(farm), before))
    return {BYTES: sum(sent.values()) / sum(needed.values()), (BYTES, AGAIN): blobs + (bodies if uploads else 0)}


def counts(farm):
    """Bytes of blobs that the server has sent, bytes of all requests, and the number of uploads."""
    uploads = r'tanto_requests_total\{route="(?:put|patch|put-pack)",.*\}'
    return [farm.count(it) for it in ("tanto_sent_blob_bytes_total", "tanto_received_bytes_total", uploads)]


def needs(farm):
    """The bytes that each client needs: the tree as one zstd stream, the kit, the packages that its packages need and that others have
    built, and the packages that it has built."""
    size = lambda number: (farm.directory / f"packages/All/large{number}-1.tgz").stat().st_size
    built, depends = {name: set() for name in CLIENTS}, farms.graph(LARGE)
    for package, client in farm.clients_of().items():
        built[client].add(int(re.fullmatch(r"large(\d+)-1", package)[1]))
    common = compressed_tree(farm.directory / "tree") + (farm.directory / "kit.tgz").stat().st_size
    inputs = {name: set().union(*(closure(number, depends) for number in own)) - own for name, own in built.items()}
    return {name: common + sum(map(size, built[name] | inputs[name])) for name in CLIENTS}


def closure(number, depends):
    """All packages that a package needs."""
    return {it for needed in depends[number] for it in (needed, *closure(needed, depends))}


def compressed_tree(tree):
    """The size of the manifest and of all different files of a tree."""
    lines, contents = [], {}
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        contents[digest] = content
        lines.append(f"{'x' if os.access(path, os.X_OK) else 'f'} {digest} {len(content)} {path.relative_to(tree)}\n")
    return sum(len(compressed(data)) for data in ("".join(lines).encode(), b"".join(contents.values())))


def compressed(data):
    return subprocess.run(["zstd", "-3", "-q", "-c"], input=data, capture_output=True, check=True).stdout

