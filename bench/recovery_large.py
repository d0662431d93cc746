"""Recovery in factors against a PyTorch student with the same factors: same examples, same threads, one after the other.

Eight heads of rank d / 8, sign tokens, 32 per example. headlens: the whole command, with reading, the certificate and writing,
until every head is right to 1e-8. The rival: see rivals/factor_adam.py. The rival gets TIMES as long as headlens took (default 6), so that a
ratio is a lower bound where the rival does not arrive. Writes bench/results/recovery_large.json. `bench/recovery_large.py [TIMES]`
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

from contest import HEADLENS, ROOT, TORCH_PYTHON, build, checked_machine, environment, write

CASES = [(128, 1200), (256, 2300)]  # d, examples
HEADS, TOKENS, THREADS, SEEDS = 8, 32, 2, range(2)


def command(*words):
    done = subprocess.run([str(HEADLENS), *map(str, words), "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)


def run_case(d, n, seed, times, core, folder):
    examples, truth, layer = (folder / name for name in ("ex.npz", "truth.npz", "layer.npz"))
    command("generate", "attention-layer", "--heads", HEADS, "--dim", d, "--rank", d // 8, "--tokens", TOKENS,
            "--count", n, "--seed", seed, "-o", examples, "--layer-out", truth)  # fmt: skip
    start = time.perf_counter()
    certificate = command("recover", examples, "--heads", HEADS, "--threads", THREADS, "-o", layer)
    ours = {"seconds": time.perf_counter() - start, "status": certificate["status"]}
    if certificate["status"] == "recovered":
        ours["error"] = command("compare", layer, truth)["worst_error"]
    words = [ROOT / "bench/rivals/factor_adam.py", examples, HEADS, d // 8, THREADS, times * ours["seconds"]]
    done = subprocess.run(
        [TORCH_PYTHON, *map(str, words)], capture_output=True, text=True, env=environment(core, THREADS)
    )
    if done.returncode:
        sys.exit(f"factor_adam: {done.stderr.strip().splitlines()[-1]}")
    return {"headlens": ours, "adam": json.loads(done.stdout)}


def line(d, n, result):
    ours, adam = result["headlens"], result["adam"]
    took = adam["seconds"] or adam["limit"]
    said = (
        f"{adam['seconds']:.0f} s" if adam["seconds"] else f"{adam['error']:.1e} after {adam['limit']:.0f} s"
    )
    sign = "" if adam["seconds"] else "over "
    return (
        f"| {d} | {n} | {ours['seconds']:.1f} s, {ours['status']}, {ours.get('error', float('nan')):.1e} | {said} |"
        f" {sign}{took / ours['seconds']:.1f} |"
    )


def main():
    times = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
    build()
    machine = checked_machine()
    out = {"machine": machine, "times": times, "cases": []}
    print("| d | examples | headlens | Adam | times sooner |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for d, n in CASES:
            for seed in SEEDS:
                result = run_case(d, n, seed, times, machine["blas_core"], pathlib.Path(name))
                out["cases"].append({"dim": d, "examples": n, "seed": seed, **result})
                print(line(d, n, result), flush=True)
    write("recovery_large", out)


if __name__ == "__main__":
    main()
