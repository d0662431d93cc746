#!/usr/bin/env python3
"""What calling headlens from Python costs: time beside the program's own, and memory beside that of X.

Time: fits of the same file by `headlens fit` and by RandomFeatureAttentionRegressor, in turn. The program's own
time is what it reports for the fit, without reading and writing files; Python's is the whole call of fit().
"beyond the library" is the part of Python's time that is not the library's: conversion, checks, the result.

Memory: the peak that a call adds to a process that already holds X, over the size of X.

    PYTHONPATH=build/python .venv/bin/python bench/python_overhead.py
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import headlens
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = os.environ.get("HEADLENS", str(ROOT / "build/headlens"))
REPEATS = 7
SHAPES = [(1024, 16, 16, 200), (2048, 16, 16, 1000), (4096, 32, 16, 300)]  # sets, keys, d, heads
LIMIT = 0.03


def program_seconds(file, heads, folder):
    words = [BINARY, "fit", file, "--heads", str(heads), "--seed", "0", "-o", f"{folder}/model", "--json"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["seconds"]


def python_seconds(X, y, heads):
    model = headlens.RandomFeatureAttentionRegressor(heads=heads, random_state=0)
    start = time.perf_counter()
    model.fit(X, y)
    whole = time.perf_counter() - start
    return whole, whole - model.report_["seconds"]


def measure_time(n, keys, d, heads, folder):
    X, y = headlens.generate("power-mean", degree=2, dim=d, keys=keys, count=n)
    file = f"{folder}/data.npz"
    np.savez(file, query=X[:, 0], keys=X[:, 1:], y=y)
    python_seconds(X, y, heads)
    pairs = [(program_seconds(file, heads, folder), python_seconds(X, y, heads)) for _ in range(REPEATS)]
    program = statistics.median(p for p, _ in pairs)
    whole = statistics.median(w for _, (w, _) in pairs)
    beyond = statistics.median(b for _, (_, b) in pairs)
    print(
        f"{n:>6} {keys:>5} {d:>4} {heads:>6}  {program:>9.3f} s  {whole:>9.3f} s  {whole / program - 1:>+8.1%}"
        f"  {1e3 * beyond:>9.2f} ms  {beyond / program:>7.2%}"
    )
    return beyond / program


def status_bytes(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def added_peak(call):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark starts anew
    before = status_bytes("VmRSS")
    call()
    return status_bytes("VmHWM") - before


def measure_memory(dtype):
    """Run in a process of its own: memory that earlier calls gave back would hide what this one takes."""
    n, tokens, d = 20000, 129, 16
    X, y = np.empty((n, tokens, d), dtype), np.arange(n) % 7.0
    rng = np.random.default_rng(0)
    for i in range(n):
        X[i] = rng.standard_normal((tokens, d))
    model = headlens.RandomFeatureAttentionRegressor(heads=4, ridge=1e-3, random_state=0)
    model.fit(X[:100], y[:100]).predict(X[:100])
    calls = {
        "fit": lambda: model.fit(X, y),
        "predict": lambda: model.predict(X),
        "fit of a copy": lambda: model.fit(X.copy(), y),  # what a hidden copy would look like
    }
    for name, call in calls.items():
        added = added_peak(call)
        print(
            f"{dtype:>8} {name:>14}  {X.nbytes / 2**20:>9.0f} MiB  {added / 2**20:>7.1f} MiB  {added / X.nbytes:>6.1%}",
            flush=True,
        )


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "memory":
        return measure_memory(sys.argv[2])
    print("  sets  keys    d  heads  program's own   fit() in all   more      beyond the library")
    with tempfile.TemporaryDirectory() as folder:
        slow = max(measure_time(*shape, folder) for shape in SHAPES)
    print(f"Python adds at most {slow:.2%} to the program's own time (allowed: {LIMIT:.0%})\n")
    print("    type           call      size of X   added peak")
    for dtype in ("float64", "float32"):
        subprocess.run([sys.executable, __file__, "memory", dtype], check=True)
    return 0 if slow < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
