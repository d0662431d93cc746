"""Huber, logistic and hinge losses and norm balls: optimality from the file, labels, accuracy."""

import numpy as np
import pytest
from binary import fit, predict, read_model, refuse, run_json
from reference import features, scores_of

HEADS = 12


def fitted(data, model_path, options):
    """(report, Phi, V, b) of a fit."""
    report = fit(data.path, model_path, f"--heads {HEADS} --seed 2", options)
    tensors, metadata = read_model(model_path)
    values = tensors["values"]
    return (
        report,
        features(tensors, metadata, data),
        values.reshape(-1, values.shape[-1]),
        tensors["intercept"],
    )


def classes_data(make_sets, labels, n=60, seed=0, name="data"):
    """Labels that depend on the sets, with noise; every class occurs."""
    data = make_sets("ragged", n=n, d=2, seed=seed, name=name)
    means = np.array([k.mean(0) for k in np.split(data["keys"], data["offsets"][1:-1])])
    signal = (data["query"] * means).sum(1) + 0.3 * np.random.default_rng(seed + 1).standard_normal(n)
    ranks = np.argsort(np.argsort(signal))
    return make_sets("ragged", n=n, d=2, seed=seed, name=name, y=np.array(labels)[ranks * len(labels) // n])


def huber(r, delta):
    return np.where(np.abs(r) <= delta, r**2 / 2, delta * (np.abs(r) - delta / 2))


def softmax(f):
    e = np.exp(f - f.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("intercept", ["", "--no-intercept"])
@pytest.mark.parametrize("delta", [0.2, 1.0, 50.0])
def test_huber_gradient_vanishes(make_sets, tmp_path, delta, intercept):
    data = make_sets(n=40, d=3, q=2)
    options = f"--loss huber --huber-delta {delta} --ridge 1e-2 {intercept}"
    report, phi, v, b = fitted(data, tmp_path / "m", options)
    r = phi @ v + b - data["y"]
    g = np.clip(r, -delta, delta) / len(r)
    assert np.linalg.norm(phi.T @ g + 2e-2 * v) <= 1e-4 * np.linalg.norm(2e-2 * v)
    assert np.all(np.abs(g.sum(0)) <= 1e-6) if intercept == "" else not b.any()
    assert report["train_loss"] == pytest.approx(huber(r, delta).sum(1).mean(), rel=1e-6)
    assert report["status"] == "solved" and 0 <= report["residual"] <= 1e-6


def test_huber_with_a_large_delta_is_ridge(make_sets, tmp_path):
    """r^2 / 2 + ridge |V|^2 has the minimum of r^2 + 2 ridge |V|^2."""
    data = make_sets(n=40)
    fit(data.path, tmp_path / "huber", "--heads 5 --loss huber --huber-delta 1e6 --ridge 1e-2")
    fit(data.path, tmp_path / "ridge", "--heads 5 --ridge 2e-2")
    huber, ridge = (predict(tmp_path / name, data.path) for name in ("huber", "ridge"))
    assert np.abs(huber - ridge).max() <= 1e-3 * np.abs(ridge).max()


@pytest.mark.parametrize("labels", [(-1, 1), (3, 7, 9), (0, 1, 2, 3)])
def test_logistic_gradient_vanishes(make_sets, tmp_path, labels):
    data = classes_data(make_sets, labels)
    report, phi, v, b = fitted(data, tmp_path / "m", "--loss logistic --ridge 1e-2")
    f = phi @ v + b
    if len(labels) == 2:
        f = np.c_[np.zeros(len(f)), f]
    hot = (data["y"][:, None] == np.array(labels)).astype(float)
    g = (softmax(f) - hot)[:, -v.shape[1] :] / len(f)
    assert np.linalg.norm(phi.T @ g + 2e-2 * v) <= 1e-3 * np.linalg.norm(2e-2 * v)
    assert np.all(np.abs(g.sum(0)) <= 1e-6)
    loss = -np.mean(np.log(softmax(f)[hot == 1]))
    assert report["train_loss"] == pytest.approx(loss, rel=1e-6) and report["residual"] <= 1e-6


def hinge_by_coordinates(phi, sign, ridge, sweeps=3000):
    """Dual coordinate ascent for mean hinge + ridge |V|^2, no intercept: V = Phi^T (a s) / (2 ridge n)."""
    n = len(sign)
    rows = phi * sign[:, None]
    a, v, squares = np.zeros(n), np.zeros(phi.shape[1]), (phi**2).sum(1)
    for _ in range(sweeps):
        for i in range(n):
            new = np.clip(a[i] + (1 - rows[i] @ v) * 2 * ridge * n / squares[i], 0, 1)
            v += (new - a[i]) * rows[i] / (2 * ridge * n)
            a[i] = new
    return v


def test_hinge_reaches_the_optimum_of_another_algorithm(make_sets, tmp_path):
    data = classes_data(make_sets, (-1, 1), n=30)
    report, phi, v, b = fitted(data, tmp_path / "m", "--loss hinge --ridge 0.1 --no-intercept")
    sign = data["y"].astype(float)

    def objective(w):
        return np.maximum(0, 1 - sign * (phi @ w)).mean() + 0.1 * w @ w

    best = objective(hinge_by_coordinates(phi, sign, 0.1))
    assert not b.any() and objective(v[:, 0]) <= best * (1 + 2e-5)
    assert report["train_loss"] == pytest.approx(np.maximum(0, 1 - sign * (phi @ v[:, 0])).mean(), rel=1e-5)


@pytest.mark.parametrize("labels", [(-1, 1), (3, 7, 9, 20)])
def test_hinge_cannot_be_improved(make_sets, tmp_path, labels):
    """Convex, so a better point nearby would exist if any did: 300 random directions and the intercepts."""
    data = classes_data(make_sets, labels)
    report, phi, v, b = fitted(data, tmp_path / "m", "--loss hinge --ridge 1e-2")
    signs = np.where(data["y"][:, None] == np.array(labels), 1.0, -1.0)[:, -v.shape[1] :]

    def objective(v, b):
        return np.maximum(0, 1 - signs * (phi @ v + b)).sum(1).mean() + 1e-2 * np.sum(v**2)

    best = objective(v, b)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(100):
            near_v = v + size * rng.standard_normal(v.shape) * np.abs(v).mean()
            assert objective(near_v, b + size * rng.standard_normal(b.shape)) >= best * (1 - 1e-5)
            assert objective(v, b + size * rng.standard_normal(b.shape)) >= best * (1 - 1e-5)
    assert report["status"] == "solved" and report["residual"] <= 1e-5


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("labels", [(-1, 1), (0, 1), (3, 7, 9), (-5, 0, 2, 1000000)])
def test_labels_scores_and_accuracy(make_sets, tmp_path, loss, labels):
    train = classes_data(make_sets, labels, n=80)
    test = classes_data(make_sets, labels, n=50, seed=4, name="test")
    fit(train.path, tmp_path / "m", f"--heads 40 --loss {loss} --ridge 1e-2")
    tensors, metadata = read_model(tmp_path / "m")
    expected = scores_of(tensors, metadata, test)
    scores = predict(tmp_path / "m", test.path, "--scores")
    assert scores.shape == (50, 1 if len(labels) == 2 else len(labels)) and scores.dtype == np.float64
    assert np.abs(scores - expected).max() <= 1e-12 * np.abs(expected).max()
    found = predict(tmp_path / "m", test.path)
    assert found.shape == (50,) and found.dtype == np.int64
    wanted = (scores[:, 0] > 0).astype(int) if len(labels) == 2 else scores.argmax(1)
    assert np.array_equal(found, np.array(labels)[wanted])
    accuracy = np.mean(found == test["y"])
    assert run_json("evaluate", tmp_path / "m", test.path) == {"n": 50, "accuracy": pytest.approx(accuracy)}
    assert accuracy > 1.3 / len(labels)  # it learned something


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16])
def test_labels_of_any_type_that_are_whole_numbers(make_sets, tmp_path, dtype):
    plain = classes_data(make_sets, (3, 7))
    fit(plain.path, tmp_path / "plain", "--loss logistic --heads 5 --ridge 1")
    typed = make_sets("ragged", n=60, d=2, name="typed", y=plain["y"].astype(dtype))
    fit(typed.path, tmp_path / "typed", "--loss logistic --heads 5 --ridge 1")
    assert np.array_equal(predict(tmp_path / "plain", plain.path), predict(tmp_path / "typed", typed.path))


@pytest.mark.parametrize("loss", ["huber", "logistic", "hinge"])
def test_automatic_ridge_by_cross_validation(make_sets, tmp_path, loss):
    data = classes_data(make_sets, (0, 1, 2))
    report = fit(data.path, tmp_path / "m", f"--loss {loss} --heads 20")
    assert report["ridge_rule"] == "5-fold" and report["status"] == "solved" and len(report["trials"]) >= 8
    assert report["ridge"] == min(report["trials"], key=lambda trial: trial["error"])["ridge"]
    assert np.isfinite(predict(tmp_path / "m", data.path)).all()


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "hinge"])
@pytest.mark.parametrize("ball", [(0.5, 100.0), (100.0, 0.02), (0.5, 0.05)])
def test_norm_ball(make_sets, tmp_path, loss, ball):
    data = classes_data(make_sets, (0, 1))
    options = f"--loss {loss} --norm-ball {ball[0]},{ball[1]}"
    report, phi, v, b = fitted(data, tmp_path / "m", options)
    norms = np.linalg.norm(v.reshape(HEADS, -1), axis=1)
    k1, k2 = norms.sum() / ball[0], (norms**2).sum() / ball[1]
    assert k1 <= 1 + 1e-9 and k2 <= 1 + 1e-9
    assert (
        max(k1, k2) >= 1 - 1e-3
    )  # these balls are smaller than the unconstrained minimum: one of them binds
    assert report["status"] == "solved" and 0 <= report["residual"] <= 1e-3

    def objective(v, b):
        f = (phi @ v + b)[:, 0]
        if loss in ("squared", "huber"):
            return np.mean((f - data["y"]) ** 2) if loss == "squared" else huber(f - data["y"], 1.0).mean()
        margin = (2 * data["y"] - 1) * f
        return np.mean(np.maximum(0, 1 - margin) if loss == "hinge" else np.logaddexp(0, -margin))

    assert report["train_loss"] == pytest.approx(objective(v, b), rel=1e-6)
    rng = np.random.default_rng(0)
    for size in (1.0, 1e-1, 1e-2):  # towards other points of the ball the objective does not fall
        for _ in range(50):
            w = rng.standard_normal((HEADS, v.size // HEADS)) * (rng.random((HEADS, 1)) < 0.3)
            n = np.linalg.norm(w, axis=1)
            if n.any():
                w *= min(ball[0] / n.sum(), np.sqrt(ball[1] / (n**2).sum()))
                near = v + size * (w.reshape(v.shape) - v)
                assert objective(near, b + size * 0.1 * rng.standard_normal(1)) >= objective(v, b) * (
                    1 - 1e-3
                )


def test_large_ball_is_no_constraint(make_sets, tmp_path):
    data = classes_data(make_sets, (0, 1))
    options = "--loss logistic --ridge 0.1 --heads 4"
    fit(data.path, tmp_path / "free", options)
    fit(data.path, tmp_path / "ball", options, "--norm-ball 1e6,1e6")
    free, ball = (predict(tmp_path / name, data.path, "--scores") for name in ("free", "ball"))
    assert np.abs(free - ball).max() <= 0.02 * np.abs(free).max()


def test_what_has_no_minimum_is_refused(make_sets, tmp_path):
    data = classes_data(make_sets, (0, 1))
    line = refuse("fit", data.path, "--loss logistic --ridge 0 -o", tmp_path / "m", folder=tmp_path)
    assert "positive ridge" in line
