"""What is in a layer: its heads, its Fourier coefficients, and how far it is from another."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_float64
from ._call import fill, settings, whole_number
from ._layer import AttentionLayer


@dataclass(frozen=True)
class Comparison:
    """Two layers, head by head, up to the order of heads."""

    worst_error: float
    """Largest relative error of Theta or W; infinite if the numbers of heads differ."""
    worst_theta_error: float
    worst_w_error: float
    constant_error: float | None
    """Relative error of the constant of layers with biases."""
    heads_a: int
    heads_b: int
    matches: list[dict[str, Any]]
    """a, b, theta_error and w_error of each matched pair."""
    span_dimension: int | None = None
    """Of the span of the tokens that were given."""
    function_error: float | None = None
    """Relative error of the outputs on these tokens."""


def compare(
    a: AttentionLayer,
    b: AttentionLayer,
    X: Any = None,
    *,
    lengths: Any = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> Comparison:
    """How far `a` is from `b`, as `headlens compare`.

    X : array (n, k, d), tokens: outputs are compared on them too, and heads on their span, where tokens in a
        subspace tell of heads
    lengths : array (n,), tokens of every example that are no padding; None: all

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=3, dim=4)
    >>> headlens.compare(layer, headlens.AttentionLayer(layer.theta[::-1], layer.w[::-1])).worst_error
    0.0
    """
    tokens = None if X is None else as_float64(X, "X")
    counts = None if lengths is None else as_float64(lengths, "lengths")
    with settings(threads, max_memory) as how:
        return Comparison(**_core.compare_layers(a._layer, b._layer, tokens, counts, how))


@dataclass(frozen=True, eq=False, repr=False)
class Fourier:
    """f_S = E F(x, x') chi_S of the first output row on two random sign tokens.

    chi_S is the product of the variables in S: 0 .. d - 1 are those of x, d .. 2 d - 1 those of x'.
    """

    exact: bool
    """From all inputs, which is done up to d = 12; otherwise from samples."""
    subsets: np.ndarray
    """(N, degree), variables in increasing order, then -1; by degree, then lexicographic."""
    values: np.ndarray
    """(N, e)."""
    half_widths: list[float]
    """With samples, |estimate - coefficient| stays below these (one per output) for all at once, at 95%."""
    levels: list[dict[str, Any]]
    """degree, count, largest and weight of the coefficients of every degree; no weight with samples."""
    hidden_levels: list[dict[str, Any]] | None
    """Without the coefficients of the control alone; None unless the layer is a hard one."""

    @classmethod
    def _of(
        cls, layer: AttentionLayer, degree: int, samples: int, seed: int, how: _core.Settings
    ) -> "Fourier":
        options = fill(_core.FourierOptions(), degree=degree, samples=samples, seed=whole_number(seed))
        return cls(**_core.fourier(layer._layer, options, layer.label is not None, how))

    def largest(self, count: int = 10) -> list[dict[str, Any]]:
        """subset, output and value of the coefficients of largest size."""
        flat, outputs = self.values.ravel(), self.values.shape[1]
        places = np.argsort(-np.abs(flat), kind="stable")[:count].tolist()
        rows = [self.subsets[place // outputs] for place in places]
        return [
            {"subset": row[row >= 0].tolist(), "output": place % outputs, "value": float(flat[place])}
            for place, row in zip(places, rows)
        ]

    def to_dict(self) -> dict[str, Any]:
        """In the words of `headlens inspect --fourier K --json`."""
        return {
            "exact": self.exact,
            "half_widths": self.half_widths,
            "levels": self.levels,
            "hidden_levels": self.hidden_levels,
            "largest": self.largest(),
        }

    def __repr__(self) -> str:
        how = "exact" if self.exact else f"from samples, all within {max(self.half_widths):.2g} at 95%"
        lines = [f"Fourier coefficients, {how}", f"{'degree':>6} {'count':>9} {'largest':>12} {'weight':>12}"]
        if self.hidden_levels is not None:
            lines[-1] += f" {'hidden: largest':>19} {'weight':>12}"
        for k, level in enumerate(self.levels):
            lines.append(f"{level['degree']:>6} {level['count']:>9} {_sizes(level)}")
            if self.hidden_levels is not None:
                lines[-1] += "        " + _sizes(self.hidden_levels[k])
        return "\n".join(lines)


def _sizes(level: dict[str, Any]) -> str:
    weight = "-" if level["weight"] is None else f"{level['weight']:.4g}"
    return f"{level['largest']:>12.4g} {weight:>12}"


def fourier(
    layer: AttentionLayer,
    degree: int = 3,
    *,
    samples: int = 20000,
    seed: int = 0,
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: bool | None = None,
) -> Fourier:
    """All Fourier coefficients of a layer's outputs on two sign tokens, as `headlens inspect --fourier`.

    Parameters
    ----------
    degree : largest
    samples, seed : of random inputs, where d is above 12 and there are too many to take all
    progress : show a tqdm bar; None: on terminals and in notebooks

    >>> import headlens
    >>> hard = headlens.AttentionLayer.hard_parity(dim=6, size=2, sharpness=100)
    >>> headlens.fourier(hard, 5)                   # nothing of degree 2 to 4 gives the hidden set away
    Fourier coefficients, exact
    degree     count      largest       weight     hidden: largest       weight
         0         1            0            0                   0            0
         1        12          0.5          0.5                   0            0
         2        66            0            0                   0            0
         3       220            0            0                   0            0
         4       495            0            0                   0            0
         5       792          0.5          0.5                 0.5          0.5
    """
    with settings(threads, max_memory, progress) as how:
        return Fourier._of(layer, degree, samples, seed, how)


def inspect(
    layer: AttentionLayer,
    *,
    tokens: int = 4,
    samples: int = 20000,
    fourier: int | None = None,
    tails: bool = False,
    seed: int = 0,
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> dict[str, Any]:
    """What the heads look like and how often they agree, in the words of `headlens inspect --json`.

    tokens, samples : of sampled inputs, and how many rows of them
    tails : also compare the logits on random signs with the Gaussian ones
    fourier : degree up to which Fourier coefficients are summed up, or None; `headlens.fourier` has all of them

    >>> import headlens
    >>> headlens.inspect(headlens.AttentionLayer.random(heads=3, dim=4))["distinct_heads"]
    3
    >>> found = headlens.inspect(headlens.AttentionLayer.hard_parity(dim=6, size=2), fourier=5)
    >>> found["label"]["sq_dimension"], found["fourier"]["exact"]
    (10.0, True)
    """
    options = fill(_core.InspectOptions(), tokens=tokens, samples=samples, seed=whole_number(seed))
    with settings(threads, max_memory) as how:
        out = layer._layer.inspect(options, how)
        out["tails"] = layer._layer.tails(options, how) if tails else None
        out["label"] = None if layer.label is None else layer.label.to_dict()
        out["fourier"] = (
            None if fourier is None else Fourier._of(layer, fourier, samples, seed, how).to_dict()
        )
    return out
