"""headlens match: heads of layers and checkpoints, against copies whose relation is known."""

import json

import heads_family as family
import numpy as np
import pytest
from binary import refuse, run, run_json

M = 8


def layers_file(path, layers, code="F32"):
    tensors = {}
    for i, layer in enumerate(layers):
        tensors |= family.bert_names(layer, f"encoder.layer.{i}.attention.")
    return family.write_safetensors(path, tensors | {"embeddings.weight": np.ones((5, 48))}, code)


@pytest.mark.parametrize("kind", family.VERDICTS)
def test_every_kind_of_copy_is_named(tmp_path, kind):
    wrong = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        wrong.append(family.judge_case(tmp_path, rng, family.random_layer(rng), M, kind))
    assert wrong == [""] * 3


def theta_and_w(layer, m):
    h = family.heads_of(layer, m)
    r = h["query"].shape[1]
    theta = np.einsum("hai,haj->hij", h["query"], h["key"]) / r**0.5
    u = np.einsum("haj,ha->hj", h["key"], h["b_query"]) / r**0.5
    w = np.einsum("hai,hac->hic", h["value"], h["dense"])
    return theta, u, w, layer["dense"] @ layer["b_value"] + layer["b_dense"]


def relative(a, b):
    size = ((np.linalg.norm(a) ** 2 + np.linalg.norm(b) ** 2) / 2) ** 0.5
    return np.linalg.norm(a - b) / size


def test_distances_are_those_of_the_matrices(tmp_path):
    rng = np.random.default_rng(1)
    layer = {k: v.astype(np.float32).astype(float) for k, v in family.random_layer(rng).items()}
    copy = {
        k: (v + 0.1 * rng.standard_normal(v.shape)).astype(np.float32).astype(float) for k, v in layer.items()
    }
    a, b = (layers_file(tmp_path / f"{n}.safetensors", [x]) for n, x in (("a", layer), ("b", copy)))
    found = run_json("match", a, b, f"--heads {M}")
    first, second = theta_and_w(layer, M), theta_and_w(copy, M)
    for head in found["heads"]:
        i, j = head["a"], head["b"]
        theta = relative(*(np.r_[x[0][k], x[1][k][None]] for x, k in ((first, i), (second, j))))
        w = relative(first[2][i], second[2][j])
        assert head["theta_distance"] == pytest.approx(theta, rel=1e-10)
        assert head["w_distance"] == pytest.approx(w, rel=1e-10)
        assert head["distance"] == max(head["theta_distance"], head["w_distance"])
        overlap = (
            np.vdot(first[2][i], second[2][j]) / np.linalg.norm(first[2][i]) / np.linalg.norm(second[2][j])
        )
        assert head["w_overlap"] == pytest.approx(overlap, rel=1e-10)
    assert found["layers"][0]["constant_distance"] == pytest.approx(relative(first[3], second[3]), rel=1e-10)


def test_a_layer_file_and_its_checkpoint_are_the_same(tmp_path):
    layer = family.random_layer(np.random.default_rng(2))
    theta, u, w, c = theta_and_w(layer, M)
    a = layers_file(tmp_path / "a.safetensors", [layer])
    np.savez(tmp_path / "b.npz", Theta=theta, W=w, query_bias=u, constant=c)
    found = run_json("match", a, tmp_path / "b.npz", f"--heads {M}")
    assert found["verdict"] == "same" and found["worst_distance"] < 1e-6
    np.savez(tmp_path / "b.npz", Theta=theta, W=w, constant=c)  # without the query biases another layer
    assert run_json("match", a, tmp_path / "b.npz", f"--heads {M}")["verdict"] == "derived"


def test_all_layers_and_across(tmp_path):
    rng = np.random.default_rng(3)
    layers = [family.random_layer(rng) for _ in range(11)]
    changed, head = family.one_head_changed(rng, layers[10], M)
    a = layers_file(tmp_path / "a.safetensors", layers)
    b = layers_file(tmp_path / "b.safetensors", [*layers[:10], changed])
    found = run_json("match", a, b, f"--heads {M} --layers all")
    assert found["verdict"] == "derived" and found["table"] == []
    assert [x["verdict"] for x in found["layers"]] == ["same"] * 10 + ["derived"]
    assert found["layers"][10]["a"] == "encoder.layer.10.attention"
    assert [(found["heads"][i]["layer_a"], found["heads"][i]["a"]) for i in found["moved"]] == [(10, head)]
    swapped = layers_file(tmp_path / "c.safetensors", layers[1::-1])
    short = layers_file(tmp_path / "d.safetensors", layers[:2])
    across = run_json("match", short, swapped, f"--heads {M} --layers all --across")
    assert across["verdict"] == "same"
    assert all(h["layer_b"] == 1 - h["layer_a"] for h in across["heads"])
    assert np.argmax(across["table"], 1).tolist() == [1, 0]
    assert "8 layers" not in refuse("match", a, short, f"--heads {M} --layers all", folder=tmp_path)


