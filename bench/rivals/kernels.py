"""The rfa kernel in NumPy: kernels.py DATA.npz REPEATS full|lower.

Blocks of sets against blocks of sets: one GEMM for the inner products of all keys, then in-place ufuncs. `lower` computes
the blocks on and below the diagonal only, as headlens does. The block size is tuned first on a quarter of the sets.
"""

import json
import sys
import time

import numpy as np


def rfa_kernel(query, keys, block, half):
    n, count, d = keys.shape
    queries = np.concatenate([query, np.ones((n, 1))], 1)
    tokens = np.concatenate([keys, np.ones((n, count, 1))], 2)
    query_length, length = np.linalg.norm(queries, axis=1), np.linalg.norm(tokens, axis=2)
    unit = (tokens / length[..., None]).reshape(n * count, d + 1)
    cosines = (queries / query_length[:, None]) @ (queries / query_length[:, None]).T
    weight = length**2
    out = np.empty((n, n))
    for a in range(0, n, block):
        for b in range(0, a + block if half else n, block):
            i, j = slice(a, min(n, a + block)), slice(b, min(n, b + block))
            c = unit[i.start * count : i.stop * count] @ unit[j.start * count : j.stop * count].T
            c = c.reshape(i.stop - a, count, j.stop - b, count)
            rho = c * cosines[i, None, j, None]
            np.clip(rho, -1, 1, out=rho)
            value = np.arccos(rho)
            np.subtract(np.pi, value, out=value)
            value *= rho
            rho *= rho
            np.subtract(1, rho, out=rho)
            np.sqrt(rho, out=rho)
            value += rho
            value *= c
            value *= weight[j]
            out[i, j] = np.einsum("aib,ai->ab", value.sum(3), weight[i])
            if half:
                out[j, i] = out[i, j].T
    return out * np.outer(query_length, query_length) * (0.25 / (2 * np.pi * count**2))


def main():
    data = np.load(sys.argv[1])
    query, keys = data["query"], data["keys"]
    half, quarter = sys.argv[3] == "lower", len(query) // 4
    best = (float("inf"), 0)
    for block in (4, 8, 16, 32, 64):
        start = time.perf_counter()
        rfa_kernel(query[:quarter], keys[:quarter], block, half)
        best = min(best, (time.perf_counter() - start, block))
    times = []
    for _ in range(int(sys.argv[2])):
        start = time.perf_counter()
        result = rfa_kernel(query, keys, best[1], half)
        times.append(time.perf_counter() - start)
    print(
        json.dumps(
            {"seconds": times, "checksum": float(result.sum()), "block": best[1], "version": np.__version__}
        )
    )


main()
