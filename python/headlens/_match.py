"""Heads of two layers or checkpoints matched, and weights checked against outputs."""

import html
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_float64
from ._call import fill, settings
from ._layer import AttentionLayer
from ._weights import arrays_of, parts_of


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    def cell(value: Any) -> str:
        return html.escape(f"{value:.3g}" if isinstance(value, float) else str(value))

    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell(row[c])}</td>" for c in columns) + "</tr>" for row in rows)
    return f'<table style="text-align:left"><tr>{head}</tr>{body}</table>'


@dataclass(frozen=True, repr=False)
class Match:
    """Which head is which, and how two layers are related; the words are those of `headlens match --json`.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=6, dim=8)
    >>> headlens.match(layer, layer).moved
    []
    """

    verdict: str
    """same, derived or unrelated."""
    explanation: str
    p_value: float
    null: str
    worst_distance: float
    median_distance: float
    closer: int
    within_overlap: float
    heads: list[dict[str, Any]]
    """layer_a, layer_b, a, b, distance, overlaps, the nearest rival and the margin of each pair."""
    moved: list[int]
    """Places in `heads` of those that changed most."""
    unmatched_a: list[dict[str, int]]
    unmatched_b: list[dict[str, int]]
    layers: list[dict[str, Any]]
    table: list[list[float]]
    words: str = ""
    """What `headlens match` prints."""

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        columns = ("layer_a", "a", "layer_b", "b", "distance", "theta_overlap", "w_overlap", "margin")
        first = f"<b>{self.verdict}</b> (p = {self.p_value:.2g}). {html.escape(self.explanation)}"
        return f"<p>{first}</p>" + _table(self.heads, columns)

    def plot(self, ax: Any = None) -> Any:
        """The distance of every pair, drawn by `headlens.plot.match`."""
        import importlib

        return importlib.import_module("headlens.plot").match(self, ax=ax)


@dataclass(frozen=True, repr=False)
class Check:
    """Whether weights produce outputs; the words are those of `headlens check --json`.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=2, dim=6)
    >>> headlens.check(layer, *layer.examples(20)).fits
    True
    """

    fits: bool
    convention: str
    """"as stored", or the changes with which the weights fit, or fit best."""
    error: float
    tolerance: float
    explanation: str
    suspects: list[int]
    """Heads that are wrong, where no convention fits."""
    damage: list[dict[str, Any]]
    constant_share: float
    tried: list[dict[str, Any]]
    """Every convention that was tried, with its error; best first."""
    words: str = ""
    """What `headlens check` prints."""

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        verdict = "fits" if self.fits else "does not fit"
        text = f"<p><b>{verdict}</b>: error {self.error:.2g}, {html.escape(self.convention)}. "
        text += f"{html.escape(self.explanation)}</p>"
        if self.damage:
            text += _table(self.damage, ("head", "part", "share", "error"))
        return text + _table(self.tried[:8], ("convention", "error"))

    def plot(self, ax: Any = None) -> Any:
        """The errors of the best conventions, drawn by `headlens.plot.check`."""
        import importlib

        return importlib.import_module("headlens.plot").check(self, ax=ax)


def _tensors(source: Any, name: str, how: Any) -> dict[str, np.ndarray]:
    """Of a layer, a module, a state dict or a file."""
    if isinstance(source, AttentionLayer):
        return parts_of(source)
    if isinstance(source, (str, os.PathLike)):
        return _core.load_tensors(Path(source), how)
    if hasattr(source, "state_dict"):
        source = source.state_dict()
    if not isinstance(source, Mapping):
        raise TypeError(
            f"{name}: {type(source).__name__} given, expected a layer, a module, a state dict or a file"
        )
    return arrays_of(source)


def _options(source: Any, heads: int | None, format: str, prefix: str) -> Any:
    if heads is None:
        heads = getattr(source, "num_heads", 0)
    return fill(_core.WeightsOptions(), heads=heads, format=format, prefix=prefix)


def match(
    a: Any,
    b: Any,
    *,
    heads: int | None = None,
    prefix_a: str = "",
    prefix_b: str = "",
    format: str = "auto",
    all_layers: bool = False,
    across: bool = False,
    rotary: str | None = None,
    report: str | os.PathLike | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> Match:
    """Which heads of two layers or checkpoints are the same, as `headlens match`.

    Parameters
    ----------
    a, b : AttentionLayer, PyTorch module, state dict, or file (.npz, .safetensors)
    heads : of weights whose shapes do not tell
    prefix_a, prefix_b : of the names of the weights, where there are several layers
    format : "auto", "factors", "torch", "hf", "gpt2" or "transformer-lens"
    all_layers : match all layers, in their order
    across : match heads with heads of any layer
    rotary : positions of the weights, such as "base=10000,layout=half"
    report : folder of a page to write, as `headlens match --report`

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=6, dim=8)
    >>> found = headlens.match(layer, headlens.AttentionLayer(layer.theta[::-1], layer.w[::-1]))
    >>> found.verdict, found.heads[0]["b"]
    ('same', 5)
    """
    with settings(threads, max_memory) as how:
        text, words = _core.match(
            _tensors(a, "a", how),
            _options(a, heads, format, prefix_a),
            _tensors(b, "b", how),
            _options(b, heads, format, prefix_b),
            all_layers,
            across,
            rotary,
            None if report is None else Path(report),
            how,
        )
    return Match(**json.loads(text), words=words)


def check(
    weights: Any,
    X: Any,
    Y: Any,
    *,
    lengths: Any = None,
    heads: int | None = None,
    prefix: str = "",
    format: str = "auto",
    rotary: str | None = None,
    tolerance: float = 1e-4,
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> Check:
    """Do these weights produce Y (n, k, e) from X (n, k, d)? As `headlens check`.

    Parameters
    ----------
    weights : AttentionLayer, PyTorch module, state dict, or file (.npz, .safetensors)
    lengths : tokens of every example that are no padding; None: all
    heads, prefix, format, rotary : of the weights, as in `match`
    tolerance : relative error up to which weights fit

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=3, dim=8)
    >>> X, Y = layer.examples(count=40)
    >>> headlens.check(layer, X, Y).convention
    'as stored'
    >>> swapped = headlens.AttentionLayer(layer.theta.transpose(0, 2, 1), layer.w)
    >>> headlens.check(swapped, X, Y).convention
    'swapped queries and keys'
    """
    options = fill(_core.CheckOptions(), tolerance=float(tolerance))
    counts = None if lengths is None else as_float64(lengths, "lengths")
    with settings(threads, max_memory) as how:
        text, words = _core.check(
            _tensors(weights, "weights", how),
            _options(weights, heads, format, prefix),
            as_float64(X, "X"),
            as_float64(Y, "Y"),
            counts,
            rotary,
            options,
            how,
        )
    return Check(**json.loads(text), words=words)
