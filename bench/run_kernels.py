"""Second part of make bench: kernels of infinitely many heads, n = 2000 sets of N = 16 unit keys, one thread.

The rfa kernel against NumPy on the same data and BLAS core, alternating in one run; the brfa kernel against itself by
Owen's T for every pair, with the largest difference. Writes bench/results/kernels.json and prints the ratios. The exact
form takes minutes; --quick takes 500 sets.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from run import ROOT, VENV_PYTHON, build, environment, info, unit_tokens

ROUNDS, REPEATS, DIM, KEYS = 3, 2, 16, 16


def measure(command, core):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment(core, 1))
    if done.returncode:
        sys.exit(f"bench: {command[0]}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def main():
    build("bench_kernels")
    machine = info()
    if not machine["blas_core_fits"]:
        sys.exit("bench: the BLAS core is wrong for this processor: any figure would be dishonest")
    core, n = machine["blas_core"], 500 if "--quick" in sys.argv else 2000
    binary, rival = ROOT / "build/bench/bench_kernels", ROOT / "bench/rivals/kernels.py"
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        data, fast, exact = (pathlib.Path(folder) / name for name in ("data.npz", "fast.npy", "exact.npy"))
        np.savez(data, query=unit_tokens(rng, n, DIM), keys=unit_tokens(rng, n, KEYS, DIM))
        commands = {
            "rfa, headlens": [binary, data, "rfa", "fast", REPEATS, 1],
            "rfa, NumPy": [VENV_PYTHON, rival, data, REPEATS, "full"],
            "rfa, NumPy, lower blocks": [VENV_PYTHON, rival, data, REPEATS, "lower"],
            "brfa, headlens": [binary, data, "brfa", "fast", REPEATS, 1, fast],
        }
        results = {name: {"seconds": []} for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                found = measure(command, core)
                results[name] = {**found, "seconds": results[name]["seconds"] + found["seconds"]}
        results["brfa, Owen's T everywhere"] = measure([binary, data, "brfa", "exact", 1, 1, exact], core)
        difference = float(np.abs(np.load(fast) - np.load(exact)).max())
    report(results, difference, n)
    (ROOT / "bench/results").mkdir(exist_ok=True)
    out = {"machine": machine, "n": n, "d": DIM, "N": KEYS, "difference": difference, "results": results}
    (ROOT / "bench/results/kernels.json").write_text(json.dumps(out, indent=1))
    print("\nwritten to bench/results/kernels.json")


def report(results, difference, n):
    print(f"\nkernels, n = {n}, d = {DIM}, N = {KEYS}, float64, one thread")
    ours = {model: results[f"{model}, headlens"] for model in ("rfa", "brfa")}
    for name, entry in results.items():
        own = ours[name.split(",")[0]]
        assert abs(entry["checksum"] - own["checksum"]) <= 1e-9 * abs(own["checksum"]), f"{name} disagrees"
        entry["best"], entry["median"] = min(entry["seconds"]), statistics.median(entry["seconds"])
        ratios = sorted(a / b for a in entry["seconds"] for b in own["seconds"])
        entry["ratio"] = [
            ratios[len(ratios) // 20],
            statistics.median(ratios),
            ratios[-1 - len(ratios) // 20],
        ]
        low, middle, high = entry["ratio"]
        print(f"  {name:28s} {entry['best']:8.3f} s best   {middle:7.1f} x headlens [{low:.1f}, {high:.1f}]")
    print(f"  largest difference of the two brfa kernels: {difference:.1e}")


main()
