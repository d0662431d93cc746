"""headlens.match and headlens.check: layers, state dicts and files, with the words of the program."""

import headlens
import numpy as np
import pytest


def state(rng, m=6, d=12, r=2):
    return {
        "attn.in_proj_weight": rng.standard_normal((3 * m * r, d)),
        "attn.in_proj_bias": rng.standard_normal(3 * m * r),
        "attn.out_proj.weight": rng.standard_normal((d, m * r)),
        "attn.out_proj.bias": rng.standard_normal(d),
        "version": 3,
    }


class Module:
    """As much of nn.MultiheadAttention as is asked for."""

    num_heads = 6

    def __init__(self, tensors):
        self.tensors = tensors

    def state_dict(self):
        return self.tensors


def test_everything_that_holds_weights(tmp_path):
    tensors = state(np.random.default_rng(0))
    path = tmp_path / "w.npz"
    np.savez(path, **tensors)
    for a in (tensors, Module(tensors), path, str(path)):
        found = headlens.match(a, tensors, heads=6)
        assert found.verdict == "same" and [h["b"] for h in found.heads] == list(range(6))
    assert headlens.match(Module(tensors), Module(tensors)).verdict == "same"  # the module tells its heads
    other = tensors | {"attn.out_proj.weight": np.random.default_rng(1).standard_normal((12, 12))}
    assert headlens.match(tensors, other, heads=6).verdict == "derived"
    with pytest.raises(ValueError, match="heads: none given"):
        headlens.match(tensors, tensors)
    with pytest.raises(TypeError, match="a: int given, expected a layer"):
        headlens.match(3, tensors)


def test_shown_as_words_table_and_figure():
    layer = headlens.AttentionLayer.random(heads=6, dim=8, seed=1)
    theta = layer.theta.copy()
    theta[2] *= 1.5
    found = headlens.match(layer, headlens.AttentionLayer(theta, layer.w))
    assert found.moved == [2] and repr(found).startswith("verdict  derived")
    assert "<b>derived</b>" in found._repr_html_() and found._repr_html_().count("<tr>") == 7
    assert found.plot().get_title().startswith("derived")


def test_check(tmp_path):
    layer = headlens.AttentionLayer.random(heads=4, dim=10, rank=3, seed=2)
    X, Y = layer.examples(80, tokens=5)
    found = headlens.check(layer, X, Y)
    assert found.fits and found.convention == "as stored" and found.suspects == []
    theta = layer.theta.copy()
    theta[1] *= -1
    wrong = headlens.check(headlens.AttentionLayer(theta, layer.w), X, Y)
    assert not wrong.fits and wrong.suspects == [1]
    assert "does not fit" in wrong._repr_html_() and wrong.plot().get_xlabel() == "relative error"
    padded, lengths = X.copy(), np.full(80, 3)
    labels = np.concatenate([layer(X[:, :3]), np.zeros((80, 2, 10))], axis=1)
    assert headlens.check(layer, padded, labels, lengths=lengths).convention == "as stored"
    with pytest.raises(ValueError, match="tolerance"):
        headlens.check(layer, X, Y, tolerance=0)


def test_layers_with_a_mask_biases_and_positions():
    layer = headlens.AttentionLayer.random(
        heads=5, dim=12, mask="causal", bias=True, rotary="base=100", rank=4, seed=3
    )
    X, Y = layer.examples(60, tokens=6)
    assert headlens.check(layer, X, Y).convention == "as stored"
    # A common angle for the columns that turn together changes the factors and no output.
    turn = np.exp(0.7j)
    q, k = (a[..., :2] + 1j * a[..., 2:] for a in (layer.q, layer.k))
    q, k = (np.concatenate([(a * turn).real, (a * turn).imag], -1) for a in (q, k))
    parts = {
        "query_bias": layer.query_bias,
        "constant": layer.constant,
        "mask": "causal",
        "rotary": layer.rotary,
    }
    same = headlens.AttentionLayer(None, layer.w, q=q, k=k, **parts)
    assert np.abs(same(X) - Y).max() < 1e-12
    assert headlens.match(layer, same).verdict == "same"
    assert (
        headlens.match(layer, headlens.AttentionLayer(None, layer.w, q=q, k=layer.k, **parts)).verdict
        == "derived"
    )
