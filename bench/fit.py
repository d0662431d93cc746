"""Part of make bench: the whole ridge fit with its penalty path against NumPy with SciPy, PyTorch and scikit-learn.

Same heads, sets, penalties, precision, threads and BLAS core, alternating in one run. Seconds are of the processor, which
other work on the machine hardly changes, for headlens of the whole commands `fit` and `evaluate` with their files, for
the rivals without loading. A rival that has used LIMIT times as much as headlens is stopped: its ratio is a lower bound.
Writes bench/results/fit.json. `bench/fit.py --quick` takes a tenth of the sets, `bench/fit.py 0 1` those cases only
(and keeps what is known of the others).
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from feature_map import ROOT, VENV_PYTHON, environment, info

CASES = [  # n, d, N, M, precision, rounds
    (4000, 16, 16, 1000, "f64", 3),
    (4000, 16, 16, 1000, "f32", 3),
    (20000, 16, 16, 200, "f64", 3),
    (20000, 16, 16, 200, "f32", 3),
    (20000, 16, 16, 1000, "f32", 1),
    (200000, 16, 16, 500, "f32", 1),
]
RIVALS = ("numpy", "held-out", "torch", "sklearn")
SAME_RULE = ("numpy", "torch", "sklearn")  # leave-one-out, as headlens
LIMIT = 2.2
MEMORY = 14 << 30  # bytes of address space for a rival


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


def rival(core, folder, library, limit):
    def bounded():
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    python = "/usr/bin/python3" if library == "torch" else str(VENV_PYTHON)
    script = str(ROOT / "bench/rivals/fit.py")
    done = subprocess.run([python, script, library, str(folder / "case.npz"), "1"], capture_output=True, text=True,
                          env=environment(core, 1), preexec_fn=bounded)  # fmt: skip
    if done.returncode < 0:
        return {"stopped": f"after {limit} s", "processor_seconds": limit}
    if done.returncode:
        return {"stopped": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    return json.loads(done.stdout)


def run_case(core, n, d, keys, heads, precision, rounds, save):
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        generate(core, folder, n, d, keys, precision)
        for _ in range(rounds):
            found = ours(core, folder, heads, precision)
            write_case(folder, precision, found.pop("penalties"))
            results.setdefault("headlens", []).append(found)
            limit = int(LIMIT * found["processor_seconds"]) + 20
            for library in RIVALS:
                if not any("stopped" in run for run in results.get(library, [])):
                    results.setdefault(library, []).append(rival(core, folder, library, limit))
                save(results)
    return results


def report(case, results):
    n, d, keys, heads, precision, _ = case
    mine = [run["processor_seconds"] for run in results["headlens"]]
    print(f"\nwhole fit, n = {n}, d = {d}, N = {keys}, M = {heads}, {precision}, one thread")
    for name, runs in results.items():
        last = runs[-1]
        if "stopped" in last:
            ratio = last.get("processor_seconds", 0) / min(mine)
            print(
                f"  {name:10s} stopped {last['stopped']}"
                + (f": over {ratio:.1f} x headlens" if ratio else "")
            )
            continue
        seconds = [run["processor_seconds"] for run in runs]
        ratios = sorted(a / b for a in seconds for b in mine)
        print(
            f"  {name:10s} {min(seconds):8.1f} s best {statistics.median(seconds):8.1f} s median"
            f" {statistics.median(ratios):6.2f} x headlens [{ratios[0]:.2f}, {ratios[-1]:.2f}]"
            f"   nmse {last['nmse']:.4g}  ridge {last['ridge']:.3g}  peak {last['peak_mib']:.0f} MiB"
        )


def main():
    machine = info()
    if not machine["blas_core_fits"]:
        sys.exit("bench: the BLAS core is wrong for this processor: any figure would be dishonest")
    path = ROOT / "bench/results/fit.json"
    chosen = [int(word) for word in sys.argv[1:] if word.isdigit()]
    known = json.loads(path.read_text())["cases"] if chosen and path.exists() else []
    for index, (n, *rest) in enumerate(CASES):
        if chosen and index not in chosen:
            continue
        case = (n // 10 if "--quick" in sys.argv else n, *rest)
        known = [entry for entry in known if entry["case"] != list(case)]

        def save(results, case=case, others=tuple(known)):
            found = [*others, {"case": list(case), "results": results}]
            path.write_text(
                json.dumps({"machine": machine, "same_rule": SAME_RULE, "cases": found}, indent=1)
            )

        path.parent.mkdir(exist_ok=True)
        results = run_case(machine["blas_core"], *case, save)
        report(case, results)
        known.append({"case": list(case), "results": results})
    print("\nwritten to bench/results/fit.json")


if __name__ == "__main__":
    main()
