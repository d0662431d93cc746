"""Second part of make bench: kernels of infinitely many heads, n = 5000 sets of N = 16 unit keys, one thread, float64.

The rfa kernel against NumPy, PyTorch and JAX on the same data and BLAS core, alternating in one run; the brfa kernel
against itself by Owen's T for every pair, which takes minutes and so gets 500 sets, with the largest difference. Seconds
are of the processor. Writes bench/results/kernels.json. --quick takes 500 sets throughout.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import numpy as np
from contest import ROOT, TORCH_PYTHON, VENV_PYTHON, build, checked_machine, command, ratio, write
from feature_map import unit_tokens

ROUNDS, DIM, KEYS, EXACT_SETS = 2, 16, 16, 500


def contenders(folder, n):
    """Three contests: name -> contender -> command."""
    binary, rival = ROOT / "build/bench/bench_kernels", ROOT / "bench/rivals/kernels.py"
    data, small, fast, exact = (folder / name for name in ("data.npz", "small.npz", "fast.npy", "exact.npy"))
    return {
        f"rfa, n = {n}": {
            "headlens": [binary, data, "rfa", "fast", 1, 1],
            "NumPy": [VENV_PYTHON, rival, "numpy", data, 1, 1],
            "PyTorch": [TORCH_PYTHON, rival, "torch", data, 1, 1],
            "JAX": [VENV_PYTHON, rival, "jax", data, 1, 1],
        },
        f"brfa, n = {n}": {"headlens": [binary, data, "brfa", "fast", 1, 1]},
        f"brfa, n = {EXACT_SETS}": {
            "headlens": [binary, small, "brfa", "fast", 1, 1, fast],
            "Owen's T everywhere": [binary, small, "brfa", "exact", 1, 1, exact],
        },
    }


def run_contest(commands, core):
    results = {}
    for _ in range(ROUNDS):
        for name, words in commands.items():
            if name in results and not results[name]:
                continue
            try:
                text, _, peak = command(words, core, 1)
            except RuntimeError as error:
                print(f"  {name}: left out ({str(error).splitlines()[-1]})")
                results[name] = None
                continue
            found, seconds = json.loads(text), results.get(name, {}).get("seconds", [])
            results[name] = {**found, "seconds": seconds + found["seconds"], "peak_mib": peak}
    return {name: entry for name, entry in results.items() if entry}


def report(contest, results):
    sets = int(contest.split()[-1])
    pairs = sets * (sets + 1) / 2 * KEYS**2  # of keys, each computed once
    print(f"\nkernel {contest}, d = {DIM}, N = {KEYS}, float64, one thread")
    ours = results["headlens"]
    for name, entry in results.items():
        assert abs(entry["checksum"] - ours["checksum"]) <= 1e-9 * abs(ours["checksum"]), f"{name} disagrees"
        entry["best"], entry["median"] = min(entry["seconds"]), statistics.median(entry["seconds"])
        entry["pairs_per_second"] = pairs / entry["best"]
        entry["ratio"] = low, middle, high = ratio(entry["seconds"], ours["seconds"])
        print(
            f"  {name:20s} {entry['best']:8.2f} s  {1e-6 * entry['pairs_per_second']:6.0f} million pairs of keys/s"
            f"  {middle:6.1f} x headlens [{low:.1f}, {high:.1f}]  peak {entry['peak_mib']:.0f} MiB",
            flush=True,
        )


def main():
    build("bench_kernels")
    machine = checked_machine()
    n = EXACT_SETS if "--quick" in sys.argv else 5000
    rng = np.random.default_rng(1)
    out = {"machine": machine, "n": n, "d": DIM, "N": KEYS, "clock": "processor", "contests": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        query, keys = unit_tokens(rng, n, DIM), unit_tokens(rng, n, KEYS, DIM)
        np.savez(folder / "data.npz", query=query, keys=keys)
        np.savez(folder / "small.npz", query=query[:EXACT_SETS], keys=keys[:EXACT_SETS])
        for contest, commands in contenders(folder, n).items():
            out["contests"][contest] = run_contest(commands, machine["blas_core"])
            report(contest, out["contests"][contest])
        out["difference"] = float(np.abs(np.load(folder / "fast.npy") - np.load(folder / "exact.npy")).max())
    print(f"  largest difference of the two brfa kernels: {out['difference']:.1e}")
    write("kernels", out)


if __name__ == "__main__":
    main()
