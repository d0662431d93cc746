"""Recovery from the outside: a layer computed by NumPy alone comes back through files."""

import json

import numpy as np
import pytest
from binary import run, run_json


def layer(theta, w, x):
    out = 0
    for t, v in zip(theta, w):
        logits = x @ t @ x.transpose(0, 2, 1)
        p = np.exp(logits - logits.max(-1, keepdims=True))
        out = out + p / p.sum(-1, keepdims=True) @ x @ v
    return out


def teacher(rng, m, d, e, s):
    theta = rng.standard_normal((m, d, d))
    theta *= s / np.linalg.norm(theta, axis=(1, 2))[:, None, None]
    return theta, rng.standard_normal((m, d, e)) / np.sqrt(d)


@pytest.mark.parametrize(("k", "d", "m", "e", "n"), [(4, 8, 2, 8, 140), (5, 9, 3, 4, 260), (2, 6, 1, 6, 100)])
@pytest.mark.parametrize("inputs", ["signs", "gaussian"])
def test_recovers_what_numpy_computed(tmp_path, k, d, m, e, n, inputs):
    rng = np.random.default_rng(7)
    theta, w = teacher(rng, m, d, e, 2.0)
    x = rng.choice([-1.0, 1.0], (n, k, d)) if inputs == "signs" else rng.standard_normal((n, k, d))
    np.savez(tmp_path / "ex.npz", X=x, Y=layer(theta, w, x))
    np.savez(tmp_path / "truth.npz", Theta=theta, W=w)
    found = run_json(
        "recover", tmp_path / "ex.npz", "-o", tmp_path / "l.npz", "--certificate", tmp_path / "c.json"
    )
    assert found["status"] == "recovered" and found["heads"] == m and found["held_out_error"] < 1e-8
    assert json.loads((tmp_path / "c.json").read_text())["status"] == "recovered"
    assert np.allclose(sorted(h["scale"] for h in found["per_head"]), 2.0)
    compared = run_json("compare", tmp_path / "l.npz", tmp_path / "truth.npz")
    assert compared["worst_error"] < 1e-8 and compared["heads_a"] == m
    recovered = np.load(tmp_path / "l.npz")
    assert np.abs(layer(recovered["Theta"], recovered["W"], x) - layer(theta, w, x)).max() < 1e-9


def test_same_bytes_for_any_number_of_threads(tmp_path):
    run("generate attention-layer --heads 3 --dim 12 --tokens 5 --count 300 -o", tmp_path / "ex.npz")
    for threads in (1, 2):
        run("recover", tmp_path / "ex.npz", "--heads 3 --threads", threads, "-o", tmp_path / f"{threads}.npz")
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()


