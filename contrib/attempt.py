"""One try at one package: its stages, their limits and logs, and the report of the result."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from shlex import quote

from transport import digest_of, say

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# Bytes of a failed stage's output that are shown.
SHOWN = 2048
# Targets that create users and groups, by the phase in USERGROUP_PHASE.
USERS = {"configure": ["create-usergroup", "clean"], "build": ["create-usergroup"], "install": ["create-usergroup"]}


def amount(text):
    """Seconds of a time such as `1h30m`, bytes of a size such as `8G`; 0: no limit."""
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([smhdKMGT])", text))


def cpu_seconds(group):
    """CPU time of the running processes of a group."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=", "-o", "time="], capture_output=True, text=True, check=False)
    times = (line.split()[1] for line in listed.stdout.splitlines() if line.split()[0] == str(group))
    parts = (re.split("[-:]", time)[::-1] for time in times)
    return sum(float(number) * unit for part in parts for number, unit in zip(part, (1, 60, 3600, 86400)))


def kill(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


class Attempt:
    """An attempt, which runs in a thread of its own."""

    def __init__(self, client, lease, slot):
        self.client, self.lease, self.id, self.spec, self.slot = client, lease, lease["lease"], lease["spec"], slot
        self.dir = client.dir / "attempts" / self.id
        self.file = self.dir / f"{self.spec['name']}{client.settings['pkg_sufx']}"
        self.began = self.stage_began = time.monotonic()
        self.stage, self.stages, self.group, self.sent, self.shown = "", [], None, 0, 0
        # `is_over`: only the result remains to be sent. `action`: how the coordinator has ended the attempt.
        self.is_over, self.action, self.is_followed = False, "", False

    def run(self):
        try:
            self.dir.mkdir(parents=True)
            result = self.build()
        except Exception as error:
            result = self.result("machine-failed", f"the client failed: {error}")
        self.stage, self.is_over = "", True
        try:
            self.report(result)
        except Exception as error:
            say(f"{self.spec['name']}: the result cannot be sent: {error}")
        shutil.rmtree(self.dir, ignore_errors=True)
        self.client.forget(self)

    def build(self):
        if self.lease["features"]:
            return self.result("machine-failed", f"the client lacks {', '.join(self.lease['features'])}")
        tree = self.client.check_out(self.lease["tree"])
        for package in self.lease["packages"]:
            self.client.provide(package, self.dir / "All")
        lines = self.lines(tree)
        clean, result = lines.pop("clean"), None
        for stage, line in lines.items():
            if result := self.run_stage(stage, line):
                break
        self.run_stage("clean", clean)
        return result or self.result("built", packages=[{"name": self.spec["name"], "file": self.file.name}])

    def lines(self, tree):
        """The shell lines of the stages."""
        spec, client, settings = self.spec, self.client, self.client.settings
        prefix, db, distdir = settings["prefix"], settings["pkgdb"], f"{client.dir}/distfiles"
        work, log, file = os.path.join(client.dir, "work", str(self.slot)), f"{self.dir}/work.log", str(self.file)
        user = settings["unprivileged_user"] if os.geteuid() == 0 else ""

        def program(key):
            # It may be in the package tree.
            return quote(settings[key].replace(f"{settings['pkgsrc']}/", f"{tree}/"))

        def make(*targets, as_user=False):
            words = ["BATCH=1", "DEPENDS_TARGET=/nonexistent", f"MAKE_JOBS={client.jobs}", f"WRKOBJDIR={work}"]
            words += [f"DISTDIR={distdir}", *spec["arguments"], f"WRKLOG={log}"]
            line = f"{program('make')} {' '.join(map(quote, [*targets, *words]))}"
            line = f"su {quote(user)} -c {quote(line)}" if user and as_user else line
            return f"cd {quote(str(tree / spec['location']))} && {line}"

        def phase(name, target, as_user=True):
            users = f"{make(*USERS[name])} && " if spec["usergroup_phase"].endswith(name) else ""
            return users + make(target, as_user=as_user)

        sites = settings["master_site_override"]
        fetching = [f"MASTER_SITE_OVERRIDE={sites}"] if sites else []
        fetching += ["IGNORE_INTERACTIVE_FETCH=yes"] if settings["ignore_interactive_fetch"] else []
        add = f"PKG_PATH={quote(f'{self.dir}/All')} {program('pkg_add')} -K {quote(db)}"
        created = f"{{ {make('stage-package-create', f'STAGE_PKGFILE={file}')}; }} && test -s {quote(file)}"
        lines = {
            "client-clean": self.client_clean([prefix, db, work, distdir], log),
            "depends": f"{add} {' '.join(map(quote, spec['depends']))}",
            "checksum": make("checksum", *fetching, as_user=settings["use_unprivileged_checksum"]),
            "configure": phase("configure", "configure"),
            "build": phase("build", "all"),
            "install": phase("install", "stage-install", spec["user_destdir"]),
            "package": created if spec["bootstrap"] else f"{created} && {add} {quote(file)}",
            "deinstall": f"{program('pkg_delete')} -K {quote(db)} {quote(spec['name'])}",
            "clean": make("clean"),
        }
        skipped = {"depends": not spec["depends"], "deinstall": spec["bootstrap"]}
        return {stage: line for stage, line in lines.items() if not skipped.get(stage)}

    def client_clean(self, dirs, log):
        """Empties the prefix and the work directory, and unpacks the kit."""
        prefix, db, work, distdir = map(quote, dirs)
        kit = f" && gzip -dc {quote(str(self.client.kit))} | (cd / && tar -xf -)" if self.client.kit else ""
        return (
            f"rm -rf {prefix}/* {prefix}/.[!.]* {db}/* {db}/.[!.]* {work}; mkdir -p {prefix} {db} {work} {distdir} && "
            f"chmod 1777 {work} && : >{quote(log)} && chmod 666 {quote(log)}{kit}"
        )

    def run_stage(self, stage, line):
        """Runs a stage. Returns the result of the attempt if it fails."""
        log, why = self.dir / f"{stage}.log", ""
        log.touch()
        self.shown, self.stage, self.stage_began = 0, stage, time.monotonic()
        with log.open("wb") as output, self.client.fetching if stage == "checksum" else contextlib.nullcontext():
            command = [*self.client.enter(self.slot), "/bin/sh", "-c", line]
            process = subprocess.Popen(
                command, env=self.client.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )
            self.group = process.pid
            while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
                time.sleep(0.05)
                why = why or self.excess(stage, log)
                if why:
                    kill(process.pid)
            process.returncode = os.waitstatus_to_exitcode(ended[1])
        self.group = None
        kill(process.pid)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        self.record(stage, log, code, ended[2])
        return self.failure(stage, log, code, why) if code or why else None

    def excess(self, stage, log):
        """Why a running stage has to be killed."""
        limits = {**self.client.settings, **self.client.settings.get("stage", {}).get(stage, {})}
        seconds, size = amount(limits["timeout"]), amount(limits["log_limit"])
        if self.action and stage != "clean":
            return "killed by the user"
        if seconds and time.monotonic() - self.stage_began > seconds:
            return f"{stage} ran longer than {limits['timeout']}"
        return f"{stage} printed more than {limits['log_limit']}" if size and log.stat().st_size > size else ""

    def record(self, stage, log, code, usage):
        began, cpu = self.stage_began, usage.ru_utime + usage.ru_stime
        times = {"after_ms": began - self.began, "wall_ms": time.monotonic() - began, "cpu_ms": cpu}
        self.stages.append({
            "stage": stage, **{key: int(seconds * 1000) for key, seconds in times.items()}, "peak_kib": usage.ru_maxrss,
            "read_bytes": 0, "written_bytes": 0, "waits": None, "exit": code,
            "log": log.name if log.stat().st_size else "",
        })

    def failure(self, stage, log, code, why):
        output = log.read_bytes()[-SHOWN:].decode(errors="replace")
        kind = "failed"
        if not why:
            why = f"{stage} exited with {code}" if code < 128 else f"{stage} died of signal {code - 128}"
            if stage in ("client-clean", "depends") or "No space left on device" in output:
                kind = "machine-failed"
            elif code == 128 + signal.SIGKILL and not self.spec["is_last"]:
                kind = "out-of-memory"
        return self.result(kind, why, exit=code or 1, output=output, log=log.name if log.stat().st_size else "")

    def result(self, kind, why="", **more):
        outcome = {"kind": kind, "why": why} if why else {"kind": kind}
        cpu_ms = sum(stage["cpu_ms"] for stage in self.stages)
        peak_kib = max((stage["peak_kib"] for stage in self.stages), default=0)
        result = {"outcome": outcome, "packages": [], "stages": self.stages, "cpu_ms": cpu_ms, "peak_kib": peak_kib}
        return {**result, "disk_kib": 0, "left": [], "exit": 0, "output": "", "log": "", **more}

    def report(self, result):
        """Uploads the package or the logs, and sends the result until it is settled."""
        built = result["outcome"]["kind"] == "built"
        logs = [path for path in self.dir.glob("*.log") if path.stat().st_size]
        files = {digest_of(path): path for path in ([self.file] if built else logs)}
        blobs = [{"digest": digest, "size": path.stat().st_size} for digest, path in files.items()]
        packages = [{"name": self.spec["name"], **blob} for blob in blobs if built]
        logs = [{"file": files[blob["digest"]].name, **blob} for blob in blobs if not built]
        missing = list(files)
        while self.action != "supersede":
            for digest in missing:
                self.client.server.upload(files[digest], digest, self.count)
            answer = self.client.ask("result", lease=self.id, result=result, packages=packages, logs=logs)
            if answer["state"] in ("settled", "superseded"):
                say(f"{self.spec['name']}: {result['outcome'].get('why', 'built')} ({answer['state']})")
                return
            missing = answer.get("digests", [])
            if not missing:
                time.sleep(1)

    def obey(self, action):
        """Follows an instruction of the coordinator. `stop` ends the attempt; `supersede` also forgets its result."""
        self.is_followed = action == "follow"
        if action in ("stop", "supersede"):
            self.action = action

    def count(self, length):
        self.sent += length

    def progress(self):
        """The part of a heartbeat."""
        group, stage = self.group, self.stage
        cpu = sum(it["cpu_ms"] for it in self.stages) + int(cpu_seconds(group) * 1000 if group else 0)
        output = self.output(stage) if self.is_followed and stage else {}
        stage_ms = int((time.monotonic() - self.stage_began) * 1000)
        counts = {"cpu_ms": cpu, "memory_kib": 0, "disk_kib": 0, "sent_bytes": self.sent}
        return {"lease": self.id, "stage": stage, "stage_ms": stage_ms if stage else 0, **counts, **output}

    def output(self, stage):
        """The output of a stage since the last heartbeat, or the end of it."""
        try:
            with (self.dir / f"{stage}.log").open("rb") as log:
                at = log.seek(max(self.shown, log.seek(0, os.SEEK_END) - SHOWN))
                data = log.read(SHOWN)
        except FileNotFoundError:
            # The attempt has ended.
            return {}
        self.shown = at + len(data)
        return {"output": data.decode(errors="replace"), "output_at": at, "output_bytes": len(data)}
