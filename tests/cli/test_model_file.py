"""A model file says everything: features, predictions and the optimality of the fit follow from it alone."""

from math import erf, sqrt

import numpy as np
import pytest
from binary import fit, predict, read_model, run, run_json
from reference import features, relative_error, scores_of

LAYOUTS = ["rectangular", "ragged", "sequence"]
MODELS = [f"--model {m} --score {s}" for m in ("rfa", "brfa") for s in ("relu", "softmax", "step")]
MODELS += [f"--model {m} --score exp --weight-scale 0.1" for m in ("rfa", "brfa --bias-scale 0.2")] + [
    "--model mlp"
]
TOLERANCE = {"f64": 1e-12, "f32": 1e-5}


def check_predictions(data, model_path, *args, precision="f64"):
    sequence = "--sequence" if "tokens" in data else ""
    fit(data.path, model_path, "--seed 3 --ridge 1e-2 --precision", precision, sequence, *args)
    tensors, metadata = read_model(model_path)
    expected = scores_of(tensors, metadata, data)
    found = predict(model_path, data.path)
    assert found.shape == data["y"].shape
    assert found.dtype == {"f64": np.float64, "f32": np.float32}[precision]
    assert relative_error(found.reshape(expected.shape), expected) <= TOLERANCE[precision]
    assert expected.std() > 0.1  # not just the intercept


def skip_ragged_mlp(model, layout):
    if "mlp" in model and layout == "ragged":
        pytest.skip("mlp takes sets of one size only")


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", MODELS)
def test_predictions_follow_from_the_file(make_sets, tmp_path, model, layout, precision):
    skip_ragged_mlp(model, layout)
    data = make_sets(layout, n=15, d=3, keys=4, q=3)
    check_predictions(data, tmp_path / "m", model, "--heads 37", precision=precision)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", ["--model rfa", "--model brfa --score softmax", "--model mlp"])
def test_positions_are_added_to_the_keys(make_sets, tmp_path, model, layout):
    skip_ragged_mlp(model, layout)
    data = make_sets(layout, n=15, d=5, keys=6)
    check_predictions(data, tmp_path / "m", model, "--heads 9 --positions sinusoidal")


@pytest.mark.parametrize("q", [None, 1, 3])
@pytest.mark.parametrize("d, keys, heads", [(1, 1, 1), (2, 17, 16), (7, 3, 33), (16, 16, 5), (33, 2, 2)])
def test_odd_shapes(make_sets, tmp_path, d, keys, heads, q):
    check_predictions(make_sets(n=7, d=d, keys=keys, q=q), tmp_path / "m", "--heads", heads)


def test_prediction_of_other_sets(make_sets, tmp_path):
    train, other = make_sets("ragged", n=30), make_sets("ragged", n=200, keys=20, seed=1, name="other")
    fit(train.path, tmp_path / "m", "--heads 20 --ridge 1e-3")
    expected = scores_of(*read_model(tmp_path / "m"), other)[:, 0]
    assert relative_error(predict(tmp_path / "m", other.path), expected) <= 1e-12


@pytest.mark.parametrize("solver", ["auto", "primal", "dual"])
@pytest.mark.parametrize("intercept", ["", "--no-intercept"])
@pytest.mark.parametrize(
    "model, heads, n", [("rfa", 5, 120), ("rfa", 60, 50), ("brfa", 40, 120), ("mlp", 70, 60)]
)
def test_normal_equations(make_sets, tmp_path, model, heads, n, solver, intercept):
    data = make_sets(n=n, d=4, keys=5, q=2)
    options = f"--model {model} --heads {heads} --ridge 1e-3 --solver {solver} {intercept}"
    report = fit(data.path, tmp_path / "m", options)
    tensors, metadata = read_model(tmp_path / "m")
    phi, y, v = features(tensors, metadata, data), data["y"], tensors["values"].reshape(-1, 2)
    if intercept == "":
        size = np.abs(phi.mean(0)) @ np.abs(v)
        assert np.all(np.abs(y.mean(0) - phi.mean(0) @ v - tensors["intercept"]) <= 1e-12 * (1 + size))
        phi, y = phi - phi.mean(0), y - y.mean(0)
    else:
        assert not tensors["intercept"].any()
    gradient = phi.T @ (phi @ v - y) / n + 1e-3 * v
    assert np.linalg.norm(gradient) <= 1e-9 * np.linalg.norm(phi.T @ y / n)
    assert report["residual"] <= 1e-9
    assert report["train_loss"] == pytest.approx(np.mean((phi @ v - y) ** 2), rel=1e-6)
    smaller = "dual" if n <= phi.shape[1] else "primal"
    assert report["method"].startswith(smaller if solver == "auto" else solver)


