"""Runs the test functions of a script on a program."""

import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path


def use_log_version_of_ninja():
    """Makes Tanto write logs that the ninja in PATH reads, whatever version the environment asks for."""
    version = subprocess.run(["ninja", "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = map(int, version.split(".")[:2])
    os.environ["TANTO_LOG_VERSION"] = "7" if (major, minor) >= (1, 13) else "6" if (major, minor) == (1, 12) else "5"


def can_mount():
    """Returns whether tests can mount file systems: that needs root, and is impossible in some containers."""
    return os.getuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def run_tests(usage, tests, call=lambda test, program, place: test(program, place), on_request=()):
    """`SCRIPT PROGRAM [NAME...]`: calls each test, or those with these names, in an empty directory. Those in `on_request` run only if
    they are named. Prints "ok NAME" or "not ok NAME", and exits with 1 if one has failed."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    program, names = str(Path(sys.argv[1]).absolute()), sys.argv[2:]
    failed = 0
    for test in tests:
        if test.__name__ not in names if names else test in on_request:
            continue
        with tempfile.TemporaryDirectory() as place:
            try:
                call(test, program, Path(place).resolve())
                print("ok", test.__name__.replace("_", " "), flush=True)
            except Exception:
                print("not ok", test.__name__.replace("_", " "), flush=True)
                traceback.print_exc(file=sys.stdout)
                failed += 1
    sys.exit(1 if failed else 0)
