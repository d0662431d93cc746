"""PyTorch on a GPU, a worker of bench/cuda.py: the feature map and the whole ridge fit, each in its best form.

Prints JSON: {name: [seconds, ..]}. The map is written as batched products, eager and compiled; the fit reads tensors of
the host, computes features in blocks, centres them, and solves the normal equations by a Cholesky factorisation.
"""

import json
import sys
import time

import torch

N, DIM, KEYS, HEADS, RIDGE = 131072, 16, 16, 1000, 1e-4
BLOCK = 16384


def sets(dtype):
    generator = torch.Generator().manual_seed(7)
    one = torch.ones(N, 1 + KEYS, 1, dtype=dtype)
    return torch.cat([torch.randn(N, 1 + KEYS, DIM, generator=generator, dtype=dtype), one], 2)


def heads(dtype):
    generator = torch.Generator().manual_seed(8)
    return 0.5 * torch.randn(DIM + 1, HEADS * (DIM + 1), generator=generator, dtype=dtype)


def features(tokens, weights):
    query, keys = tokens[:, 0], tokens[:, 1:]
    projected = (query @ weights).view(len(tokens), HEADS, DIM + 1)
    scores = torch.relu(torch.bmm(projected, keys.transpose(1, 2))) / KEYS
    return torch.bmm(scores, keys).view(len(tokens), -1)


def timed(work, repeats):
    work()
    out = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        out.append(time.perf_counter() - start)
    return out


def map_seconds(dtype, repeats, function):
    tokens, weights = sets(dtype).cuda(), heads(dtype).cuda()
    out = torch.empty(N, HEADS * (DIM + 1), dtype=dtype, device="cuda")

    def work():
        for first in range(0, N, BLOCK):
            out[first : first + BLOCK] = function(tokens[first : first + BLOCK], weights)

    return timed(work, repeats)


def fit_seconds(dtype, repeats, function):
    host, weights = sets(dtype), heads(dtype)
    y = host[:, 1, 0] * host[:, 0, 0]

    def work():
        tokens, w, target = host.cuda(), weights.cuda(), y.cuda()
        phi = torch.empty(N, HEADS * (DIM + 1), dtype=dtype, device="cuda")
        for first in range(0, N, BLOCK):
            phi[first : first + BLOCK] = function(tokens[first : first + BLOCK], w)
        phi -= phi.mean(0)
        gram = phi.T @ phi
        gram.diagonal().add_(RIDGE * N)
        factor = torch.linalg.cholesky(gram)
        rhs = phi.T @ (target - target.mean())
        return torch.cholesky_solve(rhs[:, None], factor).cpu()

    return timed(work, repeats)


def main():
    repeats, out = int(sys.argv[1]), {}
    out["torch"] = torch.__version__
    compiled = torch.compile(features)
    for dtype, name in ((torch.float32, "f32"), (torch.float64, "f64")):
        for function, form in ((features, "eager"), (compiled, "compiled")):
            out[f"features {name} {form}"] = map_seconds(dtype, repeats, function)
            torch.cuda.empty_cache()
    for dtype, name, tf32 in (
        (torch.float32, "f32", False),
        (torch.float32, "tf32", True),
        (torch.float64, "f64", False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        out[f"fit {name}"] = fit_seconds(dtype, repeats, features)
        torch.cuda.empty_cache()
    torch.backends.cuda.matmul.allow_tf32 = True
    out["features tf32 eager"] = map_seconds(torch.float32, repeats, features)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
