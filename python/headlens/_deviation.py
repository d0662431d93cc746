"""How far targets lie about what kernel ridge regression says: leave-one-out, deviations and conformal intervals.

With the kernel matrix K of the training sets, the penalty p = n ridge and G = K + p, the coefficients are a = P y with
P = G^-1 - G^-1 1 1^T G^-1 / (1^T G^-1 1), or P = G^-1 without an intercept. Then, exactly,

    leave-one-out errors   e_i = a_i / P_ii                 their variance as a Gaussian process   s^2 / P_ii
    s^2                    mean of e_i^2 P_ii               deviation at x   s sqrt(p + v(x))

with v(x) = k(x,x) - k^T G^-1 k, plus (1 - 1^T G^-1 k)^2 / (1^T G^-1 1) for the intercept. No target is needed: a has them.
Costs n^3 once, n^2 per set.
"""

from typing import Any

import numpy as np

from ._kernel import attention_kernel
from ._sets import Sets

_BLOCK = 8  # sets whose kernel with each other is computed for its diagonal


class Deviations:
    """Of one fitted AttentionKernelRidge that keeps all its training sets."""

    def __init__(self, model: Any):
        core, support = model._fitted_model(), model.support_
        state = core.__getstate__()
        if str(core.report.get("sets", len(support))) != str(len(support)):
            raise ValueError(
                f"deviations: the model keeps {len(support)} of its {core.report['sets']} training sets as centres, and "
                "they need all: fit without centres, or RandomFeatureAttentionRegressor() without options"
            )
        names = ("model", "score", "bias_scale", "weight_scale")
        self.model, self.options = model, {name: state[name] for name in names} | {"mean": state.get("mean")}
        self.call = {"threads": model.threads, "max_memory": model.max_memory}
        wide = Sets(*(np.asarray(a, np.float64) for a in (support.query, support.keys)), support.offsets)
        self.penalty = len(support) * model.ridge_
        G = self._kernel(wide) + self.penalty * np.eye(len(support))
        try:
            self.inverse = np.linalg.inv(np.linalg.cholesky(G))
        except np.linalg.LinAlgError:
            raise ValueError(
                f"deviations: the kernel matrix is singular at the ridge {model.ridge_:.3g}: give a larger one"
            ) from None
        self.ones = self.inverse.sum(1) if model.intercept else np.zeros(len(support))
        self.weight = self.ones @ self.ones
        diagonal = (self.inverse**2).sum(0)
        if model.intercept:
            diagonal -= (self.inverse.T @ self.ones) ** 2 / self.weight
        values = np.asarray(model.values_, np.float64)
        self.errors = values / diagonal[:, None]  # leave-one-out
        ratios = np.abs(values) / np.sqrt(diagonal)[:, None]
        self.scale = np.maximum(np.sqrt((ratios**2).mean(0)), 1e-300)
        self.ratios = np.sort(ratios / self.scale, axis=0)

    def of(self, X: Any) -> np.ndarray:
        """(sets, outputs)."""
        read = self.inverse @ self.model.transform(X).astype(np.float64).T
        variance = self._own(X) - (read**2).sum(0)
        if self.model.intercept:
            variance += (1 - self.ones @ read) ** 2 / self.weight
        return np.sqrt(self.penalty + np.maximum(variance, 0))[:, None] * self.scale

    def factors(self, coverage: float) -> np.ndarray:
        """Of every output, the rank of its ratios that a fresh one does not exceed with this probability."""
        count = len(self.ratios)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage: {coverage} given, expected a number above 0 and below 1")
        rank = int(np.ceil(coverage * (count + 1)))
        if rank > count:
            raise ValueError(
                f"coverage: {coverage} given, but the model was fitted on {count} sets, which say nothing beyond "
                f"{count / (count + 1):.4g}"
            )
        return self.ratios[rank - 1]

    def _kernel(self, sets: Any, **options: Any) -> np.ndarray:
        return np.asarray(attention_kernel(sets, **self.options, **options, **self.call), np.float64)

    def _own(self, X: Any) -> np.ndarray:
        """K(x, x) of every set; for sequences, of every token."""
        if self.model.sequence:
            tokens = np.asarray(X, np.float64)
            read = {"sequence": True, "positions": self.model.positions}
            return np.concatenate([self._kernel(t[None], **read).diagonal() for t in tokens])
        parts = [X[i : i + _BLOCK] for i in range(0, len(X), _BLOCK)]
        return np.concatenate(
            [self._kernel(p, positions=self.model.positions, precision="f64").diagonal() for p in parts]
        )
