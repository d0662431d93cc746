"""headlens refit on a layer of a published model, given as HEADLENS_CHECKPOINT: all-MiniLM-L6-v2, layers 0 and 1.

The tokens are Gaussian vectors whose covariance has the eigenvalues 1/j^2 in a random basis, as embeddings have few large
directions, put through the layer norm that the checkpoint has; and, for comparison, Gaussian vectors without a preferred
direction, put through the same norm. test_encoder.py has the tokens of a text.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from binary import read_model, run_json

CHECKPOINT = os.environ.get("HEADLENS_CHECKPOINT")
pytestmark = pytest.mark.skipif(not CHECKPOINT, reason="HEADLENS_CHECKPOINT is not set")
PREFIX = "encoder.layer.0"


def norm():
    """Weight and bias of the layer norm after the attention of layer 0."""
    tensors, _ = read_model(CHECKPOINT)
    return [
        tensors[f"{PREFIX}.attention.output.LayerNorm.{part}"].astype(float) for part in ("weight", "bias")
    ]


def tokens(kind, folder):
    rng = np.random.default_rng(0)
    weight, bias = norm()
    d = len(weight)
    x = rng.normal(size=(2000, 16, d))
    if kind == "decaying":
        x = x / np.arange(1, d + 1) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    x -= x.mean(-1, keepdims=True)
    np.savez(folder / "x.npz", X=x / x.std(-1, keepdims=True) * weight + bias)
    return folder / "x.npz"


@pytest.mark.parametrize(
    "kind, wanted, way, factor",
    [
        ("decaying", "--kv-groups 4", "mean-pooled groups", 5),
        ("decaying", "--rank 16", "SVD truncation", 1),
        ("isotropic", "--kv-groups 4", "mean-pooled groups", 1),
        ("isotropic", "--rank 16", "SVD truncation", 1),
    ],
)
def test_a_layer_of_minilm(tmp_path, report, kind, wanted, way, factor):
    given = f"--prefix {PREFIX} --layer-heads 12 --steps 300 --time-limit 900"
    found = run_json(
        "refit",
        CHECKPOINT,
        given,
        wanted,
        "--tokens",
        tokens(kind, tmp_path),
        "-o",
        tmp_path / "s.npz",
        timeout=1200,
    )
    rows = {row["name"]: row for row in found["pareto"]}
    report(
        f"refit {wanted}, {kind} tokens: {way} {rows[way]['held_out_error']:.3g}, refit {found['held_out_error']:.3g}, "
        f"training {found['train_error']:.3g}, {found['seconds']:.0f} s"
    )
    assert found["held_out_error"] * factor < rows[way]["held_out_error"]
