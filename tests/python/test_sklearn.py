"""The habits of scikit-learn: its own checks, model selection, pipelines, clone, pickle, joblib."""

import pickle

import headlens
import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

REGRESSORS = [
    headlens.RandomFeatureAttentionRegressor(heads=20, random_state=0),
    headlens.AttentionKernelRidge(random_state=0),
    headlens.RandomFeatureAttentionRegressor(),
]
CLASSIFIERS = [
    headlens.RandomFeatureAttentionClassifier(heads=20, ridge=1e-2, random_state=0),
    headlens.RandomFeatureAttentionClassifier(heads=20, ridge=1e-2, loss="hinge", random_state=0),
    headlens.RandomFeatureAttentionClassifier(),
]
ALL = REGRESSORS + CLASSIFIERS
# No check is excluded. scikit-learn itself skips these without pandas and without SCIPY_ARRAY_API=1, which
# scripts/setup does not bring; with them they pass.
LEFT_OUT = {
    "check_array_api_input",
    "check_regressor_data_not_an_array",
    "check_classifier_data_not_an_array",
}


def ids(estimator):
    return f"{type(estimator).__name__}-{getattr(estimator, 'loss', 'squared')}"


def targets(estimator, y):
    return np.where(y > 0, "up", "down") if estimator in CLASSIFIERS else y


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_check_estimator(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] not in ("passed", "skipped")}
    assert not failed
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= LEFT_OUT
    assert len(results) > 50


@pytest.mark.parametrize("estimator", ALL, ids=ids)
@pytest.mark.parametrize("layout", ["tokens", "ragged", "list"])
def test_model_selection(estimator, layout, request):
    X, y = request.getfixturevalue("tokens" if layout == "tokens" else "ragged")
    X, y = list(X) if layout == "list" else X, targets(estimator, y)
    assert len(cross_val_score(estimator, X, y, cv=4)) == 4
    assert cross_val_predict(estimator, X, y, cv=4).shape == (40,)
    search = GridSearchCV(estimator, {"ridge": [1e-3, 1e-1]}, cv=3).fit(X, y)
    assert search.best_params_["ridge"] in (1e-3, 1e-1)
    assert search.predict(X).shape == (40,)


def test_cross_validation_leaves_nothing_of_the_test_sets_in_the_fit(tokens):
    X, y = tokens
    predicted = cross_val_predict(REGRESSORS[0], X, y, cv=4)
    first = clone(REGRESSORS[0]).fit(X[10:], y[10:]).predict(X[:10])
    np.testing.assert_array_equal(predicted[:10], first)


def test_workers_of_joblib_give_the_same(ragged):
    X, y = ragged
    one = cross_val_score(REGRESSORS[0], X, y, cv=4)
    np.testing.assert_array_equal(one, cross_val_score(REGRESSORS[0], X, y, cv=4, n_jobs=2))


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_features_in_a_pipeline_with_any_model(estimator, ragged):
    X, y = ragged
    y = targets(estimator, y)
    last = LogisticRegression() if estimator in CLASSIFIERS else Ridge(1e-6)
    pipeline = make_pipeline(clone(estimator), last).fit(X, y)
    assert pipeline.predict(X).shape == (40,)
    assert pipeline.score(X, y) > 0.5
    names = pipeline[0].get_feature_names_out()
    assert len(names) == pipeline[0].transform(X).shape[1]


def test_features_times_values_are_the_predictions(tokens):
    X, y = tokens
    for estimator in REGRESSORS:
        model = clone(estimator).fit(X, np.c_[y, 2 * y])
        values = model.values_.reshape(-1, 2)
        np.testing.assert_allclose(
            model.transform(X) @ values + model.intercept_, model.predict(X), atol=1e-12, rtol=0
        )


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_clone_pickle_joblib_and_file(estimator, ragged, tmp_path):
    X, y = ragged
    y = targets(estimator, y)
    model = clone(estimator).fit(X, y)
    assert clone(model).get_params() == estimator.get_params()
    joblib.dump(model, tmp_path / "joblib")
    model.save(tmp_path / "model.hlm")
    copies = {
        "pickle": pickle.loads(pickle.dumps(model)),
        "joblib": joblib.load(tmp_path / "joblib"),
        "joblib, mapped": joblib.load(tmp_path / "joblib", mmap_mode="r"),
        "file": headlens.load(tmp_path / "model.hlm"),
    }
    for how, copy in copies.items():
        assert type(copy) is type(model), how
        np.testing.assert_array_equal(copy.predict(X), model.predict(X), err_msg=how)
        np.testing.assert_array_equal(copy.transform(X), model.transform(X), err_msg=how)
        assert copy.n_features_in_ == 3 and copy.ridge_ == model.ridge_
        copy.save(tmp_path / "again.hlm")
        assert (tmp_path / "again.hlm").read_bytes() == (tmp_path / "model.hlm").read_bytes(), how
        assert clone(copy).fit(X, y).predict(X).tolist() == model.predict(X).tolist(), how


