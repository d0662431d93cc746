"""Layers of the size people have, recovered in factors: heads of unknown number and rank, spectra that fall as those of trained
layers do, tokens of any covariance, and noise against the least that any method can reach."""

import math
import os

import numpy as np
import pytest
from binary import run, run_json

WEIGHTS = os.environ.get("HEADLENS_CHECKPOINT")


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def outputs(theta, w, x):
    return sum(softmax(x @ t @ x.transpose(0, 2, 1)) @ x @ v for t, v in zip(theta, w))


def plant(rng, d, m, r, fall):
    """Heads of rank r whose singular values fall from 1 to exp(-fall), logit scales from 1 to 3."""
    sizes = np.exp(-fall * np.arange(r) / r)
    theta = (rng.standard_normal((m, d, r)) * sizes) @ rng.standard_normal((m, r, d))
    theta *= (np.linspace(1, 3, m) / np.linalg.norm(theta, axis=(1, 2)))[:, None, None]
    return theta, (rng.standard_normal((m, d, r)) * sizes) @ rng.standard_normal((m, r, d)) / np.sqrt(d * r)


def recover(folder, theta, w, x, y, *options):
    np.savez(folder / "ex.npz", X=x, Y=y)
    np.savez(folder / "truth.npz", Theta=theta, W=w)
    found = run_json(
        "recover", folder / "ex.npz", *options, "-o", folder / "l.npz", status=None, timeout=1800
    )
    error = np.inf
    if found["status"] in ("recovered", "approximate"):
        error = run_json("compare", folder / "l.npz", folder / "truth.npz")["worst_error"] or np.inf
    return found, error


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("d", "m", "r", "k", "n", "options"),
    [(96, 8, 12, 16, 2500, ""), (64, 8, 8, 16, 600, ""), (128, 8, 16, 32, 1600, "--heads 8")],
)
def test_heads_of_low_rank(tmp_path, d, m, r, k, n, options, seed):
    rng = np.random.default_rng(seed)
    theta, w = plant(rng, d, m, r, 1.5)
    x = rng.choice([-1.0, 1.0], (n, k, d))
    found, error = recover(tmp_path, theta, w, x, outputs(theta, w, x), options)
    assert found["status"] == "recovered", found["reason"]
    assert found["heads"] == m and error < 1e-8
    bars = max(max(h["theta_error_bar"], h["w_error_bar"]) for h in found["per_head"])
    assert error <= bars < 1e-2


@pytest.mark.skipif(not WEIGHTS, reason="HEADLENS_CHECKPOINT names no safetensors of all-MiniLM-L6-v2")
@pytest.mark.parametrize("layer", [0, 1])
def test_a_layer_of_a_sentence_encoder(tmp_path, report, layer):
    """The weights of 12 heads in 384 coordinates from 6000 random sign examples, the number of heads not told: 25 minutes on two
    cores at most, by the clock of an idle machine."""
    truth, examples = tmp_path / "truth.npz", tmp_path / "ex.npz"
    run("inspect --weights", WEIGHTS, f"--prefix encoder.layer.{layer} --heads 12 -o", truth)
    run("generate examples --layer", truth, "--tokens 32 --count 6000 --seed 1 -o", examples)
    found = run_json(
        "recover", examples, "--max-heads 16 --form factors --threads 2 -o", tmp_path / "l.npz", timeout=6000
    )
    error = run_json("compare", tmp_path / "l.npz", truth)["worst_error"]
    seconds = sum(found["phases"].values())
    report(
        f"layer {layer}: {found['status']}, {found['heads']} heads, worst {error:.1e}, {seconds:.0f} s, {found['phases']}"
    )
    assert found["status"] == "recovered", found["reason"]
    assert found["heads"] == 12 and error < 1e-8


def test_tokens_with_a_falling_spectrum(tmp_path):
    rng = np.random.default_rng(5)
    theta, w = plant(rng, 64, 4, 16, 1)
    turn, _ = np.linalg.qr(rng.standard_normal((64, 64)))
    size = np.arange(1, 65) ** -0.5
    x = rng.standard_normal((1500, 16, 64)) * size @ turn
    theta = np.linalg.inv(np.diag(size) @ turn) @ theta @ np.linalg.inv(np.diag(size) @ turn).T
    w = np.linalg.inv(np.diag(size) @ turn) @ w
    found, error = recover(tmp_path, theta, w, x, outputs(theta, w, x), "--heads 4 --rank 16")
    assert found["status"] == "recovered", found["reason"]
    assert error < 1e-8


