"""headlens plan fit: bytes that fits foresee themselves, parts that scale as they should, one line for bad input."""

import pytest
from binary import refuse, run, run_json

SHAPE = "--dim 6 --keys 5"


def plan(*words):
    return run_json("plan fit", SHAPE, *words, "--threads 1")


def parts(found, kind, unit):
    return {part["name"]: part[unit] for part in found[kind]}


@pytest.mark.parametrize("options", ["--heads 200 --ridge 1e-3", "--heads inf --ridge 1e-3"])
def test_memory_is_that_of_a_fit(tmp_path, options):
    """Within a factor of two: a plan knows the arrays that grow, not every buffer."""
    run("generate power-mean --degree 1", SHAPE, "--count 3000 -o", tmp_path / "d.npz")
    words = ("fit", tmp_path / "d.npz", options, "--threads 1 -o", tmp_path / "m")
    foreseen = run_json(*words)["predicted_peak_bytes"]
    assert 0.5 <= plan(options, "--count 3000")["peak_bytes"] / foreseen <= 2


def test_parts_scale():
    one, four = (plan("--heads 40 --ridge 1e-3 --count 1e8 --ranks", ranks) for ranks in (1, 4))
    assert one["route"] == four["route"] == "primal"
    few, many = parts(four, "memory", "bytes"), parts(one, "memory", "bytes")
    assert few["sets of the rank"] * 4 == many["sets of the rank"] == 8 * 1e8 * 6 * 6
    assert few["Gram matrix"] == many["Gram matrix"]
    assert one["exchanged_bytes"] == 0 < four["exchanged_bytes"]
    assert plan("--heads 40 --count 1e2 --ridge 1e-3")["route"] == "dual"
    assert plan("--heads inf --count 1e5 --ranks 64")["route"] == "kernel"


@pytest.mark.parametrize("words, said", [
    ("--count 0", "--count: 0 given"),
    ("--count 1.5", "--count: 1.5 given"),
    ("--count 10 --ranks 11", "--ranks: 11 given"),
    ("--ranks 2.5", "--ranks: '2.5' given, expected a whole number"),
    ("--bandwidth 0", "--bandwidth: 0 given"),
])  # fmt: skip
def test_bad_input(words, said):
    assert said in refuse("plan fit", words)
