"""The package as it was built, whether or not PYTHONPATH says so, and the helpers of the program's tests."""

import os
import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(os.environ.get("HEADLENS_PACKAGE", ROOT / "build/python"))
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests/cli")]
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def tokens(rng):
    """(X, y): 40 sets of 4 keys in 3 dimensions, query first, and a smooth target."""
    X = rng.standard_normal((40, 5, 3))
    return X, X[:, 0, 0] * X[:, 1:, 0].mean(1) + 0.1 * rng.standard_normal(40)


@pytest.fixture
def ragged(rng):
    """(Sets, y) of 1 to 6 keys."""
    import headlens

    sizes = rng.integers(1, 7, 40)
    X = headlens.Sets.from_list([rng.standard_normal((1 + n, 3)) for n in sizes])
    return X, np.array([tokens[0, 0] * tokens[1:, 0].mean() for tokens in X])
