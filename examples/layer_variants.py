"""How often layers with masks, biases, rotary positions and padding are recovered, and what wrong variants get.

    .venv/bin/python examples/layer_variants.py [SEEDS] [WRONG]

Layers of 4 heads, d = 16, 400 examples of 8 sign tokens. Prints the table of docs/layers.md: of SEEDS layers (10) how
many are `recovered`, the worst error of any head (that of `headlens compare`), the median of the seconds, and how often
anything but the right variant certifies one of the first WRONG layers (a fifth of SEEDS; the layouts of rotary positions
are one variant: columns of Q and K in another order).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

BINARY = Path(__file__).resolve().parents[1] / "build" / "headlens"
CAUSAL, BIAS = "--mask causal", "--bias"
HALF, INTERLEAVED = "--rotary base=10000,layout=half", "--rotary base=10000,layout=interleaved"
RIGHT = [
    CAUSAL,
    BIAS,
    "--padding",
    HALF,
    INTERLEAVED,
    f"{CAUSAL} {BIAS}",
    f"{CAUSAL} --padding",
    f"{BIAS} --padding",
    f"{CAUSAL} {HALF}",
    f"{BIAS} {HALF}",
    f"{HALF} --padding",
]
WRONG = ["", CAUSAL, HALF]


def headlens(text):
    done = subprocess.run([BINARY, *text.split()], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout) if "--json" in text else done.returncode


def measure(options, seeds, wrong_seeds, folder):
    known = options.replace("--padding", "").strip()
    shape = "--heads 4 --dim 16 --tokens 8 --count 400"
    recovered, errors, seconds, certified, tries = 0, [], [], 0, 0
    for seed in range(seeds):
        files = f"-o {folder}/ex.npz --layer-out {folder}/truth.npz"
        headlens(f"generate attention-layer {shape} --seed {seed} {options} {files}")
        found = headlens(f"recover {folder}/ex.npz --heads 4 {known} -o {folder}/layer.npz --json")
        seconds.append(found["seconds"])
        if found["status"] == "recovered":
            recovered += 1
            errors.append(headlens(f"compare {folder}/layer.npz {folder}/truth.npz --json")["worst_error"])
        for wrong in WRONG:
            same = wrong == known or ("rotary" in wrong and wrong.replace("half", "interleaved") == known)
            if not same and seed < wrong_seeds:
                tries += 1
                certified += (
                    headlens(f"recover {folder}/ex.npz --heads 4 --starts 1 {wrong} -o {folder}/wrong.npz")
                    == 0
                )
    return recovered, max(errors, default=float("nan")), median(seconds), certified, tries


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    wrong = int(sys.argv[2]) if len(sys.argv) > 2 else max(1, seeds // 5)
    print(
        "| layer | recovered | worst error | seconds | certified as another variant |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for options in RIGHT:
            recovered, worst, seconds, certified, tries = measure(options, seeds, wrong, folder)
            row = (
                f"`{options}` | {recovered} of {seeds} | {worst:.1e} | {seconds:.1f} | {certified} of {tries}"
            )
            print(f"| {row} |", flush=True)


if __name__ == "__main__":
    main()
