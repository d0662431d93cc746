"""Twelve synthetic tasks on sets: what each kind of learner should find easy or hard. Used by bench/sets.py.

Keys are Gaussian in five coordinates, 5 to 15 per set unless said otherwise. The target of every task but `rare key` has
variance one and noise of deviation 0.1, so no learner can have an error below 0.01.
"""

import numpy as np

DIM = 5


def _unit(rng):
    v = rng.normal(size=DIM)
    return v / np.linalg.norm(v)


def _pairs(x, a, b):
    """Mean of cos |x_i - x_j| over pairs."""
    distance = np.linalg.norm(x[:, None] - x[None], axis=2)
    return np.cos(distance)[np.triu_indices(len(x), 1)].mean()


# name: (smallest and largest size, target of the keys x and two directions)
PLAIN = {
    "mean": ((5, 15), lambda x, a, b: (x @ a).mean()),
    "maximum": ((5, 15), lambda x, a, b: (x @ a).max()),
    "count above a threshold": ((5, 15), lambda x, a, b: (x @ a > 0.8).sum()),
    "variance": ((5, 15), lambda x, a, b: (x @ a).var()),
    "pair interaction": ((5, 15), _pairs),
    "size": ((3, 30), lambda x, a, b: len(x)),
    "order statistic": ((5, 15), lambda x, a, b: np.sort(x @ a)[int(0.75 * len(x))]),
    "ragged extremes": ((1, 200), lambda x, a, b: np.ptp(x @ a)),
}
TASKS = [*PLAIN, "nearest to the query", "rare key", "noise keys", "mixture"]


def _planted(task, x, a, b, rng):
    """Keys, query and target of the tasks that plant something in the keys."""
    query = np.zeros(DIM)
    if task == "nearest to the query":
        query = rng.normal(size=DIM)
        return x, query, x[((x - query) ** 2).sum(1).argmin()] @ b
    if task == "rare key":  # a label: is one key from another cluster?
        there = rng.random() < 0.5
        if there:
            x[rng.integers(len(x))] = 3 * b + 0.3 * rng.normal(size=DIM)
        return x, query, float(2 * there - 1)
    if task == "noise keys":  # the first coordinate says which keys count
        counts = rng.random(len(x)) < 0.4
        counts[0] = True
        x[:, 0] = np.where(counts, 2, -2) + 0.1 * rng.normal(size=len(x))
        return x, query, (x[counts, 1:] @ a[1:]).mean()
    share = rng.random()  # mixture: of keys from a wide or a narrow cluster, with one mean
    wide = rng.random(len(x)) < share
    return x * np.where(wide, 1.5, 0.5)[:, None], query, share


def draw(task, count, seed):
    """Sets as (query, keys, offsets), and y."""
    number = TASKS.index(task)
    directions = np.random.default_rng([99, number])
    a, b = _unit(directions), _unit(directions)
    rng = np.random.default_rng([seed, number])
    low, high = PLAIN.get(task, ((5, 15), None))[0]
    if task == "ragged extremes":
        sizes = np.exp(rng.uniform(0, np.log(high + 1), count)).astype(int)
    else:
        sizes = rng.integers(low, high + 1, count)
    queries, keys, y = np.zeros((count, DIM)), [], np.empty(count)
    for i, size in enumerate(sizes):
        x = rng.normal(size=(size, DIM))
        if task == "variance":
            x *= np.exp(0.5 * rng.normal())
        if task in PLAIN:
            y[i] = PLAIN[task][1](x, a, b)
        else:
            x, queries[i], y[i] = _planted(task, x, a, b, rng)
        keys.append(x)
    if task != "rare key":
        y = (y - y.mean()) / y.std() + 0.1 * rng.normal(size=count)
    return (queries, np.concatenate(keys), np.r_[0, sizes.cumsum()]), y
