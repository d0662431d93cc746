"""Models that choose everything themselves, against the formulas as plain loops, and what they promise."""

import math
import pickle
import subprocess

import headlens
import numpy as np
import pytest
from binary import BINARY
from sklearn.base import clone

Regressor, Classifier = headlens.RandomFeatureAttentionRegressor, headlens.RandomFeatureAttentionClassifier


def draw(n, seed, d=4, least=3, most=9, query=False, noise=0.1):
    """Ragged sets whose target is the largest projection of a key, with noise."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(least, most + 1, n)
    keys = rng.normal(size=(sizes.sum(), d)) * np.arange(1, d + 1) + 2
    queries = rng.normal(size=(n, d)) if query else np.zeros((n, d))
    X = headlens.Sets(queries, keys, np.r_[0, sizes.cumsum()])
    y = np.array([(x[1:] / np.arange(1, d + 1)).sum(1).max() for x in X]) + queries[:, 0]
    return X, (y - 3) / 2 + noise * rng.normal(size=n)


class Reference:
    """f(x) = b + sum_c sum_j K_c(x, z_j) a_cj from the tensors of the file."""

    def __init__(self, model):
        state = model._model.__getstate__()
        self.t, self.meta = state["tensors"], state["metadata"]
        self.kept = self.t["width"] > 0
        self.members = model.members_
        self.centres = [self.tokens(x) for x in model.support_]
        self.gammas = [float(self.meta[f"member.{c}"].split()[0]) for c in range(len(self.members))]

    def tokens(self, x):
        d = self.kept.sum()
        z = (x - self.t["mean"])[:, self.kept] / self.t["width"][self.kept] * np.sqrt(d)
        wide = np.clip(z, -30, 30) / np.sqrt(d)
        if "knots" in self.t:
            lines = zip(x[:, self.kept].T, self.t["knots"], self.t["scores"], strict=True)
            z = np.stack([np.interp(v, *line) for v, *line in lines], axis=1) * np.sqrt(d)
        z = np.clip(z, -3, 3) / np.sqrt(d)
        return z[0] * (self.meta["given_query"] == "true"), z[1:], wide[1:]

    def block(self, kind, parameter, set_):
        q, x, wide = set_
        if kind == "attention":
            Q, K = self.t["head_queries"], self.t["head_keys"]
            out = []
            for m in range(K.shape[0]):
                W = Q[:, m] @ K[m] / np.sqrt(K.shape[1])
                s = parameter * float(self.meta["score_unit"]) * (np.r_[q, 1] @ W @ x.T)
                w = np.exp(s - s.max())
                out.append(w / w.sum() @ x)
            return np.concatenate(out)
        distance = float(self.meta["key_distance"])
        if kind in ("embedding", "total"):
            phase = x @ self.t["frequencies"].T * np.sqrt(2 * parameter / distance)
            total = np.r_[np.cos(phase).sum(0), np.sin(phase).sum(0)]
            return total if kind == "total" else total / len(x)
        if kind == "nearest":
            w = np.exp(-parameter * ((x - q) ** 2).sum(1) / distance)
            return w / w.sum() @ x
        if kind == "spread":
            return np.array([(wide @ w).var() for w in self.t["frequencies"]])
        pools = {"mean": x.mean(0), "maximum": x.max(0), "minimum": x.min(0), "second": (x * x).mean(0)}
        return {**pools, "size": np.log([len(x)]), "query": q, "centre": wide.mean(0)}[kind]

    def phi(self, member, set_):
        return np.concatenate([scale * self.block(kind, p, set_) for kind, p, scale in member["blocks"]])

    def kernel(self, c, rows):
        member = self.members[c]
        A = np.array([self.phi(member, x) for x in rows])
        B = np.array([self.phi(member, x) for x in self.centres])
        if self.gammas[c] == 0:
            return A @ B.T
        return np.exp(-self.gammas[c] * ((A[:, None] - B[None]) ** 2).sum(2))

    def predict(self, X):
        rows = [self.tokens(x) for x in X]
        parts = [self.kernel(c, rows) @ self.t["values"][c] for c in range(len(self.members))]
        return sum(parts) + self.t["intercept"]


@pytest.fixture(scope="module", params=["regression", "query", "classes", "outputs"])
def fitted(request):
    X, y = draw(60, 1, query=request.param == "query")
    if request.param == "classes":
        y = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    if request.param == "outputs":
        y = np.c_[y, -2 * y + 1]
    model = (Classifier() if request.param == "classes" else Regressor()).fit(X, y)
    return model, X, y


def test_predictions_are_those_of_the_formula(fitted):
    model, _, _ = fitted
    fresh, _ = draw(15, 2, query=model.report_["query"] == "given")
    scores = model.decision_function(fresh) if hasattr(model, "classes_") else model.predict(fresh)
    np.testing.assert_allclose(scores.reshape(15, -1), Reference(model).predict(fresh), rtol=1e-9, atol=1e-9)


def test_the_leave_one_out_error_is_that_of_refits(fitted):
    """Every member without every set in turn: ridge with a free intercept, by its normal equations."""
    model, X, y = fitted
    reference, n = Reference(model), len(X)
    if hasattr(model, "classes_"):
        y = np.where(y[:, None] == model.classes_, 1.0, -1.0)
    y = y.reshape(n, -1)
    for c, member in enumerate(model.members_):
        K = reference.kernel(c, reference.centres)
        errors = []
        for i in range(n):
            rest = np.arange(n) != i
            # K a + b + penalty a = y, sum a = 0
            system = np.block(
                [[K[np.ix_(rest, rest)] + member["penalty"] * np.eye(n - 1), np.ones((n - 1, 1))],
                 [np.ones((1, n - 1)), np.zeros((1, 1))]]
            )  # fmt: skip
            solution = np.linalg.solve(system, np.r_[y[rest], np.zeros((1, y.shape[1]))])
            errors.append(y[i] - (K[i, rest] @ solution[:-1] + solution[-1]))
        assert np.mean(np.square(errors)) == pytest.approx(member["error"], rel=1e-5)


def test_the_chosen_kernels_are_the_best_that_were_tried(fitted):
    model, _, _ = fitted
    errors = [trial["error"] for trial in model.report_["trials"]]
    assert errors == sorted(errors) and len(errors) > 20
    found = {trial["kernel"]: trial["error"] for trial in model.report_["trials"]}
    for member in model.members_:
        assert member["error"] == pytest.approx(
            found[member["kernel"]], rel=1e-9
        )  # 60 sets: all were screened
    if not hasattr(model, "classes_"):
        assert [m["error"] for m in model.members_] == pytest.approx(errors[: len(model.members_)])
        assert [m["weight"] for m in model.members_] == pytest.approx(
            [1 / len(model.members_)] * len(model.members_)
        )


def test_features_times_values_are_the_scores(fitted):
    model, X, _ = fitted
    features = model.transform(X)
    assert features.shape == (60, 60 * len(model.members_))
    scores = features @ model.values_.reshape(features.shape[1], -1) + model.intercept_
    found = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    np.testing.assert_allclose(scores, found.reshape(60, -1), rtol=1e-9, atol=1e-9)


def test_file_pickle_and_clone(fitted, tmp_path):
    model, X, y = fitted
    model.save(tmp_path / "m.hlm")
    for copy in headlens.load(tmp_path / "m.hlm"), pickle.loads(pickle.dumps(model)), clone(model).fit(X, y):
        assert type(copy) is type(model)
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        assert [m["kernel"] for m in copy.members_] == [m["kernel"] for m in model.members_]
        copy.save(tmp_path / "again.hlm")
        assert (tmp_path / "again.hlm").read_bytes() == (tmp_path / "m.hlm").read_bytes()


@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_the_program_writes_the_same_bytes_with_any_threads(kind, tmp_path):
    X, y = draw(50, 3)
    y = y if kind == "regression" else (y > 0).astype(int)
    np.savez(tmp_path / "d.npz", query=X.query, keys=X.keys, offsets=X.offsets, y=y)
    (Regressor() if kind == "regression" else Classifier()).fit(X, y).save(tmp_path / "python.hlm")
    for threads in "1", "3":
        subprocess.run(
            [BINARY, "fit", "d.npz", "--auto", "--threads", threads, "-o", "m.hlm"],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip
        assert (tmp_path / "m.hlm").read_bytes() == (tmp_path / "python.hlm").read_bytes()


def test_memory_decides_what_is_kept_and_threads_do_not(tmp_path):
    X, y = draw(240, 20, d=2, least=2, most=3)
    kept = []
    for megabytes in 4, 18, 24:
        found = []
        for threads in 1, 16:
            model = Classifier(threads=threads, max_memory=megabytes * 10**6)
            try:
                model.fit(X, (y > 0).astype(int)).save(tmp_path / "m.hlm")
                found.append((model.report_["kept"], (tmp_path / "m.hlm").read_bytes()))
            except MemoryError:
                found.append((0, b""))
        assert found[0] == found[1]
        kept.append(found[0][0])
    assert kept == [0, 120, 240]


@pytest.mark.parametrize(
    "options",
    [
        {"heads": 20},
        {"model": "rfa", "heads": 20},
        {"ridge": 0.1, "heads": 20},
        {"score_function": "softmax"},
    ],
)
def test_an_option_brings_the_model_of_that_option(options):
    X, y = draw(30, 4)
    model = Regressor(random_state=0, **options).fit(X, y)
    assert model.members_ is None and model.heads_.shape[0] == options.get("heads", 1000)
    with pytest.raises(ValueError, match="no uncertainty"):
        model.predict(X, return_std=True)


def test_constant_coordinates_and_scales_do_not_matter():
    X, y = draw(60, 5)
    wide = headlens.Sets(
        np.c_[X.query * 1e3, np.ones(60)], np.c_[X.keys * 1e3 - 7, np.full(len(X.keys), 3.0)], X.offsets
    )
    a, b = Regressor().fit(X, y), Regressor().fit(wide, y)
    np.testing.assert_allclose(a.predict(X), b.predict(wide), rtol=1e-6, atol=1e-6)


def test_many_sets_keep_some():
    X, y = draw(1700, 6, d=2, least=2, most=3)
    model = Regressor().fit(X, y)
    assert model.report_["kept"] == 1000 and model.report_["screened"] == 500
    fresh, truth = draw(400, 7, d=2, least=2, most=3)
    assert model.score(fresh, truth) > 0.95
    found = model.report_["loo_error"]
    # 400 squared errors: their mean is within four standard errors of what leave-one-out says.
    errors = (model.predict(fresh) - truth) ** 2
    assert abs(errors.mean() - found) < 4 * errors.std() / 20


# ---- uncertainty


def test_intervals_cover_fresh_targets(tasks=5):
    """Tasks of 200 sets and 400 fresh ones: the mean coverage of 0.9 intervals, here of 5, in tests/long of 20."""
    covered = []
    for task in range(tasks):
        X, y = draw(600, 100 + task, d=2 + task % 4, most=4 + task % 5, noise=[0.05, 0.3, 1.0][task % 3])
        low, high = Regressor().fit(X[:200], y[:200]).predict_interval(X[200:], 0.9)
        covered.append(((low <= y[200:]) & (y[200:] <= high)).mean())
    # One task: 200 residuals give a quantile whose coverage has a deviation of sqrt(.09 / 200) = .021.
    deviation = np.sqrt(0.09 / 200 + 0.09 / 400)
    assert abs(np.mean(covered) - 0.9) < (0.02 if tasks == 20 else 4 * deviation / np.sqrt(tasks))
    assert min(covered) > 0.9 - 4 * deviation


def test_deviations_are_those_of_the_process():
    """s^2 (1 + 1/n + v / penalty), v = k - k^T (K + penalty)^-1 k with centred kernels, first member."""
    X, y = draw(40, 8)
    model = Regressor().fit(X, y)
    fresh, _ = draw(10, 9)
    reference, penalty = Reference(model), model.members_[0]["penalty"]
    K = reference.kernel(0, reference.centres)
    rows = [reference.tokens(x) for x in fresh]
    k = reference.kernel(0, rows)
    phi = np.array([reference.phi(model.members_[0], x) for x in rows])
    own = (phi**2).sum(1) if reference.gammas[0] == 0 else np.ones(10)
    H = np.eye(40) - 1 / 40
    centred = (k - K.mean(0)) @ H
    v = own - 2 * k.mean(1) + K.mean() - np.einsum(
        "ij,jk,ik->i", centred, np.linalg.inv(H @ K @ H + penalty * np.eye(40)), centred
    )  # fmt: skip
    expected = reference.t["noise"][0] * np.sqrt(1 + 1 / 40 + np.maximum(v, 0) / penalty)
    # v is a difference of numbers of the size of K, of which a solve leaves n epsilon.
    lost = 40 * np.finfo(float).eps * np.abs(K).max() / penalty
    np.testing.assert_allclose(model.predict(fresh, return_std=True)[1], expected, rtol=1e-9 + lost)


def calibration_error(p, truth):
    """The mean over ten bins with as many sets each of |mean probability - share|."""
    bins = np.digitize(p, np.quantile(p, np.arange(1, 10) / 10))
    return sum(abs(p[bins == b].mean() - truth[bins == b].mean()) * (bins == b).mean() for b in range(10))


def test_probabilities_are_calibrated(tasks=1):
    """Labels drawn with known probabilities, sharp and vague ones: the mean calibration error, here of one task, in
    tests/long of 12."""
    found = []
    for task in range(tasks):
        rng = np.random.default_rng(10 + task)
        X, y = draw(2600, 11 + task, d=2 + task % 4, most=4 + task % 6, noise=0.0)
        labels = (rng.random(2600) < 1 / (1 + np.exp(-[2, 0.5, 8][task % 3] * y))).astype(int)
        model = Classifier().fit(X[:600], labels[:600])
        probabilities = model.predict_proba(X[600:])
        found.append(calibration_error(probabilities[:, 1], labels[600:]))
        np.testing.assert_array_equal(model.classes_[probabilities.argmax(1)], model.predict(X[600:]))
    assert np.mean(found) < 0.05 and max(found) < 0.08


def test_probabilities_of_several_classes_are_calibrated():
    rng = np.random.default_rng(12)
    X, y = draw(2600, 13, d=3, noise=0.0)
    chances = np.exp(np.outer(2 * y, [-1, 0, 1])) * [1, 2, 1]
    chances /= chances.sum(1, keepdims=True)
    labels = (rng.random((2600, 1)) > chances.cumsum(1)).sum(1)
    model = Classifier().fit(X[:600], labels[:600])
    probabilities = model.predict_proba(X[600:])
    for c in range(3):
        assert calibration_error(probabilities[:, c], labels[600:] == c) < 0.06


# ---- bad input


@pytest.mark.parametrize(
    "y, said",
    [
        (np.arange(30), "30 different integers"),
        (np.zeros(30, int), "only"),
        (np.zeros((30, 2), int), "label"),
    ],
)
def test_labels_that_are_none(y, said, tmp_path):
    X, _ = draw(30, 12)
    np.savez(tmp_path / "d.npz", query=X.query, keys=X.keys, offsets=X.offsets, y=y)
    run = subprocess.run(
        [BINARY, "fit", "d.npz", "--auto", "-o", "m.hlm"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 2 and said in run.stderr and run.stderr.count("\n") == 1


def same_sets(n):
    keys = np.random.default_rng(15).normal(size=(5, 3))
    return headlens.Sets(np.ones((n, 3)), np.tile(keys, (n, 1)), 5 * np.arange(n + 1))


@pytest.mark.parametrize("y", [np.arange(30.0), np.arange(30) % 2])
def test_sets_that_are_all_the_same(y, tmp_path):
    X = same_sets(30)
    np.savez(tmp_path / "d.npz", query=X.query, keys=X.keys, offsets=X.offsets, y=y)
    run = subprocess.run(
        [BINARY, "fit", "d.npz", "--auto", "-o", "m.hlm"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 2 and "give sets that differ" in run.stderr and run.stderr.count("\n") == 1
    assert not (tmp_path / "m.hlm").exists()


@pytest.mark.parametrize("scale", [0, 2.5, 1e150])
def test_constant_and_large_targets(scale, tmp_path):
    """A constant is predicted, and the largest targets that are taken give a model that can be read."""
    X, y = draw(30, 16)
    y = scale * (y / np.abs(y).max() if scale > 1e100 else np.ones(30))
    Regressor().fit(X, y).save(tmp_path / "m.hlm")
    mean, deviation = headlens.load(tmp_path / "m.hlm").predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(deviation).all()
    if scale < 1e100:
        np.testing.assert_allclose(mean, scale, rtol=1e-12)


@pytest.mark.parametrize(
    "option", ["--heads 5", "--ridge 1", "--model brfa", "--precision f32", "--mean w.npy"]
)
def test_options_beside_auto_are_refused(option, tmp_path):
    X, y = draw(30, 12)
    np.savez(tmp_path / "d.npz", query=X.query, keys=X.keys, offsets=X.offsets, y=y)
    run = subprocess.run(
        [BINARY, "fit", "d.npz", "--auto", *option.split(), "-o", "m.hlm"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 2 and option.split()[0] in run.stderr and run.stderr.count("\n") == 1


def test_intervals_beyond_the_data_are_refused():
    X, y = draw(20, 13)
    model = Regressor().fit(X, y)
    with pytest.raises(ValueError, match="coverage: 0.99 given"):
        model.predict_interval(X, 0.99)
    with pytest.raises(ValueError, match="coverage: 1.5 given"):
        model.predict_interval(X, 1.5)


def test_damaged_files_are_refused(tmp_path):
    X, y = draw(20, 14)
    Regressor().fit(X, y).save(tmp_path / "m.hlm")
    whole = (tmp_path / "m.hlm").read_bytes()
    for old, new in (
        (b'"dim":"4"', b'"dim":"5"'),
        (b"attention", b"attentive"),
        (b'"count":"20"', b'"count":"-1"'),
    ):
        assert old in whole
        (tmp_path / "bad.hlm").write_bytes(whole.replace(old, new))
        with pytest.raises(ValueError, match="bad.hlm"):
            headlens.load(tmp_path / "bad.hlm")
    (tmp_path / "bad.hlm").write_bytes(whole[:-8])
    with pytest.raises(ValueError, match="bad.hlm"):
        headlens.load(tmp_path / "bad.hlm")


# ---- tokens as normal scores


def draw_wide(n, seed):
    """Log-normal coordinates over factors of a thousand, beside one with few values; the target is in their logarithms."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 10, n)
    z = rng.normal(size=(sizes.sum(), 3))
    keys = np.c_[np.exp(2 * z[:, :2]), np.round(z[:, 2])]
    X = headlens.Sets(np.zeros((n, 3)), keys, np.r_[0, sizes.cumsum()])
    return X, np.array([np.log(x[1:, 0]).max() + np.log(x[1:, 1]).mean() for x in X]) + 0.1 * rng.normal(
        size=n
    )


