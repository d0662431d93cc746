"""scikit-learn estimators on sets."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array

from . import _core
from ._arrays import as_numpy
from ._call import settings
from ._classifier import RandomFeatureAttentionClassifier
from ._deviation import Deviations
from ._set_estimator import SetEstimator


class _SetRegressor(RegressorMixin, SetEstimator):
    def predict(self, X: Any) -> np.ndarray:
        """Predictions, shaped as y was."""
        return self._apply("predict", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, the mean over outputs; for sequences, over all tokens."""
        predicted, y = self.predict(X), as_numpy(y, "y")
        if self.sequence:  # (n, L, ...): every token counts as a sample
            predicted, y = (a.reshape(a.shape[0] * a.shape[1], *a.shape[2:]) for a in (predicted, y))
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def _encode(self, y: Any) -> np.ndarray:
        values = as_numpy(y, "y")
        return np.ascontiguousarray(
            check_array(
                values, ensure_2d=False, allow_nd=True, dtype="numeric", input_name="y", estimator=self
            )
        ).astype(np.float64, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class RandomFeatureAttentionRegressor(_SetRegressor):
    """Regression on sets by random attention heads, frozen, whose values are trained: a convex problem.

    X is an array (n, 1 + N, d), query first; `headlens.Sets`; a list of arrays (1 + N, d), ragged or not; or
    (n, d), which is read as sets of one key of width d with a query of zeros.

    Parameters
    ----------
    model : "rfa", "brfa" (identity mean), "mlp" (no attention, equal set sizes), or "auto": everything is
        chosen by leave-one-out, as `headlens fit --auto` does, unless another option below is given ("rfa" then)
    heads : number of random heads (neurons, for mlp), or "inf": kernel regression; "auto": 1000
    score_function : "relu", "softmax", "exp" or "step", the `--score` of the command line; "auto": "relu"
    positions : "none", or "sinusoidal" encodings added to the keys
    bias_scale : scale b of the mean b * diag(1, .., 1, 0) of the heads (None: 0; brfa: 1)
    weight_scale : standard deviation of the random entries (None: 0.5; mlp: 1/sqrt(2(N+1)))
    mean : (d, d) or (d + 1, d + 1) matrix that takes the place of the identity in the mean of the heads
    head_rank : separate query and key matrices: the random part of a head has rank r (None: full)
    precision : "f32", "f64", or "auto": float32 in, float32 out
    loss : "squared" or "huber"; "auto": "squared"
    ridge : penalty: a number, 0 (minimum norm), or "auto" (leave-one-out; 5 folds if not squared)
    norm_ball : (K1, K2): sum |v_m| <= K1 and sum |v_m|^2 <= K2; replaces an automatic ridge
    huber_delta : residual at which the Huber loss turns linear
    intercept : fit a constant term
    solver : "auto", "primal", "dual" or "iterative" (squared loss)
    centres : with heads='inf': fit on m random sets (Nystrom) (None: all, if the kernel matrix fits)
    block_sets : sets whose features are held at once; never changes the model (0: chosen)
    sequence : X is (n, L, d): every token in turn is the query, the others its keys; y is (n, L) or (n, L, q)
    random_state : None, an integer or a RandomState; an integer is the `--seed` of the command line. When
        everything is chosen, None is 0
    threads : None: OMP_NUM_THREADS if it is set, else all cores. Never changes a result
    max_memory : bytes or a size such as "8G"; None: 80% of what is free
    backend : "auto", "cpu" or "cuda", the machine that computes (`headlens.info` lists them)
    verbose : show a tqdm bar

    Attributes
    ----------
    heads_ : (heads, d + 1, d + 1) frozen random heads; (heads, (N + 1)(d + 1)) for mlp; None for "inf"
    values_ : (heads, d + 1, q) trained values; (heads, q) for mlp; (m, q) dual coefficients for "inf"
    support_ : the `Sets` behind dual coefficients, positions added; else None
    intercept_ : (q,)
    ridge_ : the penalty
    report_ : status, method, ridge, ridge_rule, trials, train_loss, residual, iterations, ..., seconds
    members_ : the kernels that were chosen, with penalty and leave-one-out error; None unless all was chosen
    n_features_in_ : d

    >>> import headlens
    >>> X, y = headlens.generate("correlation", dim=3, keys=4, count=300)
    >>> model = headlens.RandomFeatureAttentionRegressor(heads=100, random_state=0).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.9
    True
    >>> model.transform(X).shape
    (300, 400)
    """

    def __init__(
        self,
        *,
        model: str = "auto",
        heads: int | str | float = "auto",
        score_function: str = "auto",
        positions: str = "none",
        bias_scale: float | None = None,
        weight_scale: float | None = None,
        mean: Any = None,
        head_rank: int | None = None,
        precision: str = "auto",
        loss: str = "auto",
        ridge: float | str = "auto",
        norm_ball: tuple[float, float] | None = None,
        huber_delta: float = 1.0,
        intercept: bool = True,
        solver: str = "auto",
        centres: int | None = None,
        block_sets: int = 0,
        sequence: bool = False,
        random_state: Any = None,
        threads: int | None = None,
        max_memory: int | str | None = None,
        backend: str = "auto",
        verbose: bool | int = False,
    ):
        self._keep(locals())

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions, shaped as y was; with `return_std`, also the standard deviation of y about them.

        Deviations need a model that was chosen by leave-one-out (`RandomFeatureAttentionRegressor()`).
        """
        mean = self._apply("predict", X)
        if not return_std:
            return mean
        self._require_members("return_std")
        return mean, self._apply("predict_deviation", X)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that hold this share of fresh targets.

        Conformal: the deviation of `predict(X, return_std=True)` times a quantile of the leave-one-out residuals.
        """
        self._require_members("predict_interval")
        mean, deviation = self.predict(X, return_std=True)
        factors = np.asarray(self._model.interval_factors(float(coverage)))
        reach = deviation * (factors if mean.ndim > (2 if self.sequence else 1) else factors[0])
        return mean - reach, mean + reach

    def _require_members(self, what: str) -> None:
        self._fitted_model()
        if self.members_ is None:
            raise ValueError(
                f"{what}: this model has no uncertainty: fit RandomFeatureAttentionRegressor() without options"
            )


class AttentionKernelRidge(_SetRegressor):
    """Kernel ridge regression on sets: random-feature attention with infinitely many heads.

    X is an array (n, 1 + N, d), query first; `headlens.Sets`; a list of arrays (1 + N, d), ragged or not; or
    (n, d), which is read as sets of one key of width d with a query of zeros.

    Parameters
    ----------
    model : "rfa", "brfa" (identity mean) or "mlp" (no attention, equal set sizes)
    score_function : "relu", "exp" or "step", the `--score` of the command line
    positions : "none", or "sinusoidal" encodings added to the keys
    bias_scale : scale b of the mean b * diag(1, .., 1, 0) of the heads (None: 0; brfa: 1)
    weight_scale : standard deviation of the random entries (None: 0.5; mlp: 1/sqrt(2(N+1)))
    mean : (d, d) or (d + 1, d + 1) matrix that takes the place of the identity in the mean of the heads
    precision : "f32", "f64", or "auto": float32 in, float32 out
    ridge : penalty: a number, 0 (minimum norm), or "auto": leave-one-out
    intercept : fit a constant term
    solver : "auto", "primal", "dual" or "iterative"
    centres : fit on this many random sets (Nystrom); None: all, if the kernel matrix fits
    block_sets : sets whose features are held at once; never changes the model (0: chosen)
    sequence : X is (n, L, d): every token in turn is the query, the others its keys; y is (n, L) or (n, L, q)
    random_state : None, an integer or a RandomState; an integer is the `--seed` of the command line
    threads : None: OMP_NUM_THREADS if it is set, else all cores. Never changes a result
    max_memory : bytes or a size such as "8G"; None: 80% of what is free
    backend : "auto", "cpu" or "cuda", the machine that computes (`headlens.info` lists them)
    verbose : show a tqdm bar

    Attributes
    ----------
    dual_coef_ : (m, q), also called values_
    support_ : the `Sets` behind them, positions added
    intercept_ : (q,)
    ridge_ : the penalty
    report_ : status, method, ridge, ridge_rule, trials, train_loss, residual, iterations, ..., seconds
    n_features_in_ : d

    >>> import headlens
    >>> X, y = headlens.generate("correlation", dim=3, keys=4, count=300)
    >>> model = headlens.AttentionKernelRidge().fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.9
    True
    >>> model.dual_coef_.shape
    (200, 1)
    """

    def __init__(
        self,
        *,
        model: str = "rfa",
        score_function: str = "relu",
        positions: str = "none",
        bias_scale: float | None = None,
        weight_scale: float | None = None,
        mean: Any = None,
        precision: str = "auto",
        ridge: float | str = "auto",
        intercept: bool = True,
        solver: str = "auto",
        centres: int | None = None,
        block_sets: int = 0,
        sequence: bool = False,
        random_state: Any = None,
        threads: int | None = None,
        max_memory: int | str | None = None,
        backend: str = "auto",
        verbose: bool | int = False,
    ):
        self._keep(locals())

    @property
    def dual_coef_(self) -> np.ndarray:
        return self.values_

    @property
    def loo_residuals_(self) -> np.ndarray:
        """(m, q): y_i less what the model says of set i without it, exactly, at the same penalty."""
        return self._deviations().errors

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions, shaped as y was; with `return_std`, also the standard deviation of y about them.

        The deviation is that of a Gaussian process with this kernel; its scale is such that leave-one-out errors over
        their deviations have mean square one. The first call costs (training sets)^3; models with `centres` have none.
        """
        mean = self._apply("predict", X)
        if not return_std:
            return mean
        return mean, self._deviations().of(X).reshape(mean.shape).astype(mean.dtype, copy=False)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that hold this share of fresh targets.

        Conformal: the deviation of `predict(X, return_std=True)` times a quantile of the leave-one-out residuals.
        """
        mean, deviation = self.predict(X, return_std=True)
        factors = self._deviations().factors(float(coverage))
        reach = deviation * (factors if mean.ndim > (2 if self.sequence else 1) else factors[0])
        return mean - reach, mean + reach

    def _deviations(self) -> Deviations:
        """Computed once per model, and neither pickled nor cloned."""
        found = self.__dict__.get("_known_deviations")
        if found is None or found[0] is not self._fitted_model():
            found = self._known_deviations = (self._fitted_model(), Deviations(self))
        return found[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in super().__getstate__().items() if name != "_known_deviations"}


def load(
    path: str | os.PathLike[str], *, threads: int | None = None, max_memory: int | str | None = None
) -> Any:
    """A fitted estimator from a model file, written by `save` or by `headlens fit`.

    >>> import headlens, tempfile
    >>> X, y = headlens.generate("power-mean", dim=3, keys=4, count=100)
    >>> model = headlens.AttentionKernelRidge(random_state=0).fit(X, y)
    >>> model.save(tempfile.gettempdir() + "/model.hlm")
    >>> again = headlens.load(tempfile.gettempdir() + "/model.hlm")
    >>> again, bool((again.predict(X) == model.predict(X)).all())
    (AttentionKernelRidge(...), True)
    """
    if _core.is_automatic_model(Path(path)):
        return _load_automatic(Path(path), threads, max_memory)
    with settings(threads, max_memory) as how:
        model = _core.load_model(Path(path), how)
    state, report = model.__getstate__(), model.report
    infinite = state["heads"] == _core.INFINITE_HEADS
    given = {name: state[name] for name in ("model", "positions", "bias_scale", "weight_scale", "precision")}
    given["mean"] = state.get("mean")
    given |= {"score_function": state["score"], "sequence": state["sequence"], "random_state": state["seed"]}
    given |= {"intercept": report.get("fitted_intercept", "true") == "true"}
    given |= {"threads": threads, "max_memory": max_memory}
    if report.get("ridge_rule") == "given":
        given["ridge"] = float(report["ridge"])
    out: Any
    if infinite and state["loss"] == "squared":
        out = AttentionKernelRidge(**given)
    else:
        kind = RandomFeatureAttentionClassifier if state["classes"] else RandomFeatureAttentionRegressor
        out = kind(**given, heads="inf" if infinite else state["heads"], loss=state["loss"])
        out.set_params(head_rank=state.get("head_rank"))
        if "norm_ball" in report:
            low, high = report["norm_ball"].split(",")
            out.set_params(norm_ball=(float(low), float(high)))
        if "huber_delta" in report:
            out.set_params(huber_delta=float(report["huber_delta"]))
    if state["classes"]:
        labels = json.loads(report["class_labels"]) if "class_labels" in report else state["classes"]
        out.classes_ = np.array(labels)
    out.report_, out.n_features_in_ = dict(report), state["dim"]
    out._adopt(model)
    return out


def _load_automatic(path: Path, threads: int | None, max_memory: int | str | None) -> Any:
    with settings(threads, max_memory) as how:
        model = _core.load_automatic_model(path, how)
    kind = RandomFeatureAttentionClassifier if model.classes else RandomFeatureAttentionRegressor
    out: Any = kind(sequence=model.sequence, random_state=model.seed, threads=threads, max_memory=max_memory)
    if model.classes:
        notes = model.notes
        out.classes_ = np.array(json.loads(notes["class_labels"]) if notes else model.classes)
    out.report_, out.n_features_in_ = model.report(), model.dim
    out._adopt(model)
    return out
