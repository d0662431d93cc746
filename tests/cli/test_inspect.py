"""headlens inspect: layers and checkpoints, against multi-head attention written out in NumPy."""

import json
import math
import signal
import struct
import subprocess
import time

import numpy as np
import pytest
from binary import command, refuse, run, run_json

D, HEADS = 12, 3
NAMES = {
    "factors": ["W_Q", "W_K", "W_V", "W_O"],
    "hf": [f"model.layers.0.self_attn.{x}_proj.weight" for x in "qkvo"],
    "bert": [
        *(f"encoder.layer.0.attention.self.{x}.weight" for x in ("query", "key", "value")),
        "encoder.layer.0.attention.output.dense.weight",
    ],
}


def softmax(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def multi_head_attention(x, q, k, v, o, heads):
    """As PyTorch's and Hugging Face's layers do it: project, split into heads, attend, concatenate, project.

    With fewer key and value heads, each serves a run of consecutive query heads.
    """
    size = q.shape[0] // heads
    groups = k.shape[0] // size
    queries = (x @ q.T).reshape(len(x), heads, size).transpose(1, 0, 2)
    keys, values = ((x @ w.T).reshape(len(x), groups, -1).transpose(1, 0, 2) for w in (k, v))
    keys, values = (np.repeat(a, heads // groups, axis=0) for a in (keys, values))
    context = softmax(queries @ keys.transpose(0, 2, 1) / np.sqrt(size)) @ values
    return context.transpose(1, 0, 2).reshape(len(x), -1) @ o.T


def apply_layer(layer, x):
    return sum(softmax(x @ theta @ x.T) @ x @ w for theta, w in zip(layer["Theta"], layer["W"]))


def draw(groups=HEADS, value=4, outputs=D, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(D, D), (groups * 4, D), (groups * value, D), (outputs, HEADS * value)]
    return [rng.standard_normal(shape).astype(dtype) / 2 for shape in shapes]


def write_safetensors(path, tensors, codes=None):
    header, body = {}, b""
    for name, array in tensors.items():
        code = (codes or {}).get(name, {"float64": "F64", "float32": "F32"}.get(str(array.dtype)))
        span = [len(body), len(body) + array.nbytes]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": span}
        body += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def check(path, weights):
    """The layer in the file computes the attention of these weights, to rounding."""
    weights = [w.astype(np.float64) for w in weights]
    x = np.random.default_rng(7).standard_normal((6, D))
    want = multi_head_attention(x, *weights, HEADS)
    got = apply_layer(dict(np.load(path)), x)
    assert np.abs(got - want).max() < 1e-12 * np.abs(want).max()


@pytest.fixture
def layer(tmp_path):
    return tmp_path / "layer.npz"


@pytest.mark.parametrize("naming", NAMES)
@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_weights_make_the_layer_they_compute(tmp_path, layer, naming, kind):
    weights = draw(dtype=np.float32 if kind == "safetensors" else np.float64)
    tensors = dict(zip(NAMES[naming], weights)) | {"embedding": np.ones((5, D))}
    path = tmp_path / f"weights.{kind}"
    if kind == "npz":
        np.savez(path, **tensors)
    else:
        write_safetensors(path, tensors)
    report = run_json("inspect --samples 100 --heads 3 --weights", path, "-o", layer)
    assert (report["heads"], report["dim"], report["outputs"]) == (HEADS, D, D)
    assert report["file"] == str(layer)
    check(layer, weights)


def test_torch_weights(tmp_path, layer):
    q, k, v, o = draw()
    tensors = {"mha.in_proj_weight": np.vstack([q, k, v]), "mha.out_proj.weight": o}
    tensors |= {"mha.in_proj_bias": np.ones(3 * D), "mha.out_proj.bias": np.zeros(D)}
    path = write_safetensors(tmp_path / "m.safetensors", tensors)
    done = run("inspect --heads 3 --samples 100 --format torch --weights", path, "-o", layer)
    assert done.stderr.startswith("headlens: note: ") and len(done.stderr.splitlines()) == 1
    assert "mha.in_proj_bias" in done.stderr and "out_proj.bias" not in done.stderr
    check(layer, (q, k, v, o))


@pytest.mark.parametrize("groups, value, outputs", [(1, 4, D), (1, 2, 5), (3, 7, D)])
def test_shared_keys_and_other_sizes(tmp_path, layer, groups, value, outputs):
    weights = draw(groups, value, outputs)
    path = write_safetensors(tmp_path / "m.safetensors", dict(zip(NAMES["hf"], weights)))
    run("inspect --heads 3 --samples 100 --weights", path, "-o", layer)
    check(layer, weights)


def test_four_files_with_a_layer_axis(tmp_path, layer):
    first, second = draw(seed=1), draw(seed=2)
    words = []
    for letter, a, b in zip("qkvo", first, second):
        np.save(tmp_path / f"{letter}.npy", np.stack([a, b]))
        words += [f"--weights-{letter}", tmp_path / f"{letter}.npy"]
    run("inspect --heads 3 --layer 1 --samples 100", *words, "-o", layer)
    check(layer, second)
    small = tmp_path / "small.npz"
    run("inspect --heads 3 --layer 1 --samples 100 --restrict 5", *words, "-o", small)
    again = tmp_path / "again.npz"
    run("inspect --samples 100 --restrict 5", layer, "-o", again)
    for name in ("Theta", "W"):
        whole = np.load(layer)[name]
        assert np.allclose(np.load(small)[name], whole[:, :5, :5], rtol=0, atol=1e-14)
        assert np.array_equal(np.load(again)[name], whole[:, :5, :5])
    assert "--layer" in refuse("inspect --heads 3", *words, folder=tmp_path)
    assert "2 layers" in refuse("inspect --heads 3 --layer 2", *words, folder=tmp_path)
    assert "go together" in refuse("inspect --heads 3", *words[:6], folder=tmp_path)


def random_layer(m=4, d=5, e=3, seed=0):
    rng = np.random.default_rng(seed)
    return {"Theta": rng.standard_normal((m, d, d)), "W": rng.standard_normal((m, d, e))}


def test_numbers_of_heads(save):
    data = random_layer()
    report = run_json("inspect --samples 50", save(**data).path)
    off = ~np.eye(5, dtype=bool)
    for head, theta, w in zip(report["per_head"], data["Theta"], data["W"]):
        s = np.linalg.svd(theta, compute_uv=False)
        scale = np.linalg.norm(theta)
        want = {
            "scale": scale,
            "effective_rank": s.sum() ** 2 / (s**2).sum(),
            "w_norm": np.linalg.norm(w),
            "diagonal_mean": np.diag(theta).mean(),
            "off_diagonal_deviation": theta[off].std(),
            "identity_cosine": np.trace(theta) / scale / np.sqrt(5),
        }
        assert head.keys() == want.keys()
        assert all(np.isclose(head[name], want[name], rtol=1e-7, atol=1e-14) for name in want)
    pairs = {
        (a, b): np.linalg.norm(data["Theta"][a] - data["Theta"][b])
        / max(np.linalg.norm(data["Theta"][a]), np.linalg.norm(data["Theta"][b]))
        for a in range(4)
        for b in range(a + 1, 4)
    }
    closest = report["closest_pair"]
    assert (closest["a"], closest["b"]) == min(pairs, key=pairs.get)
    assert np.isclose(closest["distance"], min(pairs.values()), rtol=1e-13)
    assert report["heads"] == report["distinct_heads"] == 4
    assert (report["tokens"], report["samples"], report["outputs"], report["file"]) == (4, 50, 3, None)


def spectrum(a):
    s = np.linalg.svd(a, compute_uv=False)
    rank = int((s > 1e-8 * np.sqrt(len(s)) * s[0]).sum())
    return rank, s[0] / s[rank - 1]


def test_conditions_of_the_proof(save):
    data = random_layer(m=3, d=5, e=5, seed=4)
    data["W"][1, :, 0] = data["W"][1, :, 1]  # one head without full rank
    data["Theta"][2] = np.eye(5) * 2
    path = save(**data).path
    found = run_json("inspect --samples 50", path)["conditions"]
    for head, theta, w in zip(found["per_head"], data["Theta"], data["W"]):
        rank, ratio = spectrum(w)
        assert (head["w"]["rank"], head["w"]["full_rank"], head["theta_rank"]) == (rank, 5, 5)
        assert np.isclose(head["w"]["condition_on_range"], ratio, rtol=1e-7)
        assert head["w"]["condition"] == (head["w"]["condition_on_range"] if rank == 5 else None)
        share = np.trace(theta) ** 2 / 5 / (theta**2).sum()
        assert np.isclose(head["identity_share"], share, rtol=1e-12)
    rank, ratio = spectrum(data["W"].sum(0))
    assert found["w_sum"]["rank"] == rank == 5 and np.isclose(found["w_sum"]["condition"], ratio, rtol=1e-7)
    text = run("inspect --samples 50", path).stdout
    assert "[ ] every W well conditioned           head 1 is worst: rank 4 of 5" in text
    assert "[ ] Theta not near the identity        head 2 is nearest: the identity has 100 % of" in text
    assert "[x] Theta apart from one another" in text


def test_conditions_of_a_zero_layer(save):
    zero = save(Theta=np.zeros((1, 3, 3)), W=np.zeros((1, 3, 2))).path
    report = run_json("inspect --tails --samples 50", zero)
    assert report["conditions"]["w_sum"] == {
        "rank": 0,
        "full_rank": 2,
        "condition": None,
        "condition_on_range": 0,
    }
    assert report["tails"] == [None]
    assert "no logits" in run("inspect --tails --samples 50", zero).stdout


SIZES = [1e-310, 1e-170, 1e-160, 1e160, 1e300, 1e307]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["Theta", "W"])
def test_layers_of_every_magnitude(save, name, size):
    """Numbers without a unit are those of the layer of size one; the others are multiples of these. Numbers below
    1e-308 have fewer digits."""
    data = random_layer(m=3, d=3, e=2)
    plain, scaled = save("a", **data).path, save("b", **data | {name: data[name] * size}).path
    words = "inspect --tails --samples 200"
    want, found = run_json(words, plain), run_json(words, scaled)
    rtol = 1e-3 if size < 1e-308 else 1e-9
    assert found["distinct_heads"] == 3
    unit = {"scale", "diagonal_mean", "off_diagonal_deviation"} if name == "Theta" else {"w_norm"}
    for one, other in zip(want["per_head"], found["per_head"]):
        for key, value in one.items():
            # Multiplied second: 1e307 times a norm is a double, 1e-310 times a mean that is small may be 0.
            expected = value * size if key in unit else value
            assert np.isclose(other[key], expected, rtol=rtol, atol=1e-3 * size if key in unit else 1e-3), key
    assert np.isclose(found["closest_pair"]["distance"], want["closest_pair"]["distance"], rtol=rtol)
    for part in zip(
        [h["w"] for h in want["conditions"]["per_head"]] + [want["conditions"]["w_sum"]],
        [h["w"] for h in found["conditions"]["per_head"]] + [found["conditions"]["w_sum"]],
    ):
        assert part[0]["rank"] == part[1]["rank"]
        assert np.isclose(part[0]["condition"], part[1]["condition"], rtol=10 * rtol)
    for one, other in zip(want["tails"], found["tails"]):
        assert np.isclose(one["kolmogorov_distance"], other["kolmogorov_distance"], rtol=0, atol=5 * rtol)
    if name == "W":
        assert found["agreement"] == want["agreement"]
    elif size > 1:  # every head puts all of its weight on one token
        assert found["agreement"]["alike"][0]["share"] == found["agreement"]["alike"][2]["share"]
    else:  # every head takes the plain mean
        assert found["agreement"]["alike"][0]["share"] == 1
    compared = run_json("compare", scaled, scaled)
    assert (compared["heads_a"], len(compared["matches"]), compared["worst_error"]) == (3, 3, 0)
    between = run_json("compare", scaled, plain)
    # Beside 1e160 nothing tells one match of heads from another: the error is size - 1 up to a ratio of norms.
    low, high = (0.1, 10) if size > 1 else (1 - 1e-9, 1 + 1e-9)
    assert between["heads_a"] == 3 and low <= between["worst_error"] / max(1, size) <= high


def test_magnitudes_that_no_double_holds_are_refused(save, tmp_path):
    ones = {"Theta": np.stack([np.eye(3), np.ones((3, 3))]), "W": np.ones((2, 3, 2))}
    for name in ("Theta", "W"):
        path = save(name, **ones | {name: ones[name] * 1.7e308}).path
        said = refuse("inspect", path)
        assert f"the norm of its {name} is beyond 1.8e308" in said and "power of two" in said
        assert run_json("compare", path, path)["worst_error"] == 0
    equal = save("equal", Theta=np.ones((2, 3, 3)), W=np.stack([np.eye(3, 1) * 1e308] * 2)).path
    for words in ("inspect", equal), ("compare", equal, equal):
        assert "heads 0 and 1 have the same Theta, and their W add up to more than 1.8e308" in refuse(*words)
    large = save("large", **ones | {"W": ones["W"] * 1e160}).path
    assert "squares of the coefficients add up to more than 1.8e308" in refuse("inspect --fourier 1", large)
    sharp = save("sharp", **ones | {"Theta": ones["Theta"] * 5e307}).path
    assert run_json("inspect", sharp)["per_head"][0]["scale"] == pytest.approx(5e307 * math.sqrt(3))
    said = refuse("inspect --fourier 1", sharp)
    assert "not a finite number: Theta has entries up to 5e+307, W up to 1, the tokens up to 1" in said


def test_tails_against_all_signs(save):
    """With d = 4 there are 256 pairs of tokens. The distance of 100000 samples lies within the bound of Dvoretzky,
    Kiefer and Wolfowitz, at a confidence of 1 - 1e-9, and the shares within their own at 5 deviations."""
    data = random_layer(m=2, d=4, seed=6)
    n = 100000
    found = run_json("inspect --tails --samples", n, save(**data).path)["tails"]
    signs = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    for head, theta in zip(found, data["Theta"]):
        z = np.sort((signs @ theta @ signs.T).ravel()) / np.linalg.norm(theta)
        below = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in z])
        at = np.arange(len(z)) / len(z)
        want = max((below - at).max(), (at + 1 / len(z) - below).max())
        assert abs(head["kolmogorov_distance"] - want) < math.sqrt(math.log(2e9) / 2 / n)
        for tail, deviations in zip(head["tails"], (1, 2, 3, 4)):
            share = (np.abs(z) > deviations).mean()
            assert tail["deviations"] == deviations
            assert abs(tail["share"] - share) <= 5 * math.sqrt(share * (1 - share) / n)
            assert math.isclose(tail["gaussian"], math.erfc(deviations / math.sqrt(2)), rel_tol=1e-14)
            assert tail["ratio"] == tail["share"] / tail["gaussian"]


