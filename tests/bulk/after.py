"""What `tanto bulk` does when packages are built: reports.

    after.py TANTO"""

import json
import sys
import tempfile
from pathlib import Path

from place import Place

# What is built: enough for each sort of outcome.
PACKAGES = (
    *("base/kit", "base/zero", "devel/libone", "devel/libtwo", "devel/app", "trouble/broken", "trouble/needbroken"),
    *("trouble/restricted", "trouble/needrestricted", "trouble/skip", "trouble/needskip"),
)


class Some(Place):
    """A tree of which only some directories are built."""

    def scan(self, categories):
        for location in categories:
            for line in self.make(location, "pbulk-index").splitlines(keepends=True):
                yield line
                if line.startswith("PKGNAME="):
                    yield f"PKG_LOCATION={location}\n"


def reports(tanto, directory):
    place = Some(tanto, directory, PACKAGES, "")
    assert "nothing was built yet" in place.error("report")
    place.build(1)
    text = place.run("report")
    broken = text[text.index("broken-1  trouble/broken  nobody@example.org\n") :]
    assert "build exited with 1 (compiler); 1 package needs it\n    | broken.c:1: error: it does not compile\n" in broken
    assert f"{directory}/bulklog/broken-1/build.log" in broken
    assert "skip is not for this platform" in text and "Since bulk build" not in text
    told = json.loads(place.run("report", "--json"))
    assert told["counts"] == {"done": 7, "failed": 1, "indirect-failed": 1, "prefailed": 1, "indirect-prefailed": 1}
    failure = told["failures"][0]
    assert (failure["package"], failure["kind"], failure["blocks"]) == ("broken-1", "compiler", 1), failure
    assert told["bound_ms"] <= told["wall_ms"] and told["estimates"]["guessed"]["count"] == 7
    place.run("report", "--html", "report.html")
    page = (directory / "report.html").read_text()
    assert "broken.c:1: error: it does not compile" in page and page.count("<rect") == 8
    records = place.run("report", "--pbulk").split("PKGNAME=")[1:]
    statuses = {record.split("\n")[0]: record.split("BUILD_STATUS=")[1].strip() for record in records}
    assert statuses["needskip-1"] == "indirect-prefailed" and statuses["libone-1.2nb3"] == "done", statuses
    assert "PKG_DEPTH=2\n" in next(record for record in records if record.startswith("broken-1"))
    changed(place, directory)
    print("reports: what failed, why, what that blocks and what changed is told in four forms ... ok")


def changed(place, directory):
    """The next build mends one package."""
    makefile = directory / "tree/trouble/broken/Makefile"
    makefile.write_text(makefile.read_text().replace("exit 1", "exit 0"))
    place.build(0)
    text = place.run("report")
    assert "0 broken\n2 fixed:\n    broken-1\n    needbroken-1\n0 new\n0 gone\n" in text, text
    assert "guessed: half of" in text, text
    told = json.loads(place.run("report", "--json"))
    assert [change["package"] for change in told["changes"]["fixed"]] == ["broken-1", "needbroken-1"]
    assert {cost["package"] for cost in told["costs"]} == {"broken-1", "needbroken-1"}, "the others were there"


def main():
    tanto = str(Path(sys.argv[1]).resolve())
    for test in (reports,):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
