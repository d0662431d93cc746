"""Attention layers: forward, examples, files, and the weights of other libraries."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_float64
from ._call import fill, settings, whole_number
from ._hardness import HiddenLabel
from ._weights import arguments_of, parts_of, put_in_place, read_factors, read_plain, stacked_heads


class AttentionLayer:
    """F(X) = sum_i softmax_rows(X Theta_i X^T) X W_i, and what layers in use have beyond that.

    Parameters
    ----------
    theta : array (m, d, d), one Theta a head; None with rotary positions
    w : array (m, d, e), one W a head
    query_bias : array (m, d), u_i: <u_i, x_b> is added to the logits of token b
    constant : array (e,), added to every output: value and output biases
    mask : "none", or "causal": a token sees those up to itself
    rotary : "none", or rotary positions as "base=10000,layout=half", with `q` and `k`
    q, k : arrays (m, d, r): logits are those of X Q and X K, turned
    kv_groups : groups of heads that share keys and values; 0: every head has its own

    >>> import numpy as np, headlens
    >>> layer = headlens.AttentionLayer(np.zeros((1, 2, 2)), np.eye(2)[None])
    >>> layer(np.array([[[1.0, 0.0], [0.0, 1.0]]]))     # scores of zero: every token sees the mean
    array([[[0.5, 0.5],
            [0.5, 0.5]]])
    """

    def __init__(
        self,
        theta: Any,
        w: Any,
        *,
        query_bias: Any = None,
        constant: Any = None,
        mask: str = "none",
        rotary: str = "none",
        q: Any = None,
        k: Any = None,
        kv_groups: int = 0,
    ):
        arrays = {"theta": theta, "w": w, "query_bias": query_bias, "constant": constant, "q": q, "k": k}
        # Copies: a layer does not change with the arrays it was made from.
        given = {name: as_float64(a, name).copy() for name, a in arrays.items() if a is not None}
        self._layer = _core.make_variant(given, mask, rotary, kv_groups)
        self._label: HiddenLabel | None = None

    @classmethod
    def _wrap(cls, layer: _core.AttentionLayer, label: HiddenLabel | None = None) -> "AttentionLayer":
        out = cls.__new__(cls)
        out._layer, out._label = layer, label
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
        mask: str = "none",
        bias: bool = False,
        rotary: str = "none",
        seed: int = 0,
    ) -> "AttentionLayer":
        """A random layer, as `headlens generate attention-layer` draws it.

        scale : standard deviation of the logits on random signs
        outputs : coordinates of an output; 0: dim
        rank : of Theta and W; 0: full. With rotary positions of Q and K alone; 0: dim / heads
        mask : "none" or "causal"
        bias : query biases, and a constant for value and output biases
        rotary : "none", or rotary positions as "base=10000,layout=half"
        """
        options = fill(
            _core.TeacherOptions(),
            heads=heads,
            dim=dim,
            outputs=outputs,
            scale=scale,
            rank=rank,
            mask=mask,
            bias=bias,
            rotary=rotary,
            seed=whole_number(seed),
        )
        return cls._wrap(_core.draw_teacher(options))

    @classmethod
    def hard_parity(
        cls, *, dim: int = 12, size: int = 3, sharpness: float = 40.0, seed: int = 0
    ) -> "AttentionLayer":
        """A layer of 2 `size` heads that hides a parity, as `headlens generate hard-parity` draws it.

        size : of the hidden set of coordinates
        sharpness : beta; the layer is its `label` up to about exp(-beta/2)

        >>> import headlens
        >>> X, Y = headlens.AttentionLayer.hard_parity(dim=20, size=3).examples(1000)
        >>> headlens.recover(X, Y, heads=6, method="brute-force").certificate.parity["set"]
        [7, 10, 16]
        """
        return cls._hard("hard-parity", dim=dim, size=size, sharpness=sharpness, seed=seed)

    @classmethod
    def hard_rounding(
        cls,
        *,
        dim: int = 12,
        modulus: int = 4,
        levels: int = 2,
        weight: int = 3,
        sharpness: float = 40.0,
        seed: int = 0,
    ) -> "AttentionLayer":
        """A layer that rounds a hidden sum modulo q to r levels, as `headlens generate hard-rounding` draws it.

        modulus, levels : q, and r from 2 to q
        weight : number of coordinates in the hidden sum
        sharpness : beta; the layer is its `label` up to about exp(-beta/2)

        >>> import headlens
        >>> headlens.AttentionLayer.hard_rounding(weight=5).label.steps.tolist()
        [-0.5, -0.5, 0.5, 0.5, -0.5, -0.5, 0.5, 0.5, -0.5, -0.5, 0.5]
        """
        values = {"dim": dim, "modulus": modulus, "levels": levels, "sharpness": sharpness, "seed": seed}
        return cls._hard("hard-rounding", size=weight, **values)

    @classmethod
    def _hard(cls, kind: str, *, seed: int, **values: Any) -> "AttentionLayer":
        options = fill(_core.HardOptions(), kind=kind, seed=whole_number(seed), **values)
        layer, label = _core.draw_hard_layer(options)
        return cls._wrap(layer, HiddenLabel._wrap(label))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "AttentionLayer":
        """From .npz with `Theta` and `W`, and the label of a hard layer."""
        with settings() as how:
            label = _core.load_label(Path(path), how)
            return cls._wrap(_core.load_layer(Path(path), how), label and HiddenLabel._wrap(label))

    def save(self, path: str | os.PathLike[str]) -> None:
        """To .npz with `Theta` and `W`, the same bytes as the command line writes."""
        if self._label is None:
            self._layer.save(Path(path))
        else:
            _core.save_hard_layer(Path(path), self._layer, self._label._unwrap())

    @classmethod
    def from_torch(cls, module: Any, heads: int | None = None, **options: Any) -> "AttentionLayer":
        """From a `torch.nn.MultiheadAttention`, with its biases for ``bias=True``; else a note in the log names them.

        Tokens are rows here, as with ``batch_first=True``: ``layer(x)`` is ``module(x, x, x)``.
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
        bias: bool = False,
        mask: str = "none",
        rotary: str = "none",
    ) -> "AttentionLayer":
        """From a state dict of PyTorch or Hugging Face, or a .safetensors or .npz file, as `headlens inspect`.

        Parameters
        ----------
        weights : names and arrays, or a file. Known names: W_Q .. W_O; in_proj_weight and out_proj.weight;
            q_proj .. o_proj; query .. dense
        heads : of the queries; shared heads of keys and values are seen from the shapes
        format : "auto", "factors", "torch", "hf", "gpt2" or "transformer-lens"
        prefix : of the names, where there are several layers
        layer : of weights (layer, out, in)
        restrict_dim : keep the first coordinates only; 0: all
        bias : with the biases of the weights: query biases u, and one constant for those of values and outputs
        mask : "none" or "causal", and
        rotary : "none" or rotary positions as "base=10000,layout=half": weights do not tell

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
            restrict=restrict_dim,
        )
        if not bias and rotary == "none":
            plain = cls._wrap(read_plain(weights, values))
            return plain if mask == "none" else cls(plain.theta, plain.w, mask=mask)
        if restrict_dim:
            raise ValueError("restrict_dim: given with biases or positions, expected neither")
        return cls(**{**arguments_of(read_factors(weights, values, bias, rotary)), "mask": mask})

    @classmethod
    def from_transformer_lens(
        cls, weights: Any, prefix: str = "", *, restrict_dim: int = 0
    ) -> "AttentionLayer":
        """From W_Q, W_K, W_V (heads, d_model, d_head) and W_O (heads, d_head, d_model) of TransformerLens.

        `weights` is an attention component (``model.blocks[0].attn``) or a state dict with a `prefix`, such as
        ``"blocks.0.attn."``.
        """
        tensors, heads = stacked_heads(weights, prefix)
        return cls.from_weights(tensors, heads, format="factors", restrict_dim=restrict_dim)

    def state_dict(
        self, like: Any, *, heads: int | None = None, prefix: str = "", format: str = "auto"
    ) -> dict[str, Any]:
        """The tensors of `like` (a state dict, a module or a file) with this layer in place of its attention.

        Names, layout, shapes and precision stay, as with `headlens export`: load the result into the model. An
        error says what does not fit, such as a Theta of a higher rank than the weights have room for.

        >>> import numpy as np, headlens
        >>> rng = np.random.default_rng(0)
        >>> state = {"in_proj_weight": rng.normal(size=(12, 4)), "out_proj.weight": rng.normal(size=(4, 4))}
        >>> layer = headlens.AttentionLayer.from_weights(state, heads=2)
        >>> back = headlens.AttentionLayer.from_weights(layer.state_dict(state, heads=2), heads=2)
        >>> headlens.compare(back, layer).worst_error < 1e-12
        True
        """
        from ._match import _options, _tensors

        with settings() as how:
            tensors = _tensors(like, "like", how)
            found = _core.export_layer(parts_of(self), tensors, _options(like, heads, format, prefix), how)
        return put_in_place(found, like)

    def to_torch(self) -> Any:
        """A `torch.nn.Module` with the arrays of the layer as parameters that computes the layer on (..., k, d).

        `nn.MultiheadAttention` cannot hold every layer: its heads have Theta of rank d / heads. Where it can,
        `state_dict` writes the layer into its weights.
        """
        from ._torch import TorchAttentionLayer

        return TorchAttentionLayer(parts_of(self))

    @property
    def theta(self) -> np.ndarray | None:
        """(m, d, d), read-only; None with rotary positions."""
        return self._layer.theta

    @property
    def query_bias(self) -> np.ndarray | None:
        """(m, d), read-only; None without biases."""
        return self._layer.query_bias

    @property
    def constant(self) -> np.ndarray | None:
        """(e,), read-only; None without biases."""
        return self._layer.constant

    @property
    def q(self) -> np.ndarray | None:
        """(m, d, r), read-only; None without rotary positions."""
        return self._layer.q

    @property
    def k(self) -> np.ndarray | None:
        """(m, d, r), read-only; None without rotary positions."""
        return self._layer.k

    @property
    def mask(self) -> str:
        """ "none" or "causal"."""
        return self._layer.mask

    @property
    def rotary(self) -> str:
        """ "none", or the rotary positions as "base=10000,layout=half"."""
        return self._layer.rotary

    @property
    def kv_groups(self) -> int:
        """Groups of heads that share keys and values; 0 where every head has its own."""
        return self._layer.kv_groups

    @property
    def w(self) -> np.ndarray:
        """(m, d, e), read-only."""
        return self._layer.w

    @property
    def heads(self) -> int:
        return self.w.shape[0]

    @property
    def dim(self) -> int:
        return self.w.shape[1]

    @property
    def outputs(self) -> int:
        return self.w.shape[2]

    @property
    def label(self) -> HiddenLabel | None:
        """What a hard layer hides; None for other layers."""
        return self._label

    def forward(
        self,
        X: Any,
        *,
        lengths: Any = None,
        threads: int | None = None,
        max_memory: int | str | None = None,
    ) -> np.ndarray:
        """F(X) for X (n, k, d). lengths (n,): tokens of every example; the others are padding, and their rows zero."""
        own = None if lengths is None else as_float64(lengths, "lengths")
        with settings(threads, max_memory) as how:
            return self._layer.forward(as_float64(X, "X"), own, how)

    __call__ = forward

    def examples(
        self,
        count: int = 100,
        *,
        tokens: int | None = None,
        inputs: str = "signs",
        noise: float = 0.0,
        padding: bool = False,
        flips: float = 0.0,
        seed: int = 0,
        threads: int | None = None,
        max_memory: int | str | None = None,
    ) -> tuple[np.ndarray, ...]:
        """Random inputs X (count, tokens, d) and labels Y (count, tokens, e), as `headlens generate examples`.

        tokens : of an example; None: 4, or 2 of a hard layer
        inputs : "signs" or "gaussian"
        noise : standard deviation of Gaussian noise on Y
        padding : examples of 2 to `tokens` tokens at random; `lengths` (count,) comes as a third array
        flips : share of examples with the labels of a neighbour, one hidden sign turned over (hard layers only)
        """
        usual = 4 if self._label is None else 2
        options = fill(
            _core.HardExampleOptions(),
            count=count,
            tokens=usual if tokens is None else tokens,
            inputs=inputs,
            noise=noise,
            padding=padding,
            flips=flips,
            seed=whole_number(seed),
        )
        with settings(threads, max_memory) as how:
            if flips == 0:
                return self._layer.examples(options, how)
            if self._label is None:
                raise ValueError(f"flips: {flips} given, but only a hard layer has hidden signs")
            return _core.draw_hard_examples(self._layer, self._label._unwrap(), options, how)

    def canonical(self) -> "AttentionLayer":
        """Heads with equal Theta merged, heads with W = 0 dropped."""
        return AttentionLayer._wrap(self._layer.canonical())

    def restrict(self, dim: int) -> "AttentionLayer":
        """The layer on the first `dim` coordinates of tokens and outputs."""
        return AttentionLayer._wrap(self._layer.restrict(dim))

    def __repr__(self) -> str:
        more = "" if self.mask == "none" else f", mask={self.mask!r}"
        more += "" if self.query_bias is None else ", with biases"
        more += "" if self.rotary == "none" else f", rotary={self.rotary!r}"
        return f"AttentionLayer(heads={self.heads}, dim={self.dim}, outputs={self.outputs}{more})"

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("query_bias", "constant", "mask", "rotary", "q", "k", "kv_groups")
        return (_restore, (self.theta, self.w, {name: getattr(self, name) for name in names}, self._label))


def _restore(
    theta: np.ndarray | None, w: np.ndarray, parts: dict[str, Any], label: HiddenLabel | None
) -> AttentionLayer:
    layer = AttentionLayer(theta, w, **parts)
    layer._label = label
    return layer
