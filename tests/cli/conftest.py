"""Data files for the tests: small, seeded, Gaussian tokens (unit tokens come from `headlens generate`)."""

import numpy as np
import pytest


class Data(dict):
    """Arrays of a set file, and the file."""

    path = None


@pytest.fixture
def save(tmp_path):
    """save(query=..., keys=...) writes an .npz and returns its arrays with the path."""

    def write(name="data", **arrays):
        data = Data(arrays)
        data.path = tmp_path / f"{name}.npz"
        np.savez(data.path, **arrays)
        return data

    return write


@pytest.fixture
def make_sets(save):
    """make_sets("ragged", n=20, d=3, q=None): random sets with Gaussian targets."""

    def make(layout="rectangular", n=20, d=3, keys=4, q=None, seed=0, name="data", dtype=np.float64, y=None):
        rng = np.random.default_rng(seed)
        targets = (n,) if layout != "sequence" else (n, keys)
        if layout == "sequence":
            arrays = {"tokens": rng.standard_normal((n, keys, d))}
        elif layout == "ragged":
            offsets = np.r_[0, np.cumsum(rng.integers(1, 2 * keys, n))]
            arrays = {"query": rng.standard_normal((n, d)), "keys": rng.standard_normal((offsets[-1], d))}
        else:
            arrays = {"query": rng.standard_normal((n, d)), "keys": rng.standard_normal((n, keys, d))}
        arrays["y"] = rng.standard_normal(targets + (() if q is None else (q,))) if y is None else y
        arrays = {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in arrays.items()}
        if layout == "ragged":
            arrays["offsets"] = offsets
        return save(name, **arrays)

    return make
