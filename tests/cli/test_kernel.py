"""headlens kernel: entries against formulas in NumPy and against random heads, shapes, files, refusals."""

import numpy as np
import pytest
from binary import refuse, run, run_json
from reference import extended, features, sets_of

MODELS = {
    "rfa": "--model rfa",
    "brfa": "--model brfa",
    "biased": "--bias-scale -0.7 --weight-scale 0.3",
    "step": "--model brfa --score step",
    "exp": "--score exp --weight-scale 0.1",
    "mlp": "--model mlp",
}


def kernel(tmp_path, *args):
    out = tmp_path / "k.npy"
    run("kernel", *args, "-o", out)
    return np.load(out)


def arc_cosine(a, b, scale):
    """E[relu(<w, a>) relu(<w, b>)], w of independent N(0, scale^2)."""
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    rho = np.clip(a @ b / lengths, -1, 1)
    return scale**2 * lengths * (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / (2 * np.pi)


def test_rfa_is_the_formula(make_sets, tmp_path):
    data = make_sets("ragged", n=12, d=3)
    found = kernel(tmp_path, data.path)
    sets = [(extended(q), extended(k)) for q, k, _ in sets_of(data)]
    for i, (q, keys) in enumerate(sets):
        for j, (p, others) in enumerate(sets):
            terms = [a @ b * arc_cosine(np.kron(q, a), np.kron(p, b), 0.5) for a in keys for b in others]
            assert found[i, j] == pytest.approx(np.mean(terms), rel=1e-12)


def test_mlp_and_exp_are_the_formulas(make_sets, tmp_path):
    data = make_sets(n=8, d=3, keys=4)
    sets = [(extended(q), extended(k)) for q, k, _ in sets_of(data)]
    flat = [np.concatenate([q, *k]) for q, k in sets]
    expected = [[arc_cosine(a, b, 1 / np.sqrt(2 * 5)) for b in flat] for a in flat]
    assert np.allclose(kernel(tmp_path, data.path, "--model mlp"), expected, rtol=1e-12)
    found = kernel(tmp_path, data.path, "--score exp --weight-scale 0.1 --bias-scale 0.2")
    for i, (q, keys) in enumerate(sets):
        for j, (p, others) in enumerate(sets):
            total = 0.0
            for a in keys:
                for b in others:
                    means = 0.2 * (q[:-1] @ a[:-1] + p[:-1] @ b[:-1])
                    variance = 0.01 * ((q @ q) * (a @ a) + (p @ p) * (b @ b) + 2 * (q @ p) * (a @ b))
                    total += a @ b * np.exp(means + variance / 2)
            assert found[i, j] == pytest.approx(total / 16, rel=1e-11)


@pytest.mark.parametrize("layout", ["rectangular", "ragged", "sequence"])
@pytest.mark.parametrize("name", ["brfa", "biased", "step"])
def test_entries_are_means_over_heads(make_sets, tmp_path, name, layout):
    """|z| <= 5 for all 55 entries of 10 sets: true normal numbers exceed that once in 30000 runs; the seed is fixed."""
    data = make_sets(layout, n=10 if layout != "sequence" else 4, d=2, keys=3)
    sequence = "--sequence" if layout == "sequence" else ""
    found = kernel(tmp_path, data.path, MODELS[name], sequence, "--positions sinusoidal")
    rng = np.random.default_rng(1)
    scale, bias = (0.3, -0.7) if name == "biased" else (0.5, 1.0)
    heads = scale * rng.standard_normal((4000, 3, 3)) + bias * np.diag([1, 1, 0])
    score = "step" if name == "step" else "relu"
    metadata = {"positions": "sinusoidal", "model": "brfa", "score": score}
    phi = features({"heads": heads}, metadata, data).reshape(len(found), 4000, 3)
    products = np.einsum("amp,bmp->abm", phi, phi)
    z = (found - products.mean(2)) / (products.std(2) / np.sqrt(4000) + 1e-300)
    assert np.abs(z[products.std(2) > 0]).max() <= 5


@pytest.mark.parametrize("name", MODELS)
def test_two_files(make_sets, tmp_path, name):
    """K(a, b) is a block of K(a and b together); eigenvalues are not negative; threads change no byte."""
    layout = "rectangular" if name == "mlp" else "ragged"
    a, b = make_sets(layout, n=40, keys=3), make_sets(layout, n=25, keys=3, seed=1, name="b")
    arrays = {k: np.concatenate([a[k], b[k]]) for k in ("query", "keys")}
    if layout == "ragged":
        arrays["offsets"] = np.concatenate([a["offsets"], b["offsets"][1:] + a["offsets"][-1]])
    np.savez(tmp_path / "both.npz", **arrays)
    both = kernel(tmp_path, tmp_path / "both.npz", MODELS[name], "--threads 1")
    cross = kernel(tmp_path, a.path, b.path, MODELS[name])
    assert np.allclose(cross, both[:40, 40:], rtol=1e-10, atol=1e-10)
    assert np.array_equal(both, both.T)
    assert np.linalg.eigvalsh(both).min() >= -1e-12 * np.trace(both)
    assert np.array_equal(both, kernel(tmp_path, tmp_path / "both.npz", MODELS[name], "--threads 3"))


def test_exact_is_refused_where_heads_are_drawn(make_sets, tmp_path):
    data = make_sets(n=5)
    for options, what in (("--head-rank 2", "heads of a given rank"), ("--score softmax", "softmax scores")):
        said = refuse("kernel", data.path, options, "--exact -o", tmp_path / "k.npy", folder=tmp_path)
        assert f"exact: given, but the kernel of {what} has no closed form" in said


@pytest.mark.parametrize("bias", [0.5, 1, 4])
def test_exact_and_fast_agree(make_sets, tmp_path, bias):
    data = make_sets("ragged", n=30, d=2)
    options = f"--model brfa --bias-scale {bias}"
    fast, exact = kernel(tmp_path, data.path, options), kernel(tmp_path, data.path, options, "--exact")
    assert np.abs(fast - exact).max() <= 1e-9
    assert not np.array_equal(fast, exact)


def test_softmax_knows_its_error(make_sets, tmp_path):
    data = make_sets("ragged", n=15)
    few = run_json("kernel", data.path, "--score softmax --samples 500 -o", tmp_path / "few")
    many = run_json("kernel", data.path, "--score softmax --samples 50000 --seed 1 -o", tmp_path / "many")
    assert "Monte Carlo" in few["method"] and many["standard_error"] < few["standard_error"] / 5
    difference = np.load(tmp_path / "few.npy") - np.load(tmp_path / "many.npy")
    assert 0.3 < np.sqrt(np.mean(difference**2)) / few["standard_error"] < 3


def test_json_and_files(make_sets, tmp_path):
    data = make_sets(n=20)
    report = run_json("kernel", data.path, "--precision f32 -o", tmp_path / "k")
    assert report["file"] == str(tmp_path / "k.npy") and report["shape"] == [20, 20]
    assert report["dtype"] == "float32" and report["standard_error"] is None
    narrow = np.load(tmp_path / "k.npy")
    assert narrow.dtype == np.float32
    assert np.allclose(narrow, kernel(tmp_path, data.path), rtol=1e-5)


@pytest.mark.parametrize("scale", [0, 1e-200, 1e100])
@pytest.mark.parametrize("model", ["--model rfa", "--model brfa", "--model brfa --score step"])
def test_any_weight_scale_gives_numbers(make_sets, tmp_path, model, scale):
    assert np.isfinite(kernel(tmp_path, make_sets().path, model, f"--weight-scale {scale}")).all()


def test_tokens_that_are_zero_equal_or_opposite(save, tmp_path):
    query = np.array([[0.0, 0.0], [1, 2], [-1, -2], [1, 2], [1e6, 0]])
    data = save(query=query, keys=np.stack([query, -query, 0 * query], 1))
    for model in MODELS.values():
        if "exp" in model:
            continue
        found = kernel(tmp_path, data.path, model)
        assert np.isfinite(found).all() and np.allclose(found[1], found[3], rtol=1e-12)


@pytest.mark.parametrize("options", [
    "--model gru", "--score tanh", "--model mlp --score step", "--model mlp --bias-scale 1", "--weight-scale -1",
    "--weight-scale nan", "--bias-scale inf", "--precision f16", "--score softmax --samples 3", "--samples x",
    "--max-memory 1K", "--sequence", "--heads 5", "--score exp --weight-scale 100", "extra.npz extra.npz",
])  # fmt: skip
def test_bad_options(make_sets, tmp_path, options):
    data = make_sets()
    refuse("kernel", data.path, options, "-o", tmp_path / "k.npy", folder=tmp_path)


def test_sets_that_do_not_match(make_sets, tmp_path):
    a, b, ragged = make_sets(), make_sets(d=4, name="b"), make_sets("ragged", name="ragged")
    out = tmp_path / "k.npy"
    assert str(b.path) in refuse("kernel", a.path, b.path, "-o", out, folder=tmp_path)
    assert "equal size" in refuse("kernel", ragged.path, "--model mlp -o", out, folder=tmp_path)
    assert "none.npz" in refuse("kernel", a.path, tmp_path / "none.npz", "-o", out, folder=tmp_path)
    assert "is required" in refuse("kernel", a.path, folder=tmp_path)
