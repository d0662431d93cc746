"""headlens export: layers in the layout of checkpoints, against attention computed from what was written."""

import heads_family as family
import numpy as np
import pytest
from binary import read_model, refuse, run, run_json
from test_check import D, K, M, N, R, attend

LAYOUTS = ("bert", "llama", "torch", "gpt2", "transformer-lens")


def store(layout, w):
    """q, k, v, o and biases in the tensors of a layout."""
    return {name: np.ascontiguousarray(array) for name, array in tensors_of(layout, w).items()}


def tensors_of(layout, w):
    if layout == "torch":
        return {
            "attn.in_proj_weight": np.concatenate([w[n] for n in "qkv"]),
            "attn.in_proj_bias": np.concatenate([w["b" + n] for n in "qkv"]),
            "attn.out_proj.weight": w["o"],
            "attn.out_proj.bias": w["bo"],
        }
    if layout == "gpt2":
        return {
            "h.0.attn.c_attn.weight": np.concatenate([w[n] for n in "qkv"]).T,
            "h.0.attn.c_attn.bias": np.concatenate([w["b" + n] for n in "qkv"]),
            "h.0.attn.c_proj.weight": w["o"].T,
            "h.0.attn.c_proj.bias": w["bo"],
            "h.0.mlp.c_proj.weight": np.ones((3, 3)),
        }
    if layout == "transformer-lens":
        heads = {f"blocks.0.attn.W_{n.upper()}": w[n].reshape(M, R, D).transpose(0, 2, 1) for n in "qkv"}
        heads |= {f"blocks.0.attn.b_{n.upper()}": w["b" + n].reshape(M, R) for n in "qkv"}
        return heads | {"blocks.0.attn.W_O": w["o"].T.reshape(M, R, D), "blocks.0.attn.b_O": w["bo"]}
    names = ("self.query", "self.key", "self.value", "output.dense")
    if layout == "llama":
        names = ("q_proj", "k_proj", "v_proj", "o_proj")
    stem = "encoder.layer.0.attention." if layout == "bert" else "model.layers.0.self_attn."
    out = {f"{stem}{name}.weight": w[n] for name, n in zip(names, "qkvo")}
    return out | {f"{stem}{name}.bias": w["b" + n] for name, n in zip(names, "qkvo")}


def load(layout, t):
    """The inverse of store()."""
    if layout in ("torch", "gpt2"):
        stem = "attn." if layout == "torch" else "h.0.attn."
        fused = t["attn.in_proj_weight"] if layout == "torch" else t["h.0.attn.c_attn.weight"].T
        bias = t["attn.in_proj_bias"] if layout == "torch" else t["h.0.attn.c_attn.bias"]
        out = dict(zip("qkv", np.split(fused, 3))) | dict(zip(("bq", "bk", "bv"), np.split(bias, 3)))
        o = t[stem + ("out_proj.weight" if layout == "torch" else "c_proj.weight")]
        return out | {
            "o": o if layout == "torch" else o.T,
            "bo": t[stem + ("out_proj.bias" if layout == "torch" else "c_proj.bias")],
        }
    if layout == "transformer-lens":
        out = {n: t[f"blocks.0.attn.W_{n.upper()}"].transpose(0, 2, 1).reshape(-1, D) for n in "qkv"}
        out |= {"b" + n: t[f"blocks.0.attn.b_{n.upper()}"].ravel() for n in "qkv"}
        return out | {"o": t["blocks.0.attn.W_O"].reshape(-1, D).T, "bo": t["blocks.0.attn.b_O"]}
    like = tensors_of(layout, {n: n for n in ("q", "k", "v", "o", "bq", "bk", "bv", "bo")})
    return {part: t[name] for name, part in like.items()}


def draw(seed, groups=M):
    rng = np.random.default_rng(seed)
    rows = {"q": M * R, "k": groups * R, "v": groups * R}
    w = {name: rng.standard_normal((count, D)) * 1.5 / D**0.5 for name, count in rows.items()}
    w["o"] = rng.standard_normal((D, M * R)) / D**0.5
    return w | {f"b{n}": rng.standard_normal(len(w[n])) * 0.7 for n in "qkvo"}


