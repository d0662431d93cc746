"""Predicted learning curves against measured ones for infinitely many heads, d = N = 16: docs/theory.md has the table.

Ten seeds, each with its own target, training sets and 1024 fresh sets. The mean error must be within 10% of the
prediction, or within two standard errors of the mean.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

BINARY = Path(os.environ.get("HEADLENS", Path(__file__).resolve().parents[2] / "build" / "headlens"))
TARGETS = [
    "power-mean --degree 1",
    "power-mean --degree 2",
    "power-mean --degree 4",
    "query-power --degree 2",
]
SAMPLES = [128, 256, 512, 1024, 2048, 4096]
SEEDS = range(10)


def headlens(command, *files):
    words = [str(BINARY), *command.split(), *map(str, files), "--json"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def measure(folder, target, n, seed, model="rfa"):
    """nmse on fresh sets of a fit with infinitely many heads, penalty by leave-one-out."""
    train, test, fitted = folder / "train.npz", folder / "test.npz", folder / "model"
    headlens(f"generate {target} --target-seed {seed} --count {n} --seed {1000 + seed} -o", train)
    headlens(f"generate {target} --target-seed {seed} --count 1024 --seed {2000 + seed} -o", test)
    headlens(f"fit --model {model} --heads inf", train, "-o", fitted)
    return headlens("evaluate", fitted, test)["nmse"]


@pytest.mark.parametrize("target", TARGETS)
def test_measured_curves_follow_the_prediction(target, tmp_path, report):
    theory = headlens(f"theory {target} --samples {SAMPLES[0]}:{SAMPLES[-1]}")
    assert theory["samples"] == SAMPLES
    missed = []
    for n, predicted in zip(SAMPLES, theory["predicted_error"]):
        errors = np.array([measure(tmp_path, target, n, seed) for seed in SEEDS])
        mean, deviation = errors.mean(), errors.std(ddof=1) / np.sqrt(len(errors))
        line = f"{target}, n = {n}: predicted {predicted:.3g}, measured {mean:.3g} +- {deviation:.1g}"
        report(f"{line}, ratio {mean / predicted:.3f}")
        if abs(mean - predicted) > max(0.1 * predicted, 2 * deviation):
            missed.append(line)
    assert not missed
