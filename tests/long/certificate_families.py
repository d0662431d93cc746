"""Layers that are hard to tell apart, drawn from families, and what a certificate says of each.

A layer that is called recovered comes with bars: |Theta - true Theta| / |true Theta| and the same of W stay
below them. One that does not is a false certificate. Run on its own for other seeds and more cases:

    python tests/long/certificate_families.py --count 10000 --seed 7

With --in-factors heads have a low rank, and recovery looks for their factors (recover --rank), as in large layers.
"""

import argparse
import functools
import itertools
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict

import numpy as np

HEADLENS = os.environ.get("HEADLENS", str(pathlib.Path(__file__).resolve().parents[2] / "build/headlens"))
TIME_LIMIT = 20.0  # seconds per case; a case that runs out of time is stalled, which promises nothing
BELOW_ROUNDING = 1e-13  # of the labels: what sums in float64 may leave when they are taken in another order
ROUNDING = 1e-14  # of the entries themselves, when an error is measured


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def outputs(theta, w, x):
    return sum(softmax(x @ t @ x.transpose(0, 2, 1)) @ x @ v for t, v in zip(theta, w, strict=True))


def random_layer(rng, m, d, e, scale=2.0):
    theta = rng.standard_normal((m, d, d))
    theta *= scale / np.linalg.norm(theta, axis=(1, 2))[:, None, None]
    return theta, rng.standard_normal((m, d, e)) / np.sqrt(d)


def log_uniform(rng, low, high):
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


# Each family changes a random layer (theta, w) in place, or returns another.


def plain(rng, theta, w):
    pass


def near_parallel(rng, theta, w):
    """Two heads whose Theta differ by 1e-1 to 1e-8 of their size."""
    i, j = rng.permutation(len(theta))[:2]
    scale = np.linalg.norm(theta[i]) / theta.shape[1]
    theta[j] = theta[i] + log_uniform(rng, 1e-8, 1e-1) * scale * rng.standard_normal(theta[i].shape)


def all_near_parallel(rng, theta, w):
    scale = np.linalg.norm(theta[0]) / theta.shape[1]
    theta[1:] = theta[0] + log_uniform(rng, 1e-6, 1e-1) * scale * rng.standard_normal(theta[1:].shape)


def near_opposite_w(rng, theta, w):
    """Near-parallel heads whose W nearly cancel: what is left is a derivative of one head."""
    near_parallel(rng, theta, w)
    gaps = [
        (np.linalg.norm(theta[i] - theta[j]), i, j) for i, j in itertools.combinations(range(len(theta)), 2)
    ]
    _, i, j = min(gaps)
    w[j] = -w[i] + log_uniform(rng, 1e-4, 1) * w[j]


def small_logits(rng, theta, w):
    theta *= log_uniform(rng, 1e-5, 1e-1)


def large_logits(rng, theta, w):
    theta *= log_uniform(rng, 4, 40)


def tiny_w(rng, theta, w):
    w[rng.integers(len(w))] *= log_uniform(rng, 1e-9, 1e-2)


def rank_one(rng, theta, w):
    for a in theta, w:
        for i in range(len(a)):
            u, s, v = np.linalg.svd(a[i])
            a[i] = np.linalg.norm(s) * np.outer(u[:, 0], v[0])


def repeated_w(rng, theta, w):
    w[1:] = w[0] * rng.choice([-1.0, 1.0])


def unequal_scales(rng, theta, w):
    for i in range(len(theta)):
        theta[i] *= log_uniform(rng, 1e-2, 4)
        w[i] *= log_uniform(rng, 1e-3, 1e3)


def mean_pooling(rng, theta, w):
    theta[rng.integers(len(theta))] = 0


def repeated_theta(rng, theta, w):
    theta[1] = theta[0]


def one_coordinate(rng, theta, w):
    """Theta that looks at one coordinate of the tokens only."""
    keep = rng.integers(theta.shape[1])
    scale = np.linalg.norm(theta[0])
    theta[0] = 0
    theta[0][:, keep] = scale * rng.standard_normal(theta.shape[1]) / np.sqrt(theta.shape[1])