def layer_file(path, w, groups=M):
    each = M // groups
    h = {
        n: np.repeat(w[n].reshape(groups, R, D), each, 0) if n in "kv" else w[n].reshape(M, R, D)
        for n in "qkv"
    }
    o = w["o"].T.reshape(M, R, D)
    theta = np.einsum("hai,haj->hij", h["q"], h["k"]) / R**0.5
    u = np.einsum("haj,ha->hj", h["k"], w["bq"].reshape(M, R)) / R**0.5
    bv = np.repeat(w["bv"].reshape(groups, R), each, 0).ravel()
    np.savez(
        path,
        Theta=theta,
        W=np.einsum("hai,hac->hic", h["v"], o),
        query_bias=u,
        constant=w["o"] @ bv + w["bo"],
    )
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_written_weights_compute_the_layer(tmp_path, layout):
    w, other = draw(1), draw(2)
    layer = layer_file(tmp_path / "layer.npz", w)
    np.savez(tmp_path / "like.npz", **store(layout, other), beside=np.arange(5.0))
    report = run_json("export", layer, "--like", tmp_path / "like.npz", "-o", tmp_path / "out.safetensors")
    assert report["loss"] < 1e-12
    tensors, _ = read_model(tmp_path / "out.safetensors")
    assert np.array_equal(tensors["beside"], np.arange(5.0))
    assert {k: v.shape for k, v in tensors.items()} == {
        k: v.shape for k, v in np.load(tmp_path / "like.npz").items()
    }
    x = np.random.default_rng(3).standard_normal((N, K, D))
    want, got = (np.array([attend(z, one) for one in x]) for z in (w, load(layout, tensors)))
    assert np.abs(want - got).max() < 1e-11 * np.abs(want).max()
    assert run_json("match", layer, tmp_path / "out.safetensors", f"--heads {M}")["verdict"] == "same"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_checkpoint_of_another_layout_is_converted(tmp_path, layout):
    """Factors are copied: the same numbers, but for the key bias that no output sees."""
    w = draw(4)
    np.savez(tmp_path / "from.npz", **store("bert", w))
    np.savez(tmp_path / "like.npz", **{k: v.astype(np.float32) for k, v in store(layout, draw(5)).items()})
    run(
        "export",
        tmp_path / "from.npz",
        "--like",
        tmp_path / "like.npz",
        f"--heads {M} -o",
        tmp_path / "out.npz",
    )
    found = load(layout, dict(np.load(tmp_path / "out.npz")))
    for name in ("q", "k", "v", "o", "bq"):
        assert found[name].dtype == np.float32
        assert np.abs(found[name] - w[name]).max() < 1e-6
    assert np.all(found["bk"] == 0)


def test_groups_of_keys_and_values(tmp_path):
    w = draw(6, groups=2)
    layer = layer_file(tmp_path / "layer.npz", w, groups=2)
    np.savez(tmp_path / "like.npz", **store("llama", draw(7, groups=2)))
    run("export", layer, "--like", tmp_path / "like.npz", "-o", tmp_path / "out.npz")
    got = load("llama", dict(np.load(tmp_path / "out.npz")))
    x = np.random.default_rng(3).standard_normal((N, K, D))
    want, found = (np.array([attend(z, one, groups=2) for one in x]) for z in (w, got))
    assert np.abs(want - found).max() < 1e-11 * np.abs(want).max()
    np.savez(tmp_path / "full.npz", **dict(np.load(layer_file(tmp_path / "other.npz", draw(8)))))
    line = refuse("export", tmp_path / "full.npz", "--like", tmp_path / "like.npz", "-o", tmp_path / "x.npz")
    assert "2 groups of keys and values" in line and "lost" in line


