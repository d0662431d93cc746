"""What bench/sets.py compares: headlens, learners on pooled statistics, the MI kernel, and networks in PyTorch.

Each has `fit(X, y)` and `predict(X)` for `headlens.Sets`, and chooses everything inside the sets that it is fitted on.
"""

import tempfile
from pathlib import Path

import contest
import headlens
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR


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


class Network(BaseEstimator):
    """A network of bench/rivals/sets.py, trained when it is asked: one process of Debian's PyTorch answers all.

    Once that process has failed, as it does without PyTorch, every prediction is nan.
    """

    worker, failed = None, False

    def __init__(self, net):
        self.net = net

    def fit(self, X, y):
        self.X, self.y = X, y
        return self

    def predict(self, X):
        self.answer = None
        said = None if Network.failed else self._ask(X)
        Network.failed = said is None
        return np.full(len(X), np.nan) if said is None else said

    def _ask(self, X):
        if Network.worker is None:
            program = contest.ROOT / "bench/rivals/sets.py"
            Network.worker = contest.Worker(
                "PyTorch", [contest.TORCH_PYTHON, program], contest.info()["blas_core"], 1
            )
        with tempfile.TemporaryDirectory() as folder:
            data, out = Path(folder) / "data.npz", Path(folder) / "out.npy"
            fresh = {"fresh_query": X.query, "fresh_keys": X.keys, "fresh_offsets": X.offsets}
            np.savez(data, query=self.X.query, keys=self.X.keys, offsets=self.X.offsets, y=self.y, **fresh)
            self.answer = Network.worker.ask(net=self.net, data=str(data), out=str(out))
            return None if self.answer is None else np.load(out)


def searched(learner, **grid):
    return GridSearchCV(make_pipeline(StandardScaler(), learner), grid, cv=5)


def chosen(learners, only):
    return {name: learner for name, learner in learners.items() if only in name}


def classifiers(only=""):
    C = [0.01, 0.1, 1, 10, 100]
    learners = {
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
        "Deep Sets": Network("deep sets"),
        "Set Transformer": Network("set transformer"),
    }
    return chosen(learners, only)


POOLED = ["ridge", "RBF machine", "boosting"]  # of the regressors


def regressors(only=""):
    gammas = [0.003, 0.01, 0.03, 0.1]
    learners = {
        "headlens, no arguments": headlens.RandomFeatureAttentionRegressor(),
        "ridge": Pooled(make_pipeline(StandardScaler(), RidgeCV(10.0 ** np.arange(-4, 5)))),
        "RBF machine": Pooled(searched(SVR(), svr__C=[1, 10, 100], svr__gamma=gammas)),
        "boosting": Pooled(
            HistGradientBoostingRegressor(max_leaf_nodes=8, min_samples_leaf=10), all_statistics=True
        ),
    }
    learners |= {"Deep Sets": Network("deep sets"), "Set Transformer": Network("set transformer")}
    return chosen(learners, only)


def calibration_error(p, y):
    """The mean over ten bins with as many sets each of |mean probability - share of ones|."""
    bins = np.digitize(p, np.quantile(p, np.arange(1, 10) / 10))
    return sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in range(10))
