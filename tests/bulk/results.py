"""Reports, publishing and signing after `tanto bulk build`.

    results.py TANTO

TANTO_PKG_INFO and TANTO_PKG_ADMIN name pkg_install's programs, if present; their results have to agree. The version of
2017 does not accept signatures of GnuPG 2.1 and later, so gpg1, if present, signs the packages that they check.
"""

import gzip
import hashlib
import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from place import Some, can_create_sandboxes

# Packages with each kind of outcome.
PACKAGES = (
    *("base/kit", "base/zero", "devel/libone", "devel/libtwo", "devel/app", "trouble/broken", "trouble/needbroken"),
    *("trouble/restricted", "trouble/needrestricted", "trouble/skip", "trouble/needskip"),
)

PKG_ADMIN = os.environ.get("TANTO_PKG_ADMIN")
GPG = "gpg1" if PKG_ADMIN and shutil.which("gpg1") else "gpg"


def reports(tanto, directory):
    place = Some(tanto, directory, PACKAGES, "")
    assert "nothing was built yet" in place.error("report")
    place.build(1)
    text = place.run("report")
    broken = text[text.index("broken-1  trouble/broken  nobody@example.org\n") :]
    assert "build exited with 1 (compiler); 1 package needs it\n    | broken.c:1: error: it does not compile\n" in broken
    assert f"{directory}/bulklog/broken-1/1/build.log" in broken
    assert "skip is not for this platform" in text and "Since bulk build" not in text
    report = json.loads(place.run("report", "--json"))
    assert report["counts"] == {"done": 7, "failed": 1, "indirect-failed": 1, "prefailed": 1, "indirect-prefailed": 1}
    failure = report["failures"][0]
    assert (failure["package"], failure["kind"], failure["blocks"]) == ("broken-1", "compiler", 1), failure
    assert report["bound_ms"] <= report["wall_ms"] and report["estimates"]["guessed"]["count"] == 7
    place.run("report", "--html", "report.html")
    page = (directory / "report.html").read_text()
    assert "broken.c:1: error: it does not compile" in page and page.count("<rect") == 8
    records = place.run("report", "--pbulk").split("PKGNAME=")[1:]
    statuses = {record.split("\n")[0]: record.split("BUILD_STATUS=")[1].strip() for record in records}
    assert statuses["needskip-1"] == "indirect-prefailed" and statuses["libone-1.2nb3"] == "done", statuses
    assert "PKG_DEPTH=2\n" in next(record for record in records if record.startswith("broken-1"))
    changed(place, directory)
    print("ok reports: failures, reasons, blocked packages and changes are reported in four formats")


def changed(place, directory):
    """The next build has one package fixed."""
    makefile = directory / "tree/trouble/broken/Makefile"
    makefile.write_text(makefile.read_text().replace("exit 1", "exit 0"))
    place.build(0)
    text = place.run("report")
    assert "0 broken\n2 fixed:\n    broken-1\n    needbroken-1\n0 new\n0 gone\n" in text, text
    assert "guessed: half of" in text, text
    report = json.loads(place.run("report", "--json"))
    assert [change["package"] for change in report["changes"]["fixed"]] == ["broken-1", "needbroken-1"]
    assert {cost["package"] for cost in report["costs"]} == {"broken-1", "needbroken-1"}, "wrong costs"


