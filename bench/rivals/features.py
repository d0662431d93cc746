"""The feature map in NumPy, PyTorch or JAX, as fast as it goes: features.py numpy|torch|jax THREADS.

A worker of bench/feature_map.py: each line of JSON on standard input is one question, each answer one line.
    {"data": FILE.npz, "repeats": R, "block": B or 0}   seconds of R passes, best form and block (0: tuned)
    {"gemm": "float32" or "float64"}                    GFLOP/s of a square product of size 1536

Three batched products a block of sets: project the queries through all heads in one GEMM, score the keys, mix them; with
the coordinates or the heads last. Form, block and, with several threads, who shares the work out (the library within a
product, or one block to each thread) are tuned once a shape. Ragged sets are padded with zero tokens, trailing 1 included:
relu leaves nothing of them; a block is padded to its own largest set. Seconds are of the processor for one thread, of the
wall for more.
"""

import concurrent.futures
import json
import sys
import time

import numpy as np

BLOCKS = (1, 4, 15, 60, 240)


def extended_tokens(query, keys):
    """(n, 1 + N, D), the query first. keys (n, N, d) may be padded with NaN."""
    tokens = np.concatenate([query[:, None], keys], 1)
    tokens = np.concatenate([tokens, np.ones((*tokens.shape[:2], 1), tokens.dtype)], 2)
    tokens[np.isnan(tokens[..., 0])] = 0
    return tokens


def flat_heads(heads):
    """W as one matrix (D, M D) and, for the other order of the products, (D, D M)."""
    m, d1, _ = heads.shape
    first = np.ascontiguousarray(heads.transpose(1, 0, 2).reshape(d1, m * d1))
    return first, np.ascontiguousarray(heads.transpose(1, 2, 0).reshape(d1, d1 * m))


def shapes(heads, keys):
    m, d1, _ = heads.shape
    sizes = np.count_nonzero(~np.isnan(keys[..., 0]), 1)
    return m, d1, sizes, (1.0 / sizes).astype(keys.dtype)[:, None, None]


def numpy_map(heads, query, keys):
    m, d1, sizes, scale = shapes(heads, keys)
    by_head, by_coordinate = flat_heads(heads)
    tokens = extended_tokens(query, keys)

    def heads_first(first, last, out):
        kt = tokens[first:last, 1 : 1 + sizes[first:last].max()]
        a = (tokens[first:last, 0] @ by_head).reshape(-1, m, d1)
        s = np.matmul(a, kt.transpose(0, 2, 1))
        np.maximum(s, 0, out=s)
        np.matmul(s, kt * scale[first:last], out=out)

    def heads_last(first, last, out):
        kt = tokens[first:last, 1 : 1 + sizes[first:last].max()]
        a = (tokens[first:last, 0] @ by_coordinate).reshape(-1, d1, m)
        s = np.matmul(kt, a)
        np.maximum(s, 0, out=s)
        np.matmul((kt * scale[first:last]).transpose(0, 2, 1), s, out=out.reshape(-1, d1, m))

    return (
        {"heads first": heads_first, "heads last": heads_last},
        lambda rows: np.empty((rows, m, d1), heads.dtype),
        len(query),
    )


def torch_map(heads, query, keys):
    import torch

    torch.set_grad_enabled(False)
    m, d1, sizes, scale = shapes(heads, keys)
    by_head, by_coordinate = (torch.from_numpy(flat) for flat in flat_heads(heads))
    tokens, scale = torch.from_numpy(extended_tokens(query, keys)), torch.from_numpy(scale)

    def heads_first(first, last, out):
        kt = tokens[first:last, 1 : 1 + sizes[first:last].max()]
        a = (tokens[first:last, 0] @ by_head).view(-1, m, d1)
        torch.bmm(torch.bmm(a, kt.transpose(1, 2)).relu_(), kt * scale[first:last], out=out)

    def heads_last(first, last, out):
        kt = tokens[first:last, 1 : 1 + sizes[first:last].max()]
        a = (tokens[first:last, 0] @ by_coordinate).view(-1, d1, m)
        s = torch.bmm(kt, a).relu_()
        torch.bmm((kt * scale[first:last]).transpose(1, 2), s, out=out.view(-1, d1, m))

    return (
        {"heads first": heads_first, "heads last": heads_last},
        lambda rows: torch.empty(rows, m, d1, dtype=tokens.dtype),
        len(query),
    )


