"""Copies of a layer that keep its function, copies that change it a little, and layers that are unrelated.

A layer is a dict of arrays of BERT's layout: query, key, value (m r, d), dense (e, m r), and their biases.
"""

import json
import struct

import numpy as np
from binary import run_json

PARTS = ("query", "key", "value", "dense")


def heads_of(layer, m):
    """The rows (columns, for dense) of every head, as (m, r, d), and the biases as (m, r)."""
    out = {name: layer[name].reshape(m, -1, layer[name].shape[1]) for name in PARTS[:3]}
    out["dense"] = layer["dense"].T.reshape(m, -1, layer["dense"].shape[0])
    for name in PARTS[:3]:
        out["b_" + name] = layer["b_" + name].reshape(m, -1)
    return {name: array.copy() for name, array in out.items()}


def layer_of(heads, b_dense):
    out = {name: np.concatenate(heads[name]) for name in PARTS[:3]}
    out["dense"] = np.concatenate(heads["dense"]).T
    for name in PARTS[:3]:
        out["b_" + name] = heads["b_" + name].ravel()
    return out | {"b_dense": b_dense}


def random_layer(rng, m=8, d=48, r=6, e=48):
    """Heads with falling spectra in a space in which some directions are larger than others."""
    stretch = np.linspace(2, 0.2, d)
    rows = lambda: rng.standard_normal((m * r, d)) * stretch / d**0.5  # noqa: E731
    layer = {name: rows() for name in PARTS[:3]} | {"dense": rng.standard_normal((e, m * r)) / r**0.5}
    return layer | {f"b_{n}": rng.standard_normal(layer[n].shape[0]) / 10 for n in PARTS}


def permuted(rng, layer, m):
    order = rng.permutation(m)
    heads = {name: array[order] for name, array in heads_of(layer, m).items()}
    return layer_of(heads, layer["b_dense"]), order


def rebased(rng, layer, m):
    """(Q A, K A^-T, V B, B^-1 O) in every head, with matrices A and B of condition up to about ten."""
    h = heads_of(layer, m)
    for i in range(m):
        a, b = (well_conditioned(rng, h[name].shape[1]) for name in ("query", "value"))
        h["query"][i], h["b_query"][i] = a.T @ h["query"][i], a.T @ h["b_query"][i]
        h["key"][i], h["b_key"][i] = np.linalg.solve(a, h["key"][i]), rng.standard_normal(len(a))
        h["value"][i], h["b_value"][i] = b @ h["value"][i], b @ h["b_value"][i]
        h["dense"][i] = np.linalg.solve(b.T, h["dense"][i])
    return layer_of(h, layer["b_dense"])


def well_conditioned(rng, r):
    left, right = (np.linalg.qr(rng.standard_normal((r, r)))[0] for _ in range(2))
    return left @ np.diag(np.exp(rng.uniform(-1.15, 1.15, r))) @ right


def rescaled(rng, layer, m):
    h = heads_of(layer, m)
    c = np.exp(rng.uniform(-2, 2, (m, 1, 1)))
    h["query"], h["b_query"], h["key"] = h["query"] * c, h["b_query"] * c[:, 0], h["key"] / c
    h["value"], h["b_value"], h["dense"] = h["value"] * c, h["b_value"] * c[:, 0], h["dense"] / c
    return layer_of(h, layer["b_dense"])


def bfloat16(layer):
    def cast(a):
        bits = a.astype(np.float32).view(np.uint32)
        return (
            ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000)
            .astype(np.uint32)
            .view(np.float32)
            .astype(float)
        )

    return {name: cast(a) for name, a in layer.items()}


def int8(layer):
    """Symmetric, one scale per row, as dynamic quantisation does; biases stay."""

    def cast(a):
        if a.ndim == 1:
            return a
        scale = np.abs(a).max(1, keepdims=True) / 127
        return np.round(a / scale) * scale

    return {name: cast(a) for name, a in layer.items()}


