"""The squared loss: leave-one-out by brute force, the minimum-norm interpolant, solvers that agree."""

import re
from itertools import pairwise

import numpy as np
import pytest
from binary import fit, predict, read_model, refuse, run
from reference import features, relative_error


def brute_force_errors(phi, y, total_penalty, intercept):
    """Leaves each example out, fits the others with the same total penalty, and squares the error on it."""
    errors = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        a, b = phi[rest], y[rest]
        centre, offset = (a.mean(0), b.mean(0)) if intercept else (np.zeros(a.shape[1]), np.zeros(b.shape[1]))
        u, s, vt = np.linalg.svd(a - centre, full_matrices=False)
        v = vt.T @ ((s / (s**2 + total_penalty))[:, None] * (u.T @ (b - offset)))
        errors.append((phi[i] - centre) @ v + offset - y[i])
    return np.mean(np.square(errors))


@pytest.mark.parametrize("intercept", ["", "--no-intercept"])
@pytest.mark.parametrize("solver", ["primal", "dual"])
@pytest.mark.parametrize("heads, n", [(2, 14), (9, 14)])
def test_leave_one_out_error_is_exact(make_sets, tmp_path, heads, n, solver, intercept):
    data = make_sets("ragged", n=n, d=3, q=2)
    report = fit(data.path, tmp_path / "m", f"--heads {heads} --solver {solver} {intercept}")
    phi = features(*read_model(tmp_path / "m"), data)
    centred = phi - phi.mean(0) if intercept == "" else phi
    trials = report["trials"]
    top = 1e3 * np.sum(centred**2) / n
    assert trials[0]["ridge"] == pytest.approx(top, rel=1e-10)
    ratios = [a["ridge"] / b["ridge"] for a, b in pairwise(trials)]
    assert ratios == pytest.approx([np.sqrt(10)] * len(ratios), rel=1e-9) and len(trials) >= 20
    for trial in trials:
        expected = brute_force_errors(phi, data["y"], n * trial["ridge"], intercept == "")
        rounding = 10 * np.finfo(float).eps * np.sum(centred**2) / (n * trial["ridge"])
        assert trial["error"] == pytest.approx(expected, rel=1e-12 + rounding)
    best = min(trials, key=lambda trial: trial["error"])
    assert report["ridge"] == best["ridge"] and report["ridge_rule"] == "leave-one-out"


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_automatic_ridge_is_the_same_fit_as_that_ridge_given(make_sets, tmp_path, solver):
    data = make_sets(n=40, d=3)
    report = fit(data.path, tmp_path / "auto", f"--heads 7 --solver {solver}")
    fit(data.path, tmp_path / "given", f"--heads 7 --solver {solver} --ridge {report['ridge']!r}")
    auto, given = (predict(tmp_path / name, data.path) for name in ("auto", "given"))
    assert relative_error(auto, given) <= 1e-9


def test_unlearnable_targets_get_a_large_ridge(make_sets, tmp_path):
    """Pure noise: the grid must reach so far up that the model is the mean, or its error reads above 1."""
    data = make_sets(n=60, d=3, seed=5)
    report = fit(data.path, tmp_path / "m", "--heads 100")
    noise = max(trial["error"] for trial in report["trials"][:3])
    assert noise == pytest.approx(data["y"].var(), rel=0.05)
    assert min(trial["error"] for trial in report["trials"]) <= noise * (1 + 1e-12)


def minimum_norm(phi, y):
    """(values, intercept) by the pseudo-inverse of centred features."""
    centre = phi.mean(0)
    v = np.linalg.pinv(phi - centre, rcond=1e-11) @ (y - y.mean(0))
    return v, y.mean(0) - centre @ v


@pytest.mark.parametrize("solver", ["auto", "primal", "dual"])
@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("heads", [3, 30])
def test_minimum_norm(make_sets, save, tmp_path, heads, duplicates, solver):
    data = make_sets("ragged", n=25, d=2, q=2)
    if duplicates:  # every set twice, with targets that disagree: their mean is fitted
        rng = np.random.default_rng(1)
        offsets = np.r_[data["offsets"], data["offsets"][-1] + data["offsets"][1:]]
        twice = {k: np.concatenate([data[k]] * 2) for k in ("query", "keys", "y")}
        twice["y"] = twice["y"] + rng.standard_normal(twice["y"].shape)
        data = save("twice", **twice, offsets=offsets)
    fit(data.path, tmp_path / "m", f"--heads {heads} --ridge 0 --solver {solver}")
    tensors, metadata = read_model(tmp_path / "m")
    phi, y = features(tensors, metadata, data), data["y"]
    v, b = minimum_norm(phi, y)
    found = tensors["values"].reshape(-1, 2)
    expected = phi @ v + b
    assert relative_error(predict(tmp_path / "m", data.path), expected) <= 1e-7
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(v), rel=1e-5)
    if heads == 30:
        want = (y[:25] + y[25:]) / 2 if duplicates else y
        assert relative_error(predict(tmp_path / "m", data.path)[:25], want) <= 1e-7