def test_tails_do_not_depend_on_threads(save):
    path = save(**random_layer()).path
    one, three = (run("inspect --tails --samples 3000 --json --threads", t, path).stdout for t in (1, 3))
    assert one == three


def test_agreement_against_sampling(save):
    """Two independent samples of shares differ by less than five deviations."""
    n, k = 20000, 3
    data = random_layer(m=2, d=6, seed=3)
    data["Theta"] /= 4
    agreement = run_json("inspect --tokens 3", save(**data).path)["agreement"]
    x = np.random.default_rng(0).choice([-1.0, 1.0], (n, k, 6))
    p, q = (softmax(np.einsum("ni,ij,nbj->nb", x[:, 0], theta, x)) for theta in data["Theta"])
    distance = np.abs(p - q).sum(1) / 2
    shares = [(entry, (distance <= entry["eps"]).mean()) for entry in agreement["alike"]]
    shares.append((agreement["sparse_matched"], ((p > 0.95) & (q > 0.95)).any(1).mean()))
    assert [entry["eps"] for entry in agreement["alike"]] == [0.05, 0.1, 0.2]
    for entry, want in shares:
        assert abs(entry["share"] - want) < 5 * np.sqrt(2 * max(want * (1 - want), 1 / n) / n)
        assert entry["low"] <= entry["share"] <= entry["high"]


