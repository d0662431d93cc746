"""The afternoon of PyTorch for a large layer: a student in the same factors Q, K, V, O, tuned Adam, float32 and then float64.

factor_adam.py EXAMPLES.npz HEADS RANK THREADS LIMIT. Half as many heads again as there are, which removes plateaus; rate 3e-3 with
100 steps of warm-up and cosine decay over budgets of 500, 1000, 2000, .. steps, batches of 100 examples; float32 until the error
on held-out examples stops falling, then float64 from there with a tenth of the rate. Prints JSON: the seconds of the first run whose
held-out error |F - Y| / |Y| is below 1e-8 (failed budgets not counted), or none and the best error. Asking for outputs instead of
heads is a favour to the rival: heads would still have to be merged.
"""

import json
import math
import sys
import time

import numpy as np
import torch

TARGET, CHECK_EVERY, BATCH = 1e-8, 50, 100


def forward(x, p, heads):
    b, k, _ = x.shape
    q, key, v = (t.view(b, k, heads, -1).transpose(1, 2) for t in (x @ p[0], x @ p[1], x @ p[2]))
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        mixed = torch.nn.functional.scaled_dot_product_attention(q, key, v, scale=1.0)
    else:  # PyTorch before 2.0, as Debian 12 has
        mixed = torch.softmax(q @ key.transpose(-1, -2), -1) @ v
    return mixed.transpose(1, 2).reshape(b, k, -1) @ p[3]


def start(d, e, heads, rank, seed):
    torch.manual_seed(seed)
    size, width = 0.7 / (d * d * rank) ** 0.25, heads * rank
    shapes = [((d, width), size), ((d, width), size), ((d, width), 0.3 / d**0.5), ((width, e), 0.3 / d**0.5)]
    return [torch.nn.Parameter(torch.randn(*shape) * scale) for shape, scale in shapes]


def train(data, parameters, heads, steps, rate, until):
    """Until the error is below the target, the steps are used up, or `until` is past. Returns the best held-out error."""
    x, y, held_x, held_y = data
    optimiser = torch.optim.Adam(parameters, lr=rate, betas=(0.9, 0.98))
    order, at, best = torch.randperm(len(x)), 0, math.inf
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = (
            rate * min(1, (step + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * step / steps))
        )
        if at + BATCH > len(x):
            order, at = torch.randperm(len(x)), 0
        batch, at = order[at : at + BATCH], at + BATCH
        loss = ((forward(x[batch], parameters, heads) - y[batch]) ** 2).sum() / (y[batch] ** 2).sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % CHECK_EVERY == CHECK_EVERY - 1:
            with torch.no_grad():
                miss = forward(held_x, parameters, heads) - held_y
            best = min(best, (miss.norm() / held_y.norm()).item())
            if best < TARGET or time.perf_counter() > until:
                break
    return best


def main():
    examples = np.load(sys.argv[1])
    heads, rank, threads, limit = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    torch.set_num_threads(threads)
    x, y = (torch.from_numpy(examples[name]) for name in ("X", "Y"))
    cut = len(x) - 128
    whole = (x[:cut], y[:cut], x[cut:], y[cut:])
    single = tuple(t.float() for t in whole)
    students = (3 * heads + 1) // 2
    deadline, best = time.perf_counter() + limit, math.inf
    for steps in (500, 1000, 2000, 4000, 8000, 16000, 32000):
        begin = time.perf_counter()
        parameters = start(x.shape[2], y.shape[2], students, rank, steps)
        train(single, parameters, students, steps, 3e-3, deadline)
        parameters = [torch.nn.Parameter(p.detach().double()) for p in parameters]
        best = min(best, train(whole, parameters, students, steps, 3e-4, deadline))
        if best < TARGET:
            print(json.dumps({"seconds": time.perf_counter() - begin, "budget": steps, "error": best}))
            return
        if time.perf_counter() > deadline:
            break
    print(json.dumps({"seconds": None, "limit": limit, "error": best}))


main()