def test_scores_of_coordinates_that_span_factors_of_a_thousand(tmp_path):
    X, y = draw_wide(200, 30)
    fresh, truth = draw_wide(400, 31)
    model = Regressor().fit(X, y)
    assert model.report_["tokens"] == "normal scores"
    assert model.report_["other_tokens_error"] > 1.05 * model.report_["trials"][0]["error"]
    assert model.score(fresh, truth) > 0.95
    np.testing.assert_allclose(
        model.predict(fresh[:20]), Reference(model).predict(fresh[:20])[:, 0], rtol=1e-8, atol=1e-8
    )
    model.save(tmp_path / "m.hlm")
    for copy in headlens.load(tmp_path / "m.hlm"), pickle.loads(pickle.dumps(model)):
        np.testing.assert_array_equal(copy.predict(fresh), model.predict(fresh))


def test_scores_are_quantiles_of_the_normal_distribution():
    X, y = draw_wide(200, 32)
    tensors = Regressor().fit(X, y)._model.__getstate__()["tensors"]
    grid = np.linspace(-3, 3, 129)
    for j in range(3):
        values, knots = np.sort(X.keys[:, j]), tensors["knots"][j]
        below = [int(0.5 * math.erfc(-z / math.sqrt(2)) * len(values)) for z in grid]
        expected = values[np.minimum(below, len(values) - 1)]
        expected[0], expected[-1] = values[0], values[-1]
        np.testing.assert_array_equal(knots, expected)
        line = np.array([grid[knots == knot].mean() for knot in knots])
        spread = np.interp(values, knots, line)
        np.testing.assert_allclose(
            tensors["scores"][j], (line - spread.mean()) / spread.std() / np.sqrt(3), rtol=1e-10, atol=1e-12
        )


def test_values_that_are_gaussian_stay_values():
    for seed in range(5):
        X, y = draw(80, 40 + seed)
        assert Regressor().fit(X, y).report_["tokens"] == "values"
