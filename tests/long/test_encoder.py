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


@pytest.mark.parametrize("layer", [0, 1])
def test_a_whole_layer_from_tokens_of_text(tmp_path, report, layer):
    """12 heads with all biases, from tokens of sentences drawn into examples at random; then on sentences that it has not seen."""
    example = runpy.run_path(str(ROOT / "examples" / "sentence_encoder.py"))
    encoder = example["SentenceEncoder"](ENCODER)
    windows = np.random.default_rng(0).permutation(encoder.windows(example["python_reference"](), 16))
    text, fresh = encoder.tokens(windows[500:], layer), encoder.tokens(windows[:500], layer)
    x = encoder.drawn_tokens(text, 6000, 32)
    y = np.concatenate([encoder.attention(part, layer) for part in np.array_split(x, 12)])
    examples, sentences, found, truth = (tmp_path / f"{name}.npz" for name in ("ex", "text", "l", "truth"))
    np.savez(examples, X=x, Y=y)
    np.savez(sentences, X=fresh, Y=encoder.attention(fresh, layer))
    run("inspect --weights", encoder.weights, f"--prefix encoder.layer.{layer} --heads 12 --bias -o", truth)
    certificate = run_json("recover", examples, "--heads 12 --bias --form factors -o", found, timeout=7200)
    heads = run_json("compare", found, truth, "--tokens", examples)["worst_error"]
    run("predict", found, sentences, "-o", tmp_path / "y.npy")
    left = np.linalg.norm(np.load(tmp_path / "y.npy") - encoder.attention(fresh, layer))
    error = left / np.linalg.norm(encoder.attention(fresh, layer))
    report(
        f"layer {layer}: {certificate['status']}, {len(np.unique(x.reshape(-1, 384), axis=0))} different tokens of {x.size // 384},"
        f" heads {heads:.1e}, held out {certificate['held_out_error']:.1e}, sentences {error:.1e}, {certificate['seconds']:.0f} s"
    )
    assert heads < 1e-6 and certificate["held_out_error"] < 1e-8 and error < 1e-8


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
