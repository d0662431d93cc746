"""Small, degenerate and extreme data: a defined answer, always finite."""

import json

import numpy as np
import pytest
from binary import fit, predict, read_model, refuse, run, run_json
from reference import relative_error, scores_of

MODELS = ["--model rfa", "--model brfa --score softmax", "--model mlp"]
RIDGES = ["auto", "0", "1e-3"]


def check_finite(data, model_path, *options):
    """Fits, predicts, evaluates: nothing that is not finite anywhere. Returns the predictions."""
    report = fit(data.path, model_path, "--heads 6", *options)
    numbers = [v for v in report.values() if isinstance(v, float)] + [t["ridge"] for t in report["trials"]]
    tensors, metadata = read_model(model_path)
    found = predict(model_path, data.path)
    assert all(np.isfinite(a).all() for a in (*tensors.values(), found, numbers))
    expected = scores_of(tensors, metadata, data)
    assert np.abs(found.reshape(expected.shape) - expected).max() <= 1e-12 * max(
        np.abs(expected).max(), 1e-300
    )
    evaluation = run_json("evaluate", model_path, data.path)
    assert evaluation["n"] == len(expected) and np.isfinite(evaluation["mse"])
    return found


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n, keys, d", [(1, 1, 1), (1, 4, 3), (2, 1, 1), (9, 1, 3), (9, 4, 1)])
def test_tiny_shapes(make_sets, tmp_path, n, keys, d, model, ridge):
    data = make_sets(n=n, keys=keys, d=d)
    found = check_finite(data, tmp_path / "m", model, f"--ridge {ridge}")
    if n == 1:
        assert relative_error(found, data["y"]) <= 1e-12


@pytest.mark.parametrize("loss", ["huber", "logistic", "hinge"])
@pytest.mark.parametrize("ridge", ["auto", "1e-2"])
def test_two_sets(make_sets, tmp_path, loss, ridge):
    data = make_sets(n=2, keys=1, d=1, y=np.array([0, 1]))
    fit(data.path, tmp_path / "m", f"--loss {loss} --ridge {ridge} --heads 3")
    assert np.isfinite(predict(tmp_path / "m", data.path, "--scores")).all()


@pytest.mark.parametrize("value", [0.0, 0.1, -7.25, 1e100])
@pytest.mark.parametrize("ridge", RIDGES)
def test_constant_targets_are_predicted_exactly(make_sets, tmp_path, value, ridge):
    data = make_sets(y=np.full(20, value))
    assert np.all(check_finite(data, tmp_path / "m", f"--ridge {ridge}") == value)
    evaluation = json.loads(run("evaluate", tmp_path / "m", data.path, "--json").stdout)
    assert evaluation == {"n": 20, "mse": 0.0, "nmse": None}
    assert "undefined" in run("evaluate", tmp_path / "m", data.path).stdout


@pytest.mark.parametrize("intercept", ["", "--no-intercept"])
def test_one_constant_column(make_sets, tmp_path, intercept):
    y = np.c_[np.ones(20), np.random.default_rng(0).standard_normal(20)]
    check_finite(make_sets(y=y), tmp_path / "m", intercept)


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("model", MODELS)
def test_equal_sets(save, tmp_path, model, ridge):
    """The same set 12 times: no feature varies, the mean is all there is."""
    y = np.arange(12.0)
    data = save(query=np.ones((12, 2)), keys=np.ones((12, 3, 2)), y=y)
    found = check_finite(data, tmp_path / "m", model, f"--ridge {ridge}")
    assert relative_error(found, np.full(12, y.mean())) <= 1e-6


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e-30, 1e30])
@pytest.mark.parametrize("model", ["--model rfa", "--model mlp", "--model brfa --score softmax"])
def test_scales_of_tokens(make_sets, save, tmp_path, model, scale, ridge):
    data = make_sets(n=12)
    scaled = save("scaled", query=scale * data["query"], keys=scale * data["keys"], y=data["y"])
    if scale == 1e30 and ridge == "1e-3":  # nothing beside squares of 1e30: an outcome, not an answer
        done = run(
            "fit", scaled.path, "--heads 6 -o", tmp_path / "m", model, f"--ridge {ridge} --json", status=3
        )
        report = json.loads(done.stdout)
        assert report["status"] == "not_positive_definite" and report["file"] is None
        assert not (tmp_path / "m").exists()
    else:
        check_finite(scaled, tmp_path / "m", model, f"--ridge {ridge}")


# Features of mlp are linear in the tokens: at 1e200 they are finite, but their squares are not.
HUGE = ["--model rfa", "--score exp", "--loss huber", "--solver primal"]
SQUARES = [
    f"--model mlp {o}" for o in ("", "--ridge 0", "--ridge 1", "--solver primal", "--solver iterative")
]
SQUARES += ["--model mlp --loss logistic", "--model mlp --loss huber --norm-ball 1,1", "--precision f32"]


@pytest.mark.parametrize("options", SQUARES)
def test_tokens_too_large_for_squares_of_features(make_sets, save, tmp_path, options):
    scale = 1e18 if "f32" in options else 1e200
    data = make_sets(n=12, y=np.arange(12) % 2)
    huge = save("huge", query=scale * data["query"], keys=scale * data["keys"], y=data["y"])
    line = refuse("fit", huge.path, "-o", tmp_path / "m", options, "--heads 6", folder=tmp_path)
    assert str(huge.path) in line and "overflow" in line


