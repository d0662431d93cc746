"""Writes the golden model beside this script: .venv/bin/python tests/cli/golden/make.py, from the project's root.

Only for a new format version: the file stands for those that users have.
"""

import json
import struct
import subprocess
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
NAMES = {np.dtype(np.float64): "F64", np.dtype(np.float32): "F32", np.dtype(np.int64): "I64"}


def write_safetensors(path, tensors, metadata):
    header, body = {"__metadata__": metadata}, b""
    for name, array in sorted(tensors.items()):
        data = np.ascontiguousarray(array).tobytes()
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def main():
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 5, 12))]
    query, keys = rng.standard_normal((12, 3)), rng.standard_normal((offsets[-1], 3))
    np.savez(HERE / "sets.npz", query=query, keys=keys, offsets=offsets, y=rng.standard_normal(12))
    options = "--model brfa --heads inf --ridge 1e-3 --precision f32".split()
    model = HERE / "infinite_heads.hlm"
    subprocess.run(["build/headlens", "fit", HERE / "sets.npz", *options, "-o", model], check=True)
    subprocess.run(
        ["build/headlens", "predict", model, HERE / "sets.npz", "-o", HERE / "predictions.npy"], check=True
    )


if __name__ == "__main__":
    main()