def test_bfloat16_files_are_read(tmp_path):
    layer = family.random_layer(np.random.default_rng(4))
    a, b = (
        layers_file(tmp_path / "a.safetensors", [layer]),
        layers_file(tmp_path / "b.safetensors", [layer], "BF16"),
    )
    rounded = layers_file(tmp_path / "c.safetensors", [family.bfloat16(layer)])
    assert run_json("match", b, rounded, f"--heads {M}")["worst_distance"] < 1e-14
    found = run_json("match", a, b, f"--heads {M}")
    assert found["verdict"] == "derived" and 1e-4 < found["worst_distance"] < 1e-2 and found["moved"] == []


def test_threads_change_nothing(tmp_path):
    rng = np.random.default_rng(5)
    layer = family.random_layer(rng)
    a = layers_file(tmp_path / "a.safetensors", [layer, family.random_layer(rng)])
    b = layers_file(tmp_path / "b.safetensors", [family.int8(layer), layer])
    words = [f"match --heads {M} --layers all --across --json", a, b]
    assert run(*words, "--threads 1").stdout == run(*words, "--threads 3").stdout


def test_words(tmp_path):
    rng = np.random.default_rng(6)
    layer = family.random_layer(rng)
    copy, head = family.one_head_changed(rng, layer, M)
    a, b = (layers_file(tmp_path / f"{n}.safetensors", [x]) for n, x in (("a", layer), ("b", copy)))
    text = run("match", a, b, f"--heads {M}").stdout
    assert text.startswith("verdict  derived") and f"Changed most: head {head} of A" in text


@pytest.mark.parametrize("part", ["query", "key", "value", "dense"])
def test_biases_that_are_no_numbers(tmp_path, part):
    layer = family.random_layer(np.random.default_rng(8))
    a = layers_file(tmp_path / "a.safetensors", [layer])
    for value in (np.nan, np.inf):
        bias = layer[f"b_{part}"].copy()
        bias[3] = value
        b = layers_file(tmp_path / "b.safetensors", [layer | {f"b_{part}": bias}])
        line = refuse("match", a, b, f"--heads {M}")
        assert "b.safetensors: " in line and f"{part}.bias holds {value} at index 3" in line


POSITIONS = {"half": [1e4, 0, 1], "faster": [5e5, 0, 1], "double": [1e4, 0, 2], "none": [1e4, 0, 0.1]}
POSITIONS |= {"layout": [1e4, 2, 1], "two": [1e4, 0], "flat": [0.5, 0, 1], "nan": [np.nan, 0, 1]}


def turned_layer(name, rotary="half", **more):
    rng = np.random.default_rng(9)
    parts = {name: rng.standard_normal((5, 8, 4)) for name in "QK"} | {"W": rng.standard_normal((5, 8, 8))}
    np.savez(name, **parts, rotary=np.array(POSITIONS[rotary], float), **more)


@pytest.mark.parametrize("rotary", [name for name in POSITIONS if name not in ("half", "faster")])
def test_positions_of_layer_files_are_checked(tmp_path, monkeypatch, rotary):
    monkeypatch.chdir(tmp_path)
    turned_layer("a.npz")
    turned_layer("b.npz", rotary)
    np.savez("ex.npz", X=np.ones((9, 3, 8)), Y=np.ones((9, 3, 8)))
    text = "b.npz: rotary positions turn pairs" if rotary == "none" else "expected three numbers"
    assert text in refuse("match a.npz b.npz") and text in refuse("check b.npz ex.npz")


def test_other_bases_and_masks_are_not_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, rotary in (("a.npz", "half"), ("faster.npz", "faster")):
        turned_layer(name, rotary)
    assert "a.npz has the rotary base 10000 and faster.npz has 500000" in refuse("match a.npz faster.npz")
    turned_layer("causal.npz", causal=np.array([1]))
    assert run_json("match causal.npz causal.npz")["verdict"] == "same"
    found = run_json("match a.npz causal.npz")
    assert found["verdict"] == "derived" and "one layer has a causal mask" in found["explanation"]


