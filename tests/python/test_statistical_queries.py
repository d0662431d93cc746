"""examples/statistical_queries.py: the oracle against sampled averages, and the counts that docs/hardness.md gives."""

import sys
from math import comb
from pathlib import Path

import headlens
import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
from statistical_queries import Oracle, characters, coarsest, coordinates

DIM = 7


def test_answers_are_averages_over_examples():
    layer = headlens.AttentionLayer.hard_rounding(dim=DIM, weight=3, seed=1)
    oracle = Oracle(layer)
    X, Y = layer.examples(count=40000, seed=2)
    control = (X[:, 0, 0] - X[:, 1, 0]) / 2
    z = ((X[:, 0, 1:] - X[:, 1, 1:]) / 2 * control[:, None])[
        control != 0
    ]  # -1 is +1 with the tokens exchanged
    v = (control * (Y[:, 0, 0] - Y[:, 1, 0]) / 2)[control != 0]
    v = (v - v.mean()) / v.std()
    for j in range(DIM - 1):
        sampled, exact = np.mean(v * z[:, j]), oracle.ask(oracle.z[:, j])
        assert abs(sampled - exact) < 5 / np.sqrt(len(v))  # five standard errors of a product of size one
    assert oracle.queries == DIM - 1


def test_an_answer_is_within_the_tolerance():
    oracle = Oracle(headlens.AttentionLayer.hard_parity(dim=DIM, size=2, seed=1))
    values = np.random.default_rng(0).normal(size=(50, len(oracle.z)))
    exact = [oracle.ask(q) for q in values]
    oracle.tolerance = 0.01
    given = [oracle.ask(q) for q in values]
    assert 0 < np.abs(np.subtract(given, exact)).max() <= 0.01 * (1 + 1e-9)


@pytest.mark.parametrize("size", [2, 3])
def test_a_parity_takes_a_query_for_every_set(size):
    layer = headlens.AttentionLayer.hard_parity(dim=DIM, size=size, seed=size)
    assert coarsest(layer, coordinates, size)[0] == "none"
    assert coarsest(layer, characters, size) == ("2^-1", comb(DIM - 1, size))


@pytest.mark.parametrize("weight", [2, 3, 5])
def test_a_rounding_modulo_four_takes_exact_answers(weight):
    """E[exp(2 pi i z / 4)] = 1/2 for each hidden coordinate: what one coordinate alone shows halves with every other."""
    layer = headlens.AttentionLayer.hard_rounding(dim=DIM, weight=weight, seed=weight)
    assert coarsest(layer, coordinates, weight) == (f"2^-{weight}", 2 * (DIM - 1))
