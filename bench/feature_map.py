"""First part of make bench: the feature map and its rivals on the same data, threads, cores, precision and BLAS core.

All contenders are processes that stay alive and take turns, several rounds a case. Seconds are of the processor for one
thread, which other work on the machine hardly changes, and of the wall for more; the best of all rounds counts. Writes
bench/results/features.json; bench/table.py makes the table. Needs `scripts/setup bench`; a rival that is missing is said so.
--headline takes the first case only, --quick every ninth; --threads 1 or 2 replaces these cases of an earlier run alone.
"""

import argparse
import json
import pathlib
import statistics
import tempfile

import numpy as np
from contest import (  # noqa: F401 (the other parts take their names from here, too)
    RESULTS,
    ROOT,
    TORCH_PYTHON,
    VENV_PYTHON,
    Worker,
    build,
    checked_machine,
    environment,
    info,
    ratio,
    write,
)

ROUNDS, REPEATS = 3, 1
HEADLINE = (16, 16, 1000)
SHAPES = [HEADLINE] + [
    (d, keys, heads)
    for d in (8, 16, 64)
    for keys in (4, 16, 128)
    for heads in (100, 1000, 4000)
    if (d, keys, heads) != HEADLINE
]
CASES = [  # d, N, M, precision, layout; the first is the headline
    (*shape, precision, layout)
    for shape in SHAPES
    for precision in ("float32", "float64")
    for layout in ("rectangular", "ragged")
]
FLOPS = {"float32": 6e9, "float64": 3e9}  # of a pass: about 0.06 s for headlens
LEAST_SETS, MOST_SETS = 240, 96000  # 240: a multiple of every block


def contenders(core, threads):
    rival = ROOT / "bench/rivals/features.py"
    commands = {
        "headlens": [ROOT / "build/bench/bench_features", threads],
        "NumPy": [VENV_PYTHON, rival, "numpy", threads],
        "PyTorch": [TORCH_PYTHON, rival, "torch", threads],
        "JAX": [VENV_PYTHON, rival, "jax", threads],
    }
    return {name: Worker(name, command, core, threads) for name, command in commands.items()}


def unit_tokens(rng, *shape):
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def flops_per_set(d, keys, heads):
    """2 M D (D + 2 N); of ragged sets with N their mean."""
    return 2.0 * heads * (d + 1) * (d + 1 + 2 * keys)


def sets_of(d, keys, heads, precision):
    n = FLOPS[precision] / flops_per_set(d, keys, heads)
    return int(np.clip(round(n / 240) * 240, LEAST_SETS, MOST_SETS))


