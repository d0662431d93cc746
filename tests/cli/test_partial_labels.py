"""Labels as they come: some missing, some grossly wrong, some rounded; and tokens of a plain layer in a subspace."""

import json

import numpy as np
import pytest
from binary import refuse, run, run_json
from test_variants import generate, held_out_error, outputs


def spoil(y, share, rng, size):
    """Some labels replaced by numbers of that size, and which."""
    wrong = rng.random(y.shape) < share
    return np.where(wrong, size * y.std() * rng.standard_normal(y.shape), y), wrong


def worst_error(tmp_path):
    return run_json("compare", tmp_path / "layer.npz", tmp_path / "truth.npz")["worst_error"]


@pytest.mark.parametrize(("options", "size"), [("", 100), ("--mask causal --bias", 1)])
def test_outliers_are_named_and_do_no_harm(tmp_path, options, size):
    """One label of a hundred is wrong, by its own size or by a hundred times that; the error is that of clean labels."""
    examples, truth = generate(tmp_path, options, count=300)
    rng = np.random.default_rng(3)
    y, wrong = spoil(examples["Y"], 0.01, rng, size)
    np.savez(tmp_path / "spoiled.npz", X=examples["X"], Y=y)
    words = run("recover --heads 2", options, tmp_path / "spoiled.npz", "-o", tmp_path / "layer.npz",
                "--certificate", tmp_path / "certificate.json").stdout  # fmt: skip
    result = json.loads((tmp_path / "certificate.json").read_text())
    assert result["status"] == "recovered"
    assert sorted(map(tuple, result["outliers"])) == sorted(zip(*map(list, np.nonzero(wrong))))
    assert held_out_error(tmp_path, truth) < 1e-11
    assert f"{wrong.sum()} labels disagree with this layer" in words


def test_noise_without_outliers_has_none(tmp_path):
    generate(tmp_path, "--noise 0.05", count=300)
    result = run_json("recover --heads 2", tmp_path / "examples.npz", "-o", tmp_path / "layer.npz")
    assert (result["status"], result["outliers"]) == ("approximate", [])


@pytest.mark.parametrize("how", ["nan", "observed", "rows"])
@pytest.mark.parametrize("options", ["", "--mask causal --bias", "--padding"])
def test_half_of_the_labels_suffice(tmp_path, options, how):
    """As nan, as `observed` of every label, and as `observed` of whole tokens; what stands there does not matter."""
    examples, truth = generate(tmp_path, options, count=300)
    rng = np.random.default_rng(4)
    seen = rng.random(examples["Y"].shape[: 2 if how == "rows" else 3]) < 0.5
    full = seen[..., None] if how == "rows" else seen
    examples["Y"] = np.where(full, examples["Y"], np.nan if how == "nan" else 1e3)
    if how != "nan":
        examples["observed"] = seen
    np.savez(tmp_path / "half.npz", **examples)
    known = options.replace("--padding", "")
    result = run_json("recover --heads 2", known, tmp_path / "half.npz", "-o", tmp_path / "layer.npz")
    assert result["status"] == "recovered" and result["missing_labels"] > 0.3 * examples["Y"].size
    assert held_out_error(tmp_path, truth, padded="padding" in options) < 1e-10


@pytest.mark.parametrize("missing", [(1050, 1178), (600, 1200)])
def test_examples_without_a_label_are_left_out(tmp_path, missing):
    """Of the last eighth, which is held out, the first 128 examples; and all of that eighth."""
    examples, truth = generate(tmp_path, "", count=1200)
    examples["Y"][slice(*missing)] = np.nan
    np.savez(tmp_path / "some.npz", **examples)
    result = run_json("recover --heads 2", tmp_path / "some.npz", "-o", tmp_path / "layer.npz")
    assert result["status"] == "recovered"
    assert held_out_error(tmp_path, truth) < 1e-10


def test_most_long_examples_may_have_no_labels(tmp_path):
    """A batch of few long examples has no label at all then."""
    rng = np.random.default_rng(7)
    q, k, v, o = (rng.standard_normal(shape) for shape in ((4, 2), (4, 2), (4, 2), (2, 3)))
    x = rng.standard_normal((60, 400, 4))
    logits = 0.3 * (x @ q) @ (x @ k).transpose(0, 2, 1)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    y = (p / p.sum(-1, keepdims=True)) @ (x @ v @ o)
    missing = rng.random(60) < 0.7
    missing[-7:] = False
    y[missing] = np.nan
    np.savez(tmp_path / "long.npz", X=x, Y=y)
    result = run_json("recover --heads 1 --rank 2", tmp_path / "long.npz", "-o", tmp_path / "layer.npz")
    assert result["status"] == "recovered" and result["held_out_error"] < 1e-10


