"""Layers with masks, biases, rotary positions and padding from Python: outputs, files, pickles and recoveries."""

import pickle

import headlens
import numpy as np
import pytest

ROTARY = "base=10000,layout=half"
VARIANTS = [
    {"mask": "causal"},
    {"bias": True},
    {"rotary": ROTARY},
    {"mask": "causal", "bias": True, "rotary": "base=100,layout=interleaved,share=0.5"},
]
PARTS = ("theta", "w", "query_bias", "constant", "q", "k", "mask", "rotary", "kv_groups")


def same(a, b):
    for part in PARTS:
        one, other = getattr(a, part), getattr(b, part)
        assert (one is None) == (other is None), part
        assert one is None or np.array_equal(one, other), part


def by_hand(layer, x, lengths):
    """A layer without rotary positions, one row of one example at a time."""
    y = np.zeros((*x.shape[:2], layer.outputs))
    for n, length in enumerate(lengths):
        for a in range(length):
            seen = x[n, : a + 1 if layer.mask == "causal" else length]
            for i in range(layer.heads):
                u = 0 if layer.query_bias is None else layer.query_bias[i]
                p = np.exp(seen @ (layer.theta[i].T @ x[n, a] + u))
                y[n, a] += p / p.sum() @ seen @ layer.w[i]
            y[n, a] += 0 if layer.constant is None else layer.constant
    return y


@pytest.mark.parametrize("variant", VARIANTS)
def test_layers_come_back_from_files_pickles_and_their_parts(tmp_path, variant):
    layer = headlens.AttentionLayer.random(heads=2, dim=8, seed=3, **variant)
    layer.save(tmp_path / "layer.npz")
    same(headlens.AttentionLayer.load(tmp_path / "layer.npz"), layer)
    same(pickle.loads(pickle.dumps(layer)), layer)
    same(headlens.AttentionLayer(**{part: getattr(layer, part) for part in PARTS}), layer)
    assert headlens.compare(layer, layer).worst_error == 0


def test_every_digit_and_the_groups_come_back(tmp_path):
    rng, rotary = np.random.default_rng(1), np.array([1e6 + 1 / 3, 0, 2 / 3])
    parts = {name: rng.normal(size=(4, 6, 3)) for name in "QK"} | {"W": rng.normal(size=(4, 6, 6))}
    np.savez(tmp_path / "layer.npz", **parts, rotary=rotary, kv_groups=np.array([2]))
    layer = headlens.AttentionLayer.load(tmp_path / "layer.npz")
    again = pickle.loads(pickle.dumps(layer))
    same(again, layer)
    assert again.kv_groups == 2
    again.save(tmp_path / "again.npz")
    assert np.array_equal(np.load(tmp_path / "again.npz")["rotary"], rotary)
    assert headlens.match(layer, tmp_path / "layer.npz").verdict == "same"


@pytest.mark.parametrize("groups", [[2.5], [1e300], [np.nan], [-1], [2, 2], []])
def test_groups_are_one_whole_number(tmp_path, groups):
    np.savez(tmp_path / "layer.npz", Theta=np.ones((4, 3, 3)), W=np.ones((4, 3, 3)), kv_groups=groups)
    with pytest.raises(ValueError, match="kv_groups is .*, expected (one|a whole) number"):
        headlens.AttentionLayer.load(tmp_path / "layer.npz")


