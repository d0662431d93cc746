"""The notebook that recovers an attention layer of a sentence encoder on text, and refits of that layer on its own tokens.

HEADLENS_ENCODER names the folder of the model: `model.safetensors`, `vocab.txt` and `config.json` of all-MiniLM-L6-v2.
"""

import os
import re
import runpy
from pathlib import Path

import headlens
import nbformat
import numpy as np
import pytest
from binary import run, run_json
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
ENCODER = os.environ.get("HEADLENS_ENCODER")
pytestmark = pytest.mark.skipif(not ENCODER, reason="HEADLENS_ENCODER names no folder of a model")
EXPONENT = r"(\d\.\de[-+]\d+)"


def printed(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.get("text", "") for output in outputs if output.get("name") == "stdout")


def test_heads_are_recovered_on_text(report, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(headlens.__file__).absolute().parents[1]), prepend=os.pathsep)
    notebook = nbformat.read(ROOT / "examples" / "recover_encoder.ipynb", as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(ROOT / "examples")}}, timeout=3600).execute()
    text = printed(notebook)
    report("recover_encoder.ipynb: " + " | ".join(text.splitlines()))
    head, function = re.search(
        f"worst error of a head: {EXPONENT}; .* fresh windows: {EXPONENT}", text
    ).groups()
    assert float(head) < 1e-6 and float(function) < 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_heads_from_drawn_tokens(tmp_path, report, seed):
    """Six heads between 48 principal directions, from tokens of text drawn into examples at random; then on windows of the text."""
    example = runpy.run_path(str(ROOT / "examples" / "sentence_encoder.py"))
    encoder = example["SentenceEncoder"](ENCODER)
    windows = np.random.default_rng(seed).permutation(encoder.windows(example["python_reference"](), 16))
    text, parts = example["narrowed"](encoder.layer_parts(0), encoder.tokens(windows), 48, range(6), 8)
    layer = headlens.AttentionLayer(**parts)
    x, fresh = encoder.drawn_tokens(text[500:], 3000, 16, seed), text[:500]
    np.savez(tmp_path / "ex.npz", X=x, Y=layer.forward(x))
    np.savez(tmp_path / "text.npz", X=fresh)
    layer.save(tmp_path / "truth.npz")
    found = run_json("recover", tmp_path / "ex.npz", "--heads 6 --bias --rank 8 --threads 2 -o", tmp_path / "l.npz", timeout=600)  # fmt: skip
    heads = run_json("compare", tmp_path / "l.npz", tmp_path / "truth.npz")["worst_error"]
    run("predict", tmp_path / "l.npz", tmp_path / "text.npz", "-o", tmp_path / "y.npy")
    error = np.linalg.norm(np.load(tmp_path / "y.npy") - layer.forward(fresh)) / np.linalg.norm(
        layer.forward(fresh)
    )
    report(
        f"6 heads from {x.shape[0] * x.shape[1]} drawn tokens, seed {seed}: heads {heads:.1e}, outputs on windows of text {error:.1e}, "
        f"{found['seconds']:.0f} s"
    )
    assert heads < 1e-8 and error < 1e-8


@pytest.mark.parametrize(
    ("size", "wanted", "way", "factor"),
    [
        (16, "--kv-groups 4", "mean-pooled groups", 4.5),
        (32, "--kv-groups 4", "mean-pooled groups", 5),
        (32, "--rank 16", "SVD truncation", 3),
    ],
)
def test_a_smaller_layer_on_text(tmp_path, report, size, wanted, way, factor):
    example = runpy.run_path(str(ROOT / "examples" / "sentence_encoder.py"))
    encoder = example["SentenceEncoder"](ENCODER)
    windows = np.random.default_rng(0).permutation(encoder.windows(example["python_reference"](), size))
    np.savez(tmp_path / "x.npz", X=encoder.tokens(windows[:6000]))
    found = run_json("refit", encoder.weights, "--prefix encoder.layer.0 --layer-heads 12", wanted, "--tokens",
                     tmp_path / "x.npz", "-o", tmp_path / "s.npz", timeout=1800)  # fmt: skip
    rows = {row["name"]: row["held_out_error"] for row in found["pareto"]}
    report(
        f"refit {wanted}, windows of {size} tokens: {way} {rows[way]:.3g}, refit {found['held_out_error']:.3g}, training "
        f"{found['train_error']:.3g}, {found['seconds']:.0f} s"
    )
    assert found["held_out_error"] * factor < rows[way]
