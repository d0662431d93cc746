"""Layers with masks, biases, rotary positions and padding, alone and in pairs; and layers of 64 coordinates in factors.

HEADLENS_SEEDS says how many layers of each kind (default 2). With 7, more than 200 wrong variants are tried.
"""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from binary import run, run_json

ROOT = Path(__file__).resolve().parents[2]
SEEDS = int(os.environ.get("HEADLENS_SEEDS", "2"))


def script():
    spec = importlib.util.spec_from_file_location("layer_variants", ROOT / "examples" / "layer_variants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("options", script().RIGHT)
def test_the_right_variant_is_recovered_and_no_other(tmp_path, report, options):
    recovered, worst, seconds, certified, tries = script().measure(options, SEEDS, SEEDS, tmp_path)
    report(
        f"{options}: {recovered} of {SEEDS}, worst error {worst:.1e}, {seconds:.1f} s; wrong: {certified} of {tries}"
    )
    assert recovered == SEEDS and worst < 1e-8 and certified == 0


HEADS, DIM, TOKENS, COUNT, FRESH = 8, 64, 8, 2500, 200


class Teacher:
    """Heads of rank d / m with query biases in the columns of K, and a constant."""

    def __init__(self, rng, bias):
        q, k, v = rng.standard_normal((3, HEADS, DIM, DIM // HEADS))
        o = rng.standard_normal((HEADS, DIM // HEADS, DIM))
        theta = q @ k.transpose(0, 2, 1)
        self.theta = 2 * theta / np.linalg.norm(theta, axis=(1, 2), keepdims=True)
        self.w = v @ o / DIM**0.5 / (DIM // HEADS) ** 0.5
        u = np.einsum("mdr,mr->md", k, rng.standard_normal((HEADS, DIM // HEADS)))
        self.u = bias * u / np.linalg.norm(u, axis=1, keepdims=True)
        self.c = bias * rng.standard_normal(DIM)

    def __call__(self, x):
        y = np.zeros_like(x) + self.c
        for theta, w, u in zip(self.theta, self.w, self.u):
            logits = x @ theta @ x.transpose(0, 2, 1) + (x @ u)[:, None, :]
            p = np.exp(logits - logits.max(-1, keepdims=True))
            y += p / p.sum(-1, keepdims=True) @ x @ w
        return y


def spectrum(rng, x):
    """Covariance with eigenvalues in proportion to 1 / j, in a random basis."""
    basis = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    values = np.arange(1, DIM + 1) ** -1.0
    return x @ (basis * np.sqrt(values * DIM / values.sum()) @ basis.T)


def layer_norm(rng, x):
    """As LayerNorm leaves tokens, with its gain and shift."""
    x = x + rng.standard_normal(DIM)
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    return x * (1 + 0.3 * rng.standard_normal(DIM)) + 0.3 * rng.standard_normal(DIM)


@pytest.mark.parametrize(
    ("tokens", "bias", "missing", "span"),
    [(spectrum, 0, 0, None), (layer_norm, 1, 0, DIM - 1), (spectrum, 1, 0.5, None)],
)
def test_tokens_as_they_come_in_layers_of_64_coordinates(tmp_path, report, tokens, bias, missing, span):
    rng = np.random.default_rng(1)
    teacher = Teacher(rng, bias)
    x = tokens(rng, rng.standard_normal((COUNT + FRESH, TOKENS, DIM)))
    y = teacher(x)
    labels = np.where(rng.random((COUNT, TOKENS, DIM)) < missing, np.nan, y[:COUNT])
    np.savez(tmp_path / "examples.npz", X=x[:COUNT], Y=labels)
    np.savez(tmp_path / "fresh.npz", X=x[COUNT:])
    found = run_json(f"recover --heads {HEADS}", "--bias" * bias, tmp_path / "examples.npz", "-o", tmp_path / "layer.npz",
                     timeout=1800)  # fmt: skip
    run("predict", tmp_path / "layer.npz", tmp_path / "fresh.npz", "-o", tmp_path / "y.npy")
    error = np.linalg.norm(np.load(tmp_path / "y.npy") - y[COUNT:]) / np.linalg.norm(y[COUNT:])
    report(f"{tokens.__name__}, bias {bias}, {missing:.0%} missing: {found['status']}, error {error:.1e}")
    assert (found["status"], found["span_dimension"]) == ("recovered", span) and error < 1e-8
