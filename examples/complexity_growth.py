"""How the complexity of targets grows with d and N, fitted from `headlens theory` alone; the tables of docs/theory.md.

    .venv/bin/python examples/complexity_growth.py

Exponents are slopes of log B over the last octave: at finite d and N they approach those of the theorem, p in d for
correlations of degree p, and p - 1 in N for the ratio of the network without attention to attention. The last table
compares B with the norm y^T K^-1 y of the smoothest function through n examples, which may not exceed it.
"""

import json
import os
import subprocess
import tempfile
from math import log
from pathlib import Path

import numpy as np

HEADLENS = os.environ.get("HEADLENS", str(Path(__file__).resolve().parents[1] / "build" / "headlens"))
DIMENSIONS = [16, 32, 64, 128, 256, 512, 1024]
KEYS = [8, 16, 32, 64, 128, 256, 512]


def headlens(*words):
    command = [HEADLENS, *(w for text in words for w in str(text).split()), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def complexity(target, dim, keys=16, model="rfa"):
    return headlens(f"theory {target} --dim {dim} --keys {keys} --model {model} --samples 64")["complexity"]


def slopes(sizes, values):
    pairs = list(zip(sizes, values))
    return [log(v / u) / log(b / a) for (a, u), (b, v) in zip(pairs, pairs[1:])]


def row(name, values, form="{:.4g}"):
    print(f"| {name} | " + " | ".join(form.format(v) for v in values) + " |")


def header(name, columns):
    row(name, columns, "{}")
    print("|---|" + "---|" * len(columns))


def growth_in_dimension():
    print("\n## B of attention against d; the last column is the slope from 512 to 1024\n")
    header("target", [f"d = {d}" for d in DIMENSIONS] + ["exponent"])
    for task, degrees in (
        ("power-mean", range(1, 7)),
        ("correlation", range(1, 6)),
        ("correlation --pure", (1, 2, 3)),
    ):
        for p in degrees:
            values = [complexity(f"{task} --degree {p}", d) for d in DIMENSIONS]
            row(f"`{task} --degree {p}`", [*values, slopes(DIMENSIONS, values)[-1]])


def growth_in_keys():
    print("\n## B of the network without attention over B of attention, d = 16, against N\n")
    header("target", [f"N = {n}" for n in KEYS] + ["exponent"])
    for p in range(1, 7):
        target = f"power-mean --degree {p}"
        ratios = [complexity(target, 16, n, "mlp") / complexity(target, 16, n) for n in KEYS]
        row(f"`{target}`", [*ratios, slopes(KEYS, ratios)[-1]])


def norms_through_examples(sizes=(300, 1000, 3000)):
    print("\n## y^T K^-1 y through n examples against B, d = 3, N = 1\n")
    header("target", [f"n = {n}" for n in sizes] + ["B"])
    with tempfile.TemporaryDirectory() as folder:
        data, kernel = Path(folder) / "data.npz", Path(folder) / "k.npy"
        for target in (
            "power-mean --degree 2",
            "power-mean --degree 3",
            "correlation --degree 1",
            "correlation --degree 2",
        ):
            headlens(f"generate {target} --dim 3 --keys 1 --count {sizes[-1]} -o {data}")
            headlens(f"kernel {data} -o {kernel}")
            k, y = np.load(kernel), np.load(data)["y"]
            # 1e-12 keeps the smallest eigenvalues above rounding; it can only lower the norm.
            norms = [y[:n] @ np.linalg.solve(k[:n, :n] + 1e-12 * np.eye(n), y[:n]) for n in sizes]
            row(f"`{target}`", [*norms, complexity(target, 3, 1)], "{:.2f}")


if __name__ == "__main__":
    growth_in_dimension()
    growth_in_keys()
    norms_through_examples()
