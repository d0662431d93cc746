"""The afternoon of PyTorch: a student layer trained by Adam, float64, full batch, lr 1e-2 with cosine decay.

adam.py EXAMPLES.npz TRUTH.npz HEADS THREADS LIMIT. Budgets of 1000, 3000, 10000, .. steps, three restarts each, until
the worst relative error of any matched Theta or W falls below 1e-8 or LIMIT seconds have passed. Prints JSON: the
processor seconds of the one run that got there (its failed budgets and restarts not counted), or none. Knowing the truth, the
number of heads and the best budget is a favour to the rival.
"""

import itertools
import json
import math
import sys
import time

import numpy as np
import torch

TARGET, CHECK_EVERY = 1e-8, 50


def forward(x, theta, w):
    logits = torch.einsum("nap,mpq,nbq->mnab", x, theta, x)
    mixed = torch.softmax(logits, dim=-1) @ x
    return torch.einsum("mnap,mpe->nae", mixed, w)


def worst_error(theta, w, true_theta, true_w):
    """Best matching over permutations for few heads, greedy beyond six."""

    def errors(i, j):
        a = torch.linalg.norm(theta[i] - true_theta[j]) / torch.linalg.norm(true_theta[j])
        return max(a.item(), (torch.linalg.norm(w[i] - true_w[j]) / torch.linalg.norm(true_w[j])).item())

    m = len(theta)
    table = [[errors(i, j) for j in range(m)] for i in range(m)]
    if m <= 6:
        return min(max(table[i][p[i]] for i in range(m)) for p in itertools.permutations(range(m)))
    return max(min(row) for row in table)


def train(x, y, heads, steps, seed, truth, deadline):
    torch.manual_seed(seed)
    d, e = x.shape[2], y.shape[2]
    theta = (0.5 / d * torch.randn(heads, d, d, dtype=torch.float64)).requires_grad_()
    w = (torch.randn(heads, d, e, dtype=torch.float64) / math.sqrt(d)).requires_grad_()
    optimiser = torch.optim.Adam([theta, w], lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    start, checking = time.process_time(), 0.0
    for step in range(steps):
        optimiser.zero_grad(set_to_none=True)
        loss = ((forward(x, theta, w) - y) ** 2).mean()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % CHECK_EVERY == CHECK_EVERY - 1:
            before = time.process_time()
            error = worst_error(theta.detach(), w.detach(), *truth)
            checking += time.process_time() - before
            if error < TARGET or time.process_time() > deadline:
                break
    return error, time.process_time() - start - checking, step + 1


def main():
    examples, layer = np.load(sys.argv[1]), np.load(sys.argv[2])
    heads, threads, limit = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    torch.set_num_threads(threads)
    x, y = torch.from_numpy(examples["X"]), torch.from_numpy(examples["Y"])
    truth = torch.from_numpy(layer["Theta"]), torch.from_numpy(layer["W"])
    deadline = time.process_time() + limit
    best = math.inf
    for steps in (1000, 3000, 10000, 30000, 100000):
        for seed in range(3):
            error, seconds, used = train(x, y, heads, steps, seed, truth, deadline)
            best = min(best, error)
            if error < TARGET:
                print(json.dumps({"seconds": seconds, "budget": steps, "steps": used, "error": error}))
                return
            if time.process_time() > deadline:
                print(json.dumps({"seconds": None, "limit": limit, "error": best}))
                return
    print(json.dumps({"seconds": None, "limit": limit, "error": best}))


main()
