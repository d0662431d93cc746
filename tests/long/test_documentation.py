"""The pages with commands that are too slow for `make test`, whole: README.md and docs/*.md."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from pages import PAGES, check, steps


@pytest.mark.parametrize("page", [p for p in PAGES if any(s.slow for s in steps(p))], ids=lambda p: p.name)
def test_slow_pages(page, tmp_path):
    check(page, tmp_path, slow=True)
