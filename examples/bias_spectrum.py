"""Where targets lie in the spectrum of the kernels of `rfa` and `brfa`; the table of docs/bias.md.

    .venv/bin/python examples/bias_spectrum.py

2000 sets, d = N = 8. The kernel matrix with its mean over sets taken out is diagonalised, and the variance of y is
split over its eigenvectors, largest eigenvalue first. Ridge regression learns them in this order: a target is easy if
few eigenvectors hold nearly all of it, and what lies beyond the first n cannot be learned from n sets.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

HEADLENS = os.environ.get("HEADLENS", str(Path(__file__).resolve().parents[1] / "build" / "headlens"))
TARGETS = [
    "native --matrix identity",
    "native --matrix shift",
    "correlation --degree 1 --pure --matrix identity",
    "correlation --degree 1 --pure --matrix shift",
]
SETS = "--dim 8 --keys 8 --count 2000 --seed 1 --target-seed 1 -o"
LEADING = [17, 128, 256, 512, 1024]


def headlens(command, *files):
    subprocess.run([HEADLENS, *command.split(), *map(str, files)], check=True, capture_output=True)


def spectrum(sets, model, folder):
    """Eigenvalues over n, largest first, and eigenvectors of the centred kernel matrix."""
    headlens(f"kernel --model {model} -o", folder / "K.npy", sets)
    kernel = np.load(folder / "K.npy")
    kernel = kernel - kernel.mean(axis=0)
    kernel = kernel - kernel.mean(axis=1)[:, None]
    values, vectors = np.linalg.eigh(kernel)
    return values[::-1] / len(kernel), vectors[:, ::-1]


def shares(y, vectors):
    parts = (vectors.T @ (y - y.mean())) ** 2
    return np.cumsum(parts)[np.array(LEADING) - 1] / parts.sum()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = {}
        for target in TARGETS:
            headlens(f"generate {target} {SETS}", folder / "sets.npz")
            targets[target] = np.load(folder / "sets.npz")["y"]  # one seed: the same tokens for all targets
        spectra = {model: spectrum(folder / "sets.npz", model, folder) for model in ("rfa", "brfa")}
    print("| target | model | " + " | ".join(f"{k}" for k in LEADING) + " |")
    print("|---|---|" + "---|" * len(LEADING))
    for target, y in targets.items():
        for model, (_, vectors) in spectra.items():
            print(f"| `{target}` | {model} | " + " | ".join(f"{s:.1%}" for s in shares(y, vectors)) + " |")
    for model, (values, _) in spectra.items():
        print(f"| eigenvalue | {model} | " + " | ".join(f"{values[k - 1]:.2g}" for k in LEADING) + " |")


if __name__ == "__main__":
    main()
