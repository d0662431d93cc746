"""Running the built program and reading its files, with nothing of headlens in between.

Commands are written as in a shell: strings are split into words, everything else is one word.
"""

import json
import os
import shlex
import struct
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HEADLENS", ROOT / "build" / "headlens"))
DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}


def command(*args):
    words = (shlex.split(arg) if isinstance(arg, str) else [str(arg)] for arg in args)
    return [str(BINARY), *(word for some in words for word in some)]


def run(*args, status=0, timeout=120, **options):
    """Runs headlens and checks its exit status (None: any)."""
    words = command(*args)
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, **options)
    assert status is None or done.returncode == status, (
        f"{shlex.join(words)}: exit {done.returncode}: {done.stderr[-500:]}"
    )
    return done


def run_json(*args, **options):
    return json.loads(run(*args, "--json", **options).stdout)


def refuse(*args, folder=None, timeout=30):
    """Misuse: exit status 2, one line on stderr, nothing on stdout, `folder` as before. Returns the line."""

    def contents():
        return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} if folder else {}

    before = contents()
    done = run(*args, status=2, timeout=timeout)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("headlens: ") and done.stdout == "", (done.stdout, lines)
    assert contents() == before, "files were written"
    return lines[0]


def fit(data, model, *args, **options):
    """headlens fit; returns its report."""
    return run_json("fit", data, "-o", model, *args, **options)


def predict(model, data, *args):
    out = Path(f"{model}.predictions.npy")
    run("predict", model, data, "-o", out, *args)
    return np.load(out)


def read_model(path):
    """(tensors, metadata) of a safetensors file."""
    blob = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    body = blob[8 + size :]
    tensors = {
        name: np.frombuffer(body[slice(*t["data_offsets"])], DTYPES[t["dtype"]]).reshape(t["shape"])
        for name, t in header.items()
    }
    return tensors, metadata
