"""Writes the seeds of the fuzzers: python fuzz/make_corpus.py. Inputs named found-* were found and stay."""

import io
import json
import struct
from pathlib import Path

import numpy as np

corpus = Path(__file__).parent / "corpus"


def put(target, name, data):
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def npy(array, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def npz(save, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def safetensors(header, data):
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


put("fuzz_npy", "float64-v1", npy(np.arange(2.0)))
put("fuzz_npy", "int8-v2", npy(np.arange(6, dtype=np.int8).reshape(2, 3), (2, 0)))
put("fuzz_npy", "bool-v3", npy(np.array(True), (3, 0)))
put("fuzz_npy", "fortran", npy(np.asfortranarray(np.eye(2, dtype=np.float32))))
put("fuzz_npz", "stored", npz(np.savez, a=np.arange(2.0)))
put("fuzz_npz", "deflated", npz(np.savez_compressed, a=np.arange(2.0), b=np.zeros(64, np.uint8)))
put("fuzz_npz", "none", npz(np.savez))
put("fuzz_safetensors", "one", safetensors({"a": tensor("F64", [1], 0, 8)}, bytes(8)))
put(
    "fuzz_safetensors",
    "two-and-metadata",
    safetensors(
        {"__metadata__": {"k": "v"}, "a": tensor("U8", [3], 0, 3), "b": tensor("BOOL", [], 3, 4)}, bytes(4)
    ),
)
put("fuzz_safetensors", "none", safetensors({}, b""))

eye = np.eye(2, dtype=np.float32)
put("fuzz_sets", "rectangular", npz(np.savez, query=eye, keys=np.ones((2, 1, 2), np.float32), y=np.arange(2)))
put("fuzz_sets", "ragged", npz(np.savez, query=eye, keys=eye, offsets=np.arange(3, dtype=np.int32), y=eye))
put(
    "fuzz_sets",
    "sequence",
    npz(np.savez, tokens=np.ones((1, 2, 1), np.float32), y=np.zeros((1, 2), np.float32)),
)

options = {
    "format": "headlens-model", "format_version": "1", "model": "rfa", "heads": "1", "bias_scale": "0",
    "weight_scale": "0.5", "score": "relu", "positions": "none", "precision": "f32", "seed": "1", "loss": "squared",
    "dim": "1", "keys": "0", "outputs": "1", "vector_targets": "false", "sequence": "false", "classes": "",
}  # fmt: skip
heads = {"heads": tensor("F32", [1, 2, 2], 0, 16), "intercept": tensor("F32", [1], 16, 20)}
put(
    "fuzz_model",
    "rfa",
    safetensors({"__metadata__": options, **heads, "values": tensor("F32", [1, 2, 1], 20, 28)}, bytes(28)),
)
kernel = {**options, "heads": "inf"}
support = {
    "intercept": tensor("F64", [1], 0, 8),
    "offsets": tensor("I64", [3], 8, 32),
    "values": tensor("F64", [2, 1], 32, 48),
}
support |= {"query": tensor("F32", [2, 1], 48, 56), "keys": tensor("F32", [3, 1], 56, 68)}
body = bytes(8) + struct.pack("<3q", 0, 1, 3) + bytes(36)
put("fuzz_model", "infinite-heads", safetensors({"__metadata__": kernel, **support}, body))
mlp = {**options, "model": "mlp", "keys": "1", "loss": "logistic", "classes": "-1,3"}
neurons = {"intercept": tensor("F32", [1], 0, 4), "neurons": tensor("F32", [1, 4], 4, 20)}
put(
    "fuzz_model",
    "mlp-classifier",
    safetensors({"__metadata__": mlp, **neurons, "values": tensor("F32", [1, 1], 20, 24)}, bytes(24)),
)

grid = 'seeds = [1, 2]\n[fixed]\ndim = 3\n[grid]\n{}\n[variants.model]\nA = {{heads = 5}}\n"B, é" = {{heads = 0x10}}\n'
figure = '[[figure]]\nkind = "learning-curves"\ntitle = "t"\nx = "samples"\ny = "nmse"\nseries = "model"\n'
finding = '[[finding]]\ntext = "f"\nquantity = "nmse"\nx = "samples"\nbetter = {model = "A"}\nworse = {samples = 5}\n'
study = (
    'name = "s"\ncommand = "fit"\nrecord = ["nmse"]\n' + grid.format("samples = [5, 6]") + figure + finding
)
put("fuzz_study", "fit", study.encode())
layers = "[grid]\nexamples-per-unknown = [1, 2.5e0]\n[fixed]\nheads-known = false\n"
put("fuzz_study", "recover", f'name = "r"\ncommand = "recover"\nseeds = [0]\n{layers}'.encode())
hard = '[fixed]\nlayer = "hard-parity"\nflips = 0.05\n[grid]\nheads = [2, 4]\nmethod = ["brute-force"]\n'
figure = (
    '[[figure]]\nkind = "growth"\ntitle = "t"\nx = "heads"\ny = "recover-seconds"\nbeside = "sq-dimension"\n'
)
put("fuzz_study", "hard", f'name = "h"\ncommand = "recover"\nseeds = [0]\n{hard}{figure}'.encode())
put("fuzz_study", "override-replaces", b"fixed.dim = 4")
put("fuzz_study", "override-adds", b'variants.model."x y" = {model = "mlp"}')
