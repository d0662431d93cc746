"""Noisy labels of layers with one to nine heads: is the number of heads found, and are the heads near the truth?

Run on its own for other seeds and more cases:

    python tests/long/noisy_heads.py --seeds 20 --first 100
"""

import argparse
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
from collections import defaultdict

import numpy as np
from certificate_families import HEADLENS, outputs, random_layer

HEADS, NOISES = range(1, 10), (1e-3, 1e-2, 1e-1)


def judge(case):
    m, noise, seed = case
    rng = np.random.default_rng([20261117, seed])
    theta, w = random_layer(rng, m, 8, 8)
    x = rng.choice([-1.0, 1.0], size=(120 * m, 4, 8))
    y = outputs(theta, w, x) + noise * rng.standard_normal((120 * m, 4, 8))
    with tempfile.TemporaryDirectory() as folder:
        examples, layer = pathlib.Path(folder, "examples.npz"), pathlib.Path(folder, "layer.npz")
        np.savez(examples, X=x, Y=y)
        done = subprocess.run(
            [HEADLENS, "recover", examples, "-o", layer, "--threads", "1", "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode in (0, 3), done.stderr
    c = json.loads(done.stdout)
    return case, c["status"] == "approximate" and c["heads"] == m, c["status"], c["heads"], c["seconds"]


def run(seeds, processes=None):
    cases = [(m, noise, seed) for m in reversed(HEADS) for noise in NOISES for seed in seeds]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(judge, cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    right, slowest, failed = defaultdict(int), defaultdict(float), 0
    for (m, noise, seed), good, status, heads, seconds in run(range(args.first, args.first + args.seeds)):
        right[m, noise] += good
        slowest[m] = max(slowest[m], seconds)
        if not good:
            failed += 1
            print(f"{m} heads, noise {noise}, seed {seed}: {status} with {heads} heads", flush=True)
    for m in HEADS:
        cells = ", ".join(f"{right[m, noise]} of {args.seeds} at {noise:g}" for noise in NOISES)
        print(f"{m} heads: {cells}; slowest {slowest[m]:.1f} s")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
