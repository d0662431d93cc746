"""Multiple-instance tasks from tables that ship with scikit-learn: bags of rows with a label of the bag. Used by bench/sets.py."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

# name: (table, smallest and largest size of a bag, label from the classes of its rows)
TASKS = {
    "digits: a nine": (load_digits, (4, 10), lambda t: (t == 9).any()),
    "digits: a three and an eight": (load_digits, (6, 16), lambda t: (t == 3).any() and (t == 8).any()),
    "digits: most are five or more": (load_digits, (3, 15), lambda t: 2 * (t >= 5).sum() > len(t)),
    "cancer: three malignant cases": (load_breast_cancer, (4, 10), lambda t: (t == 0).sum() >= 3),
}


def draw(task, count, seed):
    """Sets as (query, keys, offsets) without a query, and labels 0 and 1. Rows are drawn with replacement."""
    table, (low, high), rule = TASKS[task]
    rows, classes = table(return_X_y=True)
    rng = np.random.default_rng([7, seed])
    bags = [rng.integers(len(rows), size=rng.integers(low, high + 1)) for _ in range(count)]
    y = np.array([int(rule(classes[bag])) for bag in bags])
    offsets = np.cumsum([0] + [len(bag) for bag in bags])
    return (np.zeros((count, rows.shape[1])), rows[np.concatenate(bags)], offsets), y