def test_same_seed_same_answer(save):
    path = save(**random_layer(m=2)).path
    one = run("inspect --threads 1 --json --seed 4", path).stdout
    assert one == run("inspect --threads 3 --json --seed 4", path).stdout
    assert one != run("inspect --threads 1 --json --seed 5", path).stdout


def test_text(save):
    text = run("inspect --samples 100", save(**random_layer()).path).stdout
    assert "heads 4 (4 distinct), d = 5, e = 3" in text and "closest heads" in text and "up to 0.2" in text


def test_layers_with_little_to_say(save):
    one = run_json("inspect", save("a", Theta=np.zeros((1, 1, 1)), W=np.ones((1, 1, 1))).path)
    assert one["closest_pair"] is None and one["agreement"]["alike"][0]["share"] == 1
    assert set(one["per_head"][0].values()) == {0, 1}
    absent = save("b", Theta=np.ones((2, 3, 3)), W=np.zeros((2, 3, 1))).path
    assert run_json("inspect", absent)["agreement"] is None
    assert "(0 distinct)" in run("inspect", absent).stdout


@pytest.mark.parametrize(
    "words, text",
    [
        ("", "sources"),
        ("layer.npz --weights weights.npz", "2 sources"),
        ("layer.npz --heads 2", "--heads"),
        ("layer.npz --tokens 1", "tokens: 1"),
        ("layer.npz --samples 0", "samples: 0"),
        ("layer.npz --restrict 6", "d = 5"),
        ("layer.npz --restrict 0", "restrict: 0"),
        ("layer.npz --seed -1", "seed"),
        ("layer.npz --tokens 100000000 --max-memory 1G", "needs"),
        ("missing.npz", "missing.npz"),
        ("weights.npz", "'Theta' is missing"),
        ("--weights weights.npz", "--heads"),
        ("--weights weights.npz --heads 5", "(12, 12) has 12 rows, which do not make 5 heads"),
        ("--weights weights.npz --heads 0", "heads: 0"),
        ("--weights weights.npz --heads 3 --format torch", "torch"),
        ("--weights weights.npz --heads 3 --format other", "other"),
        ("--weights weights.npz --heads 3 --prefix p", "'p'"),
        ("--weights weights.npz --heads 3 --layer 0", "layer axis"),
        ("--weights weights.npz --heads 3 --restrict 13", "13"),
        ("--weights weights.npz --heads 3 --max-memory 1K", "memory"),
        ("--weights weights.pt --heads 3", "weights.pt"),
        ("--weights half.safetensors --heads 3", "F8_E5M2"),
        ("--weights nan.npz --heads 3", "nan"),
    ],
)
def test_misuse(tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    weights = dict(zip(NAMES["factors"], draw()))
    np.savez("layer.npz", **random_layer())
    np.savez("weights.npz", **weights)
    np.savez("nan.npz", **weights | {"W_V": np.full((D, D), np.nan)})
    half = {name: array.astype(np.float16) for name, array in weights.items()}
    write_safetensors(tmp_path / "half.safetensors", half, dict.fromkeys(half, "F8_E5M2"))
    assert text in refuse("inspect", words, "-o out.npz", folder=tmp_path)


def test_interruption(save, tmp_path):
    words = command("inspect --samples 2000000000", save(**random_layer()).path, "-o", tmp_path / "out.npz")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == "" and len(err.splitlines()) == 1
    assert not (tmp_path / "out.npz").exists()
