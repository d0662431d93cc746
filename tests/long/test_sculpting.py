"""The paper's method where it works: k = 2, d = 8, two heads, 20000 examples (see docs/recovery.md), from soft to
sharp attention."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from sculpt_fading import SCALES, sculpt

SEEDS = 10


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ((), 0.05),
        (("--span-form", "membership"), 0.05),
        (("--sculpt-form", "lp"), 0.05),
        (("--sculpt-form", "lp", "--span-form", "membership"), 0.05),
    ],
)
def test_hull_is_found_and_heads_come_back(report, options, bound):
    runs = [sculpt(2, 8, 2, 20000, 2, seed, *options) for seed in range(SEEDS)]
    sines = sorted(run["sine"] for run in runs)
    recovered = sum(run["recovered"] for run in runs)
    slowest = max(run["seconds"] for run in runs)
    report(
        f"sculpt {' '.join(options)}: sine {sines[0]:.4f} to {sines[-1]:.4f}, {recovered}/{SEEDS}, {slowest:.0f} s"
    )
    assert sines[-1] < bound and recovered == SEEDS


@pytest.mark.parametrize("form", ["least-squares", "lp"])
@pytest.mark.parametrize("scale", SCALES)
def test_hull_at_every_logit_scale(report, scale, form):
    options = ("--sculpt-form", form, "--no-polish")
    sines = sorted(sculpt(2, 8, 2, 20000, scale, seed, *options)["sine"] for seed in range(SEEDS))
    report(f"sculpt, {form}, at logit scale {scale}: sine {sines[0]:.4f} to {sines[-1]:.4f}")
    assert sines[-1] < 0.05
