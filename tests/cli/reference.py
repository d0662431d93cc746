"""The models, written as plainly as the formulas: one set at a time, one head at a time, float64."""

import numpy as np


def extended(tokens):
    tokens = np.asarray(tokens, float)
    return np.concatenate([tokens, np.ones(tokens.shape[:-1] + (1,))], axis=-1)


def position_code(position, dim):
    """sin(i / 10000^(2j/d)) at coordinate 2j, cos at 2j + 1."""
    angles = [position / 10000 ** ((j - j % 2) / dim) for j in range(dim)]
    return np.array([np.cos(a) if j % 2 else np.sin(a) for j, a in enumerate(angles)])


def sets_of(data):
    """[(query, keys, position of each key)] of rectangular, ragged or sequence data."""
    if "tokens" in data:
        others = [[j for j in range(len(s)) if j != i] for s in data["tokens"][:1] for i in range(len(s))]
        return [(s[i], s[others[i]], others[i]) for s in data["tokens"] for i in range(len(s))]
    if "offsets" in data:
        keys = np.split(data["keys"], data["offsets"][1:-1])
    else:
        keys = list(data["keys"])
    return [(q, k, range(len(k))) for q, k in zip(data["query"], keys)]


def weights(scores, score):
    """What each key counts, from its score; sums to at most anything for relu, step and exp, to 1 for softmax."""
    if score == "relu":
        return np.maximum(scores, 0) / len(scores)
    if score == "step":
        return (scores > 0) / len(scores)
    if score == "exp":
        return np.exp(scores) / len(scores)
    shifted = np.exp(scores - scores.max())
    return shifted / shifted.sum()


def features(tensors, metadata, data):
    """Phi (sets, M D), or (sets, M) for mlp, with the heads of a model file."""
    rows = []
    for query, keys, positions in sets_of(data):
        keys = np.array(keys, float)
        if metadata["positions"] == "sinusoidal":
            keys = keys + [position_code(p, keys.shape[1]) for p in positions]
        xt_0, xt = extended(query), extended(keys)
        if metadata["model"] == "mlp":
            flat = np.concatenate([xt_0, *xt])
            rows.append([max(w @ flat, 0.0) for w in tensors["neurons"].astype(float)])
        else:
            heads = tensors["heads"].astype(float)
            rows.append(np.concatenate([weights(xt @ (xt_0 @ w), metadata["score"]) @ xt for w in heads]))
    return np.array(rows)


def scores_of(tensors, metadata, data):
    """Phi V + b, (sets, q)."""
    values = tensors["values"].astype(float)
    return features(tensors, metadata, data) @ values.reshape(-1, values.shape[-1]) + tensors["intercept"]


def relative_error(found, expected):
    return np.abs(np.asarray(found) - expected).max() / np.abs(expected).max()


def hidden_label(layer, x):
    """The label that the file of a hard layer states, for both tokens of x (n, 2, d)."""
    u, steps, rest = layer["hidden"], layer["label_steps"], layer["label_at_rest"][0]
    a, b = x[:, 0], x[:, 1]
    c, t = (a[:, 0] - b[:, 0]) / 2, (a - b) @ u / 2
    middle = len(steps) // 2
    on = c * steps[(c * t).astype(int) + middle]
    first = np.where(c == 0, a[:, 0] * rest, on)
    return np.stack([first, np.where(c == 0, first, -on)], 1)[..., None]
