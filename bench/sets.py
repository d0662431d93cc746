"""The default of headlens on sets against learners on pooled statistics: Musk 1, bags, twelve synthetic tasks, and time.

    PYTHONPATH=build/python .venv/bin/python bench/sets.py musk1 bags suite time

Everything is chosen inside the training sets, by leave-one-out (headlens) or five folds (the others). Test sets are read
once. The tables of docs/sets.md are what this prints.
"""

import sys
import time
import warnings
from pathlib import Path

import headlens
import numpy as np
import sets_bags
import sets_suite
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples/musk1"))
import musk1  # noqa: E402

SEEDS = 2  # of the synthetic tasks
TRAIN, TEST = 300, 700


def pools(X, all_statistics):
    """Mean and maximum of every coordinate; or also minimum, deviation and size. The query where there is one."""
    keys, starts, sizes = X.keys, X.offsets[:-1], X.sizes[:, None]
    mean = np.add.reduceat(keys, starts) / sizes
    parts = [mean, np.maximum.reduceat(keys, starts)]
    if all_statistics:
        square = np.add.reduceat(keys**2, starts) / sizes - mean**2
        parts += [np.minimum.reduceat(keys, starts), np.sqrt(np.maximum(square, 0)), sizes]
    if np.ptp(X.query, axis=0).max() > 0:
        parts.append(X.query)
    return np.hstack(parts)


class Pooled(BaseEstimator):
    """A learner on vectors, fed with pools."""

    def __init__(self, learner, all_statistics=False):
        self.learner, self.all_statistics = learner, all_statistics

    def fit(self, X, y):
        self.learner.fit(pools(X, self.all_statistics), y)
        return self

    def predict(self, X):
        return self.learner.predict(pools(X, self.all_statistics))


class InstanceKernelSVC(BaseEstimator):
    """The MI kernel: K(A, B) = sum of Gaussian kernels of their keys, normalised; bandwidth and C by five folds."""

    def fit(self, X, y):
        self.X, keys = X, X.keys
        self.mean, self.width = (
            keys.mean(0),
            np.where(keys.std(0) > 0, keys.std(0), 1) * np.sqrt(keys.shape[1]),
        )
        best = (-1.0, 0.0, 0.0)
        for gamma in (0.3, 1, 3, 10):
            K = self._kernel(X, X, gamma)
            for C in (0.3, 1, 10, 100):
                folds = np.arange(len(y)) % 5
                hits = 0
                for f in range(5):
                    a, b = folds != f, folds == f
                    machine = SVC(C=C, kernel="precomputed").fit(K[np.ix_(a, a)], y[a])
                    hits += (machine.predict(K[np.ix_(b, a)]) == y[b]).sum()
                best = max(best, (hits, gamma, C))
        self.gamma = best[1]
        self.machine = SVC(C=best[2], kernel="precomputed").fit(self._kernel(X, X, self.gamma), y)
        return self

    def _kernel(self, A, B, gamma):
        a, b = ((S.keys - self.mean) / self.width for S in (A, B))
        distance = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
        K = np.add.reduceat(np.add.reduceat(np.exp(-gamma * distance), A.offsets[:-1], 0), B.offsets[:-1], 1)
        own = [np.exp(-gamma * ((x[:, None] - x[None]) ** 2).sum(2)).sum() ** 0.5 for x in self._sets(A)]
        other = [np.exp(-gamma * ((x[:, None] - x[None]) ** 2).sum(2)).sum() ** 0.5 for x in self._sets(B)]
        return K / np.outer(own, other)

    def _sets(self, S):
        return np.split((S.keys - self.mean) / self.width, S.offsets[1:-1])

    def predict(self, X):
        return self.machine.predict(self._kernel(X, self.X, self.gamma))


def searched(learner, **grid):
    return GridSearchCV(make_pipeline(StandardScaler(), learner), grid, cv=5)


def classifiers():
    C = [0.01, 0.1, 1, 10, 100]
    return {
        "headlens, no arguments": headlens.RandomFeatureAttentionClassifier(),
        "logistic regression, mean and maximum": Pooled(
            searched(LogisticRegression(max_iter=2000), logisticregression__C=C)
        ),
        "RBF machine, mean and maximum": Pooled(
            searched(SVC(), svc__C=C, svc__gamma=[1e-4, 3e-4, 1e-3, 3e-3, 1e-2])
        ),
        "MI-kernel machine": InstanceKernelSVC(),
        "gradient boosting, pooled statistics": Pooled(
            GridSearchCV(
                HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=8),
                {"min_samples_leaf": [5, 15], "learning_rate": [0.1, 0.3]},
                cv=3,
            ),
            all_statistics=True,
        ),
    }


