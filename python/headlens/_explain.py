"""Which keys of a set moved its prediction."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ._sets import Sets, is_list_of_sets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Gauss-Legendre nodes on the way from the average set: the integrand is an entire function of the way.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Contributions that sum to predictions: ``base + query[i] + keys[i].sum(0)`` is the score of set i.

    base : (q,), the score of nothing (the intercept), or of the average training set
    keys : one array (N, q) per set
    query : (n, q), what the query added by itself
    scores : (n, q), what the model says
    """

    base: np.ndarray
    keys: list[np.ndarray]
    query: np.ndarray
    scores: np.ndarray

    def plot(self, index: int = 0, output: int = 0, ax: Axes | None = None) -> Axes:
        """Bars, one per key of set `index`, the largest first. Returns the axes."""
        from ._plot_axes import COLOURS, one

        values = self.keys[index][:, output]
        order = np.argsort(-np.abs(values), kind="stable")
        axes = one(ax)
        axes.barh(
            np.arange(len(order)),
            values[order],
            color=[COLOURS[0] if v >= 0 else COLOURS[1] for v in values[order]],
        )
        axes.set_yticks(np.arange(len(order)), [f"key {k}" for k in order])
        axes.invert_yaxis()
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_xlabel("contribution")
        axes.set_title(f"set {index}: {self.base[output]:.3g} becomes {self.scores[index, output]:.3g}")
        return axes


def explain(model: Any, X: Any) -> Explanation:
    """Contributions of every key of every set of X to what a fitted estimator says; they sum to it exactly.

    Models that are linear in averages over keys (rfa and brfa, with any number of heads): the term of each key
    in the sum, exact; with a softmax the weights of a head depend on all keys of the set, and a key's term is what
    its weighted vector gives. Models that chose everything (no options): the way from the average kept set to this
    set is followed in a straight line in the numbers that describe a set, and every change of the score is shared
    among keys as they share in these numbers (integrated gradients). A maximum belongs to its key, the size to
    all keys alike.

    >>> import headlens
    >>> X, y = headlens.generate("power-mean", degree=2, dim=3, keys=4, count=120)
    >>> model = headlens.RandomFeatureAttentionRegressor().fit(X[:100], y[:100])
    >>> found = headlens.explain(model, X[100:])
    >>> total = found.base[0] + found.query[0, 0] + found.keys[0].sum()
    >>> bool(abs(total - model.predict(X[100:])[0]) < 1e-10)
    True
    """
    core = model._fitted_model()
    if (
        model.sequence
        or getattr(model, "positions", "none") != "none"
        or model.get_params()["model"] == "mlp"
    ):
        raise ValueError("explain: expected a model of sets without positions, and with attention (not mlp)")
    sets = _as_list(X)
    chosen = getattr(model, "members_", None) is not None
    softmax = not chosen and core.__getstate__()["score"] == "softmax"
    parts = _Chosen(model) if chosen else _Softmax(model) if softmax else _Average(model)
    keys, query = zip(*(parts.of(tokens) for tokens in sets), strict=True)
    scores = model._apply("predict_scores", X).astype(np.float64).reshape(len(sets), -1)
    keys = [_rounded_to(said, parts.base + q, k) for k, q, said in zip(keys, query, scores, strict=True)]
    return Explanation(parts.base, keys, np.array(query), scores)


