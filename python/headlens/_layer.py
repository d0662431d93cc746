"""Attention layers: forward, examples, files, and the weights of other libraries."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_array, as_numpy
from ._call import fill, settings, whole_number


class AttentionLayer:
    """F(X) = sum_i softmax_rows(X Theta_i X^T) X W_i.

    Parameters
    ----------
    theta : array (m, d, d), one Theta a head
    w : array (m, d, e), one W a head

    >>> import numpy as np, headlens
    >>> layer = headlens.AttentionLayer(np.zeros((1, 2, 2)), np.eye(2)[None])
    >>> layer(np.array([[[1.0, 0.0], [0.0, 1.0]]]))     # scores of zero: every token sees the mean
    array([[[0.5, 0.5],
            [0.5, 0.5]]])
    """

    def __init__(self, theta: Any, w: Any):
        # Copies: a layer does not change with the arrays it was made from.
        self._layer = _core.make_layer(as_float64(theta, "theta").copy(), as_float64(w, "w").copy())

    @classmethod
    def _wrap(cls, layer: _core.AttentionLayer) -> "AttentionLayer":
        out = cls.__new__(cls)
        out._layer = layer
        return out

    @classmethod
    def random(
        cls,
        *,
        heads: int = 2,
        dim: int = 8,
        outputs: int = 0,
        scale: float = 2.0,
        rank: int = 0,
        seed: int = 0,
    ) -> "AttentionLayer":
        """A random layer, as `headlens generate attention-layer` draws it.

        scale : standard deviation of the logits on random signs
        outputs : coordinates of an output; 0: dim
        rank : of Theta and W; 0: full
        """
        options = fill(
            _core.TeacherOptions(),
            heads=heads,
            dim=dim,
            outputs=outputs,
            scale=scale,
            rank=rank,
            seed=whole_number(seed),
        )
        return cls._wrap(_core.draw_teacher(options))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "AttentionLayer":
        """From .npz with `Theta` and `W`."""
        with settings() as how:
            return cls._wrap(_core.load_layer(Path(path), how))

    def save(self, path: str | os.PathLike[str]) -> None:
        """To .npz with `Theta` and `W`, the same bytes as the command line writes."""
        self._layer.save(Path(path))

    @classmethod
    def from_torch(cls, module: Any, heads: int | None = None, **options: Any) -> "AttentionLayer":
        """From a `torch.nn.MultiheadAttention`. Biases are no part of a layer; a note in the log names them.

        Tokens are rows here, as with ``batch_first=True``: ``layer(x)`` is ``module(x, x, x)`` without biases.
        """
        count = getattr(module, "num_heads", None) if heads is None else heads
        if count is None or not hasattr(module, "state_dict"):
            raise ValueError(f"module: {type(module).__name__} given, expected torch.nn.MultiheadAttention")
        return cls.from_weights(module.state_dict(), heads=count, **options)

    @classmethod
    def from_weights(
        cls,
        weights: Mapping[str, Any] | str | os.PathLike[str],
        heads: int,
        *,
        format: str = "auto",
        prefix: str = "",
        layer: int | None = None,
        restrict_dim: int = 0,
    ) -> "AttentionLayer":
        """From a state dict of PyTorch or Hugging Face, or a .safetensors or .npz file, as `headlens inspect`.

        Parameters
        ----------
        weights : names and arrays, or a file. Known names: W_Q .. W_O; in_proj_weight and out_proj.weight;
            q_proj .. o_proj; query .. dense
        heads : of the queries; shared heads of keys and values are seen from the shapes
        format : "auto", "factors", "torch" or "hf"
        prefix : of the names, where there are several layers
        layer : of weights (layer, out, in)
        restrict_dim : keep the first coordinates only; 0: all

        >>> import numpy as np, headlens
        >>> rng = np.random.default_rng(0)
        >>> state = {"in_proj_weight": rng.normal(size=(12, 4)), "out_proj.weight": rng.normal(size=(4, 4))}
        >>> headlens.AttentionLayer.from_weights(state, heads=2)
        AttentionLayer(heads=2, dim=4, outputs=4)
        """
        values = fill(
            _core.WeightsOptions(),
            heads=heads,
            format=format,
            prefix=prefix,
            layer=layer,
            restrict_dim=restrict_dim,
        )
        with settings() as how:
            if isinstance(weights, Mapping):
                # What is no array of numbers (a version, a mask) is no weight.
                tensors = {k: v for k, v in weights.items() if _is_tensor(v)}
                arrays = {str(k): as_array(v, str(k)) for k, v in tensors.items()}
                return cls._wrap(_core.layer_from_weights(arrays, values, "weights", how))
            return cls._wrap(_core.load_weights(Path(weights), values, how))

    @classmethod
    def from_transformer_lens(
        cls, weights: Any, prefix: str = "", *, restrict_dim: int = 0
    ) -> "AttentionLayer":
        """From W_Q, W_K, W_V (heads, d_model, d_head) and W_O (heads, d_head, d_model) of TransformerLens.

        `weights` is an attention component (``model.blocks[0].attn``) or a state dict with a `prefix`, such as
        ``"blocks.0.attn."``.
        """

        def take(name: str) -> np.ndarray:
            found = (
                weights.get(prefix + name) if isinstance(weights, Mapping) else getattr(weights, name, None)
            )
            if found is None:
                raise ValueError(f"weights: {prefix + name} is missing")
            array = as_array(found, prefix + name)
            if array.ndim != 3:
                raise ValueError(
                    f"{prefix + name}: shape {array.shape}, expected three axes, the first of heads"
                )
            return array

        q, k, v = (
            take(name).transpose(0, 2, 1).reshape(-1, take(name).shape[1]) for name in ("W_Q", "W_K", "W_V")
        )
        o = take("W_O").transpose(2, 0, 1).reshape(take("W_O").shape[2], -1)
        tensors = {"W_Q": q, "W_K": k, "W_V": v, "W_O": o}
        return cls.from_weights(tensors, len(take("W_Q")), format="factors", restrict_dim=restrict_dim)

    def to_torch(self) -> Any:
        """A `torch.nn.Module` with parameters `theta` and `w` that computes the layer on (..., k, d).

        `nn.MultiheadAttention` cannot hold every layer: its heads have Theta of rank d / heads.
        """
        from ._torch import TorchAttentionLayer

        return TorchAttentionLayer(self.theta, self.w)

    @property
    def theta(self) -> np.ndarray:
        """(m, d, d), read-only."""
        return self._layer.theta

    @property
    def w(self) -> np.ndarray:
        """(m, d, e), read-only."""
        return self._layer.w

    @property
    def heads(self) -> int:
        return self.theta.shape[0]

    @property
    def dim(self) -> int:
        return self.theta.shape[1]

    @property
    def outputs(self) -> int:
        return self.w.shape[2]

    def forward(
        self, X: Any, *, threads: int | None = None, max_memory: int | str | None = None
    ) -> np.ndarray:
        """F(X) for X (n, k, d)."""
        with settings(threads, max_memory) as how:
            return self._layer.forward(as_float64(X, "X"), how)

    __call__ = forward

    def examples(
        self,
        count: int = 100,
        *,
        tokens: int = 4,
        inputs: str = "signs",
        noise: float = 0.0,
        seed: int = 0,
        threads: int | None = None,
        max_memory: int | str | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Random inputs X (count, tokens, d) and labels Y (count, tokens, e), as `headlens generate examples`.

        inputs : "signs" or "gaussian"
        noise : standard deviation of Gaussian noise on Y
        """
        options = fill(
            _core.ExampleOptions(),
            count=count,
            tokens=tokens,
            inputs=inputs,
            noise=noise,
            seed=whole_number(seed),
        )
        with settings(threads, max_memory) as how:
            return self._layer.examples(options, how)

    def canonical(self) -> "AttentionLayer":
        """Heads with equal Theta merged, heads with W = 0 dropped."""
        return AttentionLayer._wrap(self._layer.canonical())

    def restrict(self, dim: int) -> "AttentionLayer":
        """The layer on the first `dim` coordinates of tokens and outputs."""
        return AttentionLayer._wrap(self._layer.restrict(dim))

    def __repr__(self) -> str:
        return f"AttentionLayer(heads={self.heads}, dim={self.dim}, outputs={self.outputs})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (AttentionLayer, (self.theta, self.w))


