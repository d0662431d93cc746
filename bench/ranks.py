"""What ranks cost and gain: the figures of docs/clusters.md, in one command. Needs Open MPI (scripts/setup mpi).

    .venv/bin/python bench/ranks.py           a quarter of an hour on two quiet cores
    .venv/bin/python bench/ranks.py --quick   a tenth of the sets: minutes, and no judgement of the aims

- overhead    2 ranks of 1 thread against 1 process of 2 threads, n = 200000, M = 500 (d = 4, 4 keys): within 10%
- one rank    `mpirun -n 1` against no mpirun: within 3%
- weak        2 ranks with twice the sets against 1 rank: above 90%
- bytes       what rank 0 got against the formula of the page
- model       T = start + (n / R) p (a + b p) + c p^3, fitted to the seconds of 1, 2 and 4 ranks, then told for R nodes and 10^9 sets
- recovery    1, 2 and 4 ranks on a layer of 8 heads, d = 64

Runs alternate, and medians are compared. Seconds of a wall tell of a quiet machine only; processor seconds, which are those of all
ranks together, hardly change beside other work. Four ranks share the two cores of a small machine: their processor seconds count.
Writes bench/results/ranks.json.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from contest import ROOT, checked_machine, write

HEADLENS = str(ROOT / "build/headlens")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n"]
QUICK = "--quick" in sys.argv
SHARE = 10 if QUICK else 1
ROUNDS = 1 if QUICK else 3
DIM, KEYS = 4, 4
BANDWIDTH = 1e9  # bytes per second, for the extrapolation: 10 Gbit/s
NODES = (10, 100, 1000)


def measured(words, ranks=0):
    """JSON, wall and processor seconds of a command, under mpirun where ranks are given."""
    words = [*(MPIRUN + [str(ranks)] if ranks else []), HEADLENS, *map(str, words), "--json"]
    begin = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text, said = process.communicate()
    wall = time.perf_counter() - begin
    if process.returncode:
        sys.exit(f"bench: {' '.join(words)} failed: {said}")
    return json.loads(text), wall


def timed(words, ranks=0):
    before = os.times()
    found, wall = measured(words, ranks)
    after = os.times()
    processor = sum(
        b - a
        for a, b in zip(
            (before.children_user, before.children_system),
            (after.children_user, after.children_system),
            strict=True,
        )
    )
    return {"json": found, "wall": wall, "fit": found["seconds"], "processor": processor}


def generate(folder, count):
    path = folder / f"{count}.npz"
    if not path.exists():
        shape = ["--degree", 2, "--dim", DIM, "--keys", KEYS, "--count", count, "--seed", 1]
        measured(["generate", "power-mean", *shape, "-o", path])
    return path


def fit_words(folder, count, heads, threads):
    data = generate(folder, count)
    options = ["--heads", heads, "--solver", "primal", "--ridge", "1e-3", "--threads", threads]
    return ["fit", data, *options, "-o", folder / "model.hlm"]


def alternate(cases):
    """Medians over rounds in which every case runs once."""
    runs = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, (words, ranks) in cases.items():
            runs[name].append(timed(words, ranks))
    return {
        name: {key: statistics.median(run[key] for run in some) for key in ("wall", "fit", "processor")}
        for name, some in runs.items()
    }


def compared(found, ours, theirs):
    return {key: found[ours][key] / found[theirs][key] for key in ("wall", "fit", "processor")}


def overhead(folder):
    n = 200000 // SHARE
    found = alternate({
        "one process, 2 threads": (fit_words(folder, n, 500, 2), 0),
        "2 ranks": (fit_words(folder, n, 500, 1), 2),
        "one process, 1 thread": (fit_words(folder, n // 2, 500, 1), 0),
        "mpirun -n 1": (fit_words(folder, n // 2, 500, 1), 1),
    })  # fmt: skip
    # Of twice the sets on twice the ranks: the same seconds, or the same processor seconds per rank.
    weak = {key: found["mpirun -n 1"][key] / found["2 ranks"][key] for key in ("wall", "fit")}
    weak["processor"] = 2 * found["mpirun -n 1"]["processor"] / found["2 ranks"]["processor"]
    return {
        "runs": found,
        "2 ranks over 2 threads (aim: 1.10)": compared(found, "2 ranks", "one process, 2 threads"),
        "one rank over plain (aim: 1.03)": compared(found, "mpirun -n 1", "one process, 1 thread"),
        "weak scaling, 1 to 2 ranks (aim: 0.90)": weak,
    }


def formula(n, heads, iterations):
    """Bytes that a rank gets in a primal fit in single precision: the triangle; vectors in double, with heads rounded up to 16, for
    every iteration and for means, bounds, right side and checks; the targets. Words and single numbers come on top."""
    p, padded = heads * (DIM + 1), -(-heads // 16) * 16 * (DIM + 1)
    return 4 * p * (p + 1) / 2 + 8 * padded * (iterations + 7) + 8 * n


def exchanged(folder):
    rows = []
    for n, heads, ranks in ((20000, 250, 2), (40000, 250, 4), (20000, 500, 2), (20000, 500, 3)):
        found = timed(fit_words(folder, n // SHARE, heads, 1), ranks)["json"]
        expected = formula(n // SHARE, heads, found["iterations"])
        rows.append({"sets": n // SHARE, "heads": heads, "ranks": ranks, "iterations": found["iterations"],
                     "bytes": found["exchanged_bytes"], "formula": expected,
                     "words and numbers": found["exchanged_bytes"] - expected})  # fmt: skip
    return rows


def model(folder):
    """Processor seconds per rank of fits on 1, 2 and 4 ranks, fitted with coefficients of 0 or more."""
    rows, seconds, cases = [], [], []
    for ranks in (1, 2, 4):
        for heads in (100, 250, 500):
            for per_rank in (10000 // SHARE, 40000 // SHARE):
                run = timed(fit_words(folder, per_rank * ranks, heads, 1), ranks)
                p = heads * (DIM + 1)
                rows.append([1, per_rank * p, per_rank * p * p, p**3])
                seconds.append(run["processor"] / ranks)
                cases.append(
                    {
                        "ranks": ranks,
                        "sets": per_rank * ranks,
                        "heads": heads,
                        "processor seconds per rank": seconds[-1],
                    }
                )
    # The same relative error counts the same, however long the fit.
    a, y = np.array(rows, float) / np.array(seconds)[:, None], np.ones(len(rows))
    scale = np.abs(a).max(axis=0)
    free = list(range(a.shape[1]))
    while True:  # least squares, without coefficients below 0
        solved = np.linalg.lstsq(a[:, free] / scale[free], y, rcond=None)[0]
        if (solved >= 0).all():
            break
        free.pop(int(np.argmin(solved)))
    coefficients = np.zeros(a.shape[1])
    coefficients[free] = solved / scale[free]
    errors = {
        r: float(np.abs(a @ coefficients - 1)[[c["ranks"] == r for c in cases]].max()) for r in (1, 2, 4)
    }
    told = []
    for nodes in NODES:
        p, n = 2500, 1e9
        work = n / nodes * p * (coefficients[1] + coefficients[2] * p)
        reduction = 2 * formula(n, 500, 6) / BANDWIDTH
        told.append({"nodes": nodes, "features and Gram matrix": work, "reduction": reduction,
                     "factorisation": coefficients[3] * p**3, "in all": work + reduction + coefficients[3] * p**3})  # fmt: skip
    names = ("start", "per feature", "per product", "per p^3")
    return {"seconds": dict(zip(names, coefficients.tolist(), strict=True)), "largest relative error by ranks": errors,
            "cases": cases, "10^9 sets, M = 500, one thread per node": told}  # fmt: skip


def recovery(folder):
    examples = folder / "layer.npz"
    shape = ["--heads", 8, "--dim", 64, "--rank", 8, "--tokens", 6, "--count", 9000 // (4 if QUICK else 1)]
    measured(["generate", "attention-layer", *shape, "--seed", 1, "-o", examples])
    out = []
    for ranks in (0, 2, 4):
        words = ["recover", examples, "--heads", 8, "--rank", 8, "--threads", 1, "-o", folder / "found.npz"]
        run = timed(words, ranks)
        out.append({"ranks": ranks or 1, "status": run["json"]["status"], "held-out error": run["json"]["held_out_error"],
                    "wall": run["wall"], "processor": run["processor"]})  # fmt: skip
    return out


def main():
    parts = {"overhead": overhead, "bytes": exchanged, "model": model, "recovery": recovery}
    wanted = [word for word in sys.argv[1:] if word in parts] or list(parts)
    results = {"machine": checked_machine(), "quick": QUICK, "load": os.getloadavg()}
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            results[name] = parts[name](pathlib.Path(folder))
            print(name, json.dumps(results[name], indent=1), flush=True)
    write("ranks", results)


if __name__ == "__main__":
    main()