def _rounded_to(score: np.ndarray, before: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Keys with what rounding left of score - before - sum(keys), in equal parts.

    Kernels at a tiny penalty have large values that nearly cancel, so two orders of summation differ by more than a
    last digit; a difference that no rounding explains stays.
    """
    gap = score - before - keys.sum(0)
    explained = np.abs(gap) <= 1e-6 * np.maximum(1e-3, np.abs(keys).max(0) + np.abs(score) + np.abs(before))
    return keys + np.where(explained, gap, 0) / len(keys)


def _as_list(X: Any) -> list[np.ndarray]:
    if is_list_of_sets(X):
        X = Sets.from_list(X)
    if not isinstance(X, Sets):
        X = np.asarray(X)
        if X.ndim == 2:  # one key each, as in fit
            X = np.stack([np.zeros_like(X), X], axis=1)
        if X.ndim != 3:
            raise ValueError(
                f"X: shape {X.shape}, expected (n, 1 + N, d), (n, d), Sets, or a list of arrays (1 + N, d)"
            )
    return [np.asarray(tokens, dtype=np.float64) for tokens in X]


class _Average:
    """f = b + mean over keys of f_i: a set of one key has the term of that key."""

    def __init__(self, model: Any):
        self.model, self.base = model, np.asarray(model.intercept_, dtype=np.float64)

    def of(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        single = Sets(np.repeat(tokens[:1], len(tokens) - 1, 0), tokens[1:, None])
        scores = self.model._apply("predict_scores", single).astype(np.float64)
        return (scores - self.base) / len(scores), np.zeros(len(self.base))


class _Softmax:
    """f = b + sum_i sum_m w_mi <v_m, x_i>."""

    def __init__(self, model: Any):
        if model.heads_ is None:
            raise ValueError("explain: a softmax with infinitely many heads has no contributions")
        self.heads, self.values = (np.asarray(a, np.float64) for a in (model.heads_, model.values_))
        self.base = np.asarray(model.intercept_, dtype=np.float64)

    def of(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        extended = np.c_[tokens, np.ones(len(tokens))]
        scores = np.einsum("a,mab,ib->mi", extended[0], self.heads, extended[1:])
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        return np.einsum("mi,ib,mbq->iq", weights, extended[1:], self.values), np.zeros(len(self.base))


class _Chosen:
    """f = b + sum over members of sum_j K(x, z_j) a_j, along a straight line in what describes a set."""

    def __init__(self, model: Any):
        state = model._model.__getstate__()
        self.tensors, self.meta, self.members = state["tensors"], state["metadata"], model.members_
        self.kept = self.tensors["width"] > 0
        self.given = self.meta["given_query"] == "true"
        self.gammas = [float(self.meta[f"member.{c}"].split()[0]) for c in range(len(self.members))]
        self.distinct = sorted({block[:2] for member in self.members for block in member["blocks"]})
        centres = [self._blocks(tokens) for tokens in model.support_]
        self.centres = {b: np.array([set_[b].sum(0) for set_ in centres]) for b in self.distinct}
        self.base = self.tensors["intercept"].copy()
        for c, member in enumerate(self.members):
            rows = self._rows(member, self.centres)
            kernel = self._kernel(c, rows.mean(0)[None], rows)[0]
            self.base += kernel @ self.tensors["values"][c]

    def of(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        blocks = self._blocks(tokens)
        shares = np.zeros((len(tokens), self.base.size))  # of the query, then of the keys
        for c, member in enumerate(self.members):
            rows = self._rows(member, self.centres)
            start, parts = rows.mean(0), self._rows(member, blocks)
            slope = self._mean_gradient(c, start, parts.sum(0) - start, rows)
            # The start is taken off the blocks' owners alike: the query's block from the query, others from keys.
            owners = np.zeros_like(parts)
            at = 0
            for kind, parameter, _ in member["blocks"]:
                width = blocks[kind, parameter].shape[1]
                place = slice(0, 1) if kind == "query" else slice(1, None)
                owners[place, at : at + width] = start[at : at + width] / (
                    1 if kind == "query" else len(tokens) - 1
                )
                at += width
            shares += (parts - owners) @ slope
        return shares[1:], shares[0]

    def _mean_gradient(self, c: int, start: np.ndarray, way: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(p, q): the gradient of sum_j K(., z_j) a_j, averaged along start + t way."""
        values = self.tensors["values"][c]
        if self.gammas[c] == 0:
            return rows.T @ values
        gap = start - rows
        square, cross, length = (gap**2).sum(1), gap @ way, way @ way
        kernel = np.exp(
            -self.gammas[c] * (square[:, None] + 2 * cross[:, None] * _NODES + length * _NODES**2)
        )  # (m, nodes)
        mean, first = kernel @ _WEIGHTS, kernel @ (_WEIGHTS * _NODES)
        return -2 * self.gammas[c] * (gap.T @ (mean[:, None] * values) + np.outer(way, first @ values))

    def _kernel(self, c: int, a: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if self.gammas[c] == 0:
            return a @ rows.T
        return np.exp(-self.gammas[c] * ((a[:, None] - rows[None]) ** 2).sum(2))

    def _rows(self, member: dict[str, Any], blocks: dict[Any, np.ndarray]) -> np.ndarray:
        return np.hstack([scale * blocks[kind, parameter] for kind, parameter, scale in member["blocks"]])

    def _blocks(self, tokens: np.ndarray) -> dict[tuple[str, float], np.ndarray]:
        """Of every block (1 + N, width): what the query and each key have of it; their sum is the block."""
        root = np.sqrt(self.kept.sum())
        z = (tokens - self.tensors["mean"])[:, self.kept] / self.tensors["width"][self.kept]
        wide = np.clip(z[1:], -30 / root, 30 / root)
        if "knots" in self.tensors:
            z = self._scored(tokens[:, self.kept])
        z = np.clip(z, -3 / root, 3 / root)
        x = z[1:]
        query = z[0] * self.given
        return {
            (kind, p): np.r_[query[None], np.zeros_like(x)]
            if kind == "query"
            else np.vstack([np.zeros((1, part.shape[1])), part])
            for kind, p in self.distinct
            for part in [self._parts(kind, p, query, x, wide)]
        }

    def _scored(self, values: np.ndarray) -> np.ndarray:
        """Every coordinate along its line from knots to normal scores."""
        lines = zip(values.T, self.tensors["knots"], self.tensors["scores"], strict=True)
        return np.stack([np.interp(column, knots, scores) for column, knots, scores in lines], axis=1)

    def _parts(
        self, kind: str, parameter: float, query: np.ndarray, x: np.ndarray, wide: np.ndarray
    ) -> np.ndarray:
        n, distance = len(x), float(self.meta["key_distance"])
        if kind == "attention":
            read = np.einsum("a,amr->mr", np.r_[query, 1], self.tensors["head_queries"])
            maps = np.einsum("mr,mrd->md", read, self.tensors["head_keys"]) / np.sqrt(read.shape[1])
            scores = parameter * float(self.meta["score_unit"]) * (x @ maps.T)  # (N, M)
            weights = np.exp(scores - scores.max(0))
            weights /= weights.sum(0)
            return (weights[:, :, None] * x[:, None, :]).reshape(n, -1)
        if kind in ("embedding", "total"):
            phase = x @ self.tensors["frequencies"].T * np.sqrt(2 * parameter / distance)
            return np.hstack([np.cos(phase), np.sin(phase)]) / (n if kind == "embedding" else 1)
        if kind == "nearest":
            scores = -parameter / distance * ((x - query) ** 2).sum(1)
            weights = np.exp(scores - scores.max())
            return weights[:, None] / weights.sum() * x
        if kind == "spread":
            along = (wide - wide.mean(0)) @ self.tensors["frequencies"].T
            return along**2 / n
        if kind in ("maximum", "minimum"):
            best = x.argmax(0) if kind == "maximum" else x.argmin(0)
            return np.where(np.arange(n)[:, None] == best, x, 0.0)
        plain = {"mean": x / n, "second": x * x / n, "centre": wide / n, "query": x}
        return {**plain, "size": np.full((n, 1), np.log(n) / n)}[kind]
