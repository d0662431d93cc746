"""Layers, recovery and inspection from Python, against plain NumPy and planted truths."""

import itertools
import json
import pickle

import headlens
import numpy as np
import pytest


def attention(layer, x):
    """sum_i softmax_rows(X Theta_i X^T) X W_i, as it is written."""
    out = 0
    for theta, w in zip(layer.theta, layer.w):
        scores = x @ theta @ x.T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        out = out + weights / weights.sum(1, keepdims=True) @ x @ w
    return out


def test_forward(rng):
    layer = headlens.AttentionLayer.random(heads=3, dim=5, outputs=4, seed=2)
    X = rng.standard_normal((7, 6, 5))
    expected = np.array([attention(layer, x) for x in X])
    np.testing.assert_allclose(layer(X), expected, atol=1e-13)
    np.testing.assert_allclose(layer.forward(X.astype(">f8")), expected, atol=1e-13)
    X2, Y2 = layer.examples(5, tokens=3, inputs="gaussian", seed=4)
    np.testing.assert_allclose(layer(X2), Y2, atol=1e-13)


def test_layers_are_values(rng):
    theta, w = rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3, 3))
    layer = headlens.AttentionLayer(theta, w)
    before = layer.theta.copy()
    theta[:] = 0
    np.testing.assert_array_equal(layer.theta, before)
    with pytest.raises(ValueError):
        layer.theta[0, 0, 0] = 1
    assert repr(layer) == "AttentionLayer(heads=2, dim=3, outputs=3)"
    doubled = headlens.AttentionLayer(np.concatenate([before, before]), np.concatenate([w, w]))
    assert doubled.canonical().heads == 2
    np.testing.assert_array_equal(layer.restrict(2).theta, before[:, :2, :2])


def test_recovery_of_a_planted_layer():
    truth = headlens.AttentionLayer.random(heads=3, dim=8, seed=5)
    recovery = headlens.recover(*truth.examples(96, tokens=4, seed=5))
    assert recovery.status == "recovered" and recovery.layer.heads == 3
    assert headlens.compare(recovery.layer, truth).worst_error < 1e-8
    certificate = json.loads(recovery.certificate.to_json())
    assert certificate["heads"] == 3 and len(certificate["per_head"]) == 3
    text, page = repr(recovery), recovery._repr_html_()
    for word in ("recovered", "held-out error", "effective rank"):
        assert word in text and word in page
    assert page.count("<table") == 2 and page.count("<tr>") == text.count("\n")  # one blank line between


def test_sculpting_gives_its_span():
    truth = headlens.AttentionLayer.random(heads=2, dim=6, scale=1.0, seed=1)
    recovery = headlens.recover(*truth.examples(2000, tokens=4, seed=1), heads=2, method="sculpt")
    assert recovery.status == "recovered" and recovery.span.shape == (1, 6, 6)
    assert recovery.certificate.sculpt["span_dimension"] == 1


@pytest.mark.parametrize("method", ["brute-force", "linear-algebra"])
def test_a_hidden_parity_is_found(method):
    layer = headlens.AttentionLayer.hard_parity(dim=16, size=3, seed=2)
    recovery = headlens.recover(*layer.examples(1000, seed=2), method=method)
    hidden = np.flatnonzero(layer.label.weights).tolist()
    assert recovery.status == "recovered" and recovery.certificate.parity["set"] == hidden
    assert recovery.layer.label is None and headlens.compare(recovery.layer, layer).worst_error < 1e-6
    assert "hidden set" in repr(recovery) and len(recovery.plot(layer)) == 3 + 4 * 6
    with pytest.warns(headlens.NumericalWarning, match="explains the held-out examples"):
        noisy = headlens.recover(*layer.examples(1000, flips=0.2, seed=2), method=method)
    assert noisy.layer is None and (noisy.certificate.parity["set"] == hidden) == (method == "brute-force")


def signs(d):
    """All pairs of sign tokens."""
    return np.array(list(itertools.product([1.0, -1.0], repeat=2 * d))).reshape(-1, 2, d)


def test_labels_of_hard_layers():
    X = signs(5)
    parity = headlens.AttentionLayer.hard_parity(dim=5, size=2, seed=1)
    hidden = np.flatnonzero(parity.label.weights)
    c, chi = (X[:, 0, 0] - X[:, 1, 0]) / 2, X[:, :, hidden].prod((1, 2))
    np.testing.assert_array_equal(parity.label(X)[:, 0, 0], c * (chi - 1))
    assert parity.label.sq_dimension == 6 and parity.label.reach == 2
    rounding = headlens.AttentionLayer.hard_rounding(dim=5, modulus=5, levels=3, weight=4, sharpness=25)
    assert rounding.label.sq_dimension is None
    for layer in (parity, rounding, pickle.loads(pickle.dumps(rounding))):
        assert 0 < np.abs(layer(X) - layer.label(X)).max() <= layer.label.tolerance
    for other in (parity.canonical(), parity.restrict(4), headlens.AttentionLayer.random()):
        assert other.label is None