def write_case(folder, d, keys, heads, precision, layout):
    """The same sets for headlens and, padded with NaN where ragged, for the rivals. Returns both files, and sizes."""
    rng = np.random.default_rng(1)
    n = sets_of(d, keys, heads, precision)
    arrays = {
        "query": unit_tokens(rng, n, d).astype(precision),
        "heads": (0.5 * rng.standard_normal((heads, d + 1, d + 1))).astype(precision),
    }
    tokens = unit_tokens(rng, n, keys, d).astype(precision)
    ours, theirs = folder / "ours.npz", folder / "theirs.npz"
    if layout == "rectangular":
        np.savez(ours, keys=tokens, **arrays)
        return ours, ours, np.full(n, keys)
    sizes = rng.integers(max(1, keys // 2), keys + 1, n)
    used = np.arange(keys) < sizes[:, None]
    np.savez(ours, keys=tokens[used], offsets=np.concatenate([[0], np.cumsum(sizes)]), **arrays)
    tokens[~used] = np.nan
    np.savez(theirs, keys=tokens, **arrays)
    return ours, theirs, sizes


def run_case(workers, case, threads, first):
    """Rounds of all contenders in turn. The first case also shows blocks of 1000 sets, as one would write it at first."""
    precision = case[3]
    with tempfile.TemporaryDirectory() as name:
        ours, theirs, sizes = write_case(pathlib.Path(name), *case)
        results, gemm = {}, 0.0
        for _ in range(ROUNDS):
            for worker_name, worker in list(workers.items()):
                file = ours if worker_name == "headlens" else theirs
                for block in (0, 1000) if first and worker_name != "headlens" else (0,):
                    found = worker.ask(data=str(file), repeats=REPEATS, block=block)
                    if not found:
                        workers.pop(worker_name)
                        break
                    label = worker_name + (", blocks of 1000" if block else "")
                    seconds = results.get(label, {}).get("seconds", [])
                    results[label] = {**found, "seconds": seconds + found["seconds"]}
            for worker_name in ("NumPy", "PyTorch"):
                if worker_name in workers:
                    gemm = max(gemm, workers[worker_name].ask(gemm=precision)["gflops"])
    write_rate = workers["headlens"].ask(bandwidth=results["headlens"]["buffer_bytes"])["write"]
    return summary(case, threads, sizes, results, gemm, write_rate)


def summary(case, threads, sizes, results, gemm, write_rate):
    d, keys, heads, precision, layout = case
    n, mean = len(sizes), float(np.mean(sizes))
    flops = flops_per_set(d, mean, heads) * n
    ours = results["headlens"]
    for name, entry in results.items():
        entry["best"], entry["median"] = min(entry["seconds"]), statistics.median(entry["seconds"])
        entry["gflops"] = flops / entry["best"] * 1e-9
        entry["share_of_gemm"] = entry["gflops"] / gemm
        entry["ratio"] = ratio(entry["seconds"], ours["seconds"])
        close = abs(entry["checksum"] - ours["checksum"]) <= 1e-3 * abs(ours["checksum"])
        assert close, f"{name} disagrees: {entry['checksum']} and {ours['checksum']}"
    item = 4 if precision == "float32" else 8
    written = n * heads * (d + 1) * item
    # The floor: the arithmetic at the GEMM rate, or the features through the buffer of a block.
    floor = max(1e-9 * flops / gemm, 1e-9 * written / write_rate)
    rivals = {name: entry["best"] for name, entry in results.items() if name != "headlens"}
    best_rival = min(rivals, key=rivals.get, default=None)
    return {
        "d": d, "N": keys, "M": heads, "precision": precision, "layout": layout, "threads": threads, "n": n,
        "mean_keys": mean, "flops": flops, "gemm_gflops": gemm, "write_gb_per_s": write_rate,
        "clock": "processor" if threads == 1 else "wall", "floor_seconds": floor, "floor_bound": "memory"
        if written / write_rate > flops / gemm else "arithmetic", "over_floor": ours["best"] / floor,
        "best_rival": best_rival, "best_ratio": rivals[best_rival] / ours["best"] if rivals else None,
        "results": results,
    }  # fmt: skip


def report(found):
    ours = found["results"]["headlens"]
    rivals = "  ".join(
        f"{name} {entry['best'] / ours['best']:.2f}"
        for name, entry in found["results"].items()
        if name != "headlens"
    )
    print(
        f"{found['d']:3d} {found['N']:4d} {found['M']:5d} {found['precision']} {found['layout']:11s}"
        f" {found['threads']} thr  n {found['n']:6d}  {ours['best']:.3f} s  {ours['gflops']:6.1f} GFLOP/s"
        f"  {100 * ours['share_of_gemm']:4.0f}% of GEMM  {found['over_floor']:.2f} of floor"
        f"  {ours['peak_mib']:4.0f} MiB   slower: {rivals}",
        flush=True,
    )


def earlier_cases(threads):
    """Of the last run, those with other numbers of threads."""
    file = RESULTS / "features.json"
    cases = json.loads(file.read_text())["cases"] if file.exists() else []
    return [case for case in cases if case["threads"] not in threads]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--headline", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, action="append")
    options = parser.parse_args()
    build("bench_features")
    machine = checked_machine()
    cases = CASES[:1] if options.headline else CASES[::9] if options.quick else CASES
    out = {"machine": machine, "cases": earlier_cases(options.threads) if options.threads else []}
    for threads in options.threads or [count for count in (1, 2) if count <= machine["threads"]]:
        workers = contenders(machine["blas_core"], threads)
        for case in cases:
            found = run_case(workers, case, threads, case == CASES[0])
            report(found)
            out["cases"].append(found)
        for worker in workers.values():
            worker.close()
        write("features", out)


if __name__ == "__main__":
    main()
