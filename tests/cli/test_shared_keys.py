"""Heads that share keys and values: constants, what is refused, reasons, and files in factors."""

import numpy as np
from binary import run, run_json
from test_factor_variants import shared_examples, shared_layer
from test_variants import outputs


def test_the_constant_has_parts_of_all_heads(tmp_path):
    """Tokens with a mean: centred ones, which the search has, move a part of the constant into every head."""
    rng = np.random.default_rng(3)
    q, k, w = shared_layer(1, 4, 2, 16, 4)
    truth = {"Theta": q @ k.transpose(0, 2, 1), "W": w, "constant": rng.standard_normal(16)}
    truth["query_bias"] = 0.5 * np.einsum("mdr,mr->md", k, rng.standard_normal((4, 4))) / 4
    x = 0.5 + rng.standard_normal((450, 8, 16))
    y = outputs(truth, x)
    np.savez(tmp_path / "ex.npz", X=x[:400], Y=y[:400])
    np.savez(tmp_path / "fresh.npz", X=x[400:])
    result = run_json("recover --heads 4 --kv-groups 2 --bias", tmp_path / "ex.npz", "-o", tmp_path / "l.npz")
    assert result["status"] == "recovered"
    run("predict", tmp_path / "l.npz", tmp_path / "fresh.npz", "-o", tmp_path / "y.npy")
    assert np.linalg.norm(np.load(tmp_path / "y.npy") - y[400:]) < 1e-9 * np.linalg.norm(y[400:])