def test_no_layer_without_a_certificate(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.choice([-1.0, 1.0], (120, 4, 6))
    np.savez(tmp_path / "noise.npz", X=x, Y=rng.standard_normal((120, 4, 6)))
    done = run("recover", tmp_path / "noise.npz", "-o", tmp_path / "l.npz", "--json", status=3)
    assert json.loads(done.stdout)["status"] == "not_identified"
    assert not (tmp_path / "l.npz").exists()


def test_examples_of_a_layer_from_a_file(tmp_path):
    rng = np.random.default_rng(2)
    theta, w = teacher(rng, 2, 5, 3, 1.0)
    np.savez(tmp_path / "l.npz", Theta=theta, W=w)
    run("generate examples --layer", tmp_path / "l.npz", "--tokens 4 --count 20 -o", tmp_path / "ex.npz")
    ex = np.load(tmp_path / "ex.npz")
    assert set(np.unique(ex["X"])) == {-1.0, 1.0}
    assert np.abs(ex["Y"] - layer(theta, w, ex["X"])).max() < 1e-13


BAD = {
    "nan": lambda x, y: (np.where(x > 5, 0, x) * np.nan, y),
    "one token": lambda x, y: (x[:, :1], y[:, :1]),
    "no examples": lambda x, y: (x[:0], y[:0]),
    "other counts": lambda x, y: (x, y[:5]),
    "rank": lambda x, y: (x[0], y),
    "strings": lambda x, y: (x.astype(str), y),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_examples(tmp_path, case):
    rng = np.random.default_rng(3)
    x, y = BAD[case](rng.choice([-1.0, 1.0], (20, 3, 4)), rng.standard_normal((20, 3, 4)))
    np.savez(tmp_path / "ex.npz", X=x, Y=y)
    done = run("recover", tmp_path / "ex.npz", "-o", tmp_path / "l.npz", status=2)
    assert len(done.stderr.strip().splitlines()) == 1 and "ex.npz" in done.stderr
    assert not (tmp_path / "l.npz").exists()


@pytest.mark.parametrize(
    "options", ["--heads 0", "--heads two", "--max-heads 0", "--time-limit 0", "--starts 0"]
)
def test_bad_options(tmp_path, options):
    run("generate attention-layer --count 30 -o", tmp_path / "ex.npz")
    run("recover", tmp_path / "ex.npz", options, "-o", tmp_path / "l.npz", status=2)


def test_compare_counts_heads(tmp_path):
    rng = np.random.default_rng(4)
    theta, w = teacher(rng, 3, 4, 4, 1.0)
    np.savez(tmp_path / "a.npz", Theta=theta, W=w)
    np.savez(tmp_path / "b.npz", Theta=theta[:2], W=w[:2])
    assert run_json("compare", tmp_path / "a.npz", tmp_path / "b.npz")["worst_error"] is None
    np.savez(tmp_path / "c.npz", Theta=theta[[2, 0, 1]], W=w[[2, 0, 1]])
    assert run_json("compare", tmp_path / "c.npz", tmp_path / "a.npz")["worst_error"] == 0


@pytest.mark.parametrize("rank", ["x", "0", "-1", "2.5", "99999999999"])
def test_rank_is_checked(tmp_path, rank):
    run("generate attention-layer --heads 1 --dim 4 --tokens 3 --count 20 -o", tmp_path / "ex.npz")
    done = run("recover", tmp_path / "ex.npz", f"--rank={rank}", "-o", tmp_path / "l.npz", status=2)
    assert "--rank" in done.stderr and "expected auto, full or a whole number" in done.stderr


@pytest.mark.parametrize("form", ["dense", "factors"])
def test_heads_in_factors_come_back_in_either_form(tmp_path, form):
    rng = np.random.default_rng(3)
    q, k, v, o = (rng.standard_normal(s) for s in ((2, 18, 3), (2, 18, 3), (2, 18, 3), (2, 3, 5)))
    theta, w = q @ k.transpose(0, 2, 1), v @ o / 8
    theta *= 2 / np.linalg.norm(theta, axis=(1, 2))[:, None, None]
    x = rng.choice([-1.0, 1.0], (300, 6, 18))
    np.savez(tmp_path / "ex.npz", X=x, Y=layer(theta, w, x))
    np.savez(tmp_path / "truth.npz", Theta=theta, W=w)
    found = run_json(
        "recover", tmp_path / "ex.npz", "--rank 4 --heads 2 --form", form, "-o", tmp_path / "l.npz"
    )
    assert found["status"] == "recovered" and [h["theta_rank"] for h in found["per_head"]] == [3, 3]
    assert run_json("compare", tmp_path / "l.npz", tmp_path / "truth.npz")["worst_error"] < 1e-10
    stored = np.load(tmp_path / "l.npz")
    if form == "factors":
        assert set(stored) == {"Q", "K", "V", "O"} and stored["Q"].shape == (2, 18, 3)
        theta_back = stored["Q"] @ stored["K"].transpose(0, 2, 1)
    else:
        assert set(stored) == {"Theta", "W"}
        theta_back = stored["Theta"]
    assert min(np.abs(theta_back[0] - t).max() for t in theta) < 1e-9
