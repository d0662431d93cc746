"""docs/command-line.md and docstrings are made from the tables of options; messages name options as typed."""

import re
import subprocess
import sys

import pytest
from binary import ROOT, refuse


def test_page_and_docstrings_are_made_from_the_tables():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/write_options.py", "--check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr + "run scripts/write_options.py"


def test_the_library_names_options_bare():
    """Each front end spells them: message(option("ridge"), ...), never "--ridge" in a string of src/."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "src").rglob("*.[ch]pp"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r'"[^"]*--[a-z][^"]*"', line.split("//")[0]) and path.name != "gnuplot.cpp"
    ]
    assert found == []


@pytest.mark.parametrize("options, said", [
    ("--huber-delta -1", "--huber-delta: -1 given, expected a number above 0"),
    ("--ridge -1", "--ridge: -1 given, expected auto or a number, 0 or more"),
    ("--loss huber --ridge 0", "--ridge: 0 given, but --loss huber needs a positive ridge or a --norm-ball"),
    ("--centres 3", "--centres: only a model with infinitely many heads (--heads inf) has centres"),
    ("--model mlp --bias-scale 1", "--bias-scale: mlp takes no bias matrix"),
])  # fmt: skip
def test_messages_name_options(make_sets, tmp_path, options, said):
    assert said in refuse(
        "fit", make_sets().path, "--heads 5", options, "-o", tmp_path / "m", folder=tmp_path
    )
