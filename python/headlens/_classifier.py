"""scikit-learn classifier on sets."""

import json
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from . import _core
from ._arrays import as_numpy
from ._set_estimator import SetEstimator


class RandomFeatureAttentionClassifier(ClassifierMixin, SetEstimator):
    """Classification of sets by random attention heads, frozen, whose values are trained: a convex problem.

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
    loss : "logistic" (which has `predict_proba`) or "hinge"; "auto": "logistic"
    ridge : penalty: a number, or "auto": 5 folds
    norm_ball : (K1, K2): sum |v_m| <= K1 and sum |v_m|^2 <= K2; replaces an automatic ridge
    intercept : fit a constant term
    centres : with heads='inf': fit on m random sets (Nystrom) (None: all, if the kernel matrix fits)
    block_sets : sets whose features are held at once; never changes the model (0: chosen)
    sequence : X is (n, L, d): every token in turn is the query, the others its keys; y is (n, L)
    random_state : None, an integer or a RandomState; an integer is the `--seed` of the command line. When
        everything is chosen, None is 0
    threads : None: OMP_NUM_THREADS if it is set, else all cores. Never changes a result
    max_memory : bytes or a size such as "8G"; None: 80% of what is free
    backend : "auto", "cpu" or "cuda", the machine that computes (`headlens.info` lists them)
    verbose : show a tqdm bar

    Attributes
    ----------
    classes_ : the labels
    heads_ : (heads, d + 1, d + 1) frozen random heads; (heads, (N + 1)(d + 1)) for mlp; None for "inf"
    values_ : (heads, d + 1, q) trained values; (heads, q) for mlp; (m, q) dual coefficients for "inf"
    support_ : the `Sets` behind dual coefficients, positions added; else None
    intercept_ : (q,)
    ridge_ : the penalty
    report_ : status, method, ridge, ridge_rule, trials, train_loss, residual, iterations, ..., seconds
    members_ : the kernels that were chosen, with penalty and leave-one-out error; None unless all was chosen
    n_features_in_ : d

    >>> import headlens
    >>> X, y = headlens.generate("power-mean", dim=3, keys=4, count=200)
    >>> labels = ["low" if value < 0 else "high" for value in y]
    >>> model = headlens.RandomFeatureAttentionClassifier(heads=50, random_state=0).fit(X, labels)
    >>> model.classes_.tolist(), model.score(X, labels) > 0.9
    (['high', 'low'], True)
    >>> model.predict_proba(X).shape
    (200, 2)
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
        intercept: bool = True,
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

    _WITHOUT_CHOICE = {**SetEstimator._WITHOUT_CHOICE, "loss": "logistic"}

    def _is_probabilistic(self) -> bool:
        return self.loss in ("auto", "logistic")

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for the second; else (n, classes). Sequences: (n, L, ...)."""
        scores = self._scores(X)
        return scores[..., 0] if scores.shape[-1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest score."""
        scores = self._scores(X)
        best = scores.argmax(-1) if scores.shape[-1] > 1 else (scores[..., 0] > 0).astype(int)
        return self.classes_[best]

    @available_if(_is_probabilistic)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, classes), for the logistic loss, or calibrated on leave-one-out scores."""
        scores = self._scores(X)
        if self.members_ is not None:
            scores = scores * self._model.slope
        if scores.shape[-1] == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=-1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return scores / scores.sum(-1, keepdims=True)

    @available_if(_is_probabilistic)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities."""
        return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; for sequences, over all tokens."""
        predicted, y = self.predict(X), as_numpy(y, "y")
        if self.sequence:
            predicted, y = predicted.ravel(), y.ravel()
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _scores(self, X: Any) -> np.ndarray:
        scores = self._apply("predict_scores", X)
        if self.sequence:
            scores = scores.reshape(-1, X.shape[1] if hasattr(X, "shape") else len(X[0]), scores.shape[-1])
        return scores.astype(self.intercept_.dtype, copy=False)

    def _encode(self, y: Any) -> np.ndarray:
        """Integers stay what they are, as in the command line's files; other labels become 0, 1, ..."""
        labels = as_numpy(y, "y")
        labels = labels if self.sequence else column_or_1d(labels, warn=True)
        check_classification_targets(labels.ravel())
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y: only one class ({self.classes_.tolist()[0]!r}) given, but a classifier needs at least two classes"
            )
        codes = codes.reshape(labels.shape)
        return labels.astype(np.int64) if self.classes_.dtype.kind in "iu" else codes.astype(np.int64)

    def _adopt(self, model: Any) -> None:
        if isinstance(model, _core.AutomaticModel):
            if self.classes_.dtype.kind not in "iu":
                model.notes = {"class_labels": json.dumps(self.classes_.tolist())}
            super()._adopt(model)
            return
        if self.classes_.dtype.kind not in "iu":  # the file keeps the labels, for load()
            model.report = {**model.report, "class_labels": json.dumps(self.classes_.tolist())}
        super()._adopt(model)
