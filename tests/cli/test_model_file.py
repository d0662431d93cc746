"""A model file says everything: features, predictions and the optimality of the fit follow from it alone."""

import numpy as np
import pytest
from binary import fit, predict, read_model, run, run_json
from reference import features, relative_error, scores_of

MODELS = [(m, s) for m in ("rfa", "brfa") for s in ("relu", "softmax", "exp")] + [("mlp", "relu")]
TOLERANCE = {"f64": 1e-12, "f32": 1e-5}


def check_predictions(data, model_path, *args, precision="f64"):
    fit(data.path, model_path, "--precision", precision, "--seed", 3, *args)
    tensors, metadata = read_model(model_path)
    expected = scores_of(tensors, metadata, data)
    found = predict(model_path, data.path)
    assert found.shape == data["y"].shape and found.dtype == {"f64": np.float64, "f32": np.float32}[precision]
    assert relative_error(found.reshape(expected.shape), expected) <= TOLERANCE[precision]


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("layout", ["rectangular", "ragged", "sequence"])
@pytest.mark.parametrize("model, score", MODELS)
def test_predictions_follow_from_the_file(make_sets, tmp_path, model, score, layout, precision):
    if model == "mlp" and layout == "ragged":
        pytest.skip("mlp takes sets of one size only")
    data = make_sets(layout, n=15, d=3, keys=4, q=3)
    args = ["--model", model, "--score", score, "--heads", 37, *(["--sequence"] if layout == "sequence" else [])]
    check_predictions(data, tmp_path / "m", *args, precision=precision)


@pytest.mark.parametrize("layout", ["rectangular", "ragged", "sequence"])
@pytest.mark.parametrize("model, score", [("rfa", "relu"), ("brfa", "softmax"), ("mlp", "relu")])
def test_positions_are_added_to_the_keys(make_sets, tmp_path, model, score, layout):
    if model == "mlp" and layout == "ragged":
        pytest.skip("mlp takes sets of one size only")
    data = make_sets(layout, n=15, d=5, keys=6)
    args = ["--model", model, "--score", score, "--heads", 9, *(["--sequence"] if layout == "sequence" else [])]
    check_predictions(data, tmp_path / "m", *args, "--positions", "sinusoidal")


@pytest.mark.parametrize("q", [None, 1, 3])
@pytest.mark.parametrize("d, keys, heads", [(1, 1, 1), (2, 17, 16), (7, 3, 33), (16, 16, 5), (33, 2, 2)])
def test_odd_shapes(make_sets, tmp_path, d, keys, heads, q):
    check_predictions(make_sets(n=7, d=d, keys=keys, q=q), tmp_path / "m", "--heads", heads)


def test_prediction_of_other_sets(make_sets, tmp_path):
    train, other = make_sets("ragged", n=30), make_sets("ragged", n=200, keys=20, seed=1, name="other")
    fit(train.path, tmp_path / "m", "--heads", 20)
    expected = scores_of(*read_model(tmp_path / "m"), other)[:, 0]
    assert relative_error(predict(tmp_path / "m", other.path), expected) <= 1e-12


