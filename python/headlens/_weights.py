"""Tensors of checkpoints and of layer files: what a layer is made of, and where it is put back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_array, as_numpy
from ._call import settings


def is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and len(value.shape) > 0 and as_numpy(value, "weights").dtype.kind in "fV"


def arrays_of(weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Of a state dict. What is no array of numbers (a version, a mask) is no weight."""
    return {str(name): as_array(value, str(name)) for name, value in weights.items() if is_tensor(value)}


def read_plain(weights: Any, options: Any) -> Any:
    """Theta and W of a state dict or a file, without biases and positions."""
    with settings() as how:
        if isinstance(weights, Mapping):
            return _core.layer_from_weights(arrays_of(weights), options, "weights", how)
        return _core.load_weights(Path(weights), options, how)


def read_factors(weights: Any, options: Any, bias: bool, rotary: str) -> dict[str, np.ndarray]:
    """The same in factors, under the names of a layer file."""
    with settings() as how:
        is_file = not isinstance(weights, Mapping)
        arrays = _core.load_tensors(Path(weights), how) if is_file else arrays_of(weights)
        name = str(weights) if is_file else "weights"
        return _core.factors_from_weights(
            arrays, options, name, None if rotary == "none" else rotary, bias, how
        )


def parts_of(layer: Any) -> dict[str, np.ndarray]:
    """The arrays of a layer, under the names of its file."""
    parts = {"Theta": layer.theta, "Q": layer.q, "K": layer.k, "W": layer.w}
    parts |= {"query_bias": layer.query_bias, "constant": layer.constant}
    out = {name: array for name, array in parts.items() if array is not None}
    if layer.mask == "causal":
        out["causal"] = np.ones(1)
    if layer.rotary != "none":
        given = dict(part.split("=") for part in layer.rotary.split(","))
        out["rotary"] = np.array(
            [float(given["base"]), given["layout"] != "half", float(given.get("share", 1))]
        )
    return out


def arguments_of(parts: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What AttentionLayer() is called with, for the arrays Q, K, V and O of a layer file: Theta and W multiplied out."""
    rotary = "none"
    if "rotary" in parts:
        base, layout, share = parts["rotary"]
        rotary = f"base={base:.17g},layout={'interleaved' if layout else 'half'},share={share:.17g}"
    turned = rotary != "none"
    return {
        "theta": None if turned else parts["Q"] @ parts["K"].transpose(0, 2, 1),
        "w": parts["V"] @ parts["O"],
        "query_bias": parts.get("query_bias"),
        "constant": parts.get("constant"),
        "mask": "causal" if "causal" in parts else "none",
        "rotary": rotary,
        "q": parts["Q"] if turned else None,
        "k": parts["K"] if turned else None,
        "kv_groups": int(parts["kv_groups"][0]) if "kv_groups" in parts else 0,
    }


def put_in_place(found: Mapping[str, np.ndarray], like: Any) -> dict[str, Any]:
    """The tensors `found` with whatever else `like` has. Those of PyTorch come back as such, in their precision."""
    given = like.state_dict() if hasattr(like, "state_dict") else like
    out: dict[str, Any] = dict(found)
    if isinstance(given, Mapping):
        for name, value in given.items():
            if name not in out:
                out[name] = value
            elif hasattr(value, "new_tensor"):  # PyTorch
                import torch

                out[name] = torch.from_dlpack(out[name].copy()).to(value)
    return out


def stacked_heads(weights: Any, prefix: str) -> tuple[dict[str, np.ndarray], int]:
    """W_Q .. W_O (heads, ., .) of TransformerLens as matrices (out, in), and the number of heads."""

    def take(name: str) -> np.ndarray:
        found = weights.get(prefix + name) if isinstance(weights, Mapping) else getattr(weights, name, None)
        if found is None:
            raise ValueError(f"weights: {prefix + name} is missing")
        array = as_array(found, prefix + name)
        if array.ndim != 3:
            raise ValueError(f"{prefix + name}: shape {array.shape}, expected three axes, the first of heads")
        return array

    stacks = {name: take(name) for name in ("W_Q", "W_K", "W_V", "W_O")}
    out = {
        name: stack.transpose(0, 2, 1).reshape(-1, stack.shape[1])
        for name, stack in stacks.items()
        if name != "W_O"
    }
    o = stacks["W_O"]
    return out | {"W_O": o.transpose(2, 0, 1).reshape(o.shape[2], -1)}, len(stacks["W_Q"])