def test_pickled_sets_and_layers(ragged):
    X, _ = ragged
    again = pickle.loads(pickle.dumps(X))
    assert all((a == b).all() for a, b in zip(again, X)) and len(again) == len(X)
    layer = headlens.AttentionLayer.random(seed=3)
    assert headlens.compare(pickle.loads(pickle.dumps(layer)), layer).worst_error == 0
    recovery = headlens.recover(*layer.examples(80))
    assert pickle.loads(pickle.dumps(recovery)).certificate == recovery.certificate


def test_random_state(tokens):
    X, y = tokens

    def heads(state):
        return headlens.RandomFeatureAttentionRegressor(heads=5, random_state=state).fit(X, y).heads_

    np.testing.assert_array_equal(heads(3), heads(3))
    np.testing.assert_array_equal(heads(np.int64(3)), heads(3))
    np.testing.assert_array_equal(heads(np.random.RandomState(3)), heads(np.random.RandomState(3)))
    assert (heads(None) != heads(None)).any() and (heads(3) != heads(4)).any()
    shared = np.random.RandomState(3)
    assert (heads(shared) != heads(shared)).any()
    with pytest.raises(ValueError, match="random_state: -1"):
        heads(-1)


def test_probabilities(tokens):
    X, y = tokens
    for labels in (np.where(y > 0, 1, 0), np.digitize(y, [-0.3, 0.3])):
        model = headlens.RandomFeatureAttentionClassifier(heads=20, ridge=1e-2, random_state=0).fit(X, labels)
        p = model.predict_proba(X)
        assert p.shape == (40, len(model.classes_)) and np.allclose(p.sum(1), 1) and (p >= 0).all()
        np.testing.assert_array_equal(model.classes_[p.argmax(1)], model.predict(X))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)
    hinge = headlens.RandomFeatureAttentionClassifier(loss="hinge")
    assert not hasattr(hinge, "predict_proba") and hasattr(hinge, "decision_function")


def test_labels_of_any_kind_come_back(tokens, tmp_path):
    X, y = tokens
    for labels in (np.where(y > 0, "up", "down"), y > 0, np.where(y > 0, 7, -2), np.where(y > 0, 1.0, 2.0)):
        model = headlens.RandomFeatureAttentionClassifier(heads=20, ridge=1e-2, random_state=0).fit(X, labels)
        assert model.predict(X).dtype == labels.dtype and set(model.predict(X)) == set(labels)
        model.save(tmp_path / "m")
        np.testing.assert_array_equal(headlens.load(tmp_path / "m").predict(X), model.predict(X))


def test_sequences(rng):
    X = rng.standard_normal((12, 5, 3))
    y = X[..., 0] * X.mean(1, keepdims=True)[..., 0]
    model = headlens.RandomFeatureAttentionRegressor(heads=50, sequence=True, random_state=0).fit(X, y)
    assert model.predict(X).shape == (12, 5) and model.score(X, y) > 0.9
    assert model.transform(X).shape == (60, 200)
    several = clone(model).fit(X, np.stack([y, -y], -1))
    assert several.predict(X).shape == (12, 5, 2) and several.score(X, np.stack([y, -y], -1)) > 0.9
    labels = (y > 0).astype(int)
    classifier = headlens.RandomFeatureAttentionClassifier(
        heads=50, ridge=1e-3, sequence=True, random_state=0
    ).fit(X, labels)
    assert classifier.predict(X).shape == (12, 5) and classifier.predict_proba(X).shape == (12, 5, 2)
    assert classifier.score(X, labels) > 0.8


@pytest.mark.parametrize("method", ["predict", "transform", "save"])
def test_unfitted(method, tokens):
    with pytest.raises(NotFittedError):
        getattr(headlens.AttentionKernelRidge(), method)(tokens[0])
