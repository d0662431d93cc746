"""Inputs of the golden commands that `headlens generate` does not make: labels, several outputs, sequences, weights, studies."""

import numpy as np

FITS = """
name = "golden-fits"
title = "Two models"
question = "Which model has the smaller error?"
command = "fit"
record = ["chosen-ridge", "nmse"]
seeds = [1, 2, 3]

[fixed]
dim = 4
keys = 5
task = "query-power"
degree = 2
test-samples = 150

[grid]
samples = [24, 48, 96]

[variants.model]
RFA = {model = "rfa", heads = "inf"}
RFMLP = {model = "mlp", heads = "inf"}

[[figure]]
kind = "learning-curves"
title = "Error on fresh sets"
x = "samples"
y = "nmse"
series = "model"
theory = true

[[figure]]
kind = "sample-table"
title = "Training sets needed"
x = "samples"
quantity = "nmse"
series = "model"

[[finding]]
text = "RFA has a smaller error than RFMLP."
quantity = "nmse"
x = "samples"
better = {model = "RFA"}
worse = {model = "RFMLP"}
"""

RECOVERIES = """
name = "golden-recoveries"
title = "Examples needed"
command = "recover"
seeds = [1, 2]
record = ["success", "worst-error", "held-out-error"]

[fixed]
dim = 4

[grid]
heads = [1, 2]
count = [30, 60]

[[figure]]
kind = "phase-diagram"
title = "Share of layers recovered"
x = "count"
y = "heads"
quantity = "success"
"""


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def write_inputs(folder):
    rng = np.random.default_rng(20)
    normal = rng.standard_normal
    query, keys = normal((300, 3)), normal((300, 5, 3))
    score = query[:, 0] * keys.mean(1)[:, 0] + 0.3 * normal(300)
    np.savez(folder / "labels.npz", query=query, keys=keys, y=np.where(score > 0, 1, -1))
    np.savez(folder / "classes.npz", query=query, keys=keys, y=np.digitize(score, [-0.2, 0.2]))
    np.savez(folder / "outputs.npz", query=query, keys=keys, y=np.c_[score, query[:, 1], keys.mean(1)[:, 2]])
    tokens = normal((80, 5, 3))
    np.savez(folder / "sequences.npz", tokens=tokens, y=tokens[:, :, 0] * tokens.mean(1)[:, None, 1])
    np.save(folder / "mean.npy", np.roll(np.eye(5), 1, axis=1))

    # Labels that are no layer's, and inputs that repeat: a best fit with a noise floor.
    signs = np.repeat(rng.choice([-1.0, 1.0], (60, 4, 4)), 2, axis=0)
    theta, w = normal((4, 4)) / 2, normal((4, 4))
    labels = softmax(signs @ theta @ signs.transpose(0, 2, 1)) @ signs @ w
    np.savez(folder / "repeats.npz", X=signs, Y=np.tanh(labels) + 0.05 * normal(labels.shape))
    np.savez(folder / "few.npz", X=normal((6, 3, 5)), Y=normal((6, 3, 5)))

    weights = {name: normal((6, 6)) / 2 for name in "qkvo"}
    for name, matrix in weights.items():
        np.save(folder / f"{name}.npy", matrix)
    np.savez(folder / "weights.npz", **{f"W_{name.upper()}": matrix for name, matrix in weights.items()})

    (folder / "fits.toml").write_text(FITS)
    (folder / "recoveries.toml").write_text(RECOVERIES)