@pytest.mark.parametrize("options", HUGE)
def test_tokens_too_large_for_the_features(make_sets, save, tmp_path, options):
    data = make_sets(n=12)
    huge = save("huge", query=1e200 * data["query"], keys=1e200 * data["keys"], y=data["y"])
    line = refuse("fit", huge.path, "-o", tmp_path / "m", options, "--heads 6", folder=tmp_path)
    assert str(huge.path) in line and "scale the tokens down" in line
    fit(data.path, tmp_path / "m", options, "--heads 6")
    line = refuse("predict", tmp_path / "m", huge.path, "-o", tmp_path / "p.npy", folder=tmp_path)
    assert str(huge.path) in line and "scale the tokens down" in line


def test_single_precision_has_a_smaller_range(make_sets, save, tmp_path):
    data = make_sets(n=12)
    large = save("large", query=1e30 * data["query"], keys=1e30 * data["keys"], y=data["y"])
    refuse("fit", large.path, "--precision f32 --heads 6 -o", tmp_path / "m", folder=tmp_path)


def test_targets_too_large(make_sets, tmp_path):
    y = np.random.default_rng(0).standard_normal(20)
    huge, large = make_sets(y=1e200 * y, name="huge"), make_sets(y=1e100 * y, name="large")
    assert "y[0] is" in refuse("fit", huge.path, "--heads 6 -o", tmp_path / "m", folder=tmp_path)
    line = refuse("fit", large.path, "--heads 6 --precision f32 -o", tmp_path / "m", folder=tmp_path)
    assert "overflow float32" in line


def test_predictions_too_large(make_sets, save, tmp_path):
    """Finite features, finite values, infinite products."""
    data = make_sets(y=1e100 * np.random.default_rng(0).standard_normal(20))
    fit(data.path, tmp_path / "m", "--heads 6 --ridge 1e-3")
    far = save("far", query=1e140 * data["query"], keys=1e70 * data["keys"], y=data["y"])
    for command in (("predict", "-o", tmp_path / "p.npy"), ("evaluate",)):
        line = refuse(command[0], tmp_path / "m", far.path, *command[1:], folder=tmp_path)
        assert str(far.path) in line and "overflow" in line


@pytest.mark.parametrize("scale", [1e-200, 1e149, 1e-300])
@pytest.mark.parametrize("ridge", RIDGES)
def test_scales_of_targets(make_sets, tmp_path, scale, ridge):
    y = scale * np.random.default_rng(0).standard_normal(20)
    found = check_finite(make_sets(y=y), tmp_path / "m", f"--ridge {ridge}")
    plain = check_finite(make_sets(y=y / scale), tmp_path / "m", f"--ridge {ridge}")
    assert relative_error(found / scale, plain) <= 1e-6


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint16, np.float32])
def test_other_number_types(make_sets, save, tmp_path, dtype):
    rng = np.random.default_rng(0)
    arrays = {
        "query": rng.integers(0, 4, (15, 3)),
        "keys": rng.integers(0, 4, (15, 2, 3)),
        "y": rng.integers(0, 9, 15),
    }
    doubles = save("doubles", **{k: v.astype(float) for k, v in arrays.items()})
    typed = save("typed", **{k: v.astype(dtype) for k, v in arrays.items()})
    fit(doubles.path, tmp_path / "a", "--heads 6 --ridge 1e-2")
    fit(typed.path, tmp_path / "b", "--heads 6 --ridge 1e-2")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_single_precision_file_with_double_precision_model(make_sets, tmp_path):
    data = make_sets("ragged", dtype=np.float32)
    check_finite(data, tmp_path / "m", "--ridge 1e-3")


def test_y_of_one_column_keeps_its_shape(make_sets, tmp_path):
    flat, column = make_sets(name="flat"), make_sets(q=1, name="column")
    assert check_finite(flat, tmp_path / "flat", "--ridge 1e-3").shape == (20,)
    assert check_finite(column, tmp_path / "column", "--ridge 1e-3").shape == (20, 1)


def test_prediction_needs_no_targets_and_any_number_of_sets(make_sets, save, tmp_path):
    data = make_sets("ragged", n=50)
    fit(data.path, tmp_path / "m", "--heads 20 --ridge 1e-3")
    whole = predict(tmp_path / "m", data.path)
    one = save("one", query=data["query"][:1], keys=data["keys"][None, : data["offsets"][1]])
    assert relative_error(predict(tmp_path / "m", one.path), whole[:1]) <= 1e-13


def test_output_name_as_in_numpy(make_sets, tmp_path):
    data = make_sets()
    fit(data.path, tmp_path / "m", "--heads 3")
    run("predict", tmp_path / "m", data.path, "-o", tmp_path / "plain")
    assert np.load(tmp_path / "plain.npy").shape == (20,) and not (tmp_path / "plain").exists()


def test_ragged_file_of_equal_sizes_is_rectangular(make_sets, save, tmp_path):
    data = make_sets()
    ragged = save(
        "ragged",
        query=data["query"],
        keys=data["keys"].reshape(-1, 3),
        offsets=np.arange(0, 81, 4),
        y=data["y"],
    )
    for model in ("--model rfa", "--model mlp"):
        fit(data.path, tmp_path / "a", model, "--heads 5 --ridge 1")
        fit(ragged.path, tmp_path / "b", model, "--heads 5 --ridge 1")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_compressed_data_are_refused_or_read(make_sets, tmp_path):
    """np.savez_compressed: the same answer as the plain file, or an error that names the file."""
    data = make_sets()
    np.savez_compressed(tmp_path / "compressed.npz", **data)
    fit(data.path, tmp_path / "a", "--heads 5 --ridge 1")
    fit(tmp_path / "compressed.npz", tmp_path / "b", "--heads 5 --ridge 1")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
