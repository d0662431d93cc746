"""Where targets lie in the spectrum of the kernels of `rfa` and `brfa`; the table of docs/bias.md.

    .venv/bin/python examples/bias_spectrum.py

2000 sets, d = N = 8. The kernel matrix with its mean over sets taken out is diagonalised, and the variance of y is
split over its eigenvectors, largest eigenvalue first. Ridge regression learns them in this order: a target is easy if
few eigenvectors hold nearly all of it, and what lies beyond the first n cannot be learned from n sets.
"""

import os
import subprocess
import tempfile
from math import erf, pi, sqrt
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


def shares(y, vectors, leading):
    parts = (vectors.T @ (y - y.mean())) ** 2
    return np.cumsum(parts)[np.array(leading) - 1] / parts.sum()


def mean_features(sets, model):
    """(1/N) sum_i c_0(mu_i) (x_i, 1), the mean over heads: mu_i = <x_0, x_i> for brfa, 0 for rfa."""
    query, keys = sets["query"], sets["keys"]
    mean = np.einsum("nd,nkd->nk", query, keys) * (model == "brfa")
    c_0 = mean * (1 + np.vectorize(erf)(mean / sqrt(2))) / 2 + np.exp(-(mean**2) / 2) / sqrt(2 * pi)
    return np.column_stack([(c_0[:, :, None] * keys).mean(axis=1), c_0.mean(axis=1)])


def least_share(functions, vectors, leading):
    """The smallest share of the variance of these functions, constants left out, that leading eigenvectors hold."""
    varying = functions[:, functions.std(axis=0) > 1e-12]
    return min(shares(f, vectors, [leading])[0] for f in varying.T)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = {}
        for target in TARGETS:
            headlens(f"generate {target} {SETS}", folder / "sets.npz")
            sets = np.load(folder / "sets.npz")  # one seed: the same tokens for all targets
            targets[target] = sets["y"]
        features = {model: mean_features(sets, model) for model in ("rfa", "brfa")}
        query = sets["query"]
        spectra = {model: spectrum(folder / "sets.npz", model, folder) for model in ("rfa", "brfa")}
    print("| target | model | " + " | ".join(f"{k}" for k in LEADING) + " |")
    print("|---|---|" + "---|" * len(LEADING))
    for target, y in targets.items():
        for model, (_, vectors) in spectra.items():
            print(
                f"| `{target}` | {model} | "
                + " | ".join(f"{s:.1%}" for s in shares(y, vectors, LEADING))
                + " |"
            )
    for model, (values, _) in spectra.items():
        print(f"| eigenvalue | {model} | " + " | ".join(f"{values[k - 1]:.2g}" for k in LEADING) + " |")
    for model, (_, vectors) in spectra.items():
        of_query, of_mean = (least_share(f, vectors, 17) for f in (query, features[model]))
        print(
            f"{model}: 17 hold {of_query:.1%} or more of each query coordinate, {of_mean:.1%} of each mean feature"
        )


if __name__ == "__main__":
    main()
