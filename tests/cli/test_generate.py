"""Every synthetic target against its definition, computed from the tokens in the file."""

from math import erfc, gamma, pi, sqrt

import numpy as np
import pytest
from binary import run, run_json
from reference import sets_of

D = 3


@pytest.fixture
def generate(tmp_path):
    def make(task, count=200, dim=D, keys=4, seed=1, target_seed=2):
        path = tmp_path / "generated.npz"
        shape = f"--dim {dim} --keys {keys} --count {count} --seed {seed} --target-seed {target_seed}"
        run("generate", task, shape, "-o", path)
        return dict(np.load(path))

    return make


@pytest.fixture
def beta(generate):
    """beta(target_seed): from the linear power mean, y = <beta, mean key>."""

    def solve(target_seed=2, dim=D, seed=3):
        data = generate("power-mean --degree 1", dim=dim, seed=seed, target_seed=target_seed)
        found, *_ = np.linalg.lstsq(data["keys"].mean(1), data["y"], rcond=None)
        assert np.allclose(data["keys"].mean(1) @ found, data["y"], rtol=0, atol=1e-13)
        return found

    return solve


def shift(d=D):
    return np.roll(np.eye(d), 1, axis=0)  # (S x)_{j+1} = x_j


def moment(p, d=D):
    """E[T^p] of a coordinate T of a uniform unit vector: T^2 is Beta(1/2, (d - 1)/2) distributed."""
    if p % 2:
        return 0.0
    return gamma((p + 1) / 2) * gamma(d / 2) / (gamma(0.5) * gamma((d + p) / 2))


def set_mean(data, term):
    return np.array([np.mean([term(x_0, x) for x in keys]) for x_0, keys, _ in sets_of(data)])


def correlation(data, beta, p, s, pure=False):
    value = set_mean(data, lambda x_0, x: (x_0 @ s @ x) ** p * (beta @ x))
    if not pure:
        return value
    of_query = moment(p + 1) * data["query"] @ s @ beta
    of_keys = moment(p) * set_mean(data, lambda _, x: beta @ x)
    return value - of_query - of_keys


def native(data, beta, s):
    def term(x_0, x):
        t = x_0 @ s @ x  # E[relu(t + g)] = t Phi(t) + phi(t)
        return (t * erfc(-t / sqrt(2)) / 2 + np.exp(-t * t / 2) / sqrt(2 * pi)) * (beta @ x)

    return set_mean(data, term)


def agree(found, expected):
    return np.allclose(found, expected, rtol=0, atol=1e-13)


def test_target_belongs_to_target_seed(beta):
    first = beta(target_seed=2, seed=3)
    assert abs(np.linalg.norm(first) - 1) <= 1e-12
    assert agree(beta(target_seed=2, seed=99), first)  # train and test files share it
    assert np.abs(beta(target_seed=5) - first).max() > 0.01


@pytest.mark.parametrize("keys", ["4", "1:7"])
@pytest.mark.parametrize("p", range(5))
def test_power_mean(generate, beta, p, keys):
    data, b = generate(f"power-mean --degree {p}", keys=keys), beta()
    assert agree(data["y"], set_mean(data, lambda _, x: (b @ x) ** p))


@pytest.mark.parametrize("p", range(1, 5))
def test_query_power(generate, beta, p):
    data = generate(f"query-power --degree {p}")
    assert agree(data["y"], (data["query"] @ beta()) ** p)


@pytest.mark.parametrize("keys", ["2", "5", "2:7"])
@pytest.mark.parametrize("p", range(4))
def test_ordered(generate, beta, p, keys):
    """Weights from 1 down to -1; they add up to 0, so the mean over all orders of the keys is 0."""
    data, b = generate(f"ordered --degree {p}", keys=keys), beta()
    expected = [np.linspace(1, -1, len(k)) @ (k @ b) ** p / len(k) for _, k, _ in sets_of(data)]
    assert agree(data["y"], expected) and (p == 0) == agree(data["y"], 0)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("matrix", ["identity", "shift"])
@pytest.mark.parametrize("p", range(1, 5))
def test_correlation(generate, beta, p, matrix, pure):
    data = generate(f"correlation --degree {p} --matrix {matrix} {'--pure' if pure else ''}", keys="2:5")
    s = np.eye(D) if matrix == "identity" else shift()
    assert agree(data["y"], correlation(data, beta(), p, s, pure))


@pytest.mark.parametrize("matrix", ["identity", "shift"])
def test_native(generate, beta, matrix):
    data = generate(f"native --matrix {matrix}")
    assert agree(data["y"], native(data, beta(), np.eye(D) if matrix == "identity" else shift()))


