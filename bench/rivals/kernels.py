"""The rfa kernel in NumPy, PyTorch or JAX, float64: kernels.py numpy|torch|jax DATA.npz REPEATS THREADS.

Blocks of sets against blocks of sets, those on and below the diagonal only, as headlens does: one GEMM for the inner
products of all keys, then functions of them in place (JAX: compiled into one). The block is tuned first on 500 sets.
"""

import json
import math
import sys
import time

import numpy as np


def numpy_block(u, v, cosines, weight_u, weight_v):
    """sum over keys i, j of weight_i weight_j c_ij kappa(c_ij cos): u (a, N, D), v (b, N, D), cosines (a, b)."""
    a, count, d1 = u.shape
    c = (u.reshape(-1, d1) @ v.reshape(-1, d1).T).reshape(a, count, len(v), count)
    rho = c * cosines[:, None, :, None]
    np.clip(rho, -1, 1, out=rho)
    value = np.arccos(rho)
    np.subtract(np.pi, value, out=value)
    value *= rho
    rho *= rho
    np.subtract(1, rho, out=rho)
    np.sqrt(rho, out=rho)
    value += rho
    value *= c
    value *= weight_v
    return np.einsum("aib,ai->ab", value.sum(3), weight_u)


def torch_library():
    import torch

    torch.set_grad_enabled(False)

    def block(u, v, cosines, weight_u, weight_v):
        a, count, d1 = u.shape
        c = (u.reshape(-1, d1) @ v.reshape(-1, d1).T).view(a, count, len(v), count)
        rho = (c * cosines[:, None, :, None]).clamp_(-1, 1)
        value = torch.arccos(rho).neg_().add_(math.pi).mul_(rho)
        value += rho.square_().neg_().add_(1).sqrt_()
        value.mul_(c).mul_(weight_v)
        return torch.einsum("aib,ai->ab", value.sum(3), weight_u)

    return torch, block, torch.from_numpy


def jax_library():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    @jax.jit
    def block(u, v, cosines, weight_u, weight_v):
        a, count, d1 = u.shape
        c = (u.reshape(-1, d1) @ v.reshape(-1, d1).T).reshape(a, count, len(v), count)
        rho = jnp.clip(c * cosines[:, None, :, None], -1, 1)
        value = (rho * (math.pi - jnp.arccos(rho)) + jnp.sqrt(1 - rho * rho)) * c
        return jnp.einsum("aibj,ai,bj->ab", value, weight_u, weight_v)

    return jax, block, lambda array: array


LIBRARIES = {
    "numpy": lambda: (np, numpy_block, lambda array: array),
    "torch": torch_library,
    "jax": jax_library,
}


def rfa_kernel(compute, convert, query, keys, block):
    n, count, _ = keys.shape
    queries = np.concatenate([query, np.ones((n, 1))], 1)
    tokens = np.concatenate([keys, np.ones((n, count, 1))], 2)
    query_length, length = np.linalg.norm(queries, axis=1), np.linalg.norm(tokens, axis=2)
    directions = queries / query_length[:, None]
    unit, weight, cosines = map(convert, (tokens / length[..., None], length**2, directions @ directions.T))
    out = np.empty((n, n))
    for a in range(0, n, block):
        i = slice(a, a + block)
        for b in range(0, a + block, block):
            j = slice(b, b + block)
            out[i, j] = compute(unit[i], unit[j], cosines[i, j], weight[i], weight[j])
            out[j, i] = out[i, j].T
    out *= np.outer(query_length, query_length)
    out *= 0.25 / (2 * np.pi * count**2)
    return out


def main():
    library, path, repeats, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    module, compute, convert = LIBRARIES[library]()
    if library == "torch":
        module.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    data = np.load(path)
    query, keys = data["query"], data["keys"]

    def timed(count, block):
        start = clock()
        result = rfa_kernel(compute, convert, query[:count], keys[:count], block)
        return clock() - start, result

    best = (float("inf"), 0)
    for block in (5, 10, 25, 50):
        timed(2 * block, block)  # compiles
        best = min(best, (timed(min(500, len(query)), block)[0], block))
    times = []
    for _ in range(repeats):
        seconds, result = timed(len(query), best[1])
        times.append(seconds)
    print(
        json.dumps(
            {
                "seconds": times,
                "checksum": float(result.sum()),
                "block": best[1],
                "version": module.__version__,
            }
        )
    )


main()
