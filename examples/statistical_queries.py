"""Statistical queries against hard layers: how many, and how exact they have to be.

A statistical-query learner sees no example. It asks an oracle for averages E[v q(z)] and gets each to within a tolerance, wrong by
as much as the oracle likes. Here v is the hidden part of the output of a real hard layer with the control on, z_j = (x_j - x'_j) / 2
in {-1, 0, 1}, and averages are over all inputs, exactly. The oracle rounds to multiples of twice the tolerance and counts.

    PYTHONPATH=build/python .venv/bin/python examples/statistical_queries.py      # a few seconds
"""

from itertools import combinations, product

import headlens
import numpy as np


class Oracle:
    """Averages over all inputs of a layer on two sign tokens, to within a tolerance; counts what it is asked."""

    def __init__(self, layer):
        self.z = np.array(list(product((-1, 0, 1), repeat=layer.dim - 1)), dtype=float)
        tokens = np.ones((len(self.z), 2, layer.dim))
        tokens[:, 1, 0] = -1  # the control is on
        tokens[:, 0, 1:][self.z == -1] = -1
        tokens[:, 1, 1:][self.z == 1] = -1
        outputs = layer.forward(tokens)[:, :, 0]
        chance = 0.5 ** (1 + np.abs(self.z)).sum(axis=1)  # z_j = 0 has probability 1/2, -1 and 1 have 1/4
        hidden = (outputs[:, 0] - outputs[:, 1]) / 2
        hidden -= chance @ hidden
        self.weighted = chance * hidden / np.sqrt(chance @ hidden**2)  # of variance one
        self.tolerance, self.queries = 0.0, 0

    def ask(self, values):
        self.queries += 1
        exact = self.weighted @ values
        return exact if self.tolerance == 0 else 2 * self.tolerance * np.rint(exact / (2 * self.tolerance))


def characters(oracle, size):
    """The set of `size` coordinates whose parity answers, after asking for all such sets."""
    parity = 1 - 2 * np.abs(oracle.z)
    sets = list(combinations(range(oracle.z.shape[1]), size))
    found = [chosen for chosen in sets if abs(oracle.ask(parity[:, chosen].prod(axis=1))) > 1e-9]
    return [j + 1 for j in found[0]] if len(found) == 1 else []


def coordinates(oracle, _):
    """The coordinates that answer, each alone."""
    single = [np.c_[oracle.z[:, j], 1 - 2 * np.abs(oracle.z[:, j])].T for j in range(oracle.z.shape[1])]
    return [j + 1 for j, both in enumerate(single) if max(abs(oracle.ask(values)) for values in both) > 1e-9]


def coarsest(layer, learner, size):
    """The largest tolerance 2^-t with which the learner names the hidden set, and the queries it then takes."""
    hidden = np.flatnonzero(layer.label.weights).tolist()
    oracle = Oracle(layer)
    for t in range(1, 31):
        oracle.tolerance, oracle.queries = 2.0**-t, 0
        if learner(oracle, size) == hidden:
            return f"2^-{t}", oracle.queries
    return "none", oracle.queries


def main():
    dim = 10
    print("| layer | hidden coordinates | heads | learner | tolerance | queries |\n|---|---|---|---|---|---|")

    def row(name, layer, learner, size):
        tolerance, queries = coarsest(layer, learner, size)
        print(f"| {name} | {size} | {layer.heads} | {learner.__name__} | {tolerance} | {queries} |")

    for size in range(1, 5):
        layer = headlens.AttentionLayer.hard_parity(dim=dim, size=size, seed=size)
        for learner in coordinates, characters:
            row("parity", layer, learner, size)
    for modulus in 4, 8:
        for weight in 2, 4, 6, 8:
            layer = headlens.AttentionLayer.hard_rounding(
                dim=dim, modulus=modulus, weight=weight, seed=weight
            )
            row(f"rounding modulo {modulus}", layer, coordinates, weight)


if __name__ == "__main__":
    main()