def as_float64(values: Any, name: str) -> np.ndarray:
    return np.ascontiguousarray(as_array(values, name), dtype=np.float64)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and len(value.shape) > 0 and as_numpy(value, "weights").dtype.kind in "fV"


@dataclass(frozen=True)
class Comparison:
    """Two layers, head by head, up to the order of heads."""

    worst_error: float
    """Largest relative error of Theta or W; infinite if the numbers of heads differ."""
    worst_theta_error: float
    worst_w_error: float
    heads_a: int
    heads_b: int
    matches: list[dict[str, Any]]
    """a, b, theta_error and w_error of each matched pair."""


def compare(a: AttentionLayer, b: AttentionLayer) -> Comparison:
    """How far `a` is from `b`, as `headlens compare`.

    >>> import headlens
    >>> layer = headlens.AttentionLayer.random(heads=3, dim=4)
    >>> headlens.compare(layer, headlens.AttentionLayer(layer.theta[::-1], layer.w[::-1])).worst_error
    0.0
    """
    return Comparison(**_core.compare_layers(a._layer, b._layer))


def inspect(
    layer: AttentionLayer,
    *,
    tokens: int = 4,
    samples: int = 20000,
    seed: int = 0,
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> dict[str, Any]:
    """What the heads look like and how often they agree, in the words of `headlens inspect --json`.

    >>> import headlens
    >>> headlens.inspect(headlens.AttentionLayer.random(heads=3, dim=4))["distinct_heads"]
    3
    """
    options = fill(_core.InspectOptions(), tokens=tokens, samples=samples, seed=whole_number(seed))
    with settings(threads, max_memory) as how:
        return layer._layer.inspect(options, how)
