"""Recovery against Adam in PyTorch: same examples, one thread, float64, alternating in one run.

Processor time on one thread, which other work on the machine hardly changes, until every head is right to 1e-8. The rival's
is the training alone of its first run that succeeds; for headlens the whole command is given too, with reading, the last
digits, the certificate and writing. Then one large layer without the rival: d = 64, eight heads of rank 8, wall seconds on
two threads. Writes bench/results/recovery.json. `bench/recovery.py LIMIT` gives the rival LIMIT seconds a case (default 60).
"""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from contest import HEADLENS, ROOT, TORCH_PYTHON, build, checked_machine, environment, write

CASES = [  # k, d, m, n, s
    (4, 8, 2, 64, 0.5),
    (4, 8, 2, 64, 2),
    (4, 8, 2, 64, 8),
    (4, 8, 3, 96, 2),
    (6, 16, 4, 160, 0.5),
    (6, 16, 4, 160, 2),
    (6, 16, 4, 160, 4),
    (8, 32, 4, 260, 2),
    (16, 32, 8, 256, 2),
]
SEEDS = range(3)
LARGE = {"k": 16, "d": 64, "m": 8, "n": 600, "s": 2, "rank": 8, "threads": 2}


def command(*words):
    done = subprocess.run([str(HEADLENS), *words, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_case(k, d, m, n, s, seed, limit, core, folder):
    examples, truth, layer = (str(folder / name) for name in ("ex.npz", "truth.npz", "layer.npz"))
    command("generate", "attention-layer", "--heads", str(m), "--dim", str(d), "--tokens", str(k), "--scale",
            str(s), "--count", str(n), "--seed", str(seed), "-o", examples, "--layer-out", truth)  # fmt: skip
    before = processor_seconds()
    certificate = command("recover", examples, "--heads", str(m), "--threads", "1", "-o", layer)
    whole = processor_seconds() - before
    # The labels see every direction of these layers to a tenth at least: 1e-9 of them is 1e-8 of the heads.
    arrived = [p["seconds"] for p in certificate["trace"] if p["train_error"] < 1e-9]
    share = arrived[0] / certificate["seconds"] if arrived else 1
    ours = {"seconds": whole * share, "whole": whole, "status": certificate["status"]}
    ours["error"] = command("compare", layer, truth)["worst_error"]
    rival = [TORCH_PYTHON, str(ROOT / "bench/rivals/adam.py"), examples, truth, str(m), "1", str(limit)]
    done = subprocess.run(rival, capture_output=True, text=True, env=environment(core, 1))
    if done.returncode:
        sys.exit(f"adam: {done.stderr.strip().splitlines()[-1]}")
    return {"headlens": ours, "adam": json.loads(done.stdout)}


def run_large(folder):
    examples, truth, layer = (str(folder / name) for name in ("ex.npz", "truth.npz", "layer.npz"))
    c = {name: str(value) for name, value in LARGE.items()}
    command("generate", "attention-layer", "--heads", c["m"], "--dim", c["d"], "--tokens", c["k"], "--scale", c["s"],
            "--rank", c["rank"], "--count", c["n"], "-o", examples, "--layer-out", truth)  # fmt: skip
    processor, start = processor_seconds(), time.perf_counter()
    certificate = command("recover", examples, "--heads", c["m"], "--threads", c["threads"], "-o", layer)
    found = {
        **LARGE,
        "seconds": time.perf_counter() - start,
        "processor_seconds": processor_seconds() - processor,
        "status": certificate["status"],
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    if certificate["status"] in ("recovered", "approximate"):
        found["error"] = command("compare", layer, truth)["worst_error"]
    print(
        f"\nk = {c['k']}, d = {c['d']}, m = {c['m']} of rank {c['rank']}, {c['n']} examples, {c['threads']} threads:"
        f" {found['status']} in {found['seconds']:.1f} s ({found['processor_seconds']:.1f} s of the processor),"
        f" worst error {found.get('error', float('nan')):.1e}, peak {found['peak_mib']:.0f} MiB"
    )
    return found


def line(case, results):
    k, d, m, n, s = case
    ours = np.array([r["headlens"]["seconds"] for r in results])
    theirs = [r["adam"]["seconds"] for r in results]
    reached = [t for t in theirs if t is not None]
    ratios = [
        (r["adam"]["seconds"] or r["adam"]["limit"]) / r["headlens"]["seconds"] for r in results
    ]  # a lower bound where Adam did not arrive
    adam = f"{np.median(reached):.1f} s" if reached else "-"
    return (
        f"| {k}, {d}, {m} | {n} | {s} | {np.median(ours):.2f} s |"
        f" {np.median([r['headlens']['whole'] for r in results]):.2f} s | {sum(r['headlens']['error'] < 1e-8 for r in results)}"
        f" of {len(results)} | {adam} | {len(reached)} of {len(results)} | {min(ratios):.1f} to {max(ratios):.1f} |"
    )


def main():
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    build()
    machine = checked_machine()
    out = {"machine": machine, "limit": limit, "cases": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out["large"] = run_large(folder)  # first: its peak is the largest of all children
        print(
            "\n| k, d, m | examples | s | headlens | whole command | below 1e-8 | Adam | below 1e-8 | times sooner |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for case in CASES:
            results = [run_case(*case, seed, limit, machine["blas_core"], folder) for seed in SEEDS]
            out["cases"].append({"case": case, "results": results})
            print(line(case, results), flush=True)
    write("recovery", out)


if __name__ == "__main__":
    main()