def information(q, k, v, o, x):
    """J^T J of the outputs in all entries of the factors, by the chain rule, example by example."""
    m, d, r = q.shape
    e = o.shape[2]
    size = m * r * (3 * d + e)
    total = np.zeros((size, size))
    for tokens in x:
        rows = []
        for i in range(m):
            a, b, c = tokens @ q[i], tokens @ k[i], tokens @ v[i]
            p = softmax(a @ b.T)
            value = c @ o[i]
            # dF_a = sum_b p_ab (dl_ab - mean) value_b, dl_ab = dq_a . b_b + a_a . dk_b
            bend = p[:, :, None] * (value[None] - (p @ value)[:, None])  # (a, b, e)
            by_q = np.einsum("abe,br,ad->aedr", bend, b, tokens)
            by_k = np.einsum("abe,ar,bd->aedr", bend, a, tokens)
            by_v = np.einsum("ad,re->aedr", p @ tokens, o[i])
            by_o = np.einsum("ar,ef->aerf", p @ c, np.eye(e))
            rows += [t.reshape(len(tokens) * e, -1) for t in (by_q, by_k, by_v, by_o)]
        jacobian = np.concatenate(rows, 1)
        total += jacobian.T @ jacobian
    return total


def fewest_covered(heads, rate=0.95, chance=1 / 3000):
    """Of so many bars that cover at this rate: fewer than this many cover with no more than this chance."""
    total = 0.0
    for covered in range(heads + 1):
        total += math.comb(heads, covered) * rate**covered * (1 - rate) ** (heads - covered)
        if total > chance:
            return covered


@pytest.mark.parametrize("sigma", [1e-2, 1e-4])
@pytest.mark.parametrize(("m", "d", "r", "n", "t"), [(3, 20, 3, 500, 6), (2, 64, 8, 400, 8)])
def test_noise_costs_what_it_must(tmp_path, m, d, r, n, t, sigma):
    """The mean square error of Theta over ten draws is within 1.5^2 of the Cramer-Rao bound of the factors, and the 95% bars cover at
    their rate."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((m, d, r)) for _ in range(3))
    o = rng.standard_normal((m, r, d)) / np.sqrt(d * r)
    q *= (2 / np.linalg.norm(q @ k.transpose(0, 2, 1), axis=(1, 2)))[:, None, None]
    theta, w = q @ k.transpose(0, 2, 1), v @ o
    x = rng.choice([-1.0, 1.0], (n, t, d))
    cov = np.linalg.pinv(information(q, k, v, o, x[: n - n // 8]), rcond=1e-10, hermitian=True) * sigma**2
    width = r * (3 * d + d)
    least = 0.0
    for i in range(m):
        at = i * width
        jq = np.einsum("da,br->dbar", np.eye(d), k[i]).reshape(d * d, -1)
        jk = np.einsum("dr,ba->dbar", q[i], np.eye(d)).reshape(d * d, -1)
        both = np.concatenate([jq, jk], 1)
        least += np.trace(both @ cov[at : at + 2 * d * r, at : at + 2 * d * r] @ both.T)
    squares, covered = 0.0, 0
    for seed in range(10):
        noise = sigma * np.random.default_rng(100 + seed).standard_normal((n, t, d))
        y = outputs(theta, w, x) + noise
        found, _ = recover(tmp_path, theta, w, x, y, f"--heads {m} --rank {r}")
        assert found["status"] == "approximate", found["reason"]
        got = np.load(tmp_path / "l.npz")
        for i in range(m):
            j = min(range(m), key=lambda j: np.linalg.norm(got["Theta"][j] - theta[i]))
            error = np.linalg.norm(got["Theta"][j] - theta[i])
            squares += error**2 / 10
            covered += error / np.linalg.norm(theta[i]) <= found["per_head"][j]["theta_error_bar"]
    print(
        f"d {d}, sigma {sigma:g}: rms {np.sqrt(squares / least):.3f} times the bound, {covered} of {10 * m} bars cover"
    )
    assert squares < 1.5**2 * least
    assert covered >= fewest_covered(10 * m)


def test_a_wrong_layer_is_never_certified(tmp_path):
    """Labels of a causal layer: no layer without a mask explains them."""
    rng = np.random.default_rng(9)
    theta, w = plant(rng, 64, 4, 8, 1)
    x = rng.choice([-1.0, 1.0], (800, 8, 64))
    mask = np.tril(np.ones((8, 8), bool))
    y = sum(softmax(np.where(mask, x @ t @ x.transpose(0, 2, 1), -1e300)) @ x @ v for t, v in zip(theta, w))
    found, _ = recover(tmp_path, theta, w, x, y, "--heads 4 --rank 8 --time-limit 120")
    assert found["status"] not in ("recovered", "approximate")