def test_rotary_biases_are_kept(tmp_path):
    w = draw(9, groups=2)
    np.savez(tmp_path / "from.npz", **store("llama", w))
    np.savez(tmp_path / "like.npz", **store("llama", draw(10, groups=2)))
    words = [
        tmp_path / "from.npz",
        "--like",
        tmp_path / "like.npz",
        f"--heads {M} --rotary base=10000 -o",
        tmp_path / "out.npz",
    ]
    run("export", *words)
    got = load("llama", dict(np.load(tmp_path / "out.npz")))
    for name in ("q", "k", "v", "o", "bq", "bk"):
        assert np.abs(got[name] - w[name]).max() < 1e-14
    x = np.random.default_rng(3).standard_normal((N, K, D))
    want, found = (np.array([attend(z, one, groups=2, rotary=(1e4, "half")) for one in x]) for z in (w, got))
    assert np.abs(want - found).max() < 1e-11 * np.abs(want).max()


@pytest.mark.parametrize(
    "words, text",
    [
        ("layer.npz --like like.npz -o out.pt", "expected .safetensors or .npz"),
        ("layer.npz --like plain.npz -o out.npz", "has query biases, but the file has none"),
        ("layer.npz --like small.npz -o out.npz", "(d, e) = (5, 5) and the layer has (24, 24)"),
        ("layer.npz --like narrow.npz -o out.npz", "rank 2"),
        ("layer.npz --like values.npz -o out.npz", "W_V has shape (12, 24), expected (24, 24)"),
        ("layer.npz --like wide.npz -o out.npz", "W_V has shape (24, 25), expected (24, 24)"),
        ("layer.npz --like keys.npz -o out.npz", "W_K has shape (24, 23), expected (24, 24)"),
        ("layer.npz --like thirds.npz -o out.npz", "has 3 heads of 6 rows, which 4 heads cannot share"),
        ("layer.npz --like like.npz --prefix decoder -o out.npz", "under 'decoder'"),
        ("layer.npz --like like.npz -o like.npz", "like.npz"),
    ],
)
def test_misuse(tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    layer_file(tmp_path / "layer.npz", draw(1))
    np.savez("like.npz", **store("bert", draw(2)))
    np.savez("plain.npz", **{k: v for k, v in store("bert", draw(2)).items() if "bias" not in k})
    np.savez("small.npz", **{f"W_{n}": np.ones((8, 5)) for n in "QKV"}, W_O=np.ones((5, 8)))
    narrow = {f"W_{n}": np.ones((8, D)) for n in "QKV"} | {f"b_{n}": np.ones(8) for n in "QKV"}
    np.savez("narrow.npz", **narrow, W_O=np.ones((D, 8)), b_O=np.ones(D))
    full = {f"W_{n}": np.ones((M * R, D)) for n in "QKV"} | {f"b_{n}": np.ones(M * R) for n in "QV"}
    full |= {"W_O": np.ones((D, M * R)), "b_O": np.ones(D)}
    np.savez("values.npz", **full | {"W_V": np.ones((2 * R, D)), "b_V": np.ones(2 * R)})
    np.savez("wide.npz", **full | {"W_V": np.ones((M * R, D + 1))})
    np.savez("keys.npz", **full | {"W_K": np.ones((M * R, D - 1))})
    np.savez("thirds.npz", **full | {"W_K": np.ones((3 * R, D))})
    assert text in refuse("export", words, folder=tmp_path)


def test_a_layer_file_with_the_biases_of_weights(tmp_path):
    rng = np.random.default_rng(8)
    weights = family.write_safetensors(
        tmp_path / "w.safetensors", family.bert_names(family.random_layer(rng), "encoder.layer.0.attention.")
    )
    run("inspect --weights", weights, "--heads 8 --bias -o", tmp_path / "layer.npz")
    same = run_json("match", weights, tmp_path / "layer.npz", "--heads 8")
    assert same["verdict"] == "same" and same["layers"][0]["constant_distance"] < 1e-12
    assert {"query_bias", "constant"} <= set(np.load(tmp_path / "layer.npz"))
    run("inspect --weights", weights, "--heads 8 -o", tmp_path / "plain.npz")
    assert run_json("match", weights, tmp_path / "plain.npz", "--heads 8")["verdict"] != "same"
