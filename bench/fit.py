"""Third part of make bench: the whole ridge fit with its penalty path against NumPy with SciPy, PyTorch and scikit-learn.

Same heads, sets, penalties, precision, threads and BLAS core, alternating in one run. Seconds are of the processor, which
other work on the machine hardly changes, for headlens of the whole commands `fit` and `evaluate` with their files, for
the rivals without loading. Writes bench/results/fit.json. `bench/fit.py --quick` takes a tenth of the sets.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from run import ROOT, VENV_PYTHON, environment, info

ROUNDS = 2
CASES = [  # n, d, N, M, precision
    (4000, 16, 16, 1000, "f64"),
    (4000, 16, 16, 1000, "f32"),
    (20000, 16, 16, 200, "f64"),
    (20000, 16, 16, 200, "f32"),
]


def command(core, *words):
    """Runs headlens; its JSON, processor seconds and peak memory."""
    words = [str(ROOT / "build/headlens"), *map(str, words), "--threads", "1", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(core, 1))
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"bench: {' '.join(words)} failed")
    return json.loads(text), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def generate(core, folder, n, d, keys, precision):
    for name, count, seed in (("train", n, 1), ("test", 4000, 2)):
        command(core, "generate", "power-mean", "--degree", 2, "--dim", d, "--keys", keys, "--count", count, "--seed", seed,
                "--noise", 0.002, "--precision", precision, "-o", folder / f"{name}.npz")  # fmt: skip


def ours(core, folder, heads, precision):
    fitted, seconds, peak = command(core, "fit", folder / "train.npz", "--heads", heads, "--precision", precision,
                              "-o", folder / "model.safetensors")  # fmt: skip
    scored, more, _ = command(core, "evaluate", folder / "model.safetensors", folder / "test.npz")
    return {
        "processor_seconds": seconds + more,
        "nmse": scored["nmse"],
        "ridge": fitted["ridge"],
        "method": fitted["method"],
        "peak_mib": peak,
        "penalties": [trial["ridge"] for trial in fitted["trials"]],
    }


def write_case(folder, precision, penalties):
    """What the rivals read: the heads of the fitted model, and the data."""
    raw = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    entry = json.loads(raw[8 : 8 + size])["heads"]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    kind = {"F64": np.float64, "F32": np.float32}[entry["dtype"]]
    train, test = np.load(folder / "train.npz"), np.load(folder / "test.npz")
    dtype = np.float64 if precision == "f64" else np.float32
    np.savez(
        folder / "case.npz",
        heads=np.frombuffer(raw[begin:end], kind).reshape(entry["shape"]).astype(dtype),
        query=train["query"].astype(dtype), keys=train["keys"].astype(dtype), y=train["y"].astype(dtype),
        test_query=test["query"].astype(dtype), test_keys=test["keys"].astype(dtype), test_y=test["y"],
        penalties=np.array(penalties, dtype),
    )  # fmt: skip


def rival(core, folder, library):
    python = "/usr/bin/python3" if library == "torch" else str(VENV_PYTHON)
    script = str(ROOT / "bench/rivals/fit.py")
    done = subprocess.run([python, script, library, str(folder / "case.npz"), "1"], capture_output=True, text=True,
                          env=environment(core, 1))  # fmt: skip
    if done.returncode:
        print(f"  {library}: left out ({done.stderr.strip().splitlines()[-1]})")
        return None
    return json.loads(done.stdout)


def run_case(core, n, d, keys, heads, precision):
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        generate(core, folder, n, d, keys, precision)
        for _ in range(ROUNDS):
            found = ours(core, folder, heads, precision)
            write_case(folder, precision, found.pop("penalties"))
            results.setdefault("headlens", []).append(found)
            for library in ("numpy", "torch", "sklearn"):
                found = rival(core, folder, library)
                if found:
                    results.setdefault(library, []).append(found)
    return results


def report(case, results):
    n, d, keys, heads, precision = case
    best = min(run["processor_seconds"] for run in results["headlens"])
    print(f"\nwhole fit, n = {n}, d = {d}, N = {keys}, M = {heads}, {precision}, one thread")
    for name, runs in results.items():
        seconds = [run["processor_seconds"] for run in runs]
        print(
            f"  {name:10s} {min(seconds):8.1f} s best {statistics.median(seconds):8.1f} s median"
            f" {min(seconds) / best:6.2f} x headlens   nmse {runs[0]['nmse']:.4g}  ridge {runs[0]['ridge']:.3g}"
            f"  peak {runs[0]['peak_mib']:.0f} MiB"
        )


def main():
    machine = info()
    if not machine["blas_core_fits"]:
        sys.exit("bench: the BLAS core is wrong for this processor: any figure would be dishonest")
    out = {"machine": machine, "cases": []}
    for n, *rest in CASES:
        case = (n // 10 if "--quick" in sys.argv else n, *rest)
        results = run_case(machine["blas_core"], *case)
        report(case, results)
        out["cases"].append({"case": case, "results": results})
    (ROOT / "bench/results").mkdir(exist_ok=True)
    (ROOT / "bench/results/fit.json").write_text(json.dumps(out, indent=1))
    print("\nwritten to bench/results/fit.json")


if __name__ == "__main__":
    main()