@pytest.mark.parametrize("variant", [{}, {"mask": "causal"}, {"bias": True}])
def test_outputs_are_those_of_the_formula(variant):
    layer = headlens.AttentionLayer.random(heads=2, dim=5, seed=4, **variant)
    x, lengths = np.random.default_rng(0).normal(size=(6, 4, 5)), np.array([4, 1, 2, 3, 4, 2])
    assert np.allclose(layer(x), by_hand(layer, x, [4] * 6), rtol=0, atol=1e-12)
    assert np.allclose(layer(x, lengths=lengths), by_hand(layer, x, lengths), rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_are_recovered_with_padding_too(variant):
    layer = headlens.AttentionLayer.random(heads=2, dim=8, seed=5, **variant)
    X, Y, lengths = layer.examples(240, tokens=6, padding=True, seed=6)
    recovery = headlens.recover(X, Y, 2, lengths=lengths, **variant)
    assert recovery.status == "recovered"
    assert headlens.compare(recovery.layer, layer).worst_error < 1e-8


def test_labels_may_be_missing():
    """As nan, or where `observed` is false: the same bytes."""
    layer = headlens.AttentionLayer.random(heads=2, dim=6, seed=1)
    X, Y = layer.examples(120, tokens=4)
    seen = np.random.default_rng(0).random(Y.shape) < 0.6
    by_nan = headlens.recover(X, np.where(seen, Y, np.nan), 2)
    observed = headlens.recover(X, Y, 2, observed=seen)
    assert (observed.status, observed.certificate.missing_labels) == ("recovered", (~seen).sum())
    assert headlens.compare(observed.layer, layer).worst_error < 1e-8
    assert np.array_equal(observed.layer.theta, by_nan.layer.theta)
    with pytest.raises(ValueError, match="observed has shape"):
        headlens.recover(X, Y, 2, observed=seen[0])


def test_what_is_wrong_is_said():
    layer = headlens.AttentionLayer.random(heads=2, dim=4, bias=True)
    with pytest.raises(ValueError, match="biases"):
        headlens.compare(layer, headlens.AttentionLayer.random(heads=2, dim=4))
    with pytest.raises(ValueError, match="query_bias"):
        headlens.AttentionLayer(layer.theta, layer.w, query_bias=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="mask"):
        headlens.AttentionLayer(layer.theta, layer.w, mask="diagonal")
    with pytest.raises(ValueError, match="lengths"):
        layer(np.zeros((2, 3, 4)), lengths=[4, 1])
    with pytest.raises(ValueError, match="lengths holds 2.5"):
        layer(np.zeros((2, 3, 4)), lengths=[2.5, 1])
    with pytest.raises(ValueError, match="lengths holds 2.5"):
        headlens.recover(np.zeros((2, 3, 4)), np.zeros((2, 3, 4)), 2, lengths=[2.5, 1])


LAYOUTS = ("torch", "bert", "llama", "gpt2", "lens")


def state_of(layout, w):
    """q, k, v, o (out, in) and biases as these libraries name and lay them out; two heads."""
    if layout in ("torch", "gpt2"):
        fused, bias = np.concatenate([w[n] for n in "qkv"]), np.concatenate([w["b" + n] for n in "qkv"])
        if layout == "torch":
            return {"in_proj_weight": fused, "in_proj_bias": bias, "out_proj.weight": w["o"], "out_proj.bias": w["bo"]}  # fmt: skip
        return {"c_attn.weight": fused.T, "c_attn.bias": bias, "c_proj.weight": w["o"].T, "c_proj.bias": w["bo"]}  # fmt: skip
    if layout == "lens":
        out = {f"W_{n.upper()}": w[n].reshape(2, 3, 6).transpose(0, 2, 1) for n in "qkv"}
        out |= {f"b_{n.upper()}": w["b" + n].reshape(2, 3) for n in "qkv"}
        return out | {"W_O": w["o"].T.reshape(2, 3, 6), "b_O": w["bo"]}
    names = {"bert": ("self.query", "self.key", "self.value", "output.dense")}
    names = names.get(layout, ("q_proj", "k_proj", "v_proj", "o_proj"))
    out = {f"{name}.weight": w[n] for name, n in zip(names, "qkvo")}
    return out | {f"{name}.bias": w["b" + n] for name, n in zip(names, "qkvo")}


def weights_of(rng):
    w = {n: rng.normal(size=(6, 6)) for n in "qkvo"}
    return w | {"b" + n: rng.normal(size=6) for n in "qkvo"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_become_a_layer_and_go_back_into_their_layout(layout):
    rng = np.random.default_rng(7)
    w, other = weights_of(rng), weights_of(rng)
    x = rng.normal(size=(5, 4, 6))
    split = lambda name: (x @ w[name].T + w["b" + name]).reshape(5, 4, 2, 3).transpose(0, 2, 1, 3)  # noqa: E731
    p = np.exp(split("q") @ split("k").transpose(0, 1, 3, 2) / 3**0.5)
    mixed = (p / p.sum(-1, keepdims=True) @ split("v")).transpose(0, 2, 1, 3).reshape(5, 4, 6)
    state, into = ({k: np.ascontiguousarray(v) for k, v in state_of(layout, z).items()} for z in (w, other))
    how = {"format": "transformer-lens" if layout == "lens" else "auto"}
    layer = headlens.AttentionLayer.from_weights(state, 2, bias=True, **how)
    assert np.allclose(layer(x), mixed @ w["o"].T + w["bo"], rtol=0, atol=1e-12)
    back = layer.state_dict(into, heads=2, **how)
    assert {k: v.shape for k, v in back.items()} == {k: v.shape for k, v in state.items()}
    again = headlens.AttentionLayer.from_weights(back, 2, bias=True, **how)
    assert np.allclose(again(x), layer(x), rtol=0, atol=1e-11)
    causal = headlens.AttentionLayer.from_weights(state, 2, bias=True, mask="causal", **how)
    assert np.allclose(causal(x[:, :1]), layer(x[:, :1])) and causal.mask == "causal"


def test_biases_of_weights_that_are_turned_are_refused(tmp_path):
    rng = np.random.default_rng(8)
    state = state_of("llama", weights_of(rng))
    with pytest.raises(ValueError, match="bias: given with rotary positions"):
        headlens.AttentionLayer.from_weights(state, 2, bias=True, rotary="base=10000,layout=half,share=0.7")
    plain = {k: v for k, v in state.items() if "bias" not in k}
    np.savez(tmp_path / "w.npz", **plain)
    turned = headlens.AttentionLayer.from_weights(
        tmp_path / "w.npz", 2, rotary="base=10000,layout=half,share=0.7"
    )
    assert turned.rotary == "base=10000,layout=half,share=0.7"
    x = rng.normal(size=(3, 1, 6))  # one token: positions say nothing
    assert np.allclose(turned(x), headlens.AttentionLayer.from_weights(plain, 2)(x))


@pytest.mark.parametrize("variant", [{}, {"mask": "causal", "bias": True}, {"rotary": ROTARY, "bias": True}])
def test_layers_are_compared_on_the_span_of_tokens(variant):
    """Tokens on an affine plane of 5 of 8 dimensions: a layer that differs beyond it is the same layer for them."""
    rng = np.random.default_rng(9)
    a = headlens.AttentionLayer.random(heads=2, dim=8, seed=5, **variant)
    centred = bool(variant.get("bias")) and "rotary" not in variant
    basis = np.linalg.qr(rng.normal(size=(8, 8)))[0][:, :5]
    mean = rng.normal(size=8) * centred
    x = mean + rng.normal(size=(30, 4, 5)) @ basis.T
    other = np.eye(8) - basis @ basis.T  # what tokens do not have, beside their mean
    parts = {part: getattr(a, part) for part in PARTS}
    away = mean / (mean @ other @ mean) if centred else 0 * mean
    outside = (
        other - np.outer(other @ mean, other @ away) if centred else other
    )  # takes the mean to zero as well
    assert np.abs(x @ outside).max() < 1e-12
    for name in ("theta", "q", "w"):
        if parts[name] is not None:
            parts[name] = parts[name] + outside @ rng.normal(size=parts[name].shape)
    b = headlens.AttentionLayer(**parts)
    found = headlens.compare(b, a, x)
    assert found.span_dimension == 5 and found.function_error < 1e-12 and found.worst_error < 1e-12
    assert headlens.compare(b, a).worst_error > 0.1 and headlens.compare(b, a).function_error is None
    inside = headlens.AttentionLayer(
        **{**parts, "w": parts["w"] + 0.01 * basis[:, :1] @ rng.normal(size=(1, 8))}
    )
    lengths = np.full(30, 3)
    assert headlens.compare(inside, a, x, lengths=lengths).worst_error > 1e-4
    want = np.linalg.norm(inside(x) - a(x)) / np.linalg.norm(a(x))
    assert abs(headlens.compare(inside, a, x).function_error - want) < 1e-12
    with pytest.raises(ValueError, match="expected \\(n, k, 8\\)"):
        headlens.compare(a, a, x[:, :, :7])
