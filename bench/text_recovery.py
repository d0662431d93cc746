"""Recovery of a whole layer of a sentence encoder, with all biases, from tokens of text drawn into examples at random.

ENCODER is the folder of all-MiniLM-L6-v2 (examples/sentence_encoder.py says where it comes from). The text is Python's language reference
and the documentation of its standard library, in windows of 16; 500 windows are kept aside, and the layer that is found is compared there.

    bench/text_recovery.py ENCODER [LAYER [COUNT [BACKEND]]]      # 0, 6000 examples of 32 tokens, auto
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))
from sentence_encoder import SentenceEncoder, python_docstrings, python_reference  # noqa: E402

TOKENS, ASIDE = 32, 500


def headlens(*words):
    done = subprocess.run([ROOT / "build/headlens", *map(str, words)], capture_output=True, text=True)
    if not done.stdout and done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def labels(encoder, x, layer):
    return np.concatenate(
        [encoder.attention(part, layer) for part in np.array_split(x, max(1, len(x) // 500))]
    )


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    encoder = SentenceEncoder(sys.argv[1])
    layer, count = (int(sys.argv[i]) if len(sys.argv) > i else usual for i, usual in ((2, 0), (3, 6000)))
    backend = sys.argv[4] if len(sys.argv) > 4 else "auto"
    texts = [encoder.windows(text(), 16) for text in (python_reference, python_docstrings)]
    windows = np.random.default_rng(0).permutation(np.concatenate(texts))
    text, fresh = encoder.tokens(windows[ASIDE:], layer), encoder.tokens(windows[:ASIDE], layer)
    x = encoder.drawn_tokens(text, count, TOKENS)
    distinct = len(np.unique(text.reshape(-1, text.shape[-1]), axis=0))
    print(
        f"layer {layer}: {len(windows)} windows, {distinct} different tokens, {count} examples of {TOKENS}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as name:
        examples, sentences, found, truth = (
            f"{name}/{part}.npz" for part in ("ex", "text", "found", "truth")
        )
        np.savez(examples, X=x, Y=labels(encoder, x, layer))
        np.savez(sentences, X=fresh)
        weights = ("--weights", encoder.weights, "--prefix", f"encoder.layer.{layer}")
        headlens("inspect", *weights, "--heads", 12, "--bias", "-o", truth)
        how = ("--heads", 12, "--bias", "--backend", backend, "--form", "factors", "--json")
        certificate = json.loads(headlens("recover", examples, *how, "-o", found))
        print(
            f"{certificate['status']} in {certificate['seconds']:.1f} s, held-out outputs {certificate['held_out_error']:.1e}"
        )
        if certificate["status"] != "recovered":
            return
        heads = json.loads(headlens("compare", found, truth, "--tokens", examples, "--json"))
        headlens("predict", found, sentences, "-o", f"{name}/y.npy")
        true = labels(encoder, fresh, layer)
        error = np.linalg.norm(np.load(f"{name}/y.npy") - true) / np.linalg.norm(true)
        print(
            f"heads on the span of the tokens {heads['worst_error']:.1e}, outputs on windows of text {error:.1e}"
        )


if __name__ == "__main__":
    main()
