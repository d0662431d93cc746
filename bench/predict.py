"""Prediction of a million sets from a file: headlens, the rate of its own feature map, and NumPy, alternating in one run.

Seconds are of the whole command, with its files; of the processor, which other work on the machine hardly changes, and of
the wall. NumPy reads arrays that were extracted for it and runs without imports, on a tenth of the sets. Writes
bench/results/predict.json. `bench/predict.py --quick` takes a tenth of everything. Needs what bench/feature_map.py builds.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from feature_map import ROOT, VENV_PYTHON, environment, info

ROUNDS, REPEATS = 3, 8
SETS, DIM, KEYS, HEADS = 1_000_000, 16, 16, 1000
MAP_SETS = 20_000
FLOPS = 2.0 * HEADS * (DIM + 1) * (DIM + 1 + 2 * KEYS)  # a set

# A process inherits the peak of the one that started it: a bare interpreter goes between.
LAUNCH = """
import json, os, sys, time
start = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
found = {"wall_seconds": time.perf_counter() - start, "processor_seconds": usage.ru_utime + usage.ru_stime}
print(json.dumps({**found, "peak_mib": usage.ru_maxrss / 1024}), file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def measure(core, threads, *words):
    """What the command took."""
    words = [sys.executable, "-I", "-S", "-c", LAUNCH, *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(core, threads))
    if done.returncode:
        sys.exit(f"bench: {' '.join(words[5:])} failed: {done.stderr}")
    return json.loads(done.stderr.splitlines()[-1])


def headlens(core, threads, *words):
    return measure(core, threads, ROOT / "build/headlens", *words, "--threads", threads)


def prepare(core, folder, sets):
    """A fitted model, the sets to predict, and a tenth of them."""
    seconds = {}
    for name, count, seed in (("train", 2000, 1), ("all", sets, 2), ("tenth", sets // 10, 2)):
        seconds[name] = headlens(core, 1, "generate", "power-mean", "--degree", 2, "--dim", DIM, "--keys", KEYS,
            "--count", count, "--seed", seed, "--noise", 0.01, "--precision", "f32", "-o", folder / f"{name}.npz")  # fmt: skip
    headlens(core, 1, "fit", folder / "train.npz", "--heads", HEADS, "--precision", "f32", "--ridge", 1e-3,
             "-o", folder / "model.safetensors")  # fmt: skip
    raw = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + size]), np.load(folder / "tenth.npz")
    arrays = {"query": data["query"], "keys": data["keys"]}
    for name in ("heads", "values", "intercept"):
        begin, end = (8 + size + offset for offset in header[name]["data_offsets"])
        arrays[name] = np.frombuffer(raw[begin:end], np.float32).reshape(header[name]["shape"])
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    few = {name: arrays[name][:MAP_SETS] for name in ("query", "keys")}
    np.savez(folder / "map.npz", heads=arrays["heads"], **few)
    return seconds["all"]


def map_seconds(core, folder):
    """Processor seconds of the feature map alone, a set: what more repeats add."""
    bench = ROOT / "build/bench/bench_features"
    short, long = (measure(core, 1, bench, folder / "map.npz", repeats, 1) for repeats in (1, 1 + REPEATS))
    sets = len(np.load(folder / "map.npz")["query"])
    return (long["processor_seconds"] - short["processor_seconds"]) / (REPEATS * sets)


def numpy_rival(core, folder):
    words = [str(VENV_PYTHON), str(ROOT / "bench/rivals/predict.py"), str(folder), str(folder / "rival.npy")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(core, 1), check=True)
    return json.loads(done.stdout)


def run_case(core, folder, sets):
    out = {"sets": sets, "generate": prepare(core, folder, sets), "map_seconds_a_set": [], "runs": {}}
    for _ in range(ROUNDS):
        out["map_seconds_a_set"].append(map_seconds(core, folder))
        for name, file, threads in (("1 thread", "all", 1), ("2 threads", "all", 2), ("a tenth", "tenth", 1)):
            found = headlens(core, threads, "predict", folder / "model.safetensors", folder / f"{file}.npz",
                             "-o", folder / f"{name}.npy")  # fmt: skip
            out["runs"].setdefault(name, []).append(found)
        out["runs"].setdefault("NumPy, a tenth", []).append(numpy_rival(core, folder))
    one, two = ((folder / f"{name}.npy").read_bytes() for name in ("1 thread", "2 threads"))
    assert one == two, "threads change the predictions"
    ours, rival = np.load(folder / "a tenth.npy"), np.load(folder / "rival.npy")
    assert np.abs(ours - rival).max() <= 1e-3 * np.abs(ours).max(), "NumPy disagrees"
    return out


def report(out):
    map_rate = FLOPS / min(out["map_seconds_a_set"]) * 1e-9
    print(
        f"prediction, d = {DIM}, N = {KEYS}, M = {HEADS}, float32; the feature map alone: {map_rate:.1f} GFLOP/s"
    )
    for name, runs in out["runs"].items():
        sets = out["sets"] // 10 if "tenth" in name else out["sets"]
        seconds = [run["processor_seconds"] for run in runs]
        rate = FLOPS * sets / min(seconds) * 1e-9
        # A ratio for each round: its parts shared the mood of the machine.
        shares = [a * sets / b for a, b in zip(out["map_seconds_a_set"], seconds, strict=True)]
        print(
            f"  {name:15s} {sets:8d} sets {min(seconds):7.2f} s of processor {min(run['wall_seconds'] for run in runs):7.2f} s"
            f" wall {rate:6.1f} GFLOP/s  {100 * statistics.median(shares):4.0f}% of the map"
            f" [{100 * min(shares):.0f}, {100 * max(shares):.0f}]  peak {max(run['peak_mib'] for run in runs):.0f} MiB"
        )
    print(f"  generating them took {out['generate']['processor_seconds']:.1f} s of processor")


def main():
    machine = info()
    if not machine["blas_core_fits"]:
        sys.exit("bench: the BLAS core is wrong for this processor: any figure would be dishonest")
    sets = SETS // 10 if "--quick" in sys.argv else SETS
    with tempfile.TemporaryDirectory() as folder:
        out = run_case(machine["blas_core"], pathlib.Path(folder), sets)
    report(out)
    (ROOT / "bench/results").mkdir(exist_ok=True)
    (ROOT / "bench/results/predict.json").write_text(json.dumps({"machine": machine, **out}, indent=1))
    print("\nwritten to bench/results/predict.json")


if __name__ == "__main__":
    main()
