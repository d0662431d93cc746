"""Ridge regression on random-feature attention, the whole fit: fit.py numpy|torch|sklearn CASE.npz THREADS.

CASE.npz holds heads, train and test sets, and the penalties. Features by features.py in blocks of 16 sets; then leave-one-out over all penalties from one eigendecomposition of the smaller Gram matrix (sklearn: RidgeCV),
the coefficients at the best, and the held-out error. Prints JSON: seconds and processor seconds of fit and prediction
without loading, nmse, ridge, and peak memory.
"""

import json
import resource
import sys
import time

import numpy as np

from features import numpy_map, torch_map

BLOCK = 16


def features(library, heads, query, keys):
    """(n, M D)"""
    forms, make, n = (torch_map if library == "torch" else numpy_map)(heads, query, keys)
    function = next(iter(forms.values()))
    out = make(n)
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        function(first, last, out[first:last])
    return out.reshape(n, -1)


def leave_one_out(eigh, phi, y, penalties):
    """Coefficients at the penalty with the least leave-one-out error. phi and y are centred; the intercept adds 1/n."""
    n, p = phi.shape
    if n <= p:
        values, vectors = eigh(phi @ phi.T)
        values, vectors = values[1:], vectors[:, 1:]  # the first belongs to the intercept: phi is centred
        rotated = vectors.T @ y
        squares = vectors**2
    else:
        values, vectors = eigh(phi.T @ phi)
        rotated = vectors.T @ (phi.T @ y)
        basis = phi @ vectors
        squares = basis**2
    values = values.clip(0)  # rounding makes small ones negative
    best = (float("inf"), None)
    for penalty in penalties:
        shrink = 1.0 / (values + n * penalty)
        if n <= p:
            dual = vectors @ (shrink * rotated)
            errors = dual / (squares @ shrink)  # residual and 1 - h, both divided by n penalty
        else:
            coefficients = shrink * rotated
            errors = (y - basis @ coefficients) / (1 - 1.0 / n - squares @ shrink)
        best = min(best, (float((errors**2).mean()), float(penalty)), key=lambda pair: pair[0])
    shrink = 1.0 / (values + n * best[1])
    if n <= p:
        return phi.T @ (vectors @ (shrink * rotated)), best[1]
    return vectors @ (shrink * rotated), best[1]


def fit_and_predict(library, data):
    phi = features(library, data["heads"], data["query"], data["keys"])
    test = features(library, data["heads"], data["test_query"], data["test_keys"])
    if library == "sklearn":
        from sklearn.linear_model import RidgeCV

        model = RidgeCV(alphas=data["penalties"] * len(phi)).fit(phi, data["y"])
        return model.predict(test), model.alpha_ / len(phi)
    if library == "torch":
        import torch

        y, eigh = torch.from_numpy(data["y"]), torch.linalg.eigh
    else:
        import scipy.linalg

        y = data["y"]

        def eigh(a):
            return scipy.linalg.eigh(a, driver="evd", overwrite_a=True, check_finite=False)

    mean, centre = phi.mean(0), y.mean()
    phi -= mean
    coefficients, penalty = leave_one_out(eigh, phi, y - centre, data["penalties"])
    return np.asarray((test - mean) @ coefficients + centre), penalty


def main():
    library, threads = sys.argv[1], int(sys.argv[3])
    data = dict(np.load(sys.argv[2]))
    if library == "torch":
        import torch

        torch.set_num_threads(threads)
    if library == "sklearn":
        import sklearn.linear_model  # noqa: F401
    start, processor = time.perf_counter(), time.process_time()
    prediction, penalty = fit_and_predict(library, data)
    found = {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - processor,
        "nmse": float(((prediction - data["test_y"]) ** 2).mean() / data["test_y"].var()),
        "ridge": float(penalty),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
