"""How time and memory grow: fit, predict and recover along one size at a time, the others fixed.

Processor seconds on one thread and peak memory beyond that of a program that does nothing. Exponents are slopes of least
squares in logarithms over the larger half of the steps; the expected ones are slopes of the formulas below over the same
steps, so lower terms that still count at these sizes count in both. Writes bench/results/growth.json. --quick leaves out
the largest step of each.

    features   2 M D (D + 2 N) a set, D = d + 1; p = M D of them
    dual       features of n sets, n^2 p for the Gram matrix, n^3 / 3 for its Cholesky factor
    primal     features of n sets, n p^2, p^3 / 3
    predict    features of n sets, 2 p a set
    recover    n k m (8 d^2 + 8 k d) for an inner step (seconds of the search over the number of these), n those searched

The memory of predict is given without exponents: blocks of features make most of it, and no formula here has them.
"""

import pathlib
import sys
import tempfile

import numpy as np
from contest import HEADLENS, build, checked_machine, command, headlens, write

FIT = {"n": 1000, "d": 16, "N": 16, "M": 200}
PRIMAL = {"n": 8000, "d": 16, "N": 16, "M": 48}
PREDICT = {"n": 8000, "d": 16, "N": 16, "M": 500}
RECOVER = {"n": 380, "d": 32, "m": 4, "k": 6}
AXES = [  # what, base, size varied, its steps
    ("fit, dual", FIT, "n", (400, 800, 1600, 3200)),
    ("fit, dual", FIT, "d", (8, 16, 32, 64)),
    ("fit, dual", FIT, "N", (32, 128, 512, 2048)),
    ("fit, dual", FIT, "M", (200, 400, 800, 1600)),
    ("fit, primal", PRIMAL, "n", (4000, 8000, 16000, 32000)),
    ("fit, primal", PRIMAL, "d", (8, 16, 32, 64)),
    ("fit, primal", PRIMAL, "N", (16, 64, 256, 1024)),
    ("fit, primal", PRIMAL, "M", (32, 64, 128, 256)),
    ("predict", PREDICT, "n", (4000, 8000, 16000, 32000)),
    ("predict", PREDICT, "d", (8, 16, 32, 64)),
    ("predict", PREDICT, "N", (16, 32, 64, 128, 256)),
    ("predict", PREDICT, "M", (250, 500, 1000, 2000)),
    ("recover", RECOVER, "n", (190, 380, 760, 1520)),
    ("recover", RECOVER, "d", (8, 16, 32, 64)),
    ("recover", RECOVER, "m", (1, 2, 4, 8)),
    ("recover", RECOVER, "k", (3, 6, 12, 24)),
]


def searched(s):
    """Examples that the search of a recovery takes: seven eighths, at most 32 equations (n k d) per unknown (2 m d^2)."""
    return min(7 / 8 * s["n"], 64 * s["m"] * s["d"] / s["k"])


def expected_flops(what, s):
    if what == "recover":
        used = searched(s)
        return used * s["k"] * s["m"] * (8 * s["d"] ** 2 + 8 * s["k"] * s["d"])
    n, width, p = s["n"], s["d"] + 1, s["M"] * (s["d"] + 1)
    features = 2.0 * n * p * (width + 2 * s["N"])
    if what == "predict":
        return features + 2.0 * n * p
    return features + (n * n * p + n**3 / 3 if what == "fit, dual" else n * p * p + p**3 / 3)


def expected_bytes(what, s):
    """Data, heads twice, features (kept up to a limit that these sizes do not reach) and the Gram matrix; for recover,
    tokens and outputs, and the attention weights and mixed tokens of every head."""
    if what == "recover":
        return 8 * searched(s) * s["k"] * (2 * s["d"] + s["m"] * (s["k"] + s["d"]))
    p = s["M"] * (s["d"] + 1)
    data = 8 * s["n"] * (s["N"] + 1) * s["d"] + 16 * p * (s["d"] + 1)
    return data + 8 * s["n"] * p + (8 * s["n"] ** 2 if what == "fit, dual" else 8 * p * p)


def fit_or_predict(what, s, core, folder):
    data, model = folder / "data.npz", folder / "model.safetensors"
    headlens("generate", "power-mean", "--degree", 2, "--dim", s["d"], "--keys", s["N"], "--count", s["n"], "-o", data,
             core=core)  # fmt: skip
    fit = ("fit", data, "--heads", s["M"], "--ridge", 1e-3, "-o", model)
    if what == "predict":
        small = folder / "small.npz"  # the model does not depend on what it was fitted to
        headlens("generate", "power-mean", "--degree", 2, "--dim", s["d"], "--keys", s["N"], "--count", 50, "-o", small,
                 core=core)  # fmt: skip
        headlens("fit", small, *fit[2:], core=core)
        return headlens("predict", model, data, "-o", folder / "out.npy", core=core)[1:]
    return headlens(*fit, "--solver", what.split()[-1], core=core)[1:]


def recover(s, core, folder):
    """Seconds of an inner step."""
    examples = folder / "examples.npz"
    headlens("generate", "attention-layer", "--heads", s["m"], "--dim", s["d"], "--tokens", s["k"], "--count", s["n"],
             "-o", examples, core=core)  # fmt: skip
    found, seconds, peak = headlens("recover", examples, "--heads", s["m"], "-o", folder / "l.npz", core=core)
    search = seconds * found["phases"]["search"] / found["seconds"]
    return search / found["inner_steps"], peak


def slope(sizes, values):
    """Over the larger half of the steps."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def run_axis(what, base, axis, steps, core, idle):
    points = []
    for size in steps:
        s = {**base, axis: size}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            seconds, peak = (
                recover(s, core, folder) if what == "recover" else fit_or_predict(what, s, core, folder)
            )
        points.append({axis: size, "seconds": seconds, "peak_mib": peak})
    shapes = [{**base, axis: size} for size in steps]
    found = {
        "what": what, "base": base, "axis": axis, "points": points,
        "time": slope(steps, [p["seconds"] for p in points]),
        "time_expected": slope(steps, [expected_flops(what, s) for s in shapes]),
    }  # fmt: skip
    if what != "predict":
        found["memory"] = slope(steps, [p["peak_mib"] - idle for p in points])
        found["memory_expected"] = slope(steps, [expected_bytes(what, s) for s in shapes])
    return found


def main():
    build()
    machine = checked_machine()
    core = machine["blas_core"]
    idle = command([HEADLENS, "info"], core, 1)[2]
    out = {"machine": machine, "clock": "processor", "idle_mib": idle, "axes": []}
    for what, base, axis, steps in AXES:
        steps = steps[:-1] if "--quick" in sys.argv else steps
        found = run_axis(what, base, axis, steps, core, idle)
        out["axes"].append(found)
        last = found["points"][-1]
        line = f"{what:12s} {axis} to {steps[-1]:5d}  {last['seconds']:8.4f} s  {last['peak_mib']:5.0f} MiB"
        line += f"   time ^{found['time']:.2f} (expected {found['time_expected']:.2f})"
        if "memory" in found:
            line += f"   memory ^{found['memory']:.2f} (expected {found['memory_expected']:.2f})"
        print(line, flush=True)
    write("growth", out)


if __name__ == "__main__":
    main()
