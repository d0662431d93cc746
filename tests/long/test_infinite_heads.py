"""More heads tend to infinitely many: the error of rfa on the square power mean, n = 1024, d = N = 16.

The note on the model gives .468, .164, .147 and .136 for M = 100, 1000, 4000 and infinitely many, from one run each. Here
the means over four seeds, with the room that their spread asks for.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

BINARY = Path(os.environ.get("HEADLENS", Path(__file__).resolve().parents[2] / "build" / "headlens"))
HEADS = ["100", "1000", "4000", "inf"]
SEEDS = range(4)


def headlens(command, *files):
    words = [str(BINARY), *command.split(), *map(str, files), "--json"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """errors[seed][heads]: nmse on 4096 fresh sets."""
    folder = tmp_path_factory.mktemp("heads")
    train, test, model = folder / "train.npz", folder / "test.npz", folder / "model"
    out = []
    for seed in SEEDS:
        task = f"generate power-mean --degree 2 --dim 16 --keys 16 --target-seed {seed}"
        headlens(f"{task} --count 1024 --seed {100 + seed} -o", train)
        headlens(f"{task} --count 4096 --seed {200 + seed} -o", test)
        row = {}
        for heads in HEADS:
            headlens(f"fit --heads {heads} --seed {seed}", train, "-o", model)
            row[heads] = headlens("evaluate", model, test)["nmse"]
        out.append(row)
    return out


def test_error_falls_to_that_of_the_kernel(errors, report):
    mean = {heads: sum(row[heads] for row in errors) / len(errors) for heads in HEADS}
    spread = ", ".join(
        f"M = {heads}: {mean[heads]:.3f} ({min(r[heads] for r in errors):.3f} to {max(r[heads] for r in errors):.3f})"
        for heads in HEADS
    )
    report(f"square power mean, d=N=16, n=1024: {spread}")
    assert mean["100"] > mean["1000"] > mean["4000"] > mean["inf"]
    assert all(row["inf"] < row["100"] for row in errors)
    for heads, note, room in (
        ("100", 0.468, 0.12),
        ("1000", 0.164, 0.03),
        ("4000", 0.147, 0.02),
        ("inf", 0.136, 0.02),
    ):
        assert abs(mean[heads] - note) <= room, (heads, mean[heads])
    # What is left of the difference at 4000 heads is a small part of that at 1000.
    assert mean["4000"] - mean["inf"] < 0.5 * (mean["1000"] - mean["inf"])
