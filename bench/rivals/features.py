"""The feature map in NumPy or PyTorch, as fast as it goes: features.py numpy|torch DATA.npz REPEATS THREADS [BLOCK].

Three batched products a block of sets: project the queries through all heads in one GEMM, score the keys, mix them.
The block size, unless given, is tuned first over a fifth of the data, and so is the form of the products.
"""

import json
import sys
import time

import numpy as np


def numpy_map(heads, query, keys):
    m, d1, _ = heads.shape
    flat = np.ascontiguousarray(heads.transpose(1, 0, 2).reshape(d1, m * d1))
    tokens = np.concatenate([query[:, None], keys], 1)
    ones = np.ones((*tokens.shape[:2], 1), tokens.dtype)
    tokens = np.concatenate([tokens, ones], 2)
    n_keys = keys.shape[1]

    def batched(first, last, out):
        kt = tokens[first:last, 1:]
        a = (tokens[first:last, 0] @ flat).reshape(-1, m, d1)
        s = np.matmul(a, kt.transpose(0, 2, 1))
        np.maximum(s, 0, out=s)
        np.matmul(s, kt, out=out)
        out *= 1.0 / n_keys

    def einsum(first, last, out):
        kt = tokens[first:last, 1:]
        a = (tokens[first:last, 0] @ flat).reshape(-1, m, d1)
        s = np.einsum("nmj,nkj->nmk", a, kt, optimize=True)
        np.maximum(s, 0, out=s)
        s *= 1.0 / n_keys
        np.einsum("nmk,nkj->nmj", s, kt, out=out, optimize=True)

    return (
        {"matmul": batched, "einsum": einsum},
        lambda rows: np.empty((rows, m, d1), heads.dtype),
        len(query),
    )


def torch_map(heads, query, keys):
    import torch

    torch.set_grad_enabled(False)
    m, d1, _ = heads.shape
    flat = torch.from_numpy(np.ascontiguousarray(heads.transpose(1, 0, 2).reshape(d1, m * d1)))
    tokens = torch.from_numpy(np.concatenate([query[:, None], keys], 1))
    tokens = torch.cat([tokens, torch.ones(*tokens.shape[:2], 1, dtype=tokens.dtype)], 2)
    n_keys = keys.shape[1]

    def batched(first, last, out):
        kt = tokens[first:last, 1:]
        a = (tokens[first:last, 0] @ flat).view(-1, m, d1)
        s = torch.bmm(a, kt.transpose(1, 2)).relu_()
        torch.bmm(s, kt, out=out)
        out *= 1.0 / n_keys

    def scaled_keys(first, last, out):
        kt = tokens[first:last, 1:]
        a = (tokens[first:last, 0] @ flat).view(-1, m, d1)
        torch.bmm(torch.bmm(a, kt.transpose(1, 2)).relu_(), kt * (1.0 / n_keys), out=out)

    dtype = flat.dtype
    return (
        {"bmm": batched, "bmm, scaled keys": scaled_keys},
        lambda rows: torch.empty(rows, m, d1, dtype=dtype),
        len(query),
    )


def sweep(function, make, count, block):
    out = make(block)
    for first in range(0, count, block):
        last = min(count, first + block)
        function(first, last, out[: last - first])


def main():
    library, path, repeats, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    data = np.load(path)
    if library == "torch":
        import torch

        torch.set_num_threads(threads)
    forms, make, n = (numpy_map if library == "numpy" else torch_map)(
        data["heads"], data["query"], data["keys"]
    )
    best = (float("inf"), None, None)
    for form, function in forms.items():
        for block in (int(sys.argv[5]),) if len(sys.argv) > 5 else (1, 4, 16, 64, 256):
            start = time.perf_counter()
            sweep(function, make, n // 5, block)
            best = min(best, (time.perf_counter() - start, form, block))
    _, form, block = best
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        sweep(forms[form], make, n, block)
        times.append(time.perf_counter() - start)
    out = make(1)
    forms[form](0, 1, out)
    version = __import__(library).__version__
    print(
        json.dumps(
            {"seconds": times, "checksum": float(out.sum()), "form": form, "block": block, "version": version}
        )
    )


if __name__ == "__main__":
    main()
