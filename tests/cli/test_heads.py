"""--mean and --head-rank: the heads in the file, the kernel, models that come back, and what is refused."""

import numpy as np
import pytest
from binary import fit, predict, read_model, refuse, run, run_json
from reference import extended, relative_error, scores_of, sets_of

D = 3


@pytest.fixture
def matrix(tmp_path):
    """matrix(size): a file with a matrix that is far from symmetric."""

    def save(size=D, seed=0, dtype=float):
        path = tmp_path / f"mean-{size}-{seed}-{np.dtype(dtype).name}.npy"
        values = np.random.default_rng(seed).normal(size=(size, size)) * 2
        np.save(path, values.astype(dtype))
        return path

    return save


def heads_of(data, path, *options):
    fit(data.path, path, "--heads 40 --seed 5 --ridge 1e-2", *options)
    return read_model(path)


def padded(mean):
    out = np.zeros((D + 1, D + 1))
    out[: len(mean), : len(mean)] = mean
    return out


@pytest.mark.parametrize("options, b", [("--model brfa", 1.0), ("--bias-scale -0.7", -0.7)])
@pytest.mark.parametrize("size, dtype", [(D, float), (D + 1, float), (D, np.float32), (D + 1, np.int64)])
def test_heads_move_by_the_mean(make_sets, matrix, tmp_path, options, b, size, dtype):
    data, mean = make_sets(n=20, d=D), matrix(size, dtype=dtype)
    plain = heads_of(data, tmp_path / "plain")[0]["heads"]
    tensors, metadata = heads_of(data, tmp_path / "mean", options, "--mean", mean)
    assert np.allclose(tensors["heads"] - plain, b * padded(np.load(mean)), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(tensors["mean"], np.load(mean).astype(float))
    assert "head_rank" not in metadata


@pytest.mark.parametrize("rank", [1, 2, 4, 7])
def test_random_part_has_the_rank(make_sets, matrix, tmp_path, rank):
    """About its mean. The first columns of a larger rank are those of a smaller one, so differences have rank 1."""
    data, mean = make_sets(n=20, d=D), matrix()
    tensors, metadata = heads_of(data, tmp_path / "m", f"--model brfa --head-rank {rank}", "--mean", mean)
    random = tensors["heads"] - padded(np.load(mean))
    assert metadata["head_rank"] == str(rank)
    assert set(np.linalg.matrix_rank(random, tol=1e-12)) == {min(rank, D + 1)}
    more = heads_of(data, tmp_path / "more", f"--head-rank {rank + 1}")[0]["heads"]
    last = more * np.sqrt(rank + 1) - random * np.sqrt(rank)
    assert set(np.linalg.matrix_rank(last, tol=1e-12)) == {1}


@pytest.mark.parametrize("rank", [1, 3, 16])
def test_entries_keep_their_variance(make_sets, tmp_path, rank):
    """Means and mean squares of 4000 heads: |z| <= 5 for 32 numbers, which normal ones exceed once in 50000 runs."""
    data = make_sets(n=5, d=D)
    fit(data.path, tmp_path / "m", f"--heads 4000 --head-rank {rank} --weight-scale 0.3 --ridge 1")
    heads = read_model(tmp_path / "m")[0]["heads"]
    for sample, expected in (heads, 0.0), (heads**2, 0.09):
        z = (sample.mean(0) - expected) / (sample.std(0) / np.sqrt(len(sample)))
        assert np.abs(z).max() <= 5


@pytest.mark.parametrize("layout", ["rectangular", "ragged", "sequence"])
def test_predictions_follow_from_the_file(make_sets, matrix, tmp_path, layout):
    data = make_sets(layout, n=15, d=D)
    sequence = "--sequence" if layout == "sequence" else ""
    options = f"--model brfa --head-rank 2 --heads 30 --ridge 1e-2 {sequence} --mean"
    fit(data.path, tmp_path / "m", options, matrix())
    expected = scores_of(*read_model(tmp_path / "m"), data)
    assert relative_error(predict(tmp_path / "m", data.path).reshape(expected.shape), expected) < 1e-12


def test_threads_change_no_byte(make_sets, matrix, tmp_path):
    data = make_sets(n=30, d=D)
    files = []
    for threads in 1, 2:
        fit(
            data.path,
            tmp_path / "m",
            f"--model brfa --head-rank 3 --heads 200 --threads {threads} --mean",
            matrix(),
        )
        files.append((tmp_path / "m").read_bytes())
    assert files[0] == files[1]


def kernel(tmp_path, *args):
    run("kernel", *args, "-o", tmp_path / "k.npy")
    return np.load(tmp_path / "k.npy")


@pytest.mark.parametrize("size", [D, D + 1])
def test_kernel_with_a_mean_is_the_formula(make_sets, matrix, tmp_path, size):
    """exp: a product of lognormal means, for any matrix."""
    data, mean = make_sets("ragged", n=9, d=D), matrix(size)
    w_0 = 0.2 * padded(np.load(mean))
    found = kernel(tmp_path, data.path, "--score exp --weight-scale 0.1 --bias-scale 0.2 --mean", mean)
    sets = [(extended(q), extended(k)) for q, k, _ in sets_of(data)]
    for i, (q, keys) in enumerate(sets):
        for j, (p, others) in enumerate(sets):
            terms = []
            for a in keys:
                for b in others:
                    variance = 0.01 * ((q @ q) * (a @ a) + (p @ p) * (b @ b) + 2 * (q @ p) * (a @ b))
                    terms.append(a @ b * np.exp(q @ w_0 @ a + p @ w_0 @ b + variance / 2))
            assert found[i, j] == pytest.approx(np.mean(terms), rel=1e-11)


@pytest.mark.parametrize("score", ["relu", "step", "relu --exact"])
def test_a_rotated_mean_is_the_identity_on_rotated_keys(make_sets, tmp_path, score):
    """<x_0, S x_i>, and no inner product of two keys changes. Step has infinite slope where correlations are 1."""
    data = make_sets(n=12, d=D)
    s, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(D, D)))
    np.save(tmp_path / "s.npy", s)
    np.savez(tmp_path / "turned.npz", query=data["query"], keys=data["keys"] @ s.T)
    found = kernel(tmp_path, data.path, "--model brfa --score", score, "--mean", tmp_path / "s.npy")
    expected = kernel(tmp_path, tmp_path / "turned.npz", "--model brfa --score", score)
    assert np.allclose(found, expected, rtol=1e-7 if score == "step" else 1e-10)
    assert not np.allclose(found, kernel(tmp_path, data.path, "--model brfa --score", score), rtol=1e-2)