def regressors():
    gammas = [0.003, 0.01, 0.03, 0.1]
    return {
        "headlens, no arguments": headlens.RandomFeatureAttentionRegressor(),
        "ridge": Pooled(make_pipeline(StandardScaler(), RidgeCV(10.0 ** np.arange(-4, 5)))),
        "RBF machine": Pooled(searched(SVR(), svr__C=[1, 10, 100], svr__gamma=gammas)),
        "boosting": Pooled(
            HistGradientBoostingRegressor(max_leaf_nodes=8, min_samples_leaf=10), all_statistics=True
        ),
    }


def run_musk1():
    bags, labels = musk1.load_bags()
    X = headlens.Sets(np.zeros((len(bags), 166)), np.vstack(bags), np.cumsum([0] + [len(b) for b in bags]))
    labels = labels.astype(int)
    print("| learner | accuracy, five repeats | mean | seconds of processors in all |\n|---|---|---|---|")
    for name, learner in classifiers().items():
        hits, start = np.zeros(5), time.process_time()
        for repeat, test in musk1.load_folds():
            train = np.setdiff1d(np.arange(len(bags)), test)
            hits[repeat] += (learner.fit(X[train], labels[train]).predict(X[test]) == labels[test]).sum()
        seconds = time.process_time() - start
        shown = ", ".join(f"{100 * h / len(bags):.1f}" for h in hits)
        print(f"| {name} | {shown} | {100 * hits.mean() / len(bags):.1f} | {seconds:.0f} |", flush=True)


def run_bags():
    names = list(classifiers())
    print(f"| task | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for task in sets_bags.TASKS:
        right = np.zeros((4, len(names)))
        for seed in range(4):
            arrays, y = sets_bags.draw(task, 400, seed)
            X = headlens.Sets(*arrays)
            for k, learner in enumerate(classifiers().values()):
                right[seed, k] = (learner.fit(X[:100], y[:100]).predict(X[100:]) == y[100:]).mean()
        print(f"| {task} | {' | '.join(f'{100 * r:.1f}' for r in right.mean(0))} |", flush=True)


def run_suite():
    names = list(regressors())
    print(f"| task | {' | '.join(names)} | over the best pooled |\n|---|{'---|' * len(names)}---|")
    wins, worst = 0, 0.0
    for task in sets_suite.TASKS:
        errors = np.zeros((SEEDS, len(names)))
        for seed in range(SEEDS):
            arrays, y = sets_suite.draw(task, TRAIN + TEST, seed)
            X = headlens.Sets(*arrays)
            for k, learner in enumerate(regressors().values()):
                predicted = learner.fit(X[:TRAIN], y[:TRAIN]).predict(X[TRAIN:])
                errors[seed, k] = np.mean((predicted - y[TRAIN:]) ** 2) / y[TRAIN:].var()
        mean = errors.mean(0)
        ratio = mean[0] / mean[1:].min()
        wins, worst = wins + (ratio < 1), max(worst, ratio)
        cells = " | ".join(f"{e:.3f}" for e in mean)
        print(f"| {task} | {cells} | {ratio:.2f} |", flush=True)
    print(
        f"\nheadlens has the smaller error on {wins} of {len(sets_suite.TASKS)} tasks; its largest ratio is {worst:.2f}."
    )


def run_time():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 21, 20))
    X[:, 0] = 0
    y = X[:, 1:, 0].max(1) + 0.1 * rng.normal(size=2000)
    for name, learner, target in (
        ("regression", headlens.RandomFeatureAttentionRegressor(), y),
        ("classification", headlens.RandomFeatureAttentionClassifier(), (y > np.median(y)).astype(int)),
    ):
        wall, start = time.perf_counter(), time.process_time()
        learner.fit(X, target)
        wall, processor = time.perf_counter() - wall, time.process_time() - start
        print(
            f"{name}, 2000 sets of 20 keys in 20 coordinates: {processor:.1f} s of processors, {wall:.1f} s of wall"
        )


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=UserWarning)
    parts = {"musk1": run_musk1, "bags": run_bags, "suite": run_suite, "time": run_time}
    for part in sys.argv[1:] or parts:
        parts[part]()