def test_labels_that_are_missing_are_refused_where_they_are_not_understood(tmp_path):
    examples, _ = generate(tmp_path, "", count=40)
    x, y = examples["X"], examples["Y"].copy()
    y[:, :, 3] = np.nan
    np.savez(tmp_path / "none.npz", X=x, Y=y)
    assert "output 3 has no label" in refuse("recover", tmp_path / "none.npz", "-o", tmp_path / "l.npz")
    np.savez(tmp_path / "odd.npz", X=x, Y=examples["Y"], observed=np.full(y.shape[:2], 0.5))
    assert "observed holds 0.5" in refuse("recover", tmp_path / "odd.npz", "-o", tmp_path / "l.npz")
    np.savez(tmp_path / "shape.npz", X=x, Y=examples["Y"], observed=np.ones(3))
    assert "observed has shape (3,)" in refuse("recover", tmp_path / "shape.npz", "-o", tmp_path / "l.npz")
    np.savez(tmp_path / "some.npz", X=x, Y=np.where(np.arange(40)[:, None, None] == 0, np.nan, examples["Y"]))
    assert "varpro" in refuse(
        "recover --heads 2 --method sculpt", tmp_path / "some.npz", "-o", tmp_path / "l.npz"
    )


def bfloat16(y):
    mantissa, exponent = np.frexp(y)
    return np.ldexp(np.round(mantissa * 2**8) / 2**8, exponent)


def test_bfloat16_labels_are_approximate_and_bars_cover(tmp_path):
    """A layer has four bars of 95%, so that one fails in at most 20% of layers: in at most 6 of 10 (more by chance: 1e-3)."""
    failed = 0
    for seed in range(10):
        examples, truth = generate(tmp_path, "", seed, count=400)
        rounded = bfloat16(examples["Y"])
        np.savez(tmp_path / "rounded.npz", X=examples["X"], Y=rounded)
        result = run_json("recover --heads 2", tmp_path / "rounded.npz", "-o", tmp_path / "layer.npz")
        assert result["status"] == "approximate"
        assert 0.8 < result["noise"] / np.std(rounded - examples["Y"]) < 1.25
        layer = dict(np.load(tmp_path / "layer.npz"))
        held = []
        for i, head in enumerate(result["per_head"]):
            error = {name: [np.linalg.norm(layer[name][i] - true) / np.linalg.norm(true) for true in truth[name]]
                     for name in ("Theta", "W")}  # fmt: skip
            j = int(np.argmin(error["Theta"]))
            held += [error["Theta"][j] < head["theta_error_bar"], error["W"][j] < head["w_error_bar"]]
        failed += not all(held)
    assert failed <= 6


def test_a_layer_of_int8_weights_is_recovered_as_it_is(tmp_path):
    """Labels of quantised weights are exact labels of another layer: that layer, to all digits."""
    examples, truth = generate(tmp_path, "", count=200)
    unit = {name: np.abs(truth[name]).max() / 127 for name in truth}
    quantised = {name: np.round(truth[name] / unit[name]) * unit[name] for name in truth}
    np.savez(tmp_path / "truth.npz", **quantised)
    np.savez(tmp_path / "examples.npz", X=examples["X"], Y=outputs(quantised, examples["X"]))
    result = run_json("recover --heads 2", tmp_path / "examples.npz", "-o", tmp_path / "layer.npz")
    assert result["status"] == "recovered" and worst_error(tmp_path) < 1e-9


@pytest.mark.parametrize("heads", ["--heads 2", ""])
def test_a_plain_layer_on_a_subspace(tmp_path, heads):
    """Tokens whose coordinates sum to zero: outputs on fresh ones, and the dimension of the span."""
    _, truth = generate(tmp_path, "")
    x = np.random.default_rng(5).standard_normal((240, 5, 8))
    x -= x.mean(-1, keepdims=True)
    np.savez(tmp_path / "plane.npz", X=x[:200], Y=outputs(truth, x[:200]))
    np.savez(tmp_path / "fresh.npz", X=x[200:])
    result = run_json("recover", heads, tmp_path / "plane.npz", "-o", tmp_path / "layer.npz")
    assert (result["status"], result["span_dimension"], result["heads"]) == ("recovered", 7, 2)
    run("predict", tmp_path / "layer.npz", tmp_path / "fresh.npz", "-o", tmp_path / "y.npy")
    y = outputs(truth, x[200:])
    assert np.linalg.norm(np.load(tmp_path / "y.npy") - y) < 1e-9 * np.linalg.norm(y)