@pytest.mark.parametrize(
    "causal, text",
    [
        (np.array([1, 0]), "causal is int64 (2,), expected one number"),
        (np.zeros(0), "causal is float64 (0,), expected one number"),
        (np.array([0.5]), "causal is 0.5, expected a whole number from 0 to 1"),
    ],
)
def test_masks_of_layer_files_are_checked(tmp_path, monkeypatch, causal, text):
    monkeypatch.chdir(tmp_path)
    turned_layer("a.npz", causal=causal)
    assert text in refuse("match a.npz a.npz")


@pytest.mark.parametrize(
    "words, text",
    [
        ("match a.safetensors b.safetensors", "--heads: none given, but a.safetensors"),
        ("match a.safetensors b.safetensors --heads 5", "do not make 5 heads"),
        ("match a.safetensors other.npz --heads 8", "other.npz has (9, 9); heads are compared"),
        ("match a.safetensors unknown.safetensors --heads 8", "'blocks.0.mixer.w' (3, 4)"),
        ("match a.safetensors part.safetensors --heads 8", "no tensor ends in 'key.weight'"),
        ("match a.safetensors part.safetensors --heads 8", "self.query.weight' (48, 48)"),
        ("match a.safetensors b.safetensors --heads 8 --prefix-b decoder", "under 'decoder'"),
        ("match a.safetensors b.safetensors --heads 8 --layers 3", "--layers: '3' given, expected all"),
        ("match a.safetensors b.safetensors --heads 8 --across", "--across: given without --layers all"),
        ("match a.safetensors b.safetensors --heads 8 --rotary half", "base=10000"),
        ("match other.npz other.npz --rotary base=10000", "Q and K"),
        ("match other.npz other.npz --prefix-a p", "'p' given"),
        ("match a.safetensors missing.npz --heads 8", "missing.npz"),
        ("match a.safetensors a.pt --heads 8", ".safetensors or .npz"),
    ],
)
def test_misuse(tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    layer = family.random_layer(np.random.default_rng(7))
    for name in ("a", "b"):
        layers_file(tmp_path / f"{name}.safetensors", [layer])
    np.savez("other.npz", Theta=np.ones((2, 9, 9)), W=np.ones((2, 9, 9)))
    family.write_safetensors(tmp_path / "unknown.safetensors", {"blocks.0.mixer.w": np.ones((3, 4))})
    part = family.bert_names(layer)
    family.write_safetensors(
        tmp_path / "part.safetensors", {k: v for k, v in part.items() if ".key." not in k}
    )
    line = refuse(words, folder=tmp_path)
    assert text in line
    assert json.dumps(line).count("\\n") == 0


def plain(path, rng, size):
    theta, w = rng.standard_normal((2, 6, 8, 8))
    np.savez(path, Theta=size * theta, W=size * w)
    return path


def factored(path, rng, size):
    q, k, v, o = rng.standard_normal((4, 6, 8, 3))
    np.savez(path, Q=size**0.5 * q, K=size**0.5 * k, V=size**0.5 * v, O=size**0.5 * o.transpose(0, 2, 1))
    return path


@pytest.mark.parametrize("write", [plain, factored])
def test_layers_whose_squares_underflow(tmp_path, write):
    def judged(size):
        rng = np.random.default_rng(3)
        a, b = (write(tmp_path / f"{name}.npz", rng, size) for name in "ab")
        return run_json("match", a, b), run_json("match", a, a)

    for usual, tiny in zip(judged(1.0), judged(2.0**-600), strict=True):
        assert tiny["verdict"] == usual["verdict"]
        assert [h["b"] for h in tiny["heads"]] == [h["b"] for h in usual["heads"]]
        assert tiny["worst_distance"] == pytest.approx(usual["worst_distance"], rel=1e-9, abs=1e-12)


def test_other_numbers_of_turned_pairs_are_refused(tmp_path):
    rng = np.random.default_rng(4)
    for name, share in (("a", 1.0), ("b", 0.5)):
        q, k = rng.standard_normal((2, 2, 6, 4))
        np.savez(tmp_path / f"{name}.npz", Q=q, K=k, W=rng.standard_normal((2, 6, 6)), rotary=[100, 0, share])
    line = refuse("match", tmp_path / "a.npz", tmp_path / "b.npz")
    assert "turn 2 pairs of columns" in line and "and 1 in" in line