def test_tensors_and_metadata(make_sets, tmp_path):
    data = make_sets(n=10, d=3, keys=4, q=2)
    fit(data.path, tmp_path / "m", "--model brfa --heads 6 --seed 11 --score softmax --ridge 0.5")
    tensors, meta = read_model(tmp_path / "m")
    assert {k: v.shape for k, v in tensors.items()} == {
        "heads": (6, 4, 4),
        "values": (6, 4, 2),
        "intercept": (2,),
    }
    assert meta["headlens_version"] == run("--version").stdout.split()[1]
    expected = {"model": "brfa", "heads": "6", "seed": "11", "score": "softmax", "positions": "none"}
    expected |= {"precision": "f64", "loss": "squared", "bias_scale": "1", "weight_scale": "0.5"}
    expected |= {"report.ridge": "0.5", "report.ridge_rule": "given", "report.status": "solved"}
    assert expected.items() <= meta.items()
    fit(data.path, tmp_path / "m", "--model mlp --heads 6 --precision f32")
    tensors, _ = read_model(tmp_path / "m")
    assert {k: v.shape for k, v in tensors.items()} == {
        "neurons": (6, 20),
        "values": (6, 2),
        "intercept": (2,),
    }
    assert {t.dtype for t in tensors.values()} == {np.dtype(np.float32)}


def kolmogorov_smirnov(standardised):
    """sqrt(n) times the largest distance to the normal distribution; above 1.95 once in 1000."""
    x = np.sort(standardised.ravel())
    normal = np.array([(1 + erf(v / sqrt(2))) / 2 for v in x])
    ranks = np.arange(len(x) + 1) / len(x)
    return np.sqrt(len(x)) * max(np.max(ranks[1:] - normal), np.max(normal - ranks[:-1]))


@pytest.mark.parametrize(
    "model, mean, deviation",
    [
        ("rfa", 0.0, 0.5),
        ("brfa", 1.0, 0.5),
        ("brfa --bias-scale -2 --weight-scale 0.1", -2.0, 0.1),
        ("rfa --bias-scale 0.5 --weight-scale 3", 0.5, 3.0),
        ("mlp", 0.0, 1 / sqrt(2 * (4 + 1))),
        ("mlp --weight-scale 2", 0.0, 2.0),
    ],
)
def test_heads_are_gaussian(make_sets, tmp_path, model, mean, deviation):
    """Each bound is exceeded by true Gaussians with probability below 1e-3; the seed is fixed."""
    data = make_sets(n=3, d=3, keys=4)
    fit(data.path, tmp_path / "m", "--heads 400 --seed 7 --ridge 1 --model", model)
    tensors, _ = read_model(tmp_path / "m")
    w = tensors["neurons" if "mlp" in model else "heads"]
    centre = np.zeros(w.shape[1:])
    if "mlp" not in model:
        centre[range(3), range(3)] = mean
    z = ((w - centre) / deviation).reshape(400, -1)
    assert np.abs(z.mean(0)).max() * sqrt(400) <= 4.5  # the mean of every entry over the heads
    assert abs((z**2).mean() - 1) <= 3.3 * sqrt(2 / z.size)  # the variance, chi-square
    assert kolmogorov_smirnov(z) <= 1.95
    between_entries = np.corrcoef(z.T) - np.eye(z.shape[1])
    assert np.abs(between_entries).max() * sqrt(400) <= 5
    neighbours = (z[1:] * z[:-1]).mean(1)  # heads are independent of each other
    assert np.abs(neighbours).max() * sqrt(z.shape[1]) <= 6


@pytest.mark.parametrize("model, tensor", [("rfa", "heads"), ("brfa", "heads"), ("mlp", "neurons")])
def test_more_heads_extend_fewer(make_sets, tmp_path, model, tensor):
    data = make_sets()

    def draw(heads, seed):
        fit(data.path, tmp_path / "m", f"--model {model} --heads {heads} --seed {seed}")
        return read_model(tmp_path / "m")[0][tensor]

    few, many = draw(5, seed=4), draw(70, seed=4)
    assert np.array_equal(few, many[:5])
    assert not np.isin(draw(5, seed=5), few).any()


def test_evaluate(make_sets, tmp_path):
    train, test = make_sets(n=40, q=2), make_sets(n=25, q=2, seed=1, name="test")
    fit(train.path, tmp_path / "m", "--heads 4 --ridge 1e-3")
    y, predicted = test["y"], predict(tmp_path / "m", test.path)
    found = run_json("evaluate", tmp_path / "m", test.path)
    mse = np.mean((predicted - y) ** 2)
    assert found == pytest.approx(
        {"n": 25, "mse": mse, "nmse": mse / np.mean((y - y.mean(0)) ** 2)}, rel=1e-12
    )
