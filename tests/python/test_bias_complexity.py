"""examples/bias_complexity.py: norms through orbits against the plain norm, the targets, and B as their limit."""

import sys
from pathlib import Path

import headlens
import numpy as np
import pytest
from binary import run

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
from bias_complexity import (
    TARGETS,
    complexity,
    orbit_kernel,
    orbit_norms,
    symmetries,
    targets_as_vectors,
)

COUNTS = (25, 75, 225)


def drawn(target, count):
    task, *degree = target.split(" --degree ")
    X, y = headlens.generate(
        task, dim=3, keys=1, count=count, **({"degree": int(degree[0])} if degree else {})
    )
    return X[:, 0], X[:, 1], y


@pytest.mark.parametrize("target", TARGETS)
def test_targets_are_those_of_generate(target):
    query, key, y = drawn(target, 50)
    vectors = targets_as_vectors(target, query, key)
    beta = np.linalg.lstsq(vectors, y, rcond=None)[0]
    np.testing.assert_allclose(vectors @ beta, y, rtol=0, atol=1e-13)
    assert np.linalg.norm(beta) == pytest.approx(1, abs=1e-12)


def test_orbits_give_the_norm_through_all_their_examples(tmp_path):
    query, key, _ = drawn("native", 6)
    all_of = [(query @ g.T, key @ g.T) for g in symmetries(3)]
    queries, keys = (np.concatenate(tokens) for tokens in zip(*all_of, strict=True))
    np.savez(tmp_path / "all.npz", query=queries, keys=keys[:, None])
    run(f"kernel {tmp_path}/all.npz --model brfa --bias-scale 0.5 -o {tmp_path}/k.npy")
    kernel = np.load(tmp_path / "k.npy")
    blocks = orbit_kernel(query, key, 0.5)
    for target in TARGETS:
        y = targets_as_vectors(target, queries, keys) @ [0.6, 0, 0.8]
        (norm,) = orbit_norms(blocks, targets_as_vectors(target, query, key), [6])
        # The kernel has the condition 7e4 and is exact to 1e-12.
        assert norm == pytest.approx(y @ np.linalg.solve(kernel, y), rel=1e-7)


@pytest.mark.parametrize("bias", [0.5, 1])
def test_complexity_is_the_limit_from_below(bias):
    query, key, _ = drawn("native", COUNTS[-1])
    blocks = orbit_kernel(query, key, bias)
    for target in TARGETS:
        norms = orbit_norms(blocks, targets_as_vectors(target, query, key), COUNTS)
        B, is_bound = complexity(target, 3, bias, 1)
        assert not is_bound
        assert norms == sorted(norms) and 0.8 * B < norms[-1] < B, (target, norms, B)