def test_infinitely_many_heads_keep_their_mean(make_sets, matrix, tmp_path):
    data, new, mean = make_sets(n=40, d=D), make_sets(n=10, d=D, seed=1, name="new"), matrix()
    fit(data.path, tmp_path / "m", "--heads inf --model brfa --ridge 1e-2 --mean", mean)
    tensors, _ = read_model(tmp_path / "m")
    cross = kernel(tmp_path, new.path, data.path, "--model brfa --mean", mean)
    expected = cross @ tensors["values"][:, 0] + tensors["intercept"][0]
    assert relative_error(predict(tmp_path / "m", new.path), expected) < 1e-9


def test_kernel_of_a_rank_is_estimated(make_sets, tmp_path):
    """Against the heads of fit, which are the same draws: the mean over them is the estimate."""
    data = make_sets(n=6, d=D)
    report = run_json("kernel", data.path, "--head-rank 2 --samples 64 --seed 4 -o", tmp_path / "k.npy")
    assert report["method"] == "Monte Carlo over 64 heads" and report["standard_error"] > 0
    fit(data.path, tmp_path / "m", "--head-rank 2 --heads 64 --seed 4 --ridge 1")
    phi = []
    for q, keys, _ in sets_of(data):
        xt_0, xt = extended(q), extended(keys)
        heads = read_model(tmp_path / "m")[0]["heads"]
        phi.append(np.concatenate([np.maximum(xt @ (xt_0 @ w), 0) @ xt / len(xt) for w in heads]))
    assert np.allclose(np.load(tmp_path / "k.npy"), np.array(phi) @ np.array(phi).T / 64, rtol=1e-12)


def test_models_without_the_options_are_as_they_were(make_sets, tmp_path):
    data = make_sets(n=10, d=D)
    fit(data.path, tmp_path / "m", "--model brfa --heads 5")
    tensors, metadata = read_model(tmp_path / "m")
    assert set(tensors) == {"heads", "values", "intercept"} and "head_rank" not in metadata


def test_refusals(make_sets, matrix, tmp_path):
    data = make_sets(n=10, d=D)
    np.save(tmp_path / "row.npy", np.ones(3))
    np.save(tmp_path / "long.npy", np.ones((2, 3)))
    np.save(tmp_path / "nan.npy", np.full((3, 3), np.nan))
    np.save(tmp_path / "none.npy", np.ones((0, 0)))
    np.save(tmp_path / "huge.npy", np.full((3, 3), 1e300))
    np.save(tmp_path / "one.npy", np.eye(3) * 1e60)
    for options, words in {
        "--model rfa --mean row.npy": "the heads of rfa have mean 0",
        "--model brfa --mean row.npy": "float64 (3,) given, expected a square matrix",
        "--model brfa --mean long.npy": "float64 (2, 3) given, expected a square matrix",
        "--model brfa --mean none.npy": "expected a square matrix",
        "--model brfa --mean nan.npy": "expected finite numbers",
        "--model brfa --mean mean-7-0-float64.npy": "(7, 7) given, expected (3, 3) or (4, 4)",
        "--model brfa --mean huge.npy": "mean: 1e+300 given, expected at most 1e+100 in size with precision f64",
        "--model brfa --mean one.npy --bias-scale 1e60": "--mean times --bias-scale: 1e+120 given",
        "--model brfa --mean one.npy --precision f32": "mean: 1e+60 given, expected at most 1e+15",
        "--model brfa --bias-scale 1e300": "bias-scale: 1e+300 given, expected at most",
        "--weight-scale 1e300": "weight-scale: 1e+300 given, expected at most",
        "--model mlp --mean mean-3-0-float64.npy": "mlp has no query-key matrices",
        "--model brfa --mean missing.npy": "missing.npy",
        "--head-rank 0": "--head-rank: 0 given, expected full or a whole number from 1 to 1000000",
        "--head-rank -1": "--head-rank: -1 given, expected full or a whole number from 1 to 1000000",
        "--head-rank two": "--head-rank: 'two' given, expected full or a whole number from 1 to 1000000",
        "--model mlp --head-rank 2": "mlp has no query-key matrices",
    }.items():
        for size in 3, 7:
            matrix(size)
        for command in ("fit", "kernel"):
            line = refuse(
                command,
                data.path,
                options.replace(" --mean ", f" --mean {tmp_path}/"),
                "-o",
                tmp_path / "out",
            )
            assert words in line, (command, options, line)
    assert "no closed form" in refuse("fit", data.path, "--heads inf --head-rank 2 -o", tmp_path / "out")
    line = refuse("fit", data.path, "--model brfa --mean", matrix(), "-o", matrix(), folder=tmp_path)
    assert "would be lost" in line
