"""Where the paper's method fades: the angle between the estimated and the true affine hull, as k and m grow.

    python examples/sculpt_fading.py [--seeds 10] [--lp-seeds 3] [--json FILE]

Layers and examples come from `headlens generate`, spans from `headlens recover --method sculpt --span-out`; the truth
is compared here, from outside. Prints a markdown table. It took 50 minutes on a busy machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np

HEADLENS = os.environ.get("HEADLENS", str(Path(__file__).resolve().parents[1] / "build/headlens"))
SCALE = 2
CASES = [
    (2, 8, 2, 20000),
    (3, 8, 2, 20000),
    (4, 8, 2, 20000),
    (2, 16, 2, 30000),
    (2, 8, 3, 40000),
]  # k, d, m, n


def headlens(*arguments):
    done = subprocess.run(
        [HEADLENS, *map(str, arguments), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr.strip())
    return json.loads(done.stdout)


def sine(span, theta):
    """Of the largest principal angle between the span and that of Theta_i - Theta_0."""
    if len(span) != len(theta) - 1:
        return 1.0
    found, _ = np.linalg.qr(span.reshape(len(span), -1).T)
    truth, _ = np.linalg.qr((theta[1:] - theta[0]).reshape(len(span), -1).T)
    return float(np.linalg.norm(truth - found @ (found.T @ truth), 2))


def sculpt(k, d, m, n, seed, *options):
    """One layer, sculpted: the sine of the angle, and what the certificate says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = ("--heads", m, "--dim", d, "--tokens", k, "--scale", SCALE, "--count", n, "--seed", seed)
        headlens(
            "generate",
            "attention-layer",
            *shape,
            "-o",
            folder / "ex.npz",
            "--layer-out",
            folder / "truth.npz",
        )
        certificate = headlens(
            *("recover", folder / "ex.npz", "--method", "sculpt", "--heads", m, "--threads", 1, *options),
            *("--span-out", folder / "span.npz", "-o", folder / "found.npz"),
        )
        error = None
        if (folder / "found.npz").exists():
            error = headlens("compare", folder / "found.npz", folder / "truth.npz")["worst_error"]
        angle = sine(np.load(folder / "span.npz")["span"], np.load(folder / "truth.npz")["Theta"])
    return {
        "sine": angle,
        "eigengap": certificate["sculpt"]["eigengap"],
        "net_error": certificate["sculpt"]["net_error"],
        "recovered": error is not None and error < 1e-8,
        "seconds": certificate["seconds"],
    }


def row(case, form, runs):
    k, d, m, n = case
    sines = [run["sine"] for run in runs]
    middle = {
        key: statistics.median(run[key] for run in runs) for key in ("eigengap", "net_error", "seconds")
    }
    return (
        f"| {k}, {d}, {m} | {n} | {form} | {statistics.median(sines):.3f} | {max(sines):.3f} | "
        f"{middle['eigengap']:.3g} | {middle['net_error']:.3f} | "
        f"{sum(run['recovered'] for run in runs)} of {len(runs)} | {middle['seconds']:.0f} s |"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="layers for each shape")
    parser.add_argument("--lp-seeds", type=int, default=3, help="the same, with linear programs")
    parser.add_argument("--json", help="file for the single runs")
    given = parser.parse_args()
    print("| k, d, m | n | form | sine, median | worst | eigengap | net error | after polish | time |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    everything = []
    for form, seeds in (("least-squares", given.seeds), ("lp", given.lp_seeds)):
        for case in CASES:
            runs = [sculpt(*case, seed, "--sculpt-form", form) for seed in range(seeds)]
            everything.append({"case": case, "form": form, "runs": runs})
            print(row(case, form, runs), flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
