"""Masks, biases, missing labels, and tokens on a hyperplane, of layers that are looked for in factors (--rank)."""

import numpy as np
import pytest
from binary import run, run_json
from test_variants import generate, held_out_error, outputs

SHAPE = {"dim": 14, "heads": 2, "tokens": 5, "count": 360}


@pytest.mark.parametrize("options", ["--mask causal", "--bias", "--mask causal --bias"])
def test_masks_and_biases_are_recovered_in_factors(tmp_path, options):
    _, truth = generate(tmp_path, f"{options} --rank 4", **SHAPE)
    layer = tmp_path / "layer.npz"
    result = run_json("recover --heads 2 --rank 4", options, tmp_path / "examples.npz", "-o", layer)
    assert (result["status"], result["heads"]) == ("recovered", 2)
    assert result["per_head"][0]["theta_rank"] == (5 if "bias" in options else 4)  # u is one more
    found = dict(np.load(layer))
    assert set(found) == set(truth)
    assert held_out_error(tmp_path, truth) < 1e-9
    assert run_json("compare", layer, tmp_path / "truth.npz")["worst_error"] < 1e-8


@pytest.mark.parametrize("wrong", ["", "--mask causal", "--bias"])
def test_wrong_variants_are_not_recovered_in_factors(tmp_path, wrong):
    generate(tmp_path, "--mask causal --bias --rank 4", **SHAPE)
    result = run_json("recover --heads 2 --rank 4 --starts 1", wrong, tmp_path / "examples.npz", "-o", tmp_path / "l.npz",
                      status=3)  # fmt: skip
    assert result["status"] not in ("recovered", "approximate")


@pytest.mark.parametrize("options", ["", "--bias"])
def test_tokens_of_layer_norm_in_factors(tmp_path, options):
    """Tokens as LayerNorm makes them, with a gain and (where there are biases) a shift: d - 1 dimensions."""
    _, truth = generate(tmp_path, f"{options} --rank 4", **SHAPE)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((420, 5, 14))
    x -= x.mean(-1, keepdims=True)
    x *= 1 + 0.2 * rng.standard_normal(14)
    if options:
        x += 0.5 * rng.standard_normal(14)
    y = outputs(truth, x)
    np.savez(tmp_path / "norm.npz", X=x[:360], Y=y[:360])
    np.savez(tmp_path / "fresh.npz", X=x[360:])
    result = run_json(
        "recover --heads 2 --rank 4", options, tmp_path / "norm.npz", "-o", tmp_path / "layer.npz"
    )
    assert (result["status"], result["span_dimension"]) == ("recovered", 13)
    run("predict", tmp_path / "layer.npz", tmp_path / "fresh.npz", "-o", tmp_path / "y.npy")
    assert np.linalg.norm(np.load(tmp_path / "y.npy") - y[360:]) < 1e-9 * np.linalg.norm(y[360:])


@pytest.mark.parametrize("options", ["", "--mask causal --bias"])
def test_half_of_the_labels_suffice_in_factors(tmp_path, options):
    examples, truth = generate(tmp_path, f"{options} --rank 4", **SHAPE)
    seen = np.random.default_rng(6).random(examples["Y"].shape) < 0.5
    np.savez(tmp_path / "half.npz", X=examples["X"], Y=np.where(seen, examples["Y"], np.nan))
    result = run_json(
        "recover --heads 2 --rank 4", options, tmp_path / "half.npz", "-o", tmp_path / "layer.npz"
    )
    assert (result["status"], result["missing_labels"]) == ("recovered", int((~seen).sum()))
    assert held_out_error(tmp_path, truth) < 1e-9
