"""The default of headlens on sets against pooled statistics, the MI kernel and networks in PyTorch, and what it promises.

    PYTHONPATH=build/python .venv/bin/python bench/sets.py [musk1] [bags] [points] [suite] [coverage] [time] [--only NAME]

Everything is chosen inside the training sets, by leave-one-out (headlens), folds (pools, kernels) or a held-out fifth (networks,
which need the PyTorch of `scripts/setup bench`). Test sets are read once. The tables of docs/sets.md are what this prints. With
`--only` the learners whose names hold NAME are run alone.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import headlens
import numpy as np
import sets_bags
import sets_learners
import sets_points
import sets_suite

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples/musk1"))
import musk1  # noqa: E402

DRAWS, SUITE_DRAWS, SEEDS = 4, 5, 5
TRAIN, TEST = 300, 700  # of the synthetic tasks


def head(*columns):
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def row(*cells):
    print(f"| {' | '.join(cells)} |", flush=True)


def timed(learner, X, y, fresh):
    """Predictions, and the seconds of processors that they took."""
    start = time.process_time()
    said = learner.fit(X, y).predict(fresh)
    other = getattr(learner, "answer", None) or {}
    return said, time.process_time() - start + other.get("processor_seconds", 0)


def run_musk1(only):
    bags, labels = musk1.load_bags()
    X = headlens.Sets(np.zeros((len(bags), 166)), np.vstack(bags), np.cumsum([0] + [len(b) for b in bags]))
    labels = labels.astype(int)
    learners = sets_learners.classifiers(only)
    for seed in range(1, SEEDS if only in "headlens" else 1):
        learners[f"headlens, random_state={seed}"] = headlens.RandomFeatureAttentionClassifier(
            random_state=seed
        )
    head("learner", "accuracy, five repeats", "mean", "seconds of processors in all")
    for name, learner in learners.items():
        hits, seconds = np.zeros(5), 0.0
        for repeat, test in musk1.load_folds():
            train = np.setdiff1d(np.arange(len(bags)), test)
            said, took = timed(learner, X[train], labels[train], X[test])
            hits[repeat] += correct(said, labels[test])
            seconds += took
        shown = ", ".join(f"{100 * h / len(bags):.1f}" for h in hits)
        row(name, shown, f"{100 * hits.mean() / len(bags):.1f}", f"{seconds:.0f}")


def table(tasks, draw, learners, train, draws, measure, digits):
    """One row per task: means over draws, and the seconds of a fit at the end. Returns (tasks, learners)."""
    head("task", *learners)
    out, seconds = [], np.zeros(len(learners))
    for task in tasks:
        found = np.zeros((draws, len(learners)))
        for seed in range(draws):
            X, y = draw(task, seed)
            for k, learner in enumerate(learners.values()):
                said, took = timed(learner, X[:train], y[:train], X[train:])
                found[seed, k] = measure(said, y[train:])
                seconds[k] += took / draws / len(tasks)
        out.append(found.mean(0))
        row(task, *(f"{f:.{digits}f} ± {s:.{digits}f}" for f, s in zip(out[-1], found.std(0), strict=True)))
    row("seconds of processors per fit", *(f"{s:.1f}" for s in seconds))
    return np.array(out)


def correct(said, y):
    """How many labels were found; nan where a network had no answer."""
    return np.nan if np.isnan(said).any() else (said == y).sum()


def right(said, y):
    return 100 * correct(said, y) / len(y)


def nmse(said, y):
    return np.mean((said - y) ** 2) / y.var()


def run_bags(only):
    def draw(task, seed):
        arrays, y = (sets_points if task in sets_points.LABELS else sets_bags).draw(task, 400, seed)
        return headlens.Sets(*arrays), y

    tasks = [*sets_bags.TASKS, *sets_points.LABELS]
    table(tasks, draw, sets_learners.classifiers(only), 100, DRAWS, right, 1)


def run_points(only):
    def draw(task, seed):
        arrays, y = sets_points.draw(task, TRAIN + 500, seed)
        return headlens.Sets(*arrays), y

    table(sets_points.NUMBERS, draw, sets_learners.regressors(only), TRAIN, 3, nmse, 3)


def run_suite(only):
    def draw(task, seed):
        arrays, y = sets_suite.draw(task, TRAIN + TEST, seed)
        return headlens.Sets(*arrays), y

    learners = sets_learners.regressors(only)
    mean = table(sets_suite.TASKS, draw, learners, TRAIN, SUITE_DRAWS, nmse, 3)
    pooled = [k for k, name in enumerate(learners) if name in sets_learners.POOLED]
    if pooled and "headlens, no arguments" in learners:
        ratio = mean[:, list(learners).index("headlens, no arguments")] / mean[:, pooled].min(1)
        print("\nover the best of the pooled:", ", ".join(f"{r:.2f}" for r in ratio))
        print(
            f"smaller error than every pooled one on {(ratio < 1).sum()} of {len(ratio)}; largest ratio {ratio.max():.2f}"
        )


def run_coverage(_only):
    """Intervals of 90% and calibration errors on fresh sets, per task of the suite."""
    head("task", "intervals of 90% hold", "calibration error")
    shares, errors = [], []
    for task in sets_suite.TASKS:
        covered, calibration = [], []
        for seed in range(SUITE_DRAWS):
            arrays, y = sets_suite.draw(task, 2000 + TRAIN, 100 + seed)
            X = headlens.Sets(*arrays)
            model = headlens.RandomFeatureAttentionRegressor().fit(X[:TRAIN], y[:TRAIN])
            low, high = model.predict_interval(X[TRAIN:], 0.9)
            covered.append(100 * ((low <= y[TRAIN:]) & (y[TRAIN:] <= high)).mean())
            labels = (y > y.mean()).astype(int)  # the median of a yes or no is one of them
            classifier = headlens.RandomFeatureAttentionClassifier().fit(X[:TRAIN], labels[:TRAIN])
            p = classifier.predict_proba(X[TRAIN:])[:, 1]
            calibration.append(sets_learners.calibration_error(p, labels[TRAIN:]))
        shares.append(np.mean(covered))
        errors.append(np.mean(calibration))
        row(
            task, f"{shares[-1]:.1f} ± {np.std(covered):.1f}", f"{errors[-1]:.3f} ± {np.std(calibration):.3f}"
        )
    row("all tasks", f"{np.mean(shares):.1f}", f"{np.mean(errors):.3f}")


def run_time(_only):
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
    parts = {
        "musk1": run_musk1, "bags": run_bags, "points": run_points, "suite": run_suite, "coverage": run_coverage,
        "time": run_time,
    }  # fmt: skip
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[[], *parts])
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    for part in given.parts or parts:
        print(f"\n{part}\n")
        parts[part](given.only)
