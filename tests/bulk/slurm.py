"""Builds a package with a client that Slurm starts, by the example in docs/many-machines.md.

    slurm.py TANTO

Starts munged, slurmctld and slurmd with a configuration of its own, and stops them. Needs root, and the Debian packages
slurm-wlm and munge.
"""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from farm import Farm, free_port, until
from place import ROOT, can_create_sandboxes

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """ClusterName=test
SlurmctldHost={host}
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_res
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A cluster of this machine alone."""

    def __init__(self, place):
        self.place = place
        self.processes = []
        host = socket.gethostname().split(".")[0]
        ports = (free_port(), free_port())
        (place / "slurm.conf").write_text(CONFIGURATION.format(host=host, place=place, ports=ports, cpus=os.cpu_count()))
        for name in ("state", "spool"):
            (place / name).mkdir()
        key = place / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        self.environment = {**os.environ, "SLURM_CONF": str(place / "slurm.conf")}

    def __enter__(self):
        files = [f"--{kind}-file={self.place}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
        self.start("munged", "--foreground", "--force", f"--socket={self.place}/munge.socket", *files)
        until(lambda: (self.place / "munge.socket").exists(), "munged listens")
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D")
        until(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T"), "the node is idle")
        return self

    def __exit__(self, *_):
        self.ask("scancel", "--name=tanto-client")
        for process in reversed(self.processes):
            process.terminate()
            process.wait()

    def start(self, name, *words):
        with (self.place / f"{name}.out").open("w") as output:
            self.processes.append(
                subprocess.Popen([name, *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            )

    def ask(self, *words):
        asked = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False, timeout=60)
        return asked.stdout


def write_scripts(directory):
    """Writes the two scripts of the documentation for this directory."""
    section = (ROOT / "docs/many-machines.md").read_text().partition("### Slurm\n")[2].partition("\n### ")[0]
    scripts = dict(zip(("client.sbatch", "start-clients"), re.findall(r"(?ms)^```(?:sbatch|sh)\n(.*?)^```", section), strict=True))
    for name, text in scripts.items():
        text = text.replace("/srv/bulk", str(directory))
        # Only this client can build the package, and the test does not wait for long until it leaves.
        text = text.replace("--max-idle 10m", "--label big --max-idle 5s").replace("/dev/null\ndir", f"{directory}/job.log\ndir")
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)


def a_client_comes_from_slurm(tanto, directory, slurm):
    with Farm(tanto, directory, ("base",), "build_clients = 1\n") as farm:
        write_scripts(directory)
        config = directory / "bulk.toml"
        keys = f'client_start = "{directory}/start-clients"\nclient_start_join = "farm.join"\n'
        config.write_text(keys + config.read_text() + '[place]\nzero = "big"\n')
        farm.serve()
        farm.token("farm", "--pool", "--max-clients", "5")
        path = f"{tanto.parent}:{os.environ['PATH']}"
        environment = {**farm.place.environment, "SLURM_CONF": slurm.environment["SLURM_CONF"], "PATH": path, "CPUS": "1"}
        build = farm.start("build.log", "build", "--resolved", "presolve", environment=environment)
        farm.wait(build, 0, "build.log")
        assert farm.clients_of()["zero-0"] == "farm-1", farm.clients_of()
        assert "Submitted batch job" in farm.log("state/client-start.log"), farm.log("state/client-start.log")
        until(lambda: not slurm.ask("squeue", "--noheader"), "the job ends when the client is idle")
    print("ok slurm: a job that client_start submits builds a package and ends")


def main():
    tanto = Path(sys.argv[1]).resolve()
    missing = [name for name in DAEMONS if not shutil.which(name)]
    if missing or os.geteuid() != 0 or not can_create_sandboxes(None):
        why = f"{', '.join(missing)} not installed" if missing else "this needs root, and sandboxes"
        print(f"slurm: skipped: {why}")
        return
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as directory, Slurm(Path(place)) as slurm:
        a_client_comes_from_slurm(tanto, Path(directory), slurm)


main()
