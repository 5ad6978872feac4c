"""All phases of `tanto bulk build` on the tree in testdata/pkgsrc, from the scan to the last package.

    phases.py TANTO
"""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import Place

# Scans do not trust files that changed this recently: another change could leave the same timestamp.
SETTLE = 0.3
PHASES = ("pre_build", "scan", "build", "report", "upload")
LIST = "# only these\ndevel/app3\ndevel/tool\n"
WANTED = ["app3-3.1", "libone-1.2nb3", "libthree-3.1", "libtwo-2.0rc1", "py312-thing-1.0", "tool-1"]


def place(tanto, directory, settings="", scripts=True):
    lines = "".join(f'script_phase_{phase} = "echo {phase} >>{directory}/phases"\n' for phase in PHASES)
    made = Place(tanto, directory, (), f'limited_list = "list"\n{settings}' + (lines if scripts else ""))
    (directory / "list").write_text(LIST)
    time.sleep(SETTLE)
    return made


def phases(made):
    """Phases completed since the last call."""
    path = made.directory / "phases"
    said = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return said


def scans(output):
    return output.count("scan devel/")


def all_phases(tanto, directory):
    made = place(tanto, directory)
    first = made.run("build")
    assert made.packages() == WANTED, made.packages()
    assert scans(first) > 0 and phases(made) == list(PHASES)
    again = made.run("build")
    assert scans(again) == 0 and "building" not in again, f"scanned or built without a change:\n{again}"
    assert "6 packages, 6 done (6 up to date before)" in again, again
    assert phases(made) == list(PHASES)
    print("ok all phases: one command scans, resolves and builds")


def kill_before_packages(made, *more):
    """Kills a build after the check and before the first package."""
    (made.directory / "phases").unlink(missing_ok=True)
    build = subprocess.Popen(
        made.command("build", *more),
        cwd=made.directory,
        env=made.environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    log = made.directory / "phases"
    while not log.exists() or "build\n" not in log.read_text().splitlines(True)[1:]:
        assert build.poll() is None, "the build ended too early"
        time.sleep(0.02)
    build.send_signal(signal.SIGKILL)
    build.wait()


def killed(tanto, directory):
    """A resumed build does not check again, though a new one would."""
    slow = 'script_phase_build = "echo build >>phases; exec sleep 60"\nscript_phase_pre_build = "echo pre_build >>phases"\n'
    made = place(tanto, directory, "reuse_scan_results = false\n" + slow, scripts=False)
    kill_before_packages(made)
    settings = directory / "bulk.toml"
    quick, slow = settings.read_text().replace("; exec sleep 60", ""), settings.read_text()
    settings.write_text(quick)
    phases(made)
    output = made.run("build")
    assert scans(output) == 0, f"directories were scanned again:\n{output}"
    assert made.packages() == WANTED and phases(made) == ["build"]
    assert scans(made.run("build")) > 0, "a new build did not scan"
    assert phases(made) == ["pre_build", "build"]
    settings.write_text(slow)
    kill_before_packages(made, "--again")
    settings.write_text(quick)
    before = {path: path.stat().st_mtime_ns for path in (directory / "packages/All").iterdir()}
    made.run("build")
    assert all(path.stat().st_mtime_ns > before[path] for path in before), "--again was not resumed"
    print("ok killed: a resumed build does not scan again, and builds the planned packages")


def missing(tanto, directory):
    made = place(tanto, directory)
    makefile = directory / "tree/devel/libthree/Makefile"
    makefile.write_text(makefile.read_text().replace("\n.include", "\nDEPENDS+= none>=2:../../devel/none\n.include"))
    time.sleep(SETTLE)
    result = subprocess.run(made.command("build"), cwd=directory, env=made.environment, capture_output=True, text=True)
    assert result.returncode == 1 and not made.packages(), result.stdout + result.stderr
    assert "libthree-3.1 needs none>=2 (devel/none), but no package matches" in result.stderr, result.stderr
    assert "was interrupted before its packages" in made.run("status")
    settings = directory / "bulk.toml"
    settings.write_text(settings.read_text() + "ignore_missing_dependencies = true\n")
    result = subprocess.run(made.command("build"), cwd=directory, env=made.environment, capture_output=True, text=True)
    assert result.returncode == 0 and "devel/none cannot be scanned" in result.stderr, result.stdout + result.stderr
    assert made.packages() == ["libone-1.2nb3", "libtwo-2.0rc1", "py312-thing-1.0", "tool-1"], made.packages()
    state, why = made.state("libthree-3.1")
    assert state == "prefailed" and why.startswith("libthree-3.1 needs none>=2 (devel/none)"), (state, why)
    assert made.state("app3-3.1") == ("indirect-prefailed", "it needs libthree-3.1, which cannot be built")
    print("ok missing: unresolved dependencies are errors, or their packages are left out on request")


def script_fails(tanto, directory):
    made = place(tanto, directory, 'script_phase_pre_build = "exit 3"\n', scripts=False)
    result = subprocess.run(made.command("build"), cwd=directory, env=made.environment, capture_output=True, text=True)
    assert result.returncode == 1 and "script_phase_pre_build failed: exit status: 3" in result.stderr, result.stderr
    assert not made.packages()
    print("ok scripts: a script that fails ends the build")


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    for test in (all_phases, killed, missing, script_fails):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