def jax_map(heads, query, keys):
    """Shapes are fixed when compiled, so ragged blocks are padded to the largest set of all. Results are new arrays."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    m, d1, _, scale = shapes(heads, keys)
    by_head, by_coordinate = map(jnp.asarray, flat_heads(heads))
    tokens = extended_tokens(query, keys)

    @jax.jit
    def heads_first(w, xt, scale):
        kt = xt[:, 1:]
        s = jax.nn.relu(jnp.matmul((xt[:, 0] @ w).reshape(-1, m, d1), kt.transpose(0, 2, 1)))
        return jnp.matmul(s, kt * scale)

    @jax.jit
    def heads_last(w, xt, scale):
        kt = xt[:, 1:]
        s = jax.nn.relu(jnp.matmul(kt, (xt[:, 0] @ w).reshape(-1, d1, m)))
        return jnp.matmul((kt * scale).transpose(0, 2, 1), s)

    def blockwise(function, w):
        def compute(first, last, out):
            out[0] = function(w, tokens[first:last], scale[first:last])
            out[0].block_until_ready()

        return compute

    return (
        {
            "heads first": blockwise(heads_first, by_head),
            "heads last": blockwise(heads_last, by_coordinate),
        },
        lambda rows: [None],
        len(query),
    )


MAPS = {"numpy": numpy_map, "torch": torch_map, "jax": jax_map}


class Contender:
    def __init__(self, library, threads):
        self.library, self.threads = library, threads
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.pool = concurrent.futures.ThreadPoolExecutor(threads) if threads > 1 else None
        self.path, self.case, self.tuned = None, None, {}
        self.set_threads(threads)

    def set_threads(self, threads):
        if self.library == "torch":
            import torch

            torch.set_num_threads(threads)
        if self.library != "jax" and self.threads > 1:
            import threadpoolctl

            threadpoolctl.threadpool_limits(threads)

    def sweep(self, function, begin, end, block):
        out = self.make(min(block, end - begin))
        for first in range(begin, end, block):
            last = min(end, first + block)
            function(first, last, out[: last - first] if self.library != "jax" else out)

    def timed(self, form, block, shared, count):
        """One pass over `count` sets; `shared`: each thread takes its own blocks."""
        function = self.forms[form]
        self.set_threads(1 if shared else self.threads)
        start = self.clock()
        if shared:
            edges = [count * i // self.threads // block * block for i in range(self.threads)] + [count]
            parts = [self.pool.submit(self.sweep, function, a, b, block) for a, b in zip(edges, edges[1:])]
            for part in parts:
                part.result()
        else:
            self.sweep(function, 0, count, block)
        return self.clock() - start

    def tune(self, given):
        count = max(120, self.count // 8 // 240 * 240)
        best = (float("inf"), None, None, None)
        for form in self.forms:
            for block in (given,) if given else [block for block in BLOCKS if block <= count]:
                for shared in (False, True) if self.threads > 1 and self.library != "jax" else (False,):
                    some = min(count, max(60, block * self.threads))
                    if self.library == "jax":
                        self.timed(form, block, shared, block)  # compiles
                    # A first look spares hopeless choices the whole of it.
                    if self.timed(form, block, shared, some) > 2 * best[0] * some / count:
                        continue
                    best = min(best, (self.timed(form, block, shared, count), form, block, shared))
        return best[1:]

    def load(self, path):
        if path == self.path:
            return
        data = np.load(path)
        self.forms, self.make, self.count = MAPS[self.library](data["heads"], data["query"], data["keys"])
        self.path, self.key = path, (data["heads"].shape, data["keys"].shape[1:], str(data["heads"].dtype))

    def run(self, path, repeats, block):
        self.load(path)
        key = (*self.key, block)
        if key not in self.tuned:
            self.tuned[key] = self.tune(block)
        form, block, shared = self.tuned[key]
        self.timed(form, block, shared, min(self.count, 240))
        reset_peak()
        seconds = [self.timed(form, block, shared, self.count) for _ in range(repeats)]
        peak = peak_mib()
        out = self.make(1)
        self.forms[form](0, 1, out)
        return {
            "seconds": seconds,
            "checksum": float(np.asarray(out[0]).sum(dtype=np.float64)),
            "form": form + (", blocks on threads" if shared else ""),
            "block": block,
            "peak_mib": peak,
            "version": sys.modules[self.library].__version__,
        }

    def gemm(self, precision):
        size = 1536
        a, b = np.full((size, size), 0.5, precision), np.full((size, size), 2.0, precision)
        if self.library == "torch":
            import torch

            a, b = torch.from_numpy(a), torch.from_numpy(b)
        self.set_threads(self.threads)
        start = self.clock()
        a @ b
        return {"gflops": 2e-9 * size**3 / (self.clock() - start)}


def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def peak_mib():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def main():
    contender = Contender(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        question = json.loads(line)
        if "gemm" in question:
            answer = contender.gemm(question["gemm"])
        else:
            answer = contender.run(question["data"], question["repeats"], question["block"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