def test_flips_turn_hidden_bits_over():
    layer = headlens.AttentionLayer.hard_parity(dim=8, size=2)
    X, clean = layer.examples(4000)
    changed = np.abs(layer.examples(4000, flips=0.25)[1] - clean)[:, 0, 0] > 1
    active = X[:, 0, 0] != X[:, 1, 0]
    assert not changed[~active].any() and 0.2 < changed[active].mean() < 0.3
    assert layer.examples(3, tokens=5)[1].shape == (3, 5, 1)


REFUSED = {
    "size: 6": lambda: headlens.AttentionLayer.hard_parity(dim=6, size=6),
    "weight: 9": lambda: headlens.AttentionLayer.hard_rounding(dim=6, weight=9),
    "levels: 9": lambda: headlens.AttentionLayer.hard_rounding(levels=9),
    "sharpness: 'x'": lambda: headlens.AttentionLayer.hard_parity(sharpness="x"),
    "flips: 0.1 given, but only": lambda: headlens.AttentionLayer.random().examples(flips=0.1),
    "flips: 1.5": lambda: headlens.AttentionLayer.hard_parity().examples(flips=1.5),
    "flips: None": lambda: headlens.AttentionLayer.hard_parity().examples(flips=None),
    "tokens: 3": lambda: headlens.AttentionLayer.hard_parity().examples(tokens=3, flips=0.1),
    r"X: shape \(3, 2, 4\)": lambda: headlens.AttentionLayer.hard_parity().label(np.ones((3, 2, 4))),
    "X: it holds 0": lambda: headlens.AttentionLayer.hard_parity(dim=4).label(np.zeros((3, 2, 4))),
    "fourier: degree 9": lambda: headlens.fourier(headlens.AttentionLayer.random(dim=4), 9),
    "fourier: degree 0": lambda: headlens.inspect(headlens.AttentionLayer.random(dim=4), fourier=0),
    "two tokens": lambda: headlens.recover(np.ones((9, 3, 4)), np.ones((9, 3, 1)), method="brute-force"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_options_of_hard_layers_are_refused(text):
    with pytest.raises((ValueError, TypeError), match=text):
        REFUSED[text]()


def test_what_cannot_be_recovered_is_a_warning(rng):
    X, Y = rng.standard_normal((40, 4, 3)), rng.standard_normal((40, 4, 3))
    with pytest.warns(headlens.NumericalWarning, match="recover: ") as caught:
        recovery = headlens.recover(X, Y, max_heads=2, starts=2)
    assert caught[0].filename == __file__
    assert recovery.layer is None and recovery.advice and recovery.advice in repr(recovery)


BAD = {
    r"Y has shape \(4, 2, 3\)": (np.ones((5, 2, 3)), np.ones((4, 2, 3))),
    r"X has shape \(5, 3\)": (np.ones((5, 3)), np.ones((5, 2, 3))),
    "X has 1 tokens": (np.ones((5, 1, 3)), np.ones((5, 1, 3))),
    "no examples": (np.ones((0, 2, 3)), np.ones((0, 2, 3))),
    "X holds nan": (np.full((5, 2, 3), np.nan), np.ones((5, 2, 3))),
    "Y: Complex": (np.ones((5, 2, 3)), np.ones((5, 2, 3), complex)),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_examples_are_refused(text):
    with pytest.raises(ValueError, match=text):
        headlens.recover(*BAD[text])


@pytest.mark.parametrize(
    "options",
    [{"heads": 0}, {"heads": "two"}, {"method": "sgd"}, {"start": "warm"}, {"seed": -1}, {"time_limit": 0}],
)
def test_bad_recovery_options_are_refused(options):
    with pytest.raises((ValueError, TypeError), match=next(iter(options)).replace("_", ".")):
        headlens.recover(np.ones((9, 2, 3)), np.ones((9, 2, 3)), **options)


def test_weights_of_a_file_and_of_a_state_dict_agree(rng, tmp_path):
    state = {"in_proj_weight": rng.standard_normal((12, 4)), "out_proj.weight": rng.standard_normal((4, 4))}
    np.savez(tmp_path / "w.npz", **state)
    layer = headlens.AttentionLayer.from_weights(state, heads=2)
    assert (
        headlens.compare(headlens.AttentionLayer.from_weights(tmp_path / "w.npz", heads=2), layer).worst_error
        == 0
    )
    layer.save(tmp_path / "layer.npz")
    assert headlens.compare(headlens.AttentionLayer.load(tmp_path / "layer.npz"), layer).worst_error == 0
    with pytest.raises(ValueError, match="weights: no attention weights"):
        headlens.AttentionLayer.from_weights({"a": np.ones((2, 2))}, heads=2)
    with pytest.raises(OSError, match="absent.npz"):
        headlens.AttentionLayer.load(tmp_path / "absent.npz")


def test_inspection(rng):
    theta = np.stack([2 * np.eye(4), np.diag([1.0, 0, 0, 0])])
    found = headlens.inspect(headlens.AttentionLayer(theta, np.ones((2, 4, 4))), samples=500)
    assert found["per_head"][0]["scale"] == pytest.approx(4) and found["per_head"][0]["identity_cosine"] == 1
    assert found["per_head"][1]["effective_rank"] == pytest.approx(1, abs=1e-6)
