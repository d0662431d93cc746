"""Contributions of keys: they sum to predictions, and go to the keys that matter."""

import headlens
import numpy as np
import pytest
from headlens import _explain
from test_automatic import draw

Regressor, Classifier = headlens.RandomFeatureAttentionRegressor, headlens.RandomFeatureAttentionClassifier


@pytest.mark.parametrize("query", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        Regressor(),
        Classifier(),
        Regressor(heads=30, random_state=0),
        Regressor(heads=30, model="brfa", score_function="exp", weight_scale=0.1, random_state=0),
        Regressor(heads=30, score_function="softmax", random_state=0),
        headlens.AttentionKernelRidge(),
    ],
    ids=["chosen", "chosen classes", "relu", "exp", "softmax", "infinitely many"],
)
def test_contributions_sum_to_predictions(model, query, monkeypatch):
    """Before what rounding leaves is shared among the keys: after that any sum is the prediction."""
    monkeypatch.setattr(_explain, "_rounded_to", lambda score, before, keys: keys)
    X, y = draw(60, 1, query=query)
    fresh, _ = draw(12, 2, query=query)
    classes = isinstance(model, Classifier)
    model.fit(X, np.digitize(y, np.quantile(y, [0.3, 0.6])) if classes else y)
    found = headlens.explain(model, fresh)
    scores = (model.decision_function(fresh) if classes else model.predict(fresh)).reshape(12, -1)
    total = np.array([found.base + q + k.sum(0) for q, k in zip(found.query, found.keys, strict=True)])
    scale = max(1.0, np.abs(scores).max())
    np.testing.assert_allclose(total, scores, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=1e-12 * scale)
    assert [len(k) for k in found.keys] == fresh.sizes.tolist()


def test_relu_contributions_are_the_terms_of_the_sum():
    X, y = draw(60, 3)
    model = Regressor(heads=20, random_state=0).fit(X, y)
    tokens = np.c_[X[5], np.ones(len(X[5]))]
    found = headlens.explain(model, X[5:6])
    for i, x in enumerate(tokens[1:]):
        weights = np.maximum(np.einsum("a,mab,b->m", tokens[0], model.heads_, x), 0)
        assert found.keys[0][i, 0] == pytest.approx(
            weights @ (model.values_[:, :, 0] @ x) / (len(tokens) - 1)
        )


def test_the_key_that_matters_is_found():
    """A planted key makes the label: nearly always it contributes most."""
    rng = np.random.default_rng(4)
    sets, y, where = [], [], []
    for i in range(300):
        tokens = np.r_[np.zeros((1, 3)), rng.normal(size=(6, 3))]
        where.append(1 + rng.integers(6))
        if i % 2:
            tokens[where[-1]] = [4, 4, 4]
        sets.append(tokens)
        y.append(float(i % 2))
    model = Regressor().fit(sets[:200], np.array(y[:200]))
    found = headlens.explain(model, sets[200:])
    hits = [found.keys[i][:, 0].argmax() + 1 == where[200 + i] for i in range(100) if (200 + i) % 2]
    assert np.mean(hits) > 0.9


def test_plot():
    X, y = draw(30, 5)
    found = headlens.explain(Regressor().fit(X, y), X[:2])
    axes = found.plot(1)
    assert len(axes.patches) == X.sizes[1] and axes.get_xlabel() == "contribution"
    widths = [bar.get_width() for bar in axes.patches]
    assert np.sum(widths) == pytest.approx(found.keys[1].sum())


def test_models_without_contributions_are_refused():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(30, 4, 2)), rng.normal(size=30)
    with pytest.raises(ValueError, match="^explain: expected"):
        headlens.explain(Regressor(model="mlp", heads=5, random_state=0).fit(X, y), X)
    with pytest.raises(ValueError, match="^explain: expected"):
        headlens.explain(Regressor(heads=5, positions="sinusoidal", random_state=0).fit(X, y), X)


def test_rows_are_sets_of_one_key():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 3))
    model = Regressor().fit(X, X[:, 0] ** 2)
    found = headlens.explain(model, X[:5])
    total = np.array([found.base + q + k.sum(0) for q, k in zip(found.query, found.keys, strict=True)])
    np.testing.assert_allclose(total[:, 0], model.predict(X[:5]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_exact_where_the_penalty_is_tiny(seed):
    """Targets without noise are fitted by large values that nearly cancel; what is shared is rounding alone."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 30, 150)
    X = headlens.Sets(np.zeros((150, 3)), rng.normal(size=(sizes.sum(), 3)), np.r_[0, sizes.cumsum()])
    y = 10 * np.array([np.cos(x[1:]).sum() for x in X])
    model = Regressor().fit(X[:120], y[:120])
    found, said = headlens.explain(model, X[120:]), model.predict(X[120:])
    total = np.array([found.base[0] + q[0] + k.sum() for q, k in zip(found.query, found.keys, strict=True)])
    np.testing.assert_allclose(total, said, rtol=0, atol=1e-10)
    parts = _explain._Chosen(model)
    for i, tokens in enumerate(X[120:]):
        keys, query = parts.of(tokens)
        assert abs(parts.base[0] + query[0] + keys.sum() - said[i]) < 1e-8 * np.abs(y).max()
