"""Ridge regression on random-feature attention, the whole fit: fit.py numpy|held-out|torch|sklearn CASE.npz THREADS.

CASE.npz holds heads, train and test sets, and the penalties. Features by features.py in blocks of 16 sets; then exact
leave-one-out over all penalties from one eigendecomposition of the smaller Gram matrix (sklearn: RidgeCV; held-out:
NumPy, but the penalty with the least error on a held-out tenth), the coefficients at the best, and the error on the
test sets. Prints JSON: seconds and processor seconds of fit and prediction without loading, nmse, ridge, and peak
memory.
"""

import json
import resource
import sys
import time

import numpy as np

from features import numpy_map, torch_map

BLOCK = 16  # sets whose features are computed at once
ROWS = 2048  # rows of the path at once


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
    else:
        values, vectors = eigh(phi.T @ phi)
    values = values.clip(0)  # rounding makes small ones negative
    rotated = vectors.T @ (y if n <= p else phi.T @ y)
    squared_errors = [0.0] * len(penalties)
    for first in range(0, n, ROWS):  # in blocks: the squares of all of them would be one more large array
        basis = vectors[first : first + ROWS] if n <= p else phi[first : first + ROWS] @ vectors
        squares = basis**2
        for k, penalty in enumerate(penalties):
            shrink = 1.0 / (values + n * penalty)
            if n <= p:
                errors = (basis @ (shrink * rotated)) / (squares @ shrink)  # both divided by n penalty
            else:
                residuals = y[first : first + ROWS] - basis @ (shrink * rotated)
                errors = residuals / (1 - 1.0 / n - squares @ shrink)
            squared_errors[k] += float((errors**2).sum())
    best = penalties[int(np.argmin(squared_errors))]
    shrink = 1.0 / (values + n * best)
    coefficients = vectors @ (shrink * rotated)
    return (phi.T @ coefficients if n <= p else coefficients), float(best)


def held_out(phi, y, penalties):
    """Coefficients at the penalty with the least error on a held-out tenth: one eigendecomposition, one Cholesky."""
    import scipy.linalg

    n, p = phi.shape
    cut = n - n // 10
    dual = n <= p
    gram = phi @ phi.T if dual else phi[:cut].T @ phi[:cut]
    values, vectors = scipy.linalg.eigh(gram[:cut, :cut] if dual else gram, driver="evd", check_finite=False)
    values = values.clip(0)
    rotated = vectors.T @ (y[:cut] if dual else phi[:cut].T @ y[:cut])
    seen = (gram[cut:, :cut] if dual else phi[cut:]) @ vectors
    errors = [((y[cut:] - seen @ (rotated / (values + n * s))) ** 2).sum() for s in penalties]
    best = penalties[int(np.argmin(errors))]
    if not dual:
        gram += phi[cut:].T @ phi[cut:]
    gram.flat[:: len(gram) + 1] += n * best
    factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
    solved = scipy.linalg.cho_solve(factor, y if dual else phi.T @ y, check_finite=False)
    return (phi.T @ solved if dual else solved), float(best)


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
    if library == "held-out":
        coefficients, penalty = held_out(phi, y - centre, data["penalties"])
    else:
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
