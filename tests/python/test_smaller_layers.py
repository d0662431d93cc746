"""headlens.refit, and pages from Python: the words, numbers and tensors of the command line."""

import headlens
import numpy as np
import pytest


def small_layer():
    return headlens.AttentionLayer.random(heads=4, dim=6, rank=2, bias=True, mask="causal", seed=3)


def attend(x, layer):
    """By the definition, one head at a time."""
    y = np.zeros((*x.shape[:2], layer.w.shape[2])) + layer.constant
    seen = np.tril(np.ones((x.shape[1], x.shape[1]), bool))
    for theta, u, w in zip(layer.theta, layer.query_bias, layer.w, strict=True):
        logits = np.where(seen, x @ theta @ x.transpose(0, 2, 1) + (x @ u)[:, None], -np.inf)
        p = np.exp(logits - logits.max(-1, keepdims=True))
        y += p / p.sum(-1, keepdims=True) @ x @ w
    return y


def test_errors_are_those_of_the_layer(tmp_path):
    layer, x = small_layer(), np.random.default_rng(0).normal(size=(100, 4, 6))
    found = headlens.refit(layer, x, kv_groups=2, steps=60, report=tmp_path / "page")
    y, held = attend(x, layer), slice(80, 100)
    error = np.linalg.norm(attend(x, found.layer)[held] - y[held]) / np.linalg.norm(y[held])
    assert found.held_out_error == pytest.approx(error, rel=1e-6)
    assert found.layer.mask == "causal" and found.layer.kv_groups == 2 and found.kv_groups == 2
    assert (tmp_path / "page" / "index.html").read_text().count("<figure") == 4
    assert "mean-pooled groups" in found._repr_html_() and "held-out error" in repr(found)


def test_examples_without_a_layer():
    layer = headlens.AttentionLayer.random(heads=1, dim=4, rank=1, seed=1)
    found = headlens.refit(None, *layer.examples(count=200), heads=1, rank=1, steps=300)
    assert found.held_out_error < 1e-6
    with pytest.raises(ValueError, match="layer: None given"):
        headlens.refit(None, heads=2)


def weights(rng, d=8, m=4, r=3):
    names = {"q_proj": (m * r, d), "k_proj": (m * r, d), "v_proj": (m * r, d), "o_proj": (d, m * r)}
    tensors = {f"model.layers.0.self_attn.{n}.weight": rng.normal(size=s) / 3 for n, s in names.items()}
    return tensors | {"model.norm.weight": np.ones(d)}


def test_a_state_dict_in_and_out():
    given = weights(np.random.default_rng(1))
    found = headlens.refit(given, layer_heads=4, kv_groups=2, count=80, length=4, steps=20)
    out = found.state_dict(given)
    assert out.keys() == given.keys() and np.array_equal(out["model.norm.weight"], given["model.norm.weight"])
    assert out["model.layers.0.self_attn.k_proj.weight"].shape == (6, 8)
    assert headlens.match(out, found.layer, heads=4).verdict == "same"


def test_pages_of_match_and_recover(tmp_path):
    layer = headlens.AttentionLayer.random(heads=2, dim=4, seed=1)
    recovery = headlens.recover(*layer.examples(count=60), report=tmp_path / "recover")
    headlens.match(recovery.layer, layer, report=tmp_path / "match")
    for name in ("recover", "match"):
        assert "What" in (tmp_path / name / "index.html").read_text()
    with pytest.raises(ValueError, match="holds index.html|not as a report"):
        (tmp_path / "match" / "index.html").write_text("mine")
        headlens.match(layer, layer, report=tmp_path / "match")


def test_the_figure_has_a_point_for_every_way():
    pytest.importorskip("matplotlib")
    found = headlens.refit(small_layer(), heads=2, count=60, length=4, steps=10)
    ax = found.plot()
    assert len(ax.lines) == sum(row["held_out_error"] > 1e-12 for row in found.pareto)