@pytest.mark.parametrize("solver", ["auto", "primal", "dual"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("model, heads, n", [("rfa", 5, 120), ("rfa", 60, 50), ("brfa", 40, 120), ("mlp", 70, 60)])
def test_normal_equations(make_sets, tmp_path, model, heads, n, solver, intercept):
    data = make_sets(n=n, d=4, keys=5, q=2)
    ridge = 1e-3
    args = [] if intercept else ["--no-intercept"]
    report = fit(data.path, tmp_path / "m", "--model", model, "--heads", heads, "--ridge", ridge,
                 "--solver", solver, *args)  # fmt: skip
    tensors, metadata = read_model(tmp_path / "m")
    phi, y, v = features(tensors, metadata, data), data["y"], tensors["values"].reshape(-1, 2)
    if intercept:
        b = y.mean(0) - phi.mean(0) @ v
        assert np.allclose(tensors["intercept"], b, rtol=0, atol=1e-11 * np.abs(phi.mean(0)) @ np.abs(v).max(1))
        phi, y = phi - phi.mean(0), y - y.mean(0)
    else:
        assert not tensors["intercept"].any()
    gradient = phi.T @ (phi @ v - y) / n + ridge * v
    assert np.linalg.norm(gradient) <= 1e-9 * np.linalg.norm(phi.T @ y / n)
    assert report["residual"] <= 1e-9
    assert report["train_loss"] == pytest.approx(np.mean((phi @ v - y) ** 2), rel=1e-8)
    smaller = "dual" if n <= phi.shape[1] else "primal"
    assert report["method"].startswith(smaller if solver == "auto" else solver)


def test_tensors_and_metadata(make_sets, tmp_path):
    rectangular = make_sets(n=10, d=3, keys=4, q=2)
    fit(rectangular.path, tmp_path / "m", "--model", "brfa", "--heads", 6, "--seed", 11, "--score", "softmax",
        "--ridge", 0.5)  # fmt: skip
    tensors, meta = read_model(tmp_path / "m")
    assert {k: v.shape for k, v in tensors.items()} == {"heads": (6, 4, 4), "values": (6, 4, 2), "intercept": (2,)}
    expected = {
        "model": "brfa", "heads": "6", "seed": "11", "score": "softmax", "positions": "none", "precision": "f64",
        "loss": "squared", "bias_scale": "1", "weight_scale": "0.5", "report.ridge": "0.5",
        "report.ridge_rule": "given", "report.status": "solved",
    }  # fmt: skip
    assert {k: meta.get(k) for k in expected} == expected
    assert meta["headlens_version"] == run("--version").stdout.split()[1]
    fit(rectangular.path, tmp_path / "m", "--model", "mlp", "--heads", 6, "--precision", "f32")
    tensors, _ = read_model(tmp_path / "m")
    assert {k: v.shape for k, v in tensors.items()} == {"neurons": (6, 20), "values": (6, 2), "intercept": (2,)}
    assert {t.dtype for t in tensors.values()} == {np.dtype(np.float32)}


def kolmogorov_smirnov(standardised):
    """sqrt(n) times the largest distance to the normal distribution; above 1.95 once in 1000."""
    from math import erf, sqrt

    x = np.sort(standardised.ravel())
    normal = np.array([(1 + erf(v / sqrt(2))) / 2 for v in x])
    ranks = np.arange(len(x) + 1) / len(x)
    return np.sqrt(len(x)) * max(np.max(ranks[1:] - normal), np.max(normal - ranks[:-1]))


@pytest.mark.parametrize("model, options, mean, deviation", [
    ("rfa", [], 0.0, 0.5),
    ("brfa", [], 1.0, 0.5),
    ("brfa", ["--bias-scale", "-2", "--weight-scale", "0.1"], -2.0, 0.1),
    ("rfa", ["--bias-scale", "0.5", "--weight-scale", "3"], 0.5, 3.0),
    ("mlp", [], 0.0, 1 / np.sqrt(2 * (4 + 1))),
    ("mlp", ["--weight-scale", "2"], 0.0, 2.0),
])  # fmt: skip
def test_heads_are_gaussian(make_sets, tmp_path, model, options, mean, deviation):
    """Each check fails a right program with probability below 2e-3 (Gaussian tails, Bonferroni), at this seed never."""
    data = make_sets(n=3, d=3, keys=4)
    fit(data.path, tmp_path / "m", "--model", model, "--heads", 400, "--seed", 7, "--ridge", 1, *options)
    tensors, _ = read_model(tmp_path / "m")
    w = tensors["neurons" if model == "mlp" else "heads"]
    centre = np.zeros(w.shape[1:])
    if model != "mlp":
        centre[range(3), range(3)] = mean
    z = (w - centre) / deviation
    entries = z.reshape(400, -1)
    assert np.abs(entries.mean(0)).max() * np.sqrt(400) <= 4.5  # mean of every entry over the heads
    assert abs((z**2).mean() - 1) <= 4 * np.sqrt(2 / z.size)  # chi-square
    assert kolmogorov_smirnov(z) <= 1.95
    correlation = np.corrcoef(entries.T) - np.eye(entries.shape[1])
    assert np.abs(correlation).max() * np.sqrt(400) <= 5  # entries of one head are independent
    assert np.abs(np.corrcoef(entries[:40]) - np.eye(40)).max() * np.sqrt(entries.shape[1]) <= 5  # and heads are


@pytest.mark.parametrize("model, tensor", [("rfa", "heads"), ("brfa", "heads"), ("mlp", "neurons")])
def test_more_heads_extend_fewer(make_sets, tmp_path, model, tensor):
    data = make_sets()
    drawn = {}
    for heads in (5, 70):
        fit(data.path, tmp_path / "m", "--model", model, "--heads", heads, "--seed", 4)
        drawn[heads] = read_model(tmp_path / "m")[0][tensor]
    assert np.array_equal(drawn[5], drawn[70][:5])
    fit(data.path, tmp_path / "m", "--model", model, "--heads", 5, "--seed", 5)
    assert not np.isin(read_model(tmp_path / "m")[0][tensor], drawn[5]).any()


def test_evaluate(make_sets, tmp_path):
    train, test = make_sets(n=40, q=2), make_sets(n=25, q=2, seed=1, name="test")
    fit(train.path, tmp_path / "m", "--heads", 4)
    y, predicted = test["y"], predict(tmp_path / "m", test.path)
    found = run_json("evaluate", tmp_path / "m", test.path)
    mse = np.mean((predicted - y) ** 2)
    assert found == pytest.approx({"n": 25, "mse": mse, "nmse": mse / np.mean((y - y.mean(0)) ** 2)}, rel=1e-12)
