"""CONTRIBUTING's map of the code: complete today, and the check finds what is missing and what is gone."""

import subprocess
import sys

from binary import ROOT


def check(root):
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/check_map.py", root], capture_output=True, text=True
    )
    return done.returncode, done.stdout.splitlines()


def test_the_map_names_every_file():
    assert check(ROOT) == (0, ["the map names every file"])


def test_missing_and_gone_files_are_found(tmp_path):
    (tmp_path / "src/fit").mkdir(parents=True)
    (tmp_path / "src/fit/known.cpp").touch()
    (tmp_path / "src/fit/new.hpp").touch()
    rows = "| file | holds |\n|---|---|\n| `known`, `gone.hpp` | what `others` say |\n"
    (tmp_path / "CONTRIBUTING.md").write_text(
        f"## The map of the code\n\n**src/fit**, training\n\n{rows}\n## More\n"
    )
    status, lines = check(tmp_path)
    assert status == 1
    assert lines == [
        "CONTRIBUTING.md: the map does not name src/fit/new",
        "CONTRIBUTING.md: the map names src/fit/gone, which is not there",
    ]