FAMILIES = [
    plain,
    near_parallel,
    all_near_parallel,
    near_opposite_w,
    small_logits,
    large_logits,
    tiny_w,
    rank_one,
    repeated_w,
    unequal_scales,
    mean_pooling,
    repeated_theta,
    one_coordinate,
]
NEEDS_TWO = {near_parallel, all_near_parallel, near_opposite_w, repeated_w, repeated_theta}


def cut_to_rank(heads, rank):
    u, s, v = np.linalg.svd(heads, full_matrices=False)
    return (u[..., :rank] * s[:, None, :rank]) @ v[:, :rank]


def draw_case(seed, in_factors=False):
    """Family, description, twice the examples that recovery will get, the layer of one case and the rank of its heads."""
    rng = np.random.default_rng([20261117 if in_factors else 20261116, seed])
    family = FAMILIES[seed % len(FAMILIES)]
    m = int(rng.integers(2 if family in NEEDS_TWO else 1, 4))
    d = int(rng.choice([6, 8, 9, 12] if in_factors else [2, 3, 4, 5, 6, 7]))
    e = int(rng.choice([d, d, 1, 2, d + 3]))
    k = int(rng.choice([2, 3, 4, 5]))
    n = int(np.ceil(rng.uniform(1.5, 40) * m * d * (d + e) / (k * e))) + 2
    theta, w = random_layer(rng, m, d, e, scale=float(rng.choice([0.5, 2.0, 4.0])))
    family(rng, theta, w)
    if rng.random() < 0.2 and family not in (near_parallel, all_near_parallel, near_opposite_w):
        second = FAMILIES[rng.integers(len(FAMILIES))]  # corners of two families at once
        if m > 1 or second not in NEEDS_TWO:
            second(rng, theta, w)
    rank = int(rng.integers(1, d // 2 + 1)) if in_factors else d
    if in_factors:
        theta, w = cut_to_rank(theta, rank), cut_to_rank(w, rank)
    inputs = str(rng.choice(["gaussian", "signs", "stretched", "offset"]))
    x = rng.standard_normal((2 * n, k, d))
    if inputs == "signs":
        x = np.sign(x)
    if inputs == "stretched":  # coordinates of unequal size, the layer compensated
        sizes = np.exp(rng.uniform(-4, 4, d))
        x, theta, w = x * sizes, theta / sizes[:, None] / sizes, w / sizes[:, None]
    if inputs == "offset":  # all tokens far from zero, logits of ordinary size or sharp
        far = log_uniform(rng, 1, 1e4)
        x, theta = x + far * rng.standard_normal(d), theta / far ** int(rng.integers(0, 3))
    what = f"{family.__name__} m={m} d={d} e={e} k={k} n={n} rank={rank} {inputs}"
    return family.__name__, what, x, theta, w, rank


def canonical(theta, w, x, y):
    """The layer as labels in float64 can show it: heads that are one up to rounding as one, heads below it left out."""
    heads = [(t, v) for t, v in zip(theta, w, strict=True) if np.linalg.norm(v) > 0]
    hidden = BELOW_ROUNDING * np.linalg.norm(y)

    def first_pair():
        for (i, (t, v)), (j, (s, u)) in itertools.combinations(enumerate(heads), 2):
            share = np.linalg.norm(v) / (np.linalg.norm(v) + np.linalg.norm(u))
            one = (t if np.array_equal(t, s) else share * t + (1 - share) * s, v + u)
            both = outputs([t, s], [v, u], x)
            if np.linalg.norm(outputs([one[0]], [one[1]], x) - both) <= hidden:
                return i, j, one
        return None

    while pair := first_pair():
        i, j, one = pair
        heads = [head for k, head in enumerate(heads) if k not in (i, j)] + [one]
    heads = [(t, v) for t, v in heads if np.linalg.norm(outputs([t], [v], x)) > hidden]
    return np.array([t for t, _ in heads]), np.array([v for _, v in heads])


def relative(a, b):
    size = np.linalg.norm(b)
    return np.linalg.norm(a - b) / size if size > 0 else float(np.linalg.norm(a) > 0)


def excess(found, per_head, theta, w):
    """The largest error in units of its bar, over the best matching of heads."""
    best = float("inf")
    for order in itertools.permutations(range(len(theta))):
        worst = 0.0
        for i, j in enumerate(order):
            for error, bar in (
                (relative(found["Theta"][i], theta[j]), per_head[i]["theta_error_bar"]),
                (relative(found["W"][i], w[j]), per_head[i]["w_error_bar"]),
            ):
                worst = max(worst, error / max(bar, ROUNDING))
        best = min(best, worst)
    return best


def same_function(found, theta, w, x):
    """Whether labels in float64 could tell the two layers apart, on examples that were not given."""
    y = outputs(theta, w, x)
    difference = np.linalg.norm(outputs(found["Theta"], found["W"], x) - y)
    return difference <= BELOW_ROUNDING * np.linalg.norm(y)


def falsehood(found, per_head, theta, w, x, fresh):
    """The largest error in units of its bar; infinite where the number of heads is wrong.

    A certificate speaks of the simplest layer. Heads with one W and logits of 1e-4 act to first order, so that their
    sum is a single head in all digits that a label has; such a layer of fewer heads is no falsehood.
    """
    theta, w = canonical(theta, w, x, outputs(theta, w, x))
    if len(found["Theta"]) < len(theta) and same_function(found, theta, w, fresh):
        return 0.0
    return excess(found, per_head, theta, w) if len(found["Theta"]) == len(theta) else float("inf")


def judge(seed, in_factors=False):
    family, what, both, theta, w, rank = draw_case(seed, in_factors)
    x, fresh = np.split(both, 2)
    y = outputs(theta, w, x)
    with tempfile.TemporaryDirectory() as folder:
        examples, layer = pathlib.Path(folder, "examples.npz"), pathlib.Path(folder, "layer.npz")
        np.savez(examples, X=x, Y=y)
        options = ["--threads", "1", "--time-limit", str(TIME_LIMIT), "--json"]
        if in_factors:
            options += ["--rank", str(rank), "--max-heads", "6"]
        done = subprocess.run(
            [HEADLENS, "recover", examples, "-o", layer, *options],
            capture_output=True,
            text=True,
            timeout=10 * TIME_LIMIT,
            check=False,
        )
        if done.returncode not in (0, 3):
            return seed, family, what, f"exit {done.returncode}: {done.stderr[-300:]}", float("inf"), 1.0, 0.0
        certificate = json.loads(done.stdout)
        over = 0.0
        if certificate["status"] == "recovered":
            over = falsehood(dict(np.load(layer)), certificate["per_head"], theta, w, x, fresh)
    status, error = certificate["status"], certificate["held_out_error"]
    return seed, family, what, status, over, error, certificate["seconds"]


def run(seeds, processes=None, in_factors=False):
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(functools.partial(judge, in_factors=in_factors), seeds, chunksize=4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--in-factors", action="store_true", help="heads of low rank, recovered in factors")
    parser.add_argument("--verbose", action="store_true", help="one line per case that was not recovered")
    args = parser.parse_args()
    statuses, slowest, total, false = defaultdict(Counter), 0.0, 0.0, []
    for result in run(range(args.seed, args.seed + args.count), args.processes, args.in_factors):
        seed, family, what, status, over, held_out, seconds = result
        statuses[family][status] += 1
        slowest, total = max(slowest, seconds), total + seconds
        if over > 1:
            false.append(seed)
            print(
                f"FALSE seed {seed}: {what}: {status}, error {over:.3g} bars, held-out {held_out:.1e}",
                flush=True,
            )
        elif args.verbose and status != "recovered":
            print(f"seed {seed}: {what}: {status}, held-out {held_out:.1e}, {seconds:.1f} s", flush=True)
    for family, counts in sorted(statuses.items()):
        print(f"{family:<18}", ", ".join(f"{n} {status}" for status, n in counts.most_common()))
    print(
        f"{len(false)} false certificates in {args.count} cases; slowest {slowest:.1f} s, sum {total:.0f} s"
    )
    return bool(false)


if __name__ == "__main__":
    sys.exit(main())
