"""The complexity B for heads around b times the identity, from `headlens theory` alone; the tables of docs/bias.md.

    .venv/bin/python examples/bias_complexity.py

The last table compares B with the norm y^T K^-1 y of the smoothest function through n examples, which may not exceed it.
The examples are 900 at random, with all 48 permutations of their coordinates with signs: the kernel and the target turn with the
tokens, so that 43200 examples cost a system of 2700 unknowns.
"""

import itertools
import tempfile
from math import erf, exp, pi, sqrt
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


def symmetries(dim):
    """The 2^d d! permutations of coordinates with signs, as matrices."""
    for order in itertools.permutations(range(dim)):
        for signs in itertools.product((1, -1), repeat=dim):
            yield np.diag(signs) @ np.eye(dim)[list(order)]


def targets_as_vectors(target, query, key):
    """v(x_0, x) with the target <beta, v>; v turns when query and key turn."""
    t = np.sum(query * key, axis=1)
    if target == "native":
        # E[relu(s + g)] for a standard normal g
        factor = [s * (1 + erf(s / sqrt(2))) / 2 + exp(-s * s / 2) / sqrt(2 * pi) for s in t]
    else:
        factor = t ** int(target.split()[-1])
    return np.asarray(factor)[:, None] * key


def orbit_kernel(query, key, bias):
    """sum_g K(z_i, g z_j) g over all symmetries g, as a matrix of d x d blocks (i, j).

    K does not change when all tokens are turned. So on the orbits {g z_i} the solution of K alpha = y for y(g z_i) =
    <beta, g v_i> is alpha(g z_i) = <beta, g a_i>, where the blocks times a are v; and y^T K^-1 y = 2^d d! / d sum_i
    <v_i, a_i>, since the sum of g v a^T g^T over all symmetries is 2^d d! / d <v, a> times the identity.
    """
    count, dim = query.shape
    blocks = np.zeros((count, dim, count, dim))
    with tempfile.TemporaryDirectory() as folder:
        base, turned, kernel = (Path(folder) / name for name in ("base.npz", "turned.npz", "k.npy"))
        np.savez(base, query=query, keys=key[:, None])
        for g in symmetries(dim):
            np.savez(turned, query=query @ g.T, keys=(key @ g.T)[:, None])
            headlens(f"kernel {base} {turned} --model brfa --bias-scale {bias} -o {kernel}")
            values = np.load(kernel)
            for a, b in np.argwhere(g):
                blocks[:, a, :, b] += g[a, b] * values
    return blocks.reshape(count * dim, count * dim)


def orbit_norms(blocks, vectors, counts):
    """y^T K^-1 y through the orbits of the first so many examples, for a beta of length one."""
    dim = vectors.shape[1]
    scale = len(list(symmetries(dim))) / dim
    norms = []
    for n in (count * dim for count in counts):
        v = vectors.reshape(-1)[:n]
        norms.append(scale * v @ np.linalg.solve(blocks[:n, :n], v))
    return norms


def norms_through_examples(counts=(100, 300, 900)):
    print("\n## y^T K^-1 y through n examples against B, d = 3, N = 1\n")
    header("target, b", [f"n = {48 * n}" for n in counts] + ["B", "reached"])
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        headlens(f"generate native --dim 3 --keys 1 --count {counts[-1]} -o {data}")
        query, key = np.load(data)["query"], np.load(data)["keys"][:, 0]
    for bias in (0.5, 1):
        blocks = orbit_kernel(query, key, bias)
        for target in TARGETS:
            norms = orbit_norms(blocks, targets_as_vectors(target, query, key), counts)
            B = complexity(target, 3, bias, 1)[0]
            shown = [f"{value:.2f}" for value in (*norms, B)]
            row(f"`{target}`, {bias}", [*shown, f"{norms[-1] / B:.1%}"], "{}")


if __name__ == "__main__":
    for dim in (8, 16):
        against_the_bias(dim)
    norms_through_examples()