SHAPES = {"more columns": (300, 120), "more sets": (700, 30)}


@pytest.mark.parametrize("precision, ridge, tolerance", [("f64", 1e-3, 1e-8), ("f32", 1.0, 1e-4)])
@pytest.mark.parametrize("shape", SHAPES)
def test_solvers_agree(make_sets, tmp_path, shape, precision, ridge, tolerance):
    n, heads = SHAPES[shape]
    data, test = make_sets("ragged", n=n, d=5, q=2), make_sets("ragged", n=200, d=5, seed=1, name="test")
    predictions = {}
    for solver in ("primal", "dual", "iterative"):
        options = f"--heads {heads} --ridge {ridge} --precision {precision} --solver {solver}"
        report = fit(data.path, tmp_path / solver, options)
        assert solver in report["method"].replace("conjugate gradients", "iterative")
        predictions[solver] = predict(tmp_path / solver, test.path)
    assert relative_error(predictions["primal"], predictions["dual"]) <= tolerance
    assert relative_error(predictions["iterative"], predictions["dual"]) <= tolerance


@pytest.fixture(scope="module")
def wide_problem(tmp_path_factory):
    """1600 sets whose Gram matrix is the largest array by far."""
    path = tmp_path_factory.mktemp("data") / "wide.npz"
    run("generate power-mean --degree 2 --dim 4 --keys 3 --count 1600 --noise 0.1 --seed 1 -o", path)
    return path


NOTE = "headlens: note: the Gram matrix would need"


def test_small_memory_takes_the_iterative_path_and_says_so(wide_problem, tmp_path):
    options = "--heads 320 --ridge 1e-3"
    whole = fit(wide_problem, tmp_path / "whole", options)
    plan = whole["predicted_peak_bytes"]
    assert plan > 8 * 1600**2 and "conjugate" not in whole["method"]
    done = run("fit", wide_problem, "-o", tmp_path / "small", options, "--max-memory 36M --json")
    assert done.stderr.startswith(NOTE) and len(done.stderr.splitlines()) == 1
    assert "36.0 MiB" in done.stderr and "dual conjugate gradients" in done.stdout
    whole, small = (predict(tmp_path / name, wide_problem) for name in ("whole", "small"))
    assert relative_error(small, whole) <= 1e-8


def test_iterative_path_with_automatic_ridge(make_sets, tmp_path):
    report = fit(make_sets(n=200).path, tmp_path / "m", "--heads 20 --solver iterative")
    assert report["ridge_rule"] == "held-out tenth" and report["status"] == "solved"
    best = min(report["trials"], key=lambda trial: trial["error"])
    assert best["ridge"] == report["ridge"] and report["residual"] <= 1e-9


@pytest.mark.parametrize(
    "options", ["--ridge 1e-3", "--ridge 0", "--solver dual", "--loss huber", "--norm-ball 1,1"]
)
def test_too_little_memory_is_refused_with_both_numbers(wide_problem, tmp_path, options):
    line = refuse(
        "fit", wide_problem, "-o", tmp_path / "m", "--heads 320 --max-memory 2M", options, folder=tmp_path
    )
    assert re.search(r"needs [0-9.]+ [KMG]iB, but only 2.0 MiB", line)


def test_too_little_memory_elsewhere(wide_problem, tmp_path):
    both = r"(needs|take) .*[KMGTP]iB.* only .*[KMGT]iB"
    out = tmp_path / "out"
    assert re.search(
        both, refuse("generate power-mean --count 100000 --max-memory 1M -o", out, folder=tmp_path)
    )
    assert re.search(both, refuse("generate power-mean --count 1000000000000 -o", out, folder=tmp_path))
    assert re.search(both, refuse("fit", wide_problem, "--heads 100000000 -o", out, folder=tmp_path))
    fit(wide_problem, tmp_path / "m", "--heads 320 --ridge 1")
    line = refuse("predict", tmp_path / "m", wide_problem, "-o", out, "--max-memory 100K", folder=tmp_path)
    assert re.search(both, line)
    assert re.search(
        both, refuse("evaluate", tmp_path / "m", wide_problem, "--max-memory 50K", folder=tmp_path)
    )
