"""Hard layers at the sizes of docs/hardness.md: labels, growth of the search, and what no method may claim."""

import math
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from binary import run, run_json
from reference import hidden_label

HONEST = {"not_identified", "needs_more_examples", "stalled"}
LIMIT = 60


def hard_parity(folder, dim, size, count, seed, *more):
    files = ("-o", folder / "ex.npz", "--layer-out", folder / "truth.npz")
    run(f"generate hard-parity --dim {dim} --size {size} --count {count} --seed {seed}", *more, *files)
    return np.flatnonzero(np.load(folder / "truth.npz")["hidden"]).tolist()


def recover(folder, words, status=0):
    return run_json("recover", folder / "ex.npz", words, "-o", folder / "l.npz", status=status, timeout=600)


def test_label_on_a_million_samples(tmp_path, report):
    hard_parity(tmp_path, 30, 5, 10, 1)
    layer, worst = np.load(tmp_path / "truth.npz"), 0
    for seed in range(10):
        words = f"generate examples --tokens 2 --count 100000 --seed {seed} --layer"
        run(words, tmp_path / "truth.npz", "-o", tmp_path / "ex.npz")
        examples = np.load(tmp_path / "ex.npz")
        worst = max(worst, np.abs(examples["Y"] - hidden_label(layer, examples["X"])).max())
    report(
        f"d = 30, s = 5: |layer - label| {worst:.2e} on 1e6 samples, stated {layer['label_tolerance'][0]:.2e}"
    )
    assert worst <= layer["label_tolerance"][0]


@pytest.mark.parametrize("size", [3, 4])
def test_methods_for_any_layer_run_into_it(tmp_path, report, size):
    dim, heads, count = 16, 2 * size, 4000
    hard_parity(tmp_path, dim, size, count, 1)
    for method in ("varpro", "sculpt"):
        words = f"--method {method} --heads {heads} --time-limit {LIMIT}"
        found = recover(tmp_path, words, status=3)
        report(
            f"hard parity, d = {dim}, m = {heads}, {method}: {found['status']}, "
            f"held-out error {found['held_out_error']:.2f}, {found['seconds']:.0f} s"
        )
        assert found["status"] in HONEST and found["held_out_error"] > 0.1
        assert found["seconds"] < 3 * LIMIT and not (tmp_path / "l.npz").exists()
    words = f"generate attention-layer --heads {heads} --dim {dim} --tokens 2 --count {count} --seed 1"
    run(words, "-o", tmp_path / "ex.npz", "--layer-out", tmp_path / "truth.npz")
    found = recover(tmp_path, f"--heads {heads}")
    report(f"generic, d = {dim}, m = {heads}, varpro: {found['status']}, {found['seconds']:.1f} s")
    assert found["status"] == "recovered"
    assert run_json("compare", tmp_path / "l.npz", tmp_path / "truth.npz")["worst_error"] < 1e-8


@pytest.mark.parametrize("size,count", [(3, 100000), (4, 50000), (5, 16000)])  # enough to be timed
def test_brute_force_grows_as_the_number_of_sets(tmp_path, report, size, count):
    """Seconds are a (d-1) + b C(d-1, s): one pass for every coordinate's signs, one for every set."""
    dims, seconds = np.arange(10, 25, 2), []
    for dim in dims:
        hidden = hard_parity(tmp_path, dim, size, count, 2)
        runs = [recover(tmp_path, f"--method brute-force --heads {2 * size} --threads 1") for _ in range(5)]
        assert all(found["status"] == "recovered" and found["parity"]["set"] == hidden for found in runs)
        assert runs[0]["parity"]["tried"] == math.comb(dim - 1, size)
        seconds.append(min(found["phases"]["search"] for found in runs))
    sets, seconds = np.array([math.comb(d - 1, size) for d in dims]), np.array(seconds)
    passes = np.stack([dims - 1, sets], 1)
    (a, b), *_ = np.linalg.lstsq(passes / seconds[:, None], np.ones(len(dims)), rcond=None)
    misfit = np.abs(passes @ (a, b) / seconds - 1).max()
    report(
        f"brute force, s = {size}, d = 10 .. 24: {sets[0]} to {sets[-1]} sets, {1e3 * seconds[0]:.2f} to "
        f"{1e3 * seconds[-1]:.2f} ms = {1e6 * a:.0f} us (d-1) + {1e6 * b:.1f} us C(d-1, s) to {100 * misfit:.0f}%"
    )
    assert misfit < 0.4 and b * sets[-1] > 0.5 * seconds[-1]


def test_linear_algebra_with_and_without_flips(tmp_path, report):
    slowest, violated = 0, []
    for seed in range(10):
        hidden = hard_parity(tmp_path, 200, 20, 1000, seed)
        found = recover(tmp_path, "--method linear-algebra")
        assert found["status"] == "recovered" and found["parity"]["set"] == hidden
        slowest = max(slowest, found["seconds"])
        hard_parity(tmp_path, 200, 20, 1000, seed, "--flips 0.05")
        (tmp_path / "l.npz").unlink()
        found = recover(tmp_path, "--method linear-algebra", status=3)
        assert found["status"] == "not_identified" and not (tmp_path / "l.npz").exists()
        violated.append(found["parity"]["violated"] / found["parity"]["equations"])
    report(
        f"linear algebra, d = 200, s = 20: 10 of 10 sets in {slowest:.2f} s at most; with 5% flips none, "
        f"{100 * min(violated):.0f}% to {100 * max(violated):.0f}% of the equations contradict"
    )
