"""Points in space and chains, as sets that do not change when everything is turned: pair features. Used by bench/sets.py."""

import numpy as np

LABELS = ["shapes: pairs of points", "counts of rare words"]
NUMBERS = ["molecules: pairs of atoms", "molecules: rows of the Coulomb matrix", "chains of two monomers"]
CHARGES = np.array([1, 6, 7, 8, 16])  # of five kinds of atoms
_tables = np.random.default_rng(8)
DEPTH, LENGTH = (t + t.T for t in (_tables.uniform(0.25, 1, (5, 5)), _tables.uniform(0.5, 0.8, (5, 5))))
TOPICS = np.random.default_rng(5).dirichlet(np.full(200, 0.05), 30)


def pairs(points):
    i, j = np.triu_indices(len(points), 1)
    return i, j, np.linalg.norm(points[i] - points[j], axis=1)


def shape(kind, rng):
    """8 to 20 points of a sphere, a cube, a torus or a tube, with noise, in any orientation; every pair is a key."""
    count = rng.integers(8, 21)
    u, (a, b) = rng.normal(size=(count, 3)), rng.uniform(0, 2 * np.pi, (2, count))
    sphere = u / np.linalg.norm(u, axis=1)[:, None]
    cube = 0.8 * u / np.abs(u).max(1)[:, None]
    ring = 1 + 0.35 * np.cos(b)
    torus = np.c_[ring * np.cos(a), ring * np.sin(a), 0.35 * np.sin(b)]
    tube = np.c_[0.7 * np.cos(a), 0.7 * np.sin(a), rng.uniform(-1, 1, count)]
    x = [sphere, cube, torus, tube][kind] * rng.uniform(0.8, 1.2) + 0.05 * rng.normal(size=(count, 3))
    x -= x.mean(0)
    far = np.linalg.norm(x, axis=1)
    i, j, distance = pairs(x)
    return np.c_[distance, far[i] + far[j], np.abs(far[i] - far[j])]


def words(positive, rng):
    """Counts of 200 words in 3 to 11 passages; some passages of a positive text are about one of three topics."""
    count = rng.integers(3, 12)
    topic = rng.integers(3, 30, count)
    if positive:
        topic[: max(1, rng.binomial(count, 0.25))] = rng.integers(0, 3)
    return rng.poisson(15 * TOPICS[topic]).astype(float)


def grown(rng):
    """8 to 19 atoms, each near one of the last four, none nearer to another than 0.9; kinds and places."""
    count = rng.integers(8, 20)
    kinds, places = rng.choice(5, count, p=[0.45, 0.3, 0.1, 0.1, 0.05]), np.zeros((count, 3))
    for t in range(1, count):
        while True:
            step = rng.normal(size=3)
            place = places[rng.integers(max(0, t - 4), t)] + step / np.linalg.norm(step) * rng.uniform(1, 1.6)
            if np.linalg.norm(places[:t] - place, axis=1).min() > 0.9:
                break
        places[t] = place
    return kinds, places


def molecule(rng, coulomb):
    """Energy: one term per atom, and Morse potentials between all pairs."""
    kinds, places = grown(rng)
    i, j, distance = pairs(places)
    stretch = np.exp(-2 * (distance - LENGTH[kinds[i], kinds[j]]))
    energy = (DEPTH[kinds[i], kinds[j]] * (stretch**2 - 2 * stretch)).sum() - (0.5 + 1.5 * kinds).sum()
    if not coulomb:
        kind = np.eye(5)[kinds]
        return np.c_[kind[i] + kind[j], distance, 1 / distance, np.exp(-distance)], energy
    charge, matrix = CHARGES[kinds], np.zeros((len(kinds), len(kinds)))
    matrix[i, j] = matrix[j, i] = charge[i] * charge[j] / distance
    np.fill_diagonal(matrix, 0.5 * charge**2.4)
    rows = np.zeros((len(kinds), 20))
    rows[:, : len(kinds)] = -np.sort(-matrix, axis=1)
    return np.c_[matrix.diagonal(), rows], energy


def chain(rng):
    """10 to 39 monomers of two kinds; a key is a monomer with its neighbours and its place. Target: runs and share."""
    count, stay = rng.integers(10, 40), rng.uniform(0.05, 0.95)
    kinds = (rng.integers(2) + np.r_[0, (rng.random(count - 1) > stay).cumsum()]) % 2
    kind, end = np.eye(2)[kinds], np.zeros((1, 2))
    tokens = np.c_[kind, np.r_[end, kind[:-1]], np.r_[kind[1:], end], np.linspace(0, 1, count)]
    return tokens, np.log(count) * np.sqrt(count / (1 + np.abs(np.diff(kinds)).sum())) + kinds.mean()


def draw(task, count, seed):
    """Sets as (query, keys, offsets) without a query, and labels or numbers."""
    rng = np.random.default_rng([11, (LABELS + NUMBERS).index(task), seed])
    if task in LABELS:
        make, classes = (shape, 4) if task == LABELS[0] else (words, 2)
        y = rng.integers(0, classes, count)
        bags = [make(label, rng) for label in y]
    else:
        made = [chain(rng) if task == NUMBERS[2] else molecule(rng, task == NUMBERS[1]) for _ in range(count)]
        bags, y = [tokens for tokens, _ in made], np.array([target for _, target in made])
    offsets = np.cumsum([0] + [len(bag) for bag in bags])
    return (np.zeros((count, bags[0].shape[1])), np.concatenate(bags), offsets), y
