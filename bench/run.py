"""make bench: headlens and its rivals on the same data, threads, precision and BLAS core, alternating in one run.

Writes bench/results/features.json and prints a table. Needs `scripts/setup bench`; a rival that is missing is said so.
"""

import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV_PYTHON = ROOT / ".venv/bin/python"
ROUNDS, REPEATS = 4, 2
CASES = [  # n, d, N, M, precision; the first is the headline
    (20000, 16, 16, 1000, "float32"),
    (4000, 16, 16, 1000, "float64"),
    (2000, 64, 16, 1000, "float32"),
    (4000, 8, 4, 1000, "float32"),
    (1000, 16, 128, 1000, "float32"),
]


def build(*targets):
    quiet = {"stdout": subprocess.DEVNULL, "check": True, "cwd": ROOT}
    subprocess.run(["cmake", "--preset", "release", "-DHEADLENS_BENCH=ON"], **quiet)
    subprocess.run(["cmake", "--build", "build", "--target", *targets, "headlens_app"], **quiet)


def info():
    out = subprocess.run(
        [ROOT / "build/headlens", "info", "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(out.stdout)


def environment(blas_core, threads):
    """The rivals get the repaired core too: Debian's NumPy and PyTorch have the fault that headlens repairs."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, "OPENBLAS_CORETYPE": blas_core, **{name: str(threads) for name in names}}


def contenders(path, threads):
    rival = str(ROOT / "bench/rivals/features.py")
    tail = [path, str(REPEATS), str(threads)]
    return {
        "headlens": [str(ROOT / "build/bench/bench_features"), *tail],
        "NumPy, tuned block": [str(VENV_PYTHON), rival, "numpy", *tail],
        "NumPy, blocks of 1000": [str(VENV_PYTHON), rival, "numpy", *tail, "1000"],
        "PyTorch, tuned block": ["/usr/bin/python3", rival, "torch", *tail],
        "PyTorch, blocks of 1000": ["/usr/bin/python3", rival, "torch", *tail, "1000"],
    }


def unit_tokens(rng, *shape):
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def run_case(n, d, n_keys, heads, precision, threads, core):
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data.npz"
        np.savez(
            path,
            query=unit_tokens(rng, n, d).astype(precision),
            keys=unit_tokens(rng, n, n_keys, d).astype(precision),
            heads=(0.5 * rng.standard_normal((heads, d + 1, d + 1))).astype(precision),
        )
        results = {}
        for _ in range(ROUNDS):
            for name, command in contenders(path, threads).items():
                if name in results and results[name] is None:
                    continue
                done = subprocess.run(command, capture_output=True, text=True, env=environment(core, threads))
                if done.returncode:
                    print(f"  {name}: left out ({done.stderr.strip().splitlines()[-1]})")
                    results[name] = None
                    continue
                found = json.loads(done.stdout)
                entry = results.setdefault(name, {**found, "seconds": []})
                entry["seconds"] += found["seconds"]
                entry["gemm_gflops"] = max(entry.get("gemm_gflops", 0), found.get("gemm_gflops", 0))
    return {name: entry for name, entry in results.items() if entry}


def report(case, results):
    n, d, n_keys, heads, precision = case
    flops = 2.0 * heads * (d + 1) * (d + 1 + 2 * n_keys) * n
    ours = results["headlens"]
    print(f"\nfeature map, n = {n}, d = {d}, N = {n_keys}, M = {heads}, {precision}, one thread")
    for name, entry in results.items():
        entry["best"], entry["median"] = min(entry["seconds"]), statistics.median(entry["seconds"])
        entry["gflops"] = flops / entry["best"] * 1e-9
        # A ratio for each pair of runs: its spread is the noise of this machine.
        ratios = sorted(a / b for a in entry["seconds"] for b in ours["seconds"])
        entry["ratio"] = [
            ratios[len(ratios) // 20],
            statistics.median(ratios),
            ratios[-1 - len(ratios) // 20],
        ]
        assert abs(entry["checksum"] - ours["checksum"]) <= 1e-3 * abs(ours["checksum"]), f"{name} disagrees"
        print(
            f"  {name:24s} {entry['best']:8.3f} s best {entry['median']:8.3f} s median {entry['gflops']:7.1f} GFLOP/s"
            f"   {entry['ratio'][1]:6.2f} x headlens [{entry['ratio'][0]:.2f}, {entry['ratio'][2]:.2f}]"
        )
    ours["share_of_gemm"] = ours["gflops"] / ours["gemm_gflops"]
    rivals = [entry["best"] for name, entry in results.items() if name != "headlens"]
    if rivals:
        limit = ours["gemm_gflops"] * min(rivals) / flops * 1e9
        print(
            f"  headlens is {min(rivals) / ours['best']:.1f} times as fast as the best rival (at the GEMM rate it would be"
            f" {limit:.1f}),"
            f" at {100 * ours['share_of_gemm']:.0f}% of the GEMM rate ({ours['gemm_gflops']:.0f} GFLOP/s)"
        )


def main():
    build("bench_features")
    machine = info()
    if not machine["blas_core_fits"]:
        sys.exit("bench: the BLAS core is wrong for this processor: any figure would be dishonest")
    cases = CASES[:1] if "--headline" in sys.argv else CASES
    out = {"machine": machine, "processor": platform.processor() or platform.machine(), "cases": []}
    for case in cases:
        results = run_case(*case, threads=1, core=machine["blas_core"])
        report(case, results)
        keys = ("n", "d", "N", "M", "precision")
        out["cases"].append({**dict(zip(keys, case, strict=True)), "results": results})
    (ROOT / "bench/results").mkdir(exist_ok=True)
    (ROOT / "bench/results/features.json").write_text(json.dumps(out, indent=1))
    print("\nwritten to bench/results/features.json")


if __name__ == "__main__":
    main()
