"""Deviations and intervals of AttentionKernelRidge, against refits without each set and a Gaussian process."""

import pickle

import headlens
import numpy as np
import pytest

OPTIONS = [
    {},
    {"model": "brfa", "ridge": 1e-3},
    {"score_function": "step", "intercept": False},
    {"positions": "sinusoidal", "ridge": 1e-2},
    {"mean": np.diag([1.0, -1, 2]), "weight_scale": 0.3, "model": "brfa"},
]


def draw(n, seed, outputs=1, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6, 3))
    y = (X[:, 1:, 0] * X[:, :1, 0]).mean(1) + X[:, 1:, 1].mean(1) + noise * rng.normal(size=n)
    return X, y if outputs == 1 else np.c_[y, 3 - 2 * y]


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_residuals_are_those_of_refits(options, outputs):
    X, y = draw(25, 1, outputs)
    model = headlens.AttentionKernelRidge(**options).fit(X, y)
    ridge, found = model.ridge_ * 25 / 24, []  # the penalty is ridge times the number of sets
    for i in range(25):
        rest = np.arange(25) != i
        without = headlens.AttentionKernelRidge(**{**options, "ridge": ridge}).fit(X[rest], y[rest])
        found.append(y[i] - without.predict(X[i : i + 1])[0])
    np.testing.assert_allclose(model.loo_residuals_, np.reshape(found, (25, -1)), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_deviations_are_those_of_a_gaussian_process(options, tmp_path):
    """A free intercept is a constant of the process with an enormous variance."""
    X, y = draw(40, 2)
    fresh, _ = draw(9, 3)
    # Beside the constant, rounding takes a penalty that is chosen smaller than this.
    model = headlens.AttentionKernelRidge(**{"ridge": 1e-3, **options}).fit(X, y)
    names = ("model", "score_function", "positions", "weight_scale", "mean")
    kernel = {n.replace("score_function", "score"): v for n, v in options.items() if n in names}
    constant = 1e4 if model.intercept else 0.0
    K, k, own = (
        headlens.attention_kernel(*sets, **kernel) + constant for sets in ((X,), (fresh, X), (fresh,))
    )
    G = np.linalg.inv(K + 40 * model.ridge_ * np.eye(40))
    a = G @ y
    scale = np.sqrt(np.mean(a**2 / G.diagonal()))  # errors a_i / G_ii of variance 1 / G_ii
    expected = scale * np.sqrt(40 * model.ridge_ + own.diagonal() - np.einsum("ij,jk,ik->i", k, G, k))
    mean, deviation = model.predict(fresh, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(fresh))
    np.testing.assert_allclose(deviation, expected, rtol=1e-3)
    model.save(tmp_path / "m.hlm")
    for copy in headlens.load(tmp_path / "m.hlm"), pickle.loads(pickle.dumps(model)):
        np.testing.assert_allclose(copy.predict(fresh, return_std=True)[1], deviation, rtol=1e-12)


def test_intervals_cover_fresh_targets():
    covered = []
    for task in range(10):
        X, y = draw(450, 10 + task, noise=[0.03, 0.3][task % 2])
        low, high = headlens.AttentionKernelRidge().fit(X[:150], y[:150]).predict_interval(X[150:])
        covered.append(((low <= y[150:]) & (y[150:] <= high)).mean())
    assert abs(np.mean(covered) - 0.9) < 4 * np.sqrt((0.09 / 150 + 0.09 / 300) / 10)


def test_single_precision_sequences_and_ragged_sets():
    X, y = draw(40, 4)
    wide = headlens.AttentionKernelRidge(ridge=1e-2).fit(X, y).predict(X, return_std=True)[1]
    model = headlens.AttentionKernelRidge(ridge=1e-2).fit(X.astype(np.float32), y)
    narrow = model.predict(X.astype(np.float32), return_std=True)[1]
    np.testing.assert_allclose(narrow, wide, rtol=1e-3)
    listed = headlens.AttentionKernelRidge(ridge=1e-2).fit(list(X), y)
    np.testing.assert_allclose(listed.predict(list(X), return_std=True)[1], wide, rtol=1e-9)
    each = X.mean(2)
    sequence = headlens.AttentionKernelRidge(ridge=1e-2, sequence=True).fit(X, each)
    mean, deviation = sequence.predict(X, return_std=True)
    assert mean.shape == deviation.shape == each.shape and (deviation > 0).all()


def test_what_has_no_deviations_says_so():
    X, y = draw(60, 5)
    with pytest.raises(ValueError, match="keeps 20 of its 60 training sets"):
        headlens.AttentionKernelRidge(centres=20, random_state=0).fit(X, y).predict(X, return_std=True)
    model = headlens.AttentionKernelRidge().fit(X, y)
    for coverage in 0, 1, 0.999:
        with pytest.raises(ValueError, match="coverage"):
            model.predict_interval(X, coverage)