def one_head_changed(rng, layer, m, share=0.1):
    """One head of the layer moves: each of its factors by `share` of its size."""
    h, head = heads_of(layer, m), int(rng.integers(m))
    for name in PARTS:
        a = h[name][head]
        noise = rng.standard_normal(a.shape)
        h[name][head] = a + share * np.linalg.norm(a) / np.linalg.norm(noise) * noise
    return layer_of(h, layer["b_dense"]), head


def unrelated(rng, layer, m):
    """The same singular values in every factor, with singular vectors drawn at random."""
    h = heads_of(layer, m)
    for name in PARTS:
        for i in range(m):
            s = np.linalg.svd(h[name][i], compute_uv=False)
            r, d = h[name][i].shape
            left = np.linalg.qr(rng.standard_normal((r, r)))[0]
            right = np.linalg.qr(rng.standard_normal((d, r)))[0]
            h[name][i] = left @ np.diag(s) @ right.T
    return layer_of(h, layer["b_dense"])


def one_case(rng, layer, m, kind):
    """(copy, order, changed head): order[j] is the head of `layer` that head j of the copy comes from."""
    order, changed = np.arange(m), None
    if kind == "unrelated":
        return unrelated(rng, layer, m), order, None
    if kind == "one head":
        layer, changed = one_head_changed(rng, layer, m)
    copy, order = permuted(rng, layer, m)
    if kind == "rebased":
        copy = rebased(rng, copy, m)
    if kind == "rescaled":
        copy = rescaled(rng, copy, m)
    if kind in ("bfloat16", "int8"):
        copy = {"bfloat16": bfloat16, "int8": int8}[kind](copy)
    return copy, order, changed


VERDICTS = {
    "permuted": "same",
    "rebased": "same",
    "rescaled": "same",
    "bfloat16": "derived",
    "int8": "derived",
    "one head": "derived",
    "unrelated": "unrelated",
}


def bert_names(layer, prefix="encoder.layer.0.attention."):
    names = dict(zip(PARTS, ("self.query", "self.key", "self.value", "output.dense")))
    out = {f"{prefix}{names[n]}.weight": np.ascontiguousarray(layer[n]) for n in PARTS}
    return out | {f"{prefix}{names[n]}.bias": layer["b_" + n] for n in PARTS}


def from_bert(tensors, prefix):
    names = dict(zip(PARTS, ("self.query", "self.key", "self.value", "output.dense")))
    out = {n: tensors[f"{prefix}{names[n]}.weight"].astype(float) for n in PARTS}
    return out | {"b_" + n: tensors[f"{prefix}{names[n]}.bias"].astype(float) for n in PARTS}


def write_safetensors(path, tensors, code="F32"):
    """As float32, or as bfloat16: the upper halves of rounded floats."""
    header, body = {}, b""
    for name, array in tensors.items():
        data = np.ascontiguousarray(array, np.float32)
        if code == "BF16":
            data = (bfloat16({"": data})[""].astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        span = [len(body), len(body) + data.nbytes]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": span}
        body += data.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def judge_case(folder, rng, layer, m, kind):
    """'' if `headlens match` says of this copy what is true, else what was wrong."""
    copy, order, changed = one_case(rng, layer, m, kind)
    a = write_safetensors(folder / "a.safetensors", bert_names(layer))
    b = write_safetensors(folder / "b.safetensors", bert_names(copy))
    found = run_json("match", a, b, f"--heads {m}")
    if found["verdict"] != VERDICTS[kind]:
        return f"{kind}: {found['verdict']}"
    if kind != "unrelated" and any(order[h["b"]] != h["a"] for h in found["heads"]):
        return f"{kind}: wrong pairs"
    if found["moved"] != ([] if changed is None else [changed]):
        return f"{kind}: head {changed} changed, {found['moved']} named"
    return ""
