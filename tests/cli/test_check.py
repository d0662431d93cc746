"""headlens check: conventions and wrong heads that were planted, with attention written out in NumPy."""

import heads_family as family
import numpy as np
import pytest
from binary import refuse, run, run_json

M, R, D, K, N = 4, 6, 24, 7, 40
BASES = {"rotary base=500000": 5e5, "rotary": 1e4}


def softmax(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def turned(t, base, layout):
    """Rotary positions on (k, r), as Llama (half) and GPT-J (interleaved) turn them."""
    k, r = t.shape
    angle = np.arange(k)[:, None] * base ** (-np.arange(0, r, 2) / r)
    a, b = (t[:, : r // 2], t[:, r // 2 :]) if layout == "half" else (t[:, 0::2], t[:, 1::2])
    a, b = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
    out = np.empty_like(t)
    if layout == "half":
        out[:, : r // 2], out[:, r // 2 :] = a, b
    else:
        out[:, 0::2], out[:, 1::2] = a, b
    return out


def attend(
    w, x, *, m=M, groups=M, rotary=None, causal=False, length=None, scale=None, cut="blocks", in_turn=False
):
    """One example (k, d), head by head. `w` holds q, k, v (out, in), o, and biases bq, bk, bv, bo."""
    r, k = w["q"].shape[0] // m, len(x)

    def split(a, count):  # the rows of every head
        return [
            a[i::count] if cut == "strided" else a[i * (len(a) // count) :][: len(a) // count]
            for i in range(count)
        ]

    q, bq, o = split(w["q"], m), split(w["bq"], m), [a.T for a in split(w["o"].T, m)]
    keys, bk, v, bv = (split(w[name], groups) for name in ("k", "bk", "v", "bv"))
    out = np.zeros((k, w["o"].shape[0])) + w["bo"]
    seen = np.arange(k) < (k if length is None else length)
    for h in range(m):
        g = h % groups if in_turn else h // (m // groups)
        a, b = x @ q[h].T + bq[h], x @ keys[g].T + bk[g]
        if rotary:
            a, b = turned(a, *rotary), turned(b, *rotary)
        logits = a @ b.T * (r**-0.5 if scale is None else scale)
        mask = seen[None] & (np.tril(np.ones((k, k), bool)) if causal else True)
        out += softmax(np.where(mask, logits, -np.inf)) @ (x @ v[g].T + bv[g]) @ o[h].T
    return out


def draw(groups=M, seed=0):
    rng = np.random.default_rng(seed)
    rows = {"q": M * R, "k": groups * R, "v": groups * R}
    w = {name: rng.standard_normal((count, D)) * 1.5 / D**0.5 for name, count in rows.items()}
    w["o"] = rng.standard_normal((D, M * R)) / D**0.5
    w |= {f"b{name}": rng.standard_normal(len(w[name])) * 0.7 for name in "qkvo"}
    return w, rng.standard_normal((N, K, D))


def stored(path, w):
    names = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}
    tensors = {f"model.layers.3.self_attn.{names[n]}.weight": w[n] for n in "qkvo"}
    tensors |= {f"model.layers.3.self_attn.{names[n]}.bias": w["b" + n] for n in "qkvo" if "b" + n in w}
    np.savez(path, **tensors)
    return path


def check(tmp_path, w, x, y, *words, status=0, **more):
    np.savez(tmp_path / "ex.npz", X=x, Y=y, **more)
    return run_json(
        "check", stored(tmp_path / "w.npz", w), tmp_path / "ex.npz", f"--heads {M}", *words, status=status
    )


# What the outputs were computed with, while the file says nothing of it.
PLANTED = {
    "as stored": {},
    "causal mask": {"causal": True},
    "rotary base=10000,layout=half": {"rotary": (1e4, "half")},
    "rotary base=10000,layout=interleaved": {"rotary": (1e4, "interleaved")},
    "rotary base=500000,layout=half": {"rotary": (5e5, "half")},
    "logit scale 1": {"scale": 1},
    "logit scale 1/sqrt(d)": {"scale": D**-0.5},
    "logit scale 1/r": {"scale": 1 / R},
    "head order (r, m)": {"cut": "strided"},
    "causal mask, rotary base=1000000,layout=interleaved": {"causal": True, "rotary": (1e6, "interleaved")},
    "causal mask, rotary base=10000,layout=half, logit scale 1": {
        "causal": True,
        "rotary": (1e4, "half"),
        "scale": 1,
    },
}


@pytest.mark.parametrize("convention", PLANTED)
def test_planted_conventions_are_named(tmp_path, convention):
    w, x = draw()
    found = check(tmp_path, w, x, np.array([attend(w, one, **PLANTED[convention]) for one in x]))
    assert (found["fits"], found["convention"], found["suspects"]) == (True, convention, [])
    assert found["error"] < 1e-12 and found["tried"][1]["error"] > 1e-3
    assert found["tried"][0] == {"convention": convention, "error": pytest.approx(0, abs=1e-12)}


def wrong_biases(w):
    return {name: array * 0 if name[0] == "b" else array for name, array in w.items()}


@pytest.mark.parametrize(
    "convention, change",
    [
        ("without biases", wrong_biases),
        ("swapped queries and keys", lambda w: w | {"q": w["k"], "k": w["q"], "bq": w["bk"], "bk": w["bq"]}),
        ("transposed storage", lambda w: w | {name: w[name].T for name in "qkvo"}),
        ("transposed storage of the outputs", lambda w: w | {"o": w["o"].T}),
    ],
)
def test_weights_that_are_meant_otherwise(tmp_path, convention, change):
    w, x = draw()
    found = check(tmp_path, w, x, np.array([attend(change(w), one) for one in x]))
    assert (found["fits"], found["convention"]) == (True, convention)


def test_groups_in_turn(tmp_path):
    w, x = draw(groups=2)
    for in_turn, convention in ((False, "as stored"), (True, "grouped layout h mod g")):
        y = np.array([attend(w, one, groups=2, in_turn=in_turn) for one in x])
        found = check(tmp_path, w, x, y)
        assert (found["fits"], found["convention"]) == (True, convention)


def test_padding(tmp_path):
    w, x = draw()
    lengths = np.random.default_rng(1).integers(3, K + 1, N)
    y = np.array([attend(w, one, length=n) for one, n in zip(x, lengths)])
    y[np.arange(K)[None] >= lengths[:, None]] = 1e6  # rows of padding do not count
    assert check(tmp_path, w, x, y, lengths=lengths)["convention"] == "as stored"
    seen = np.array([attend(w, one) for one in x])
    assert check(tmp_path, w, x, seen, lengths=lengths)["convention"] == "padding is seen"
    assert check(tmp_path, w, x, y, status=3)["fits"] is False  # without the lengths nothing fits
    padding = np.arange(K)[None] >= lengths[:, None]
    x[padding], y[padding] = np.nan, np.inf  # whatever stands there
    assert check(tmp_path, w, x, y, lengths=lengths)["convention"] == "as stored"


@pytest.mark.parametrize("factor, last", [(1e200, False), (1e200, True), (1e-130, False)])
def test_labels_without_a_finite_error(tmp_path, factor, last):
    w, x = draw()
    y = np.random.default_rng(2).standard_normal(x.shape)
    y[-1 if last else slice(None)] *= factor  # the last example is no part of the search
    np.savez(tmp_path / "ex.npz", X=x, Y=y)
    line = refuse("check", stored(tmp_path / "w.npz", w), tmp_path / "ex.npz", f"--heads {M}")
    assert "too large" in line and "w.npz" in line


def damaged(w, head, kind):
    rows = slice(head * R, (head + 1) * R)
    bad = {name: array.copy() for name, array in w.items()}
    if kind == "sign of keys":
        bad["k"][rows] *= -1
    elif kind == "sign of values":
        bad["v"][rows] *= -1
    elif kind == "sign of outputs":
        bad["o"][:, rows] *= -1
    elif kind == "zeroed column of queries":
        bad["q"][rows, 5] = 0
    elif kind == "zeroed row of values":
        bad["v"][head * R + 2] = 0
    else:
        bad["o"][3, rows] = 0
    return bad


PARTS = {
    "sign of keys": "queries or keys",
    "sign of values": "values",
    "sign of outputs": "outputs",
    "zeroed column of queries": "queries or keys",
    "zeroed row of values": "values",
    "zeroed row of outputs": "outputs",
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_damaged_head_is_found(tmp_path, kind):
    for seed in range(3):
        w, x = draw(seed=seed)
        head = seed % M
        found = check(tmp_path, damaged(w, head, kind), x, np.array([attend(w, one) for one in x]), status=3)
        assert (found["fits"], found["convention"], found["suspects"]) == (False, "as stored", [head])
        # A sign of the values is one of the outputs as well: both refits are right.
        if not kind.startswith("sign of v") and not kind.startswith("sign of o"):
            assert found["damage"][0]["part"] == PARTS[kind]
        assert found["damage"][0]["error"] < 1e-10 < found["error"]


def test_two_damaged_heads_and_a_mask(tmp_path):
    w, x = draw(seed=5)
    bad = damaged(damaged(w, 3, "sign of keys"), 1, "zeroed row of values")
    y = np.array([attend(w, one, causal=True) for one in x])
    found = check(tmp_path, bad, x, y, status=3)
    assert (found["convention"], sorted(found["suspects"])) == ("causal mask", [1, 3])
    text = run("check", tmp_path / "w.npz", tmp_path / "ex.npz", f"--heads {M}", status=3).stdout
    assert text.startswith("does not fit") and "These heads are wrong" in text


def test_a_wrong_constant_is_no_head(tmp_path):
    w, x = draw()
    y = np.array([attend(w, one) for one in x])
    found = check(tmp_path, w | {"bo": w["bo"] + 0.3}, x, y, status=3)
    assert found["suspects"] == [] and found["constant_share"] == pytest.approx(1)
    assert "biases of values and outputs" in found["explanation"]


def test_other_weights_have_no_suspects(tmp_path):
    w, x = draw()
    other, _ = draw(seed=9)
    found = check(tmp_path, other, x, np.array([attend(w, one) for one in x]), status=3)
    assert found["suspects"] == [] and "another layer" in found["explanation"]


def test_layer_files(tmp_path):
    """Theta and W, multiplied out: the mask, biases and exchanged factors are searched."""
    w, x = draw()
    w = w | {"bk": w["bk"] * 0}
    h = {name: w[name].reshape(M, R, D) for name in "qkv"} | {"o": w["o"].T.reshape(M, R, D)}
    theta = np.einsum("hai,haj->hij", h["q"], h["k"]) / R**0.5
    u = np.einsum("haj,ha->hj", h["k"], w["bq"].reshape(M, R)) / R**0.5
    wide = np.einsum("hai,hac->hic", h["v"], h["o"])
    np.savez(tmp_path / "layer.npz", Theta=theta, W=wide, query_bias=u, constant=w["o"] @ w["bv"] + w["bo"])
    np.savez(tmp_path / "ex.npz", X=x, Y=np.array([attend(w, one, causal=True) for one in x]))
    found = run_json("check", tmp_path / "layer.npz", tmp_path / "ex.npz")
    assert (found["fits"], found["convention"]) == (True, "causal mask")
    theta[2] *= -1
    np.savez(tmp_path / "layer.npz", Theta=theta, W=wide, query_bias=u, constant=w["o"] @ w["bv"] + w["bo"])
    found = run_json("check", tmp_path / "layer.npz", tmp_path / "ex.npz", status=3)
    assert found["suspects"] == [2] and found["damage"][0]["part"] == "queries or keys"


def test_float32_fits_and_bfloat16_needs_a_tolerance(tmp_path):
    w, x = draw()
    y = np.array([attend(w, one) for one in x])
    single = {name: array.astype(np.float32) for name, array in w.items()}
    assert 1e-9 < check(tmp_path, single, x, y)["error"] < 1e-6
    half = family.bfloat16(w)
    assert check(tmp_path, half, x, y, "--tolerance 0.02")["fits"]
    assert not check(tmp_path, half, x, y, status=3)["fits"]


@pytest.mark.parametrize(
    "words, text",
    [
        ("w.npz ex.npz", "--heads: none given"),
        ("w.npz ex.npz --heads 4 --tolerance 0", "--tolerance: 0 given"),
        ("w.npz bad.npz --heads 4", "lengths holds 99 at index 0"),
        ("w.npz small.npz --heads 4", "the examples have (3, 3)"),
        ("w.npz w.npz --heads 4", "'X' is missing"),
        ("ex.npz ex.npz --heads 4", "'X' (40, 7, 24), 'Y' (40, 7, 24)"),
    ],
)
def test_misuse(tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    w, x = draw()
    stored(tmp_path / "w.npz", w)
    np.savez("ex.npz", X=x, Y=x)
    np.savez("bad.npz", X=x, Y=x, lengths=np.full(N, 99))
    np.savez("small.npz", X=x[..., :3], Y=x[..., :3])
    assert text in refuse("check", words, folder=tmp_path)
