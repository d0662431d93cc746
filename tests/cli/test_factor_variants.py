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


def shared_layer(seed, heads, groups, d, rank):
    """Q, K (m, d, r) and W (m, d, d) of heads that share keys and values."""
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((heads, d, rank))
    k, v = (rng.standard_normal((groups, d, rank)).repeat(heads // groups, 0) for _ in "kv")
    o = rng.standard_normal((heads, rank, d)) / np.sqrt(rank * d)
    return q * 2 / np.linalg.norm(q @ k.transpose(0, 2, 1), axis=(1, 2))[:, None, None], k, v @ o


def turned(z, base=10000.0):
    """Rotary positions of layout half: (n, k, r)."""
    pairs = z.shape[-1] // 2
    angle = np.arange(z.shape[1])[:, None] * base ** (-np.arange(pairs) / pairs)
    one, other = z[..., :pairs], z[..., pairs:]
    parts = one * np.cos(angle) - other * np.sin(angle), one * np.sin(angle) + other * np.cos(angle)
    return np.concatenate(parts, axis=-1)


def shared_outputs(layer, x, lengths, rotary, causal):
    n, k = x.shape[:2]
    seen = np.arange(k)[None, None, :] < lengths[:, None, None]
    if causal:
        seen = seen & np.tril(np.ones((k, k), bool))
    out = 0
    for q, keys, w in zip(*layer):
        a, b = x @ q, x @ keys
        logits = (turned(a) if rotary else a) @ (turned(b) if rotary else b).transpose(0, 2, 1)
        p = np.where(seen, np.exp(logits), 0)
        out = out + p / p.sum(-1, keepdims=True) @ x @ w
    return out * (np.arange(k)[None, :, None] < lengths[:, None, None])


def shared_examples(tmp_path, layer, rotary, causal, padding, count=400, tokens=8):
    rng = np.random.default_rng(8)
    lengths = rng.integers(3, tokens + 1, count) if padding else np.full(count, tokens)
    x = rng.choice([-1.0, 1.0], (count, tokens, layer[0].shape[1]))
    x *= np.arange(tokens)[None, :, None] < lengths[:, None, None]
    y = shared_outputs(layer, x, lengths, rotary, causal)
    parts = {"lengths": lengths[:-50]} if padding else {}
    np.savez(tmp_path / "ex.npz", X=x[:-50], Y=y[:-50], **parts)
    np.savez(tmp_path / "fresh.npz", X=x[-50:], **({"lengths": lengths[-50:]} if padding else {}))
    return y[-50:]


@pytest.mark.parametrize(
    ("rotary", "causal", "padding"),
    [(False, False, False), (True, True, False), (False, True, True)],
)
def test_heads_that_share_keys_and_values(tmp_path, rotary, causal, padding):
    fresh = shared_examples(tmp_path, shared_layer(1, 4, 2, 16, 4), rotary, causal, padding)
    options = ("--rotary base=10000,layout=half " if rotary else "") + ("--mask causal" if causal else "")
    result = run_json(
        "recover --heads 4 --kv-groups 2", options, tmp_path / "ex.npz", "-o", tmp_path / "l.npz"
    )
    assert (result["status"], result["heads"]) == ("recovered", 4)
    assert "2 groups of keys and values" in result["variant"]
    assert np.load(tmp_path / "l.npz")["kv_groups"] == [2]
    run("predict", tmp_path / "l.npz", tmp_path / "fresh.npz", "-o", tmp_path / "y.npy")
    assert np.linalg.norm(np.load(tmp_path / "y.npy") - fresh) < 1e-9 * np.linalg.norm(fresh)


def test_heads_that_do_not_share_are_not_recovered_in_groups(tmp_path):
    shared_examples(tmp_path, shared_layer(2, 4, 4, 16, 4), False, True, False)
    result = run_json("recover --heads 4 --mask causal --kv-groups 2 --starts 1", tmp_path / "ex.npz",
                      "-o", tmp_path / "l.npz", status=3)  # fmt: skip
    assert result["status"] == "not_identified"
    assert "do not share" in result["reason"]


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
