"""Running the built program and reading its files, with nothing of headlens in between."""

import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HEADLENS", ROOT / "build" / "headlens"))
DTYPES = {"F64": np.float64, "F32": np.float32}


def run(*args, status=0, timeout=120, **options):
    """Runs headlens and checks its exit status."""
    command = [str(BINARY), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **options)
    assert done.returncode == status, f"{' '.join(command)}: exit {done.returncode}: {done.stderr[-500:]}"
    return done


def run_json(*args, **options):
    return json.loads(run(*args, "--json", **options).stdout)


def refuse(*args, output=None, timeout=30):
    """Misuse: exit status 2, one line on stderr, nothing on stdout, no file. Returns the line."""
    before = set(Path(output).parent.iterdir()) if output else set()
    done = run(*args, status=2, timeout=timeout)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("headlens: ") and done.stdout == "", (done.stdout, lines)
    if output:
        assert set(Path(output).parent.iterdir()) == before, "a file was left behind"
    return lines[0]


def fit(data, model, *args, **options):
    """headlens fit; returns its report. Arguments without a default ridge get an automatic one."""
    return run_json("fit", data, *args, "-o", model, **options)


def predict(model, data, *args):
    out = Path(f"{model}.predictions.npy")
    run("predict", model, data, *args, "-o", out)
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
