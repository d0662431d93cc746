"""What a hard layer hides: its label, exactly."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_float64
from ._call import fill


@dataclass(frozen=True, eq=False)
class HiddenLabel:
    """What a hard layer says on two sign tokens, in the limit of infinite sharpness.

    Coordinate 0 of a token is the control. With c = (x[0] - x'[0]) / 2 and t = u . (x - x') / 2, the label of x
    beside x' is c steps[c t + reach], or x[0] at_rest where c = 0.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.hard_parity(dim=6, size=2)
    >>> layer.label
    HiddenLabel(d = 6, hides 2 3, sharpness 40, tolerance 1.6e-08)
    >>> X, Y = layer.examples(100)
    >>> bool(abs(layer.label(X) - Y).max() <= layer.label.tolerance)
    True
    """

    weights: np.ndarray
    """u (d,), integers; 0 for the control."""
    steps: np.ndarray
    """(2 reach + 1,): the label where c = 1, for t from -reach to reach."""
    at_rest: float
    sharpness: float
    """beta: every step is off by 2 exp(-beta/2) at most."""
    tolerance: float
    """|layer - label| stays below it on every pair of sign tokens."""

    @classmethod
    def _wrap(cls, label: _core.HiddenLabel) -> "HiddenLabel":
        arrays = np.array(label.weights, dtype=np.int64), np.array(label.steps)
        for array in arrays:
            array.flags.writeable = False
        return cls(*arrays, label.at_rest, label.sharpness, label.tolerance)

    def _unwrap(self) -> _core.HiddenLabel:
        return fill(
            _core.HiddenLabel(),
            weights=self.weights.tolist(),
            steps=self.steps.tolist(),
            at_rest=self.at_rest,
            sharpness=self.sharpness,
            tolerance=self.tolerance,
        )

    @property
    def reach(self) -> int:
        """The largest t: sum of |u|."""
        return len(self.steps) // 2

    @property
    def sq_dimension(self) -> float | None:
        """C(d - 1, s): as many parities are pairwise orthogonal. None for labels that are no parity."""
        return self._unwrap().sq_dimension

    def __call__(self, X: Any) -> np.ndarray:
        """Labels (n, 2, 1) of X (n, 2, d), whose entries are 1 or -1."""
        return self._unwrap().evaluate(as_float64(X, "X"))

    def to_dict(self) -> dict[str, Any]:
        """In the words of `headlens inspect --json`."""
        return {
            "hidden": self.weights.tolist(),
            "steps": self.steps.tolist(),
            "at_rest": self.at_rest,
            "sharpness": self.sharpness,
            "tolerance": self.tolerance,
            "sq_dimension": self.sq_dimension,
        }

    def __repr__(self) -> str:
        hidden = " ".join(
            str(j) if u == 1 else f"{j} ({u})" for j, u in enumerate(self.weights.tolist()) if u
        )
        return (
            f"HiddenLabel(d = {len(self.weights)}, hides {hidden}, sharpness {self.sharpness:g}, "
            f"tolerance {self.tolerance:.1e})"
        )
