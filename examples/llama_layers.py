"""Layers of the kind of Llama: rotary positions, a causal mask, keys and values that heads share, padding.

usage: llama_layers.py DIM HEADS GROUPS [causal] [rotary] [padding]    (set HEADLENS to use another program)

Draws a layer with heads of rank DIM / HEADS, recovers it from 1200 examples of 16 sign tokens, and prints the error of the
outputs of 200 fresh examples.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PROGRAM = os.environ.get("HEADLENS", str(Path(__file__).parent.parent / "build" / "headlens"))


def draw(rng, d, m, groups):
    r = d // m
    k = rng.standard_normal((groups, d, r)).repeat(m // groups, 0)
    v = rng.standard_normal((groups, d, r)).repeat(m // groups, 0) / np.sqrt(d)
    q, o = rng.standard_normal((m, d, r)), rng.standard_normal((m, r, d)) / np.sqrt(r)
    for i in range(m):
        q[i] *= 2 * (0.6 + 0.8 * i / m) / np.linalg.norm(q[i] @ k[i].T)
    return q, k, v, o


def turn(z):
    pairs = z.shape[-1] // 2
    angle = np.arange(z.shape[1])[:, None] * 10000.0 ** (-np.arange(pairs) / pairs)
    one, other = z[..., :pairs], z[..., pairs:]
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.concatenate((one * cosine - other * sine, one * sine + other * cosine), axis=-1)


def outputs(layer, x, lengths, kinds):
    k = x.shape[1]
    seen = np.arange(k)[None, None, :] < lengths[:, None, None]
    if "causal" in kinds:
        seen = seen & np.tril(np.ones((k, k), bool))
    y = 0
    for q, keys, v, o in zip(*layer):
        a, b = x @ q, x @ keys
        if "rotary" in kinds:
            a, b = turn(a), turn(b)
        p = np.where(seen, np.exp(a @ b.transpose(0, 2, 1)), 0)
        y = y + p / p.sum(-1, keepdims=True) @ (x @ v @ o)
    return y * (np.arange(k)[None, :, None] < lengths[:, None, None])


def main():
    d, m, groups = (int(word) for word in sys.argv[1:4])
    kinds = sys.argv[4:]
    rng = np.random.default_rng(1)
    layer = draw(rng, d, m, groups)
    x = rng.choice([-1.0, 1.0], size=(1400, 16, d))
    lengths = rng.integers(3, 17, size=1400) if "padding" in kinds else np.full(1400, 16)
    x *= np.arange(16)[None, :, None] < lengths[:, None, None]
    y = outputs(layer, x, lengths, kinds)
    options = ["--mask", "causal"] if "causal" in kinds else []
    options += ["--rotary", "base=10000,layout=half"] if "rotary" in kinds else []
    options += ["--kv-groups", str(groups)] if groups < m else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        np.savez(path / "ex.npz", X=x[:1200], Y=y[:1200], lengths=lengths[:1200])
        np.savez(path / "fresh.npz", X=x[1200:], lengths=lengths[1200:])
        recover = [
            PROGRAM,
            "recover",
            path / "ex.npz",
            "--heads",
            str(m),
            *options,
            "-o",
            path / "layer.npz",
            "--json",
        ]
        result = json.loads(subprocess.run(recover, stdout=subprocess.PIPE).stdout)
        print(result["status"], result["variant"], f"{result['seconds']:.1f} s")
        if (path / "layer.npz").exists():
            predict = [PROGRAM, "predict", path / "layer.npz", path / "fresh.npz", "-o", path / "y.npy"]
            subprocess.run(predict, check=True, stdout=subprocess.DEVNULL)
            error = np.linalg.norm(np.load(path / "y.npy") - y[1200:]) / np.linalg.norm(y[1200:])
            print(f"error of the outputs of fresh examples {error:.1e}")


if __name__ == "__main__":
    main()