def test_random_matrix(generate, beta):
    """S is linear in the correlation of degree 1; it is orthogonal and belongs to the target seed."""
    b = beta()

    def solve(seed, target_seed=2):
        data = generate("correlation --matrix random", seed=seed, target_seed=target_seed)
        products = [
            np.outer(x_0, np.mean([(b @ x) * x for x in keys], 0)).ravel() for x_0, keys, _ in sets_of(data)
        ]
        return np.linalg.lstsq(np.array(products), data["y"], rcond=None)[0].reshape(D, D)

    s = solve(seed=1)
    assert np.allclose(s @ s.T, np.eye(D), atol=1e-11) and np.allclose(solve(seed=7), s, atol=1e-11)
    data = generate("native --matrix random", seed=8)
    assert np.allclose(data["y"], native(data, b, s), atol=1e-11)
    pure = generate("correlation --degree 2 --pure --matrix random", seed=9)
    assert np.allclose(pure["y"], correlation(pure, b, 2, s, pure=True), atol=1e-11)


@pytest.mark.parametrize("pure", ["", "--pure"])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_mixture(generate, p, pure):
    ends = [generate(f"correlation --degree {p} {pure} --matrix {m}")["y"] for m in ("identity", "shift")]
    for g in (0.0, 0.25, 1.0):
        mixed = generate(f"mixture --degree {p} {pure} --weight {g}")["y"]
        assert agree(mixed, (1 - g) * ends[0] + g * ends[1])
    assert np.abs(ends[0] - ends[1]).max() > 1e-3


@pytest.mark.parametrize("matrix", ["identity", "shift"])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_pure_targets_hide_no_function_of_one_token(generate, p, matrix):
    """No correlation with any coordinate of the query or of the mean key: six |z| <= 4.5, but once in 2e4."""
    data = generate(f"correlation --degree {p} --pure --matrix {matrix}", count=20000)
    y = data["y"] - data["y"].mean()
    for tokens in (data["query"], data["keys"].mean(1)):
        products = y[:, None] * tokens
        assert np.all(np.abs(products.mean(0)) <= 4.5 * products.std(0) / sqrt(len(y)))


def test_tokens_are_uniform_on_the_sphere(generate):
    """Bounds hold with probability 1 - 1e-4 at least; the seed is fixed."""
    data = generate("power-mean", count=5000, dim=4, keys=3)
    tokens = np.concatenate([data["query"], data["keys"].reshape(-1, 4)])
    assert np.abs(np.linalg.norm(tokens, axis=1) - 1).max() <= 1e-15 * 4
    n = len(tokens)
    assert np.abs(tokens.mean(0)).max() <= 4.5 * sqrt(1 / 4 / n)
    second = tokens.T @ tokens / n - np.eye(4) / 4
    assert np.abs(second).max() <= 4.5 * sqrt(moment(4, 4) / n)
    fourth = (tokens**4).mean(0) - moment(4, 4)
    assert np.abs(fourth).max() <= 4.5 * sqrt(moment(8, 4) / n)
    assert len(np.unique(tokens[:, 0])) == n


def test_ragged_sizes_are_uniform(generate):
    data = generate("power-mean", count=4000, keys="4:8")
    sizes = np.diff(data["offsets"])
    counts = np.bincount(sizes, minlength=9)[4:]
    assert sizes.min() == 4 and sizes.max() == 8 and data["offsets"][-1] == len(data["keys"])
    assert ((counts - 800) ** 2 / 800).sum() <= 23.5  # chi-square, 4 degrees of freedom: once in 10^4


def test_noise(generate):
    clean, noisy = generate("power-mean", count=4000), generate("power-mean --noise 0.5", count=4000)
    assert np.array_equal(clean["keys"], noisy["keys"]) and np.array_equal(clean["query"], noisy["query"])
    z = (noisy["y"] - clean["y"]) / 0.5
    assert abs(z.mean()) <= 4 / sqrt(4000) and abs((z**2).mean() - 1) <= 4 * sqrt(2 / 4000)
    assert abs((np.abs(z) < 1).mean() - 0.6827) <= 4 * sqrt(0.22 / 4000)  # normal, once in 10^4


def test_single_precision(generate):
    double, single = generate("native"), generate("native --precision f32")
    assert {single[k].dtype for k in ("query", "keys", "y")} == {np.dtype(np.float32)}
    for name in ("query", "keys", "y"):
        assert np.array_equal(single[name], double[name].astype(np.float32))


def test_report(tmp_path):
    report = run_json("generate power-mean --keys 2:3 --count 50 --dim 5 --seed 4 -o", tmp_path / "a.npz")
    y = np.load(tmp_path / "a.npz")["y"]
    assert report["n"] == 50 and report["dim"] == 5 and report["seed"] == 4
    assert report["y_mean"] == pytest.approx(y.mean()) and report["y_variance"] == pytest.approx(y.var())
