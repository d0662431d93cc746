"""Prediction in NumPy, in blocks of sets from .npy files that are mapped, not loaded: predict.py FOLDER OUTPUT.

FOLDER holds query.npy, keys.npy and what the model has: heads.npy (M, D, D), values.npy (M, D), intercept.npy. The size
of a block is tuned first. Prints the processor and wall seconds of the prediction, without imports and tuning.
"""

import json
import pathlib
import sys
import time

import numpy as np


def predictor(heads, values, intercept):
    m, d1, _ = heads.shape
    flat = np.ascontiguousarray(heads.transpose(1, 0, 2).reshape(d1, m * d1))
    weights = values.reshape(-1)

    def predict(query, keys):
        ones = np.ones((len(query), 1 + keys.shape[1], 1), heads.dtype)
        tokens = np.concatenate([np.concatenate([query[:, None], keys], 1), ones], 2)
        kt = tokens[:, 1:]
        scores = np.matmul((tokens[:, 0] @ flat).reshape(-1, m, d1), kt.transpose(0, 2, 1))
        np.maximum(scores, 0, out=scores)
        features = np.matmul(scores, kt).reshape(len(query), -1)
        return features @ weights / keys.shape[1] + intercept

    return predict


def sweep(predict, query, keys, block):
    return np.concatenate(
        [predict(query[i : i + block], keys[i : i + block]) for i in range(0, len(query), block)]
    )


def peak_mib():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def main():
    folder = pathlib.Path(sys.argv[1])
    query, keys = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("query", "keys"))
    predict = predictor(*(np.load(folder / f"{name}.npy") for name in ("heads", "values", "intercept")))
    best = (float("inf"), None)
    for block in (4, 16, 64, 256):
        start = time.process_time()
        sweep(predict, query[:2048], keys[:2048], block)
        best = min(best, (time.process_time() - start, block))
    wall, processor = time.perf_counter(), time.process_time()
    np.save(sys.argv[2], sweep(predict, query, keys, best[1]))
    seconds = {
        "processor_seconds": time.process_time() - processor,
        "wall_seconds": time.perf_counter() - wall,
    }
    print(json.dumps({**seconds, "block": best[1], "peak_mib": peak_mib(), "version": np.__version__}))


if __name__ == "__main__":
    main()