def has_pressure():
    """Whether control groups with pressure stall information can be created."""
    mounts = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    roots = [Path(fields[4]) for fields in mounts if fields[fields.index("-") + 1] == "cgroup2"]
    ours = [line[3:].strip("/") for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    if not roots or not ours:
        return False
    group = roots[0] / ours[0] / f"test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return False
    try:
        return "some" in (group / "cpu.pressure").read_text()
    except OSError:
        return False
    finally:
        group.rmdir()


def waits(tanto, directory, settings):
    """Two processes compete for one CPU; the waiting time is recorded even though both have exited when the stage
    ends."""
    place = Some(tanto, directory, ("base/kit", "devel/libone"), settings)
    makefile = directory / "tree/devel/libone/Makefile"
    busy = "i=0; while test $$i -lt 200000; do i=$$((i+1)); done"
    processor = min(os.sched_getaffinity(0))
    both = f"for n in 1 2; do taskset -c {processor} sh -c '{busy}' & done; wait"
    makefile.write_text(makefile.read_text().replace("PKGNAME", f"do-build= {both}\nPKGNAME"))
    place.build(0)
    text, report = place.run("report"), json.loads(place.run("report", "--json"))
    costs = {cost["package"]: cost for cost in report["costs"]}
    if not has_pressure():
        assert "I/O WAIT and CPU WAIT were not recorded" in text, text
        assert "cpu_wait_ms" not in costs["libone-1.2nb3"]
        return print("waits: not measured on this machine, and the report says so")
    assert "were not recorded" not in text and costs["libone-1.2nb3"]["cpu_wait_ms"] > 0, costs
    assert all("io_wait_ms" in cost for cost in costs.values()), costs
    print(f"ok waits ({settings.strip()}): the report has the time that packages waited for a processor")


def publishing(directory):
    """Settings that publish packages, reports and mails to a directory."""
    mail = directory / "mail"
    mail.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{directory}/letter.to\ncat >{directory}/letter\n")
    mail.chmod(0o755)
    for name in ("server/packages", "server/reports"):
        (directory / name).mkdir(parents=True)
    return (
        f'pkg_rsync_args = "-a --delete-excluded"\npkg_rsync_target = "{directory}/server/packages"\n'
        f'report_rsync_args = "-a"\nreport_rsync_target = "{directory}/server/reports"\nmail = "./mail"\n'
        'report_recipients = "one@example.org two@example.org"\nreport_subject_prefix = "test"\n'
        'base_url = "http://example.org/reports"\n'
    )


def publish(tanto, directory):
    if not shutil.which("rsync"):
        print("publish: skipped: rsync is missing")
        return
    place = Some(tanto, directory, PACKAGES, publishing(directory))
    assert "nothing was built yet" in place.error("publish")
    place.build(1)
    (directory / "packages/All/left-over-1.tgz").write_text("of an earlier build")
    output = place.run("publish")
    assert "not published: restricted-1 (NO_BIN_ON_FTP: No redistribution)\n" in output, output
    assert "not published: needrestricted-1 (it needs restricted-1)\n" in output, output
    free = sorted(set(place.packages()) - {"restricted-1", "needrestricted-1", "left-over-1"})
    server = directory / "server/packages"
    files = {path.name for path in (server / "All").iterdir()}
    assert files == {f"{name}.tgz" for name in free} | {"pkg_summary.gz"}, files
    summary(server, free)
    for line in gzip.decompress((server / "SHA512.gz").read_bytes()).decode().splitlines():
        name, digest = line.removeprefix("SHA512 (").split(") = ")
        files.remove(name.removeprefix("All/"))
        assert hashlib.sha512((server / name).read_bytes()).hexdigest() == digest, line
    assert not files, f"SHA512.gz lacks {files}"
    (report,) = (directory / "server/reports").iterdir()
    sent = {str(path.relative_to(report)) for path in report.rglob("*") if path.is_file()}
    expected = {f"meta/{name}" for name in ("report.gz", "report.txt", "report.html", "report.json", "status")}
    assert expected | {"broken-1/1/build.log"} <= sent and not any("presolve" in name for name in sent), sent
    letter = (directory / "letter").read_text()
    assert f"Full report: http://example.org/reports/{report.name}/meta/report.html\n" in letter, letter
    assert "broken.c:1: error: it does not compile" in letter
    subject = (directory / "letter.to").read_text().splitlines()
    assert subject[0] == "-s" and subject[1].startswith("test Linux") and subject[2:] == ["one@example.org", "two@example.org"]
    assert (directory / "bulklog/meta/success").read_text().count("\n") == 7
    again(place, directory, server)
    print("ok publish: redistributable packages and their metadata are uploaded, and restricted ones are not")


def again(place, directory, server):
    """Publishing again succeeds; an unreachable server or a bad reply is an error."""
    before = {path: path.stat().st_mtime_ns for path in server.rglob("*.tgz")}
    package = directory / "packages/All/libone-1.2nb3.tgz"
    content, summary = package.read_bytes(), (directory / "packages/All/pkg_summary.gz").read_bytes()
    package.write_bytes(content + b"x")
    assert "libone-1.2nb3.tgz is not the file that was built: 'tanto bulk retry" in place.error("publish")
    assert (directory / "packages/All/pkg_summary.gz").read_bytes() == summary
    foreign(place, directory, package, content)
    package.write_bytes(content)
    os.utime(package, ns=(before[server / "All" / package.name],) * 2)
    place.run("publish")
    assert before == {path: path.stat().st_mtime_ns for path in server.rglob("*.tgz")}
    resumed(place, directory, server)
    toml = directory / "bulk.toml"
    toml.write_text(toml.read_text().replace(f'"{server}"', f'"{directory}/no/such/place"'))
    (directory / "letter").unlink()
    result = subprocess.run(
        place.command("publish"), cwd=directory, env=place.environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1 and "7 packages" not in result.stdout and "packages are in" in result.stdout, result
    assert f"sent only part of the packages to {directory}/no/such/place" in result.stderr, result.stderr
    assert not (directory / "letter").exists(), "mail was sent for a failed publication"
    (directory / "packages/All/libone-1.2nb3.tgz").unlink()
    assert "libone-1.2nb3.tgz: No such file or directory" in place.error("publish")


def resumed(place, directory, server):
    """A second rsync does not resend files of an interrupted one."""
    toml = directory / "bulk.toml"
    before = toml.read_text()
    toml.write_text(before.replace("-a --delete-excluded", "-a --delete-excluded --delay-updates --no-whole-file --stats", 1))
    package, partial = server / "All/libone-1.2nb3.tgz", server / "All/.~tmp~"
    partial.mkdir()
    package.rename(partial / package.name)
    # The mtime differs, so it is compared.
    os.utime(partial / package.name, (5, 5))
    output = place.run("publish")
    matched = next(line.split()[2] for line in output.splitlines() if line.startswith("Matched data: "))
    assert int(matched.replace(",", "").replace(".", "")) > 0, output
    assert package.read_bytes() == (directory / "packages/All" / package.name).read_bytes() and not partial.exists()
    toml.write_text(before)


def foreign(place, directory, package, content):
    """A package that Tanto did not build has no recorded digest; its own digests are compared."""
    with sqlite3.connect(directory / "state/db") as db:
        db.execute("DELETE FROM file WHERE name = 'libone-1.2nb3'")
    archive = bytearray(gzip.decompress(content))
    at = archive.rindex(b"\nlibone") if b"\nlibone" in archive else len(archive.rstrip(b"\0")) - 2
    archive[at] ^= 1
    for damaged, why in (
        (content[:-6] + bytes([content[-6] ^ 1]) + content[-5:], "corrupt gzip stream does not have a matching checksum"),
        (gzip.compress(bytes(archive)), "the package is damaged: "),
        (content[: len(content) // 2], "the package is truncated"),
    ):
        package.write_bytes(damaged)
        output = place.error("publish")
        assert f"{package}: " in output and why in output and "'tanto bulk retry libone-1.2nb3'" in output, output


def summary(server, names):
    """pkg_summary has the metadata of each package."""
    text = gzip.decompress((server / "All/pkg_summary.gz").read_bytes()).decode()
    entries = [dict(line.split("=", 1) for line in entry.splitlines()) for entry in text.split("\n\n") if entry]
    assert [entry["PKGNAME"] for entry in entries] == names, names
    for entry in entries:
        path = server / "All" / entry["FILE_NAME"]
        assert entry["FILE_SIZE"] == str(path.stat().st_size) and entry["OPSYS"] == "Linux", entry
    assert next(entry for entry in entries if entry["PKGNAME"] == "app-0.9")["PKGPATH"] == "devel/app"
    pkg_info = os.environ.get("TANTO_PKG_INFO")
    if pkg_info:
        files = [server / "All" / f"{name}.tgz" for name in names]
        theirs = subprocess.run([pkg_info, "-X", *files], capture_output=True, text=True, check=True).stdout
        assert text == theirs, "differs from pkg_info -X"


def key(directory):
    """A new key, for another user if run as root, and settings that sign with it."""
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    directory.chmod(0o711)
    keys = directory / "keys"
    keys.mkdir(mode=0o700)
    os.chown(keys, user.pw_uid, user.pw_gid)
    environment = {"PATH": os.environ["PATH"], "GNUPGHOME": str(keys), "HOME": str(keys)}

    def gpg(*words, text=""):
        command = [GPG, "--batch", "--quiet", *words]
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        result = subprocess.run(
            command, input=text.encode(), env=environment, capture_output=True, check=True, cwd="/", **as_user
        )
        return result.stdout

    wanted = "%no-protection\nKey-Type: RSA\nKey-Length: 2048\nName-Email: test@example.org\nExpire-Date: 0\n%commit\n"
    gpg(*(["--quick-random"] if GPG == "gpg1" else []), "--gen-key", text=wanted)
    command = f"{GPG} --batch --quiet --detach-sign --armor --digest-algo SHA512 --output - -"
    settings = f'sign_command = "{command}"\nsign_keys = "keys"\nsign_user = "{user.pw_name}"\n'
    return settings, gpg("--export"), environment


def members(path):
    """Members of an ar archive."""
    content = path.read_bytes()
    assert content.startswith(b"!<arch>\n")
    at, found = 8, []
    while at < len(content):
        name, size = content[at : at + 16].decode().strip(), int(content[at + 48 : at + 58])
        body = content[at + 60 : at + 60 + size]
        if name.startswith("#1/"):
            length = int(name[3:])
            name, body = body[:length].decode(), body[length:]
        found.append((name, body))
        at += 60 + size + size % 2
    return found


def sign(tanto, directory):
    if not shutil.which(GPG) or not shutil.which("gpgv"):
        print("sign: skipped: gpg or gpgv is missing")
        return
    settings, public, environment = key(directory)
    try:
        place = Some(tanto, directory, PACKAGES, 'sandbox = "none"\nbuild_clients = 1\n')
        place.build(1)
        toml = directory / "bulk.toml"
        toml.write_text(toml.read_text() + settings)
        assert "builds can read the key in sign_keys" in place.error("build", "--resolved", "presolve")
        output = place.run("publish")
        assert "5 packages were signed\n" in output, output
        (directory / "public.gpg").write_bytes(public)
        for path in (directory / "signed/All").glob("*.tgz"):
            signed(directory, path)
        assert not (directory / "signed/All/restricted-1.tgz").exists()
        assert "were signed" not in place.run("publish"), "packages were signed twice"
        unsigned(place, directory, environment)
        gpg_certified(place, directory)
        refused(place, directory)
    finally:
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=environment, check=False)
    print("ok sign: packages are signed as by pkg_admin, and only under their own names")


def signed(directory, path):
    """gpg accepts the signature, and the signed content is the package."""
    (_, text), (form, signature), (name, package) = members(path)
    assert (form, name) == ("+PKG_GPG_SIGNATURE", path.name)
    (directory / "text").write_bytes(text)
    (directory / "signature").write_bytes(signature)
    verify = ["gpgv", "--keyring", directory / "public.gpg", directory / "signature", directory / "text"]
    subprocess.run(verify, capture_output=True, check=True)
    assert package == (directory / "packages/All" / path.name).read_bytes()
    lines = text.decode().split("\n")
    assert lines[3] == f"pkgname: {path.name.removesuffix('.tgz')}" and lines[6] == f"file size: {len(package)}"
    block = int(lines[5].removeprefix("block size: "))
    blocks = [package[at : at + block] for at in range(0, len(package), block)]
    assert lines[8:-2] == [hashlib.sha512(it).hexdigest() for it in blocks]
    if PKG_ADMIN:
        (directory / "pkg_install.conf").write_text(f"GPG_KEYRING_VERIFY={directory}/public.gpg\n")
        check = [PKG_ADMIN, "-C", directory / "pkg_install.conf", "check-signature", path]
        subprocess.run(check, capture_output=True, check=True)


def signing(directory, command, more=""):
    """Settings with another sign_command, and no signed packages."""
    toml = directory / "bulk.toml"
    kept = [line for line in toml.read_text().splitlines(keepends=True) if not line.startswith(("sign_command", "sign_public"))]
    toml.write_text("".join(kept) + f'sign_command = "{command}"\n{more}')
    shutil.rmtree(directory / "signed", ignore_errors=True)


def unsigned(place, directory, environment):
    """The output of sign_command has to be a signature of this package by a known key."""
    before = (directory / "bulk.toml").read_text()
    pgp = f"{GPG} --batch --quiet --detach-sign"
    for command, more, why in (
        ("echo notasig", "", "the sign_command printed no signature: it should print what 'gpg --detach-sign"),
        (f"{pgp} --output - -", "", "the sign_command printed no signature"),
        (f"{GPG} --batch --quiet --clearsign --output - -", "", "the sign_command printed no signature"),
        (f"echo other | {pgp} --armor --output - -", "", "a signature that gpgv does not accept for this package: "),
        ("printf '%s\\\\n' '-----BEGIN PGP SIGNATURE-----' '' notasig", "", "that gpgv does not accept"),
        (f"{pgp} --armor --output - -", 'sign_public_key = "pscan"\n', "that gpgv does not accept for this package: "),
    ):
        signing(directory, command, more)
        output = place.error("publish")
        assert "cannot sign " in output and why in output, output
        assert not list((directory / "signed/All").iterdir()), "an unsigned package was kept"
    # The keys may be in another directory.
    signing(directory, f"GNUPGHOME={environment['GNUPGHOME']} {pgp} --armor --output - -", 'sign_public_key = "public.gpg"\n')
    assert "5 packages were signed\n" in place.run("publish")
    (directory / "bulk.toml").write_text(before)


def gpg_certified(place, directory):
    """X.509 signatures are verified, too."""
    before = (directory / "bulk.toml").read_text()
    for name in ("own", "other"):
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-days", "2"]
        subprocess.run([*make, "-keyout", directory / f"{name}.key", "-out", directory / f"{name}.pem"], capture_output=True, check=True)
        (directory / f"{name}.key").chmod(0o644)
    sign = f"openssl smime -sign -signer {directory}/own.pem -inkey {directory}/own.key -outform PEM"
    for command, more in ((f"echo other | {sign} -binary", ""), (f"{sign} -binary", 'sign_public_key = "other.pem"\n')):
        signing(directory, command, more)
        assert "a signature that openssl does not accept for this package: " in place.error("publish"), command
    for more in ("", 'sign_public_key = "own.pem"\n'):
        signing(directory, f"{sign} -binary", more)
        assert "5 packages were signed\n" in place.run("publish")
    (_, _), (form, signature), _ = members(directory / "signed/All/app-0.9.tgz")
    assert form == "+PKG_SIGNATURE" and signature.startswith(b"-----BEGIN PKCS7-----")
    (directory / "bulk.toml").write_text(before)
    shutil.rmtree(directory / "signed")
    place.run("publish")


def key_in_sandbox(tanto, directory):
    """A build as root, where the key is readable: packages see neither the key nor a socket."""
    place = Some(tanto, directory, ("base/kit", "trouble/broken"), 'sandbox = "overlay"\nsign_keys = "tree/keys"\n')
    (directory / "tree/keys").mkdir()
    (directory / "tree/keys/secret").write_text("the key\n")
    makefile = directory / "tree/trouble/broken/Makefile"
    look = "env; ls -la /proc/self/fd; echo 'keys:' $$(ls -A ${TOPDIR}/keys); cat ${TOPDIR}/keys/secret; exit 1"
    makefile.write_text(makefile.read_text().replace("do-build=", f"do-build= {look};"))
    built = subprocess.run(
        place.command("build", "--resolved", "presolve"),
        cwd=directory,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot create a sandbox" in built.stderr:
        print("key: skipped: this machine cannot create a sandbox")
        return
    log = place.run("log", "broken-1", "build")
    assert "keys:\n" in log and "the key" not in log and "GNUPGHOME" not in log and "socket:" not in log, log
    print("ok key: a build can access neither the key nor the signing agent")


def refused(place, directory):
    """The signer refuses a package with another name, and a missing signature is an error."""
    packages = directory / "packages/All"
    shutil.copy(packages / "libtwo-2.0rc1.tgz", packages / "libone-1.2nb3.tgz")
    os.utime(packages / "libone-1.2nb3.tgz", (5, 5))
    before = (directory / "signed/All/libone-1.2nb3.tgz").read_bytes()
    assert "libone-1.2nb3.tgz is not the file that was built" in place.error("publish")
    # The signer checks on its own.
    with sqlite3.connect(directory / "state/db") as db:
        db.execute("DELETE FROM file")
    assert "libone-1.2nb3.tgz: it contains libtwo-2.0rc1" in place.error("publish")
    assert (directory / "signed/All/libone-1.2nb3.tgz").read_bytes() == before
    toml = directory / "bulk.toml"
    toml.write_text(toml.read_text().replace(f"{GPG} --batch", "exit 3; false"))
    os.utime(packages / "libtwo-2.0rc1.tgz", (5, 5))
    os.utime(packages / "libone-1.2nb3.tgz", ns=((directory / "signed/All/libone-1.2nb3.tgz").stat().st_mtime_ns,) * 2)
    assert "libtwo-2.0rc1.tgz: the sign_command ended with exit status: 3" in place.error("publish")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    for test in (reports, publish, sign, key_in_sandbox):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))
    for settings in ('sandbox = "none"\n', 'sandbox = "overlay"\n'):
        if "none" in settings or can_create_sandboxes(None):
            with tempfile.TemporaryDirectory() as directory:
                waits(tanto, Path(directory), settings)


main()
