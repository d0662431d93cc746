"""The best smaller layer for given inputs."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_float64
from ._call import fill, settings, whole_number
from ._layer import AttentionLayer
from ._match import _options, _table, _tensors
from ._weights import arguments_of, put_in_place


@dataclass(frozen=True, repr=False, eq=False)
class Refit:
    """A smaller layer, beside the usual ways to one; the words are those of `headlens refit --json`.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=3, dim=6, rank=2)
    >>> small = headlens.refit(layer, kv_groups=1, count=60, length=4, steps=10)
    >>> [row["name"] for row in small.pareto]
    ['layer', 'mean-pooled groups', 'refit']
    """

    layer: AttentionLayer
    """Theta and W of the smaller layer, multiplied out."""
    factors: dict[str, np.ndarray]
    """Q, K, V and O (m, d, r), as the layer file of `headlens refit` has them."""
    status: str
    """refitted, or out_of_time."""
    heads: int
    rank: int
    value_rank: int
    kv_groups: int
    parameters: float
    held_out_error: float
    """|F - Y| / |Y| on examples that the refit has not seen."""
    train_error: float
    examples: int
    held_out: int
    tokens: int
    start: str
    pareto: list[dict[str, Any]]
    """name, parameters and held_out_error of every way; on_front where no other way is as good in both."""
    phases: dict[str, float]
    trace: list[dict[str, Any]]
    seconds: float
    words: str = ""
    """What `headlens refit` prints."""
    _refit: Any = None

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        first = f"<b>{self.status}</b>: held-out error {self.held_out_error:.3g}, {self.parameters:.0f} parameters"
        columns = ("name", "heads", "rank", "kv_groups", "parameters", "held_out_error", "on_front")
        return f"<p>{first}</p>" + _table(self.pareto, columns)

    def plot(self, ax: Any = None) -> Any:
        """Parameters against held-out error, drawn by `headlens.plot.refit`."""
        import importlib

        return importlib.import_module("headlens.plot").refit(self, ax=ax)

    def state_dict(
        self, like: Any, *, heads: int | None = None, prefix: str = "", format: str = "auto"
    ) -> dict[str, Any]:
        """The tensors of `like` (a state dict, a module or a file) with the smaller layer in place of its attention.

        Names and layout stay; shapes are those of the smaller layer where every matrix has a tensor of its own.
        Tensors of PyTorch come back as such.
        """
        with settings(None, None) as how:
            tensors = _tensors(like, "like", how)
            found = _core.export_refit(self._refit, tensors, _options(like, heads, format, prefix), how)
        return put_in_place(found, like)


def refit(
    layer: Any,
    X: Any = None,
    Y: Any = None,
    *,
    heads: int | None = None,
    rank: int | None = None,
    kv_groups: int | None = None,
    lengths: Any = None,
    inputs: str = "gaussian",
    count: int = 1000,
    length: int = 16,
    layer_heads: int | None = None,
    prefix: str = "",
    format: str = "auto",
    rotary: str | None = None,
    mask: str = "none",
    steps: int = 4000,
    seed: int = 0,
    time_limit: float | None = None,
    report: str | os.PathLike | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: bool | None = None,
    backend: str = "auto",
) -> Refit:
    """The best layer with fewer heads, a smaller rank or shared keys and values, as `headlens refit`.

    Parameters
    ----------
    layer : AttentionLayer, PyTorch module, state dict, or file (.npz, .safetensors); None: fit to X and Y
    X : array (n, k, d), inputs of the layer; None: tokens at random
    Y : array (n, k, e), outputs to fit, where there is no layer
    heads : heads of the smaller layer
    rank : rank of its heads: of Theta and of W
    kv_groups : groups of heads that share keys and values
    lengths : array (n,), tokens of every example where they differ; the others are padding
    inputs : tokens at random, where no file is given: "signs" or standard normal numbers ("gaussian")
    count : number of examples at random
    length : tokens per example at random
    layer_heads : number of heads that the weights are cut into, where their shapes do not tell
    prefix, format, rotary : of the weights, as in `match`
    mask : "none" or "causal", of a checkpoint or of examples, which do not tell
    steps : steps of the descent from the best start
    seed : of the tokens, the batches and random starts
    time_limit : seconds after which to stop with the best layer so far
    report : folder of a page to write, as `headlens refit --report`
    progress : show a tqdm bar; None: on terminals and in notebooks
    backend : "auto" or "cpu", the machine that computes

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=3, dim=6, rank=2)
    >>> small = headlens.refit(layer, heads=2, count=100, length=4, steps=50)
    >>> small.layer, small.held_out_error < 1
    (AttentionLayer(heads=2, dim=6, outputs=6), True)
    """
    options = fill(
        _core.RefitOptions(),
        heads=heads,
        rank=rank,
        kv_groups=kv_groups,
        mask=mask,
        steps=steps,
        seed=whole_number(seed),
        time_limit=time_limit,
    )
    drawn = fill(_core.RefitInputs(), inputs=inputs, count=count, length=length)
    own = None if lengths is None else as_float64(lengths, "lengths")
    page = None if report is None else Path(report)
    if layer is None and (X is None or Y is None):
        raise ValueError("layer: None given, expected a layer, or X and Y to fit one to")
    if layer is not None and Y is not None:
        raise ValueError("Y: given with a layer, whose own outputs are what is fitted")
    x = None if X is None else as_float64(X, "X")
    with settings(threads, max_memory, progress, backend) as how:
        if layer is None:
            found = _core.refit_examples(x, as_float64(Y, "Y"), own, options, page, how)
        else:
            weights = _options(layer, layer_heads, format, prefix)
            tensors = _tensors(layer, "layer", how)
            found = _core.refit_layer(tensors, weights, x, own, rotary, options, drawn, page, how)
    factors = found.tensors
    return Refit(
        AttentionLayer(**arguments_of(factors)),
        factors,
        **json.loads(found.json),
        words=found.words,
        _refit=found,
    )
