#!/usr/bin/env python3
"""Musk 1: is a molecule a musk? Each is a set of shapes (conformations), and the label belongs to the set.

Sets: the query is the mean instance of a bag, the keys are its instances.
Standardisation: per feature, mean and standard deviation over the instances of the training bags; then
divided by sqrt(166), so that a token has about unit norm, and multiplied by a token scale.
Classifier: random-feature attention with ridge on labels -1 and 1; the sign of the prediction decides.
Chosen inside each training fold, by the exact leave-one-out error of `headlens fit`: score, token scale and
ridge. The test bags of a fold are read once, by the model that was chosen.

    .venv/bin/python examples/musk1/musk1.py
"""

import argparse
import csv
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
BINARY = Path(os.environ.get("HEADLENS", HERE.parents[1] / "build" / "headlens"))
CANDIDATES = [("relu", s) for s in (0.25, 0.5, 1.0)] + [("softmax", s) for s in (1.5, 2.0, 3.0, 4.0, 6.0)]


def headlens(*args):
    run = subprocess.run([BINARY, *map(str, args), "--json"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(run.stderr.strip() or f"headlens {args[0]} ended with status {run.returncode}")
    return json.loads(run.stdout)


def load_bags():
    rows = np.loadtxt(HERE / "Musk1.csv", delimiter=",", skiprows=1)
    bag, label, instances = rows[:, 0].astype(int), rows[:, 1], rows[:, 2:]
    bags = [instances[bag == b] for b in range(bag.max() + 1)]
    labels = np.array([2 * label[bag == b].max() - 1 for b in range(bag.max() + 1)])
    return bags, labels


def load_folds():
    with open(HERE / "Musk1.folds.csv") as file:
        return [(int(r["repeat"]), np.array(r["test_bags"].split(), int)) for r in csv.DictReader(file)]


def standardiser(training_bags):
    """Learned on the training bags alone: token -> about unit norm."""
    instances = np.vstack(training_bags)
    mean, spread = instances.mean(0), instances.std(0)
    width = np.where(spread > 0, spread, 1.0) * np.sqrt(instances.shape[1])
    return lambda bag: (bag - mean) / width


def save_sets(path, bags, scale, **arrays):
    keys = [scale * bag for bag in bags]
    offsets = np.cumsum([0] + [len(k) for k in keys])
    query = np.array([k.mean(0) for k in keys])
    np.savez(path, query=query, keys=np.vstack(keys), offsets=offsets, **arrays)


def leave_one_out_error(report):
    return min(trial["error"] for trial in report["trials"])


def run_fold(bags, labels, test, heads, seed):
    """Number of test bags that are classified correctly, and what was chosen."""
    train = np.setdiff1d(np.arange(len(bags)), test)
    standardise = standardiser([bags[i] for i in train])
    tokens = [standardise(bag) for bag in bags]
    with tempfile.TemporaryDirectory() as folder:

        def fit(score, scale):
            save_sets(f"{folder}/train.npz", [tokens[i] for i in train], scale, y=labels[train])
            options = (
                f"--model rfa --heads {heads} --score {score} --ridge auto --precision f32 --seed {seed}"
            )
            files = (f"{folder}/train.npz", "-o", f"{folder}/model")
            return headlens("fit", *files, *options.split(), "--threads", 1)

        errors = {candidate: leave_one_out_error(fit(*candidate)) for candidate in CANDIDATES}
        score, scale = min(errors, key=errors.get)
        fit(score, scale)
        save_sets(f"{folder}/test.npz", [tokens[i] for i in test], scale)
        headlens("predict", f"{folder}/model", f"{folder}/test.npz", "-o", f"{folder}/predicted.npy")
        predicted = np.load(f"{folder}/predicted.npy")
    return int(np.sum(np.sign(predicted) == labels[test])), (score, scale)


def cross_validate(heads=300, seed=0, say=print):
    """Accuracy of each of the five repeats of 10-fold cross-validation."""
    bags, labels = load_bags()
    folds = load_folds()
    repeats = max(repeat for repeat, _ in folds) + 1
    hits, chosen = np.zeros(repeats), {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = [pool.submit(run_fold, bags, labels, test, heads, seed) for _, test in folds]
        for (repeat, test), run in zip(folds, runs):
            count, choice = run.result()
            hits[repeat] += count
            chosen[choice] = chosen.get(choice, 0) + 1
            right = f"{count} of {len(test)} test bags right"
            say(f"repeat {repeat + 1}: {right} with {choice[0]}, scale {choice[1]}")
    say("chosen: " + ", ".join(f"{s} {t} in {n} folds" for (s, t), n in sorted(chosen.items())))
    return hits / len(bags)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--heads", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="seed of the random heads")
    arguments = parser.parse_args()
    accuracy = cross_validate(arguments.heads, arguments.seed, lambda line: print(line, flush=True))
    print("accuracy of each repeat: " + ", ".join(f"{a:.1%}" for a in accuracy))
    print(f"mean {accuracy.mean():.1%}, standard deviation over the repeats {accuracy.std(ddof=1):.1%}")


if __name__ == "__main__":
    main()
