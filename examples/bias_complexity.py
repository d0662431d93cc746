"""The complexity B for heads around b times the identity, from `headlens theory` alone; the tables of docs/bias.md.

    .venv/bin/python examples/bias_complexity.py

The last table compares B with the norm y^T K^-1 y of the smoothest function through n examples, which may not exceed it.
"""

import tempfile
from pathlib import Path

import numpy as np
from complexity_growth import header, headlens, row

BIASES = [0, 0.25, 0.5, 1, 1.5, 2, 3]
TARGETS = ["native", *(f"correlation --degree {p}" for p in (1, 2, 3, 4))]


def complexity(target, dim, bias, keys=16):
    line = f"theory {target} --dim {dim} --keys {keys} --model brfa --bias-scale {bias} --samples 64"
    found = headlens(line)
    return found["complexity"], found["complexity_is_lower_bound"]


def against_the_bias(dim):
    print(f"\n## B against b, d = {dim}\n")
    header("target", [f"b = {b}" for b in BIASES])
    for target in TARGETS:
        values = [complexity(target, dim, b) for b in BIASES]
        row(f"`{target}`", [("at least " if lower else "") + f"{b:.4g}" for b, lower in values], "{}")


def norms_through_examples(sizes=(300, 1000, 3000)):
    print("\n## y^T K^-1 y through n examples against B, d = 3, N = 1\n")
    header("target, b", [f"n = {n}" for n in sizes] + ["B"])
    with tempfile.TemporaryDirectory() as folder:
        data, kernel = Path(folder) / "data.npz", Path(folder) / "k.npy"
        for bias in (0.5, 1):
            for target in TARGETS[:3]:
                headlens(f"generate {target} --dim 3 --keys 1 --count {sizes[-1]} -o {data}")
                headlens(f"kernel {data} --model brfa --bias-scale {bias} -o {kernel}")
                k, y = np.load(kernel), np.load(data)["y"]
                # 1e-12 keeps the smallest eigenvalues above rounding; it can only lower the norm.
                norms = [y[:n] @ np.linalg.solve(k[:n, :n] + 1e-12 * np.eye(n), y[:n]) for n in sizes]
                row(f"`{target}`, {bias}", [*norms, complexity(target, 3, bias, 1)[0]], "{:.2f}")


if __name__ == "__main__":
    for dim in (8, 16):
        against_the_bias(dim)
    norms_through_examples()
