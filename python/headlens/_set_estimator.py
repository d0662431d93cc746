"""What the scikit-learn estimators on sets share."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from . import _core
from ._arrays import as_mean
from ._call import fill, head_count, named, settings, warn, whole_number
from ._device import returned
from ._sets import Sets, as_sequences, as_sets, precision_of, sequences_on_cuda, sets_on_cuda


class SetEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Sets in; a model of the library, its features and its file out."""

    # What the constructors store.
    model: str
    heads: int | str | float
    score_function: str
    precision: str
    loss: str
    ridge: float | str
    sequence: bool
    random_state: Any
    threads: int | None
    max_memory: int | str | None
    backend: str
    verbose: bool | int

    # Parameters of the constructors that are options of the library, by the struct that holds them.
    _FEATURES = ("model", "positions", "bias_scale", "weight_scale", "head_rank")
    _TRAINING = ("loss", "norm_ball", "huber_delta", "intercept", "solver", "centres", "block_sets")

    # What "auto" is where another option was given.
    _WITHOUT_CHOICE = {"model": "rfa", "heads": 1000, "score_function": "relu", "loss": "squared"}

    def _keep(self, given: dict[str, Any]) -> None:
        """Stores what a constructor was given, its `locals()`, and nothing else: scikit-learn sets them again by name."""
        vars(self).update((name, value) for name, value in given.items() if name != "self")

    def fit(self, X: Any, y: Any) -> "Any":
        """Draws the heads and trains their values. A numerical outcome without a full result is a warning."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        sets, dtype = self._read_there(X) if self._draws_heads() else self._read(X)
        targets = self._encode(y)
        self.n_features_in_ = sets.dim
        if self._chooses_all():
            if sets.count < 4:
                raise ValueError(
                    f"X: n_samples={sets.count} given, but choosing a model needs 4 sets or more"
                )
            with self._settings() as how:
                seed = 0 if self.random_state is None else self._seed()
                model, self.report_ = _core.fit_automatic(sets, targets, seed, how)
            self._adopt(model)
            return self
        with named(score="score_function"), self._settings() as how:
            options = self._options(dtype)
            model, report = _core.fit(sets, targets, options, how)
        self.report_ = report
        self._adopt(model)
        self._warn_of_outcome(report)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The features: (n, heads (d + 1)), or (n, heads) for mlp; predictions are ``features @ values + b``.

        For heads="inf", the kernel with the sets that the model keeps. Features of tokens that the CUDA back end
        reads on a device stay there, as a tensor of the library of X.
        """
        return returned(self._apply("features", X), X._given[0] if isinstance(X, Sets) else X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file of the command line, byte for byte; `headlens.load` reads it."""
        self._fitted_model().save(Path(path))

    def _encode(self, y: Any) -> np.ndarray:
        """y as the library reads it."""
        raise NotImplementedError

    def _read(self, X: Any) -> tuple[_core.Sets, np.dtype]:
        return as_sequences(X) if self.sequence else as_sets(X)

    def _read_there(self, X: Any) -> tuple[_core.Sets, np.dtype]:
        """For features of heads: what lies on a device stays there, for the CUDA back end."""
        on_cuda = sequences_on_cuda if self.sequence else sets_on_cuda
        return (on_cuda(X) if self.backend == "cuda" else None) or self._read(X)

    def _draws_heads(self) -> bool:
        """Whether a fit draws finitely many heads: all else reads sets in main memory, and keeps some of them."""
        heads = self.get_params(deep=False).get("heads", "inf")
        return not self._chooses_all() and heads != "inf" and heads != float("inf")

    def _settings(self) -> Any:
        return settings(self.threads, self.max_memory, bool(self.verbose), self.backend)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer) and not isinstance(self.random_state, bool):
            return whole_number(self.random_state, "random_state")
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _chooses_all(self) -> bool:
        """Whether no option says what the heads or their training are."""
        parameters = self.get_params(deep=False)
        if parameters["model"] != "auto" or self.precision == "f32":
            return False
        defaults = type(self)().get_params(deep=False)
        named = (*self._FEATURES, *self._TRAINING, "heads", "score_function", "mean", "ridge")
        return all(_same(parameters[name], defaults[name]) for name in named if name in parameters)

    def _options(self, dtype: np.dtype) -> _core.FitOptions:
        parameters = self.get_params(deep=False)
        for name, value in self._WITHOUT_CHOICE.items():
            if isinstance(parameters.get(name), str) and parameters[name] == "auto":
                parameters[name] = value
        options = _core.FitOptions()
        features = fill(
            _core.FeatureOptions(),
            heads=head_count(parameters.get("heads", "inf")),
            score=parameters["score_function"],
            precision=precision_of(self.precision, dtype),
            seed=self._seed(),
            mean=as_mean(parameters["mean"]),
            **{name: parameters[name] for name in self._FEATURES if name in parameters},
        )
        training = {name: parameters[name] for name in self._TRAINING if name in parameters}
        fill(options, features=features, ridge=_ridge(self.ridge), **training)
        options.validate()
        return options

    def _warn_of_outcome(self, report: dict[str, Any]) -> None:
        if report["status"] == "stalled":
            warn(
                f"{type(self).__name__}: stalled at a residual of {report['residual']:.1e} ({report['method']}): "
                "the model is not the minimum"
            )
        if report["status"] == "digits_lost":
            warn(
                f"{type(self).__name__}: the scores keep {report['score_digits']:.1f} digits of what differs "
                "between tokens: subtract the mean of the training tokens from X, here and in predict"
            )
        if report["status"] == "not_positive_definite":
            warn(
                f"{type(self).__name__}: no model: the ridge {report['ridge']:.3g} is lost in the rounding of "
                "the Gram matrix: raise it, or use ridge='auto' or precision='f64'"
            )

    def _adopt(self, model: Any) -> None:
        """Keeps a model and shows its parts, unless there is none (a status without a model)."""
        for name in ("_model", "heads_", "values_", "intercept_", "support_", "ridge_"):
            self.__dict__.pop(name, None)
        self.members_: list[dict[str, Any]] | None = None
        if isinstance(model, _core.AutomaticModel):
            self._adopt_automatic(model)
            return
        if self.report_["status"] == "not_positive_definite":
            return
        self._model = model
        state = model.__getstate__()
        self.heads_, self.support_ = state.get("head_weights"), None
        self.values_, self.intercept_ = state["values"], state["intercept"]
        self.ridge_ = float(self.report_["ridge"])
        if "support_query" in state:
            offsets = state["support_offsets"] or None
            self.support_ = Sets(state["support_query"], state["support_keys"], offsets)

    def _adopt_automatic(self, model: _core.AutomaticModel) -> None:
        self._model, tensors = model, model.__getstate__()["tensors"]
        self.heads_, self.members_ = None, self.report_["members"]
        self.values_, self.intercept_ = tensors["values"], tensors["intercept"]
        self.ridge_ = float(self.report_["ridge"])
        self.support_ = Sets(tensors["query"], tensors["keys"], tensors.get("offsets"))

    def _fitted_model(self) -> Any:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
                "before using this estimator."
            )
        return self._model

    def _apply(self, method: str, X: Any) -> np.ndarray:
        model = self._fitted_model()
        sets, dtype = self._read(X) if self.heads_ is None else self._read_there(X)
        if sets.dim != self.n_features_in_:
            raise ValueError(
                f"X has {sets.dim} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        with self._settings() as how:
            out = getattr(model, method)(sets, how)
        # Chosen models compute in double, and give back what they were given.
        return out.astype(dtype) if self.members_ is not None and out.dtype.kind == "f" else out

    @property
    def _n_features_out(self) -> int:
        return int(self.values_.size // self.intercept_.size)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _ridge(ridge: Any) -> float | None:
    if isinstance(ridge, str):
        if ridge != "auto":
            raise ValueError(f"ridge: '{ridge}' given, expected 'auto' or a number, 0 or more")
        return None
    if ridge is None:
        raise ValueError("ridge: None given, expected 'auto' or a number, 0 or more")
    return ridge


def _same(value: Any, default: Any) -> bool:
    """Equal, for values of any type: an array is not the default."""
    return type(value) is type(default) and bool(value == default)
