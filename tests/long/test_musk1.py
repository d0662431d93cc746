"""Musk 1 on the shipped folds: examples/musk1 must stay at 84% or better."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "musk1" / "musk1.py"


def test_accuracy(report):
    cross_validate = runpy.run_path(str(EXAMPLE))["cross_validate"]
    accuracy = cross_validate(say=lambda _: None)
    repeats = ", ".join(f"{a:.1%}" for a in accuracy)
    report(f"Musk 1 accuracy of each repeat: {repeats}; mean {accuracy.mean():.1%}")
    assert accuracy.mean() >= 0.84
