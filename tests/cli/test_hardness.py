"""Hard layers from the outside: files against NumPy, and what each method of recovery says of them."""

import itertools
import math

import numpy as np
import pytest
from binary import refuse, run, run_json
from reference import hidden_label


def generate(folder, task="hard-parity", **options):
    words = " ".join(f"--{name} {value}" for name, value in options.items())
    out = ("-o", folder / "ex.npz", "--layer-out", folder / "truth.npz")
    return run_json(f"generate {task}", words, *out)


def outputs(layer, x):
    """sum_i softmax(X Theta_i X^T) X W_i, written out."""
    y = 0
    for theta, w in zip(layer["Theta"], layer["W"], strict=True):
        logits = np.einsum("nad,de,nbe->nab", x, theta, x)
        p = np.exp(logits - logits.max(-1, keepdims=True))
        y = y + np.einsum("nab,nbd,de->nae", p / p.sum(-1, keepdims=True), x, w)
    return y


def all_pairs(d):
    return np.array(list(itertools.product([1.0, -1.0], repeat=2 * d))).reshape(-1, 2, d)


@pytest.mark.parametrize(
    "task, options",
    [
        ("hard-parity", {"size": 2}),
        ("hard-parity", {"size": 3, "sharpness": 12}),
        ("hard-rounding", {"modulus": 4, "levels": 2, "weight": 5}),
        ("hard-rounding", {"modulus": 5, "levels": 3, "weight": 4, "sharpness": 25}),
    ],
)
def test_layer_is_its_label_on_all_inputs(tmp_path, task, options):
    said = generate(tmp_path, task, dim=6, count=50, **options)
    layer, x = np.load(tmp_path / "truth.npz"), all_pairs(6)
    assert len(layer["Theta"]) == said["heads"] and layer["hidden"].sum() == options.get(
        "size", options.get("weight")
    )
    assert (
        np.abs(outputs(layer, x) - hidden_label(layer, x)).max()
        <= layer["label_tolerance"][0]
        == said["tolerance"]
    )
    examples = np.load(tmp_path / "ex.npz")
    assert np.abs(examples["Y"] - hidden_label(layer, examples["X"])).max() <= said["tolerance"]


def test_parity_label(tmp_path):
    generate(tmp_path, dim=6, size=2, count=10)
    layer, x = np.load(tmp_path / "truth.npz"), all_pairs(6)
    hidden = np.flatnonzero(layer["hidden"])
    chi, c = x[:, :, hidden].prod((1, 2)), (x[:, 0, 0] - x[:, 1, 0]) / 2
    assert np.array_equal(hidden_label(layer, x)[:, 0, 0], c * (chi - 1))


def test_fourier_of_what_is_hidden(tmp_path):
    generate(tmp_path, dim=6, size=2, sharpness=100, count=10)
    words = ("--fourier 12 --fourier-out", tmp_path / "f.npz")
    found = run_json("inspect", tmp_path / "truth.npz", *words)
    fourier, layer = found["fourier"], np.load(tmp_path / "truth.npz")
    assert fourier["exact"] and found["label"]["sq_dimension"] == math.comb(5, 2)
    assert [level["largest"] for level in fourier["hidden_levels"]] == [0, 0, 0, 0, 0, 0.5] + 7 * [0]
    assert fourier["levels"][1]["weight"] == 0.5
    assert set(fourier["largest"][2]["subset"]) - {0} >= set(np.flatnonzero(layer["hidden"]))
    # All of them, against the definition.
    x, written = all_pairs(6), np.load(tmp_path / "f.npz")
    y, flat = outputs(layer, x)[:, 0, 0], x.reshape(len(x), -1)
    assert len(written["values"]) == 2**12
    for row in np.random.default_rng(0).integers(0, 2**12, 50):
        subset = written["subsets"][row]
        assert abs((y * flat[:, subset[subset >= 0]].prod(1)).mean() - written["values"][row, 0]) < 1e-15


def test_fourier_of_a_generic_layer_and_from_samples(tmp_path):
    run(
        "generate attention-layer --heads 2 --dim 4 --outputs 2 --count 5 -o",
        tmp_path / "e",
        "--layer-out",
        tmp_path / "l",
    )
    found = run_json("inspect", tmp_path / "l", "--fourier 8")
    layer, x = np.load(tmp_path / "l"), all_pairs(4)
    y = outputs(layer, x)[:, 0]
    assert abs(sum(level["weight"] for level in found["fourier"]["levels"]) - (y**2).sum(1).mean()) < 1e-12
    assert found["label"] is None and found["fourier"]["hidden_levels"] is None
    generate(tmp_path, dim=14, size=3, count=10)
    sampled = run_json("inspect", tmp_path / "truth.npz", "--fourier 2 --samples 4000")["fourier"]
    width = sampled["half_widths"][0]
    assert not sampled["exact"] and 0.05 < width < 0.1
    assert all(level["largest"] <= width for level in sampled["hidden_levels"])
    assert "from samples" in run("inspect", tmp_path / "truth.npz", "--fourier 1").stdout


@pytest.mark.parametrize("modulus", [3, 4])
def test_low_degrees_of_a_rounding_fade_with_the_width(tmp_path, modulus):
    """E exp(2 pi i t / q) = cos(pi / q)^(2 w): one character decides, so each coordinate costs the same factor."""
    found = []
    for weight in range(2, 6):
        generate(tmp_path, "hard-rounding", dim=7, weight=weight, modulus=modulus, sharpness=100, count=5)
        levels = run_json("inspect", tmp_path / "truth.npz", "--fourier 3")["fourier"]["hidden_levels"]
        found.append(max(level["largest"] for level in levels))
    assert np.allclose(np.divide(found[1:], found[:-1]), np.cos(np.pi / modulus) ** 2, rtol=1e-12)


def test_brute_force_recovers_a_rounding(tmp_path):
    generate(tmp_path, "hard-rounding", dim=16, modulus=6, levels=3, weight=4, count=1500, seed=4)
    truth = np.load(tmp_path / "truth.npz")
    for threads in (1, 2):
        out = ("-o", tmp_path / f"{threads}.npz", "--threads", threads)
        found = run_json("recover", tmp_path / "ex.npz", "--method brute-force --heads 8", *out)
        assert found["status"] == "recovered" and found["heads"] == len(truth["Theta"])
        assert found["parity"]["set"] == np.flatnonzero(truth["hidden"]).tolist()
        assert np.allclose(found["parity"]["steps"], truth["label_steps"], atol=1e-7)
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()
    x = np.random.default_rng(0).choice([-1.0, 1.0], size=(5000, 2, 16))
    assert np.abs(outputs(np.load(tmp_path / "1.npz"), x) - hidden_label(truth, x)).max() < 1e-6
    text = run("recover", tmp_path / "ex.npz", "--method brute-force --heads 8 -o", tmp_path / "3.npz").stdout
    assert "no parity, but a function of the hidden sum" in text


def test_a_rounding_is_never_certified_with_a_guessed_step(tmp_path):
    """Sums of 6 hidden signs are rarely 5 or more: where no example has such a sum, its label is not known."""
    certified = 0
    for seed in range(12):
        shape = {"dim": 12, "modulus": 3, "weight": 6, "count": 150 if seed % 2 else 1500, "seed": seed}
        generate(tmp_path, "hard-rounding", **shape)
        truth = dict(np.load(tmp_path / "truth.npz"))
        words = ("recover", tmp_path / "ex.npz", "--method brute-force --heads 12 --threads 1")
        found = run_json(*words, "-o", tmp_path / "found.npz", status=None)
        assert found["status"] in ("recovered", "needs_more_examples")
        if found["status"] == "recovered":
            certified += 1
            x = np.sign(np.random.default_rng(seed).standard_normal((20000, 2, 12)))
            expected = outputs(truth, x)
            error = np.abs(outputs(dict(np.load(tmp_path / "found.npz")), x) - expected).max()
            assert error < 1e-6 * np.abs(expected).max(), seed
    assert certified >= 4


def test_no_active_example_is_no_proof(tmp_path):
    x = np.sign(np.random.default_rng(0).standard_normal((300, 2, 6)))
    x[:, :, 0] = 1
    np.savez(tmp_path / "ex.npz", X=x, Y=0.5 * x[:, :, :1])
    for method in "brute-force", "linear-algebra":
        words = ("recover", tmp_path / "ex.npz", "--method", method, "-o", tmp_path / "l.npz")
        assert run_json(*words, status=3)["status"] == "needs_more_examples"


def test_brute_force(tmp_path):
    generate(tmp_path, dim=20, size=3, count=1000, seed=4)
    hidden = np.flatnonzero(np.load(tmp_path / "truth.npz")["hidden"]).tolist()
    for threads in (1, 2):
        out = ("-o", tmp_path / f"{threads}.npz", "--threads", threads)
        found = run_json("recover", tmp_path / "ex.npz", "--method brute-force --heads 6", *out)
        assert found["status"] == "recovered" and found["parity"]["set"] == hidden
        assert found["parity"]["tried"] == found["parity"]["candidates"] == math.comb(19, 3)
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()
    assert run_json("compare", tmp_path / "1.npz", tmp_path / "truth.npz")["worst_error"] < 1e-6
    # The layer that was found is a layer like any other, and holds no secret beside it.
    assert set(np.load(tmp_path / "1.npz")) == {"Theta", "W"}


def test_linear_algebra(tmp_path):
    generate(tmp_path, dim=200, size=20, count=600, seed=4)
    hidden = np.flatnonzero(np.load(tmp_path / "truth.npz")["hidden"]).tolist()
    found = run_json("recover", tmp_path / "ex.npz", "--method linear-algebra -o", tmp_path / "l.npz")
    assert found["status"] == "recovered" and found["parity"]["set"] == hidden and found["seconds"] < 20
    generate(tmp_path, dim=200, size=20, count=600, seed=4, flips=0.05)
    words = ("--method linear-algebra -o", tmp_path / "no.npz")
    text = run("recover", tmp_path / "ex.npz", *words, status=3).stdout
    assert "not_identified" in text and "contradict" in text and not (tmp_path / "no.npz").exists()
    generate(tmp_path, "hard-rounding", dim=30, modulus=4, levels=2, weight=6, count=600, seed=4)
    found = run_json("recover", tmp_path / "ex.npz", *words, status=3)
    assert found["status"] == "not_identified" and found["parity"]["violated"] > 100


def test_other_commands_take_hard_layers(tmp_path):
    generate(tmp_path, dim=6, size=2, count=10)
    run(
        "generate examples --tokens 2 --count 300 --layer",
        tmp_path / "truth.npz",
        "-o",
        tmp_path / "more.npz",
    )
    assert np.load(tmp_path / "more.npz")["Y"].shape == (300, 2, 1)
    assert run_json("compare", tmp_path / "truth.npz", tmp_path / "truth.npz")["worst_error"] == 0
    assert "hides coordinates" in run("inspect", tmp_path / "truth.npz").stdout
    found = run(
        "recover",
        tmp_path / "more.npz",
        "--heads 4 --starts 1 --time-limit 5 -o",
        tmp_path / "l.npz",
        status=3,
    )
    assert "recovered" not in found.stdout and not (tmp_path / "l.npz").exists()


def test_refusals(tmp_path):
    out = ("-o", tmp_path / "x.npz")
    assert "size: 6" in refuse("generate hard-parity --dim 6 --size 6", *out, folder=tmp_path)
    assert "sharpness" in refuse("generate hard-parity --sharpness -1", *out, folder=tmp_path)
    assert "flips" in refuse("generate hard-parity --flips 1.5", *out, folder=tmp_path)
    assert "levels: 9" in refuse("generate hard-rounding --levels 9", *out, folder=tmp_path)
    assert "weight: 1" in refuse("generate hard-rounding --weight 1 --modulus 50", *out, folder=tmp_path)
    run(
        "generate attention-layer --heads 2 --dim 4 --tokens 3 --count 50 -o",
        tmp_path / "e.npz",
        "--layer-out",
        tmp_path / "l.npz",
    )
    recover = ("recover", tmp_path / "e.npz", *out)
    assert "two tokens" in refuse(*recover, "--method brute-force", folder=tmp_path)
    assert "fourier" in refuse("inspect", tmp_path / "l.npz", "--fourier 9", folder=tmp_path)
    assert "fourier-out" in refuse(
        "inspect", tmp_path / "l.npz", "--fourier-out", tmp_path / "f.npz", folder=tmp_path
    )
    np.savez(tmp_path / "broken.npz", **np.load(tmp_path / "l.npz"), hidden=np.array([0, 1, 1, 0]))
    assert "label_steps" in refuse("inspect", tmp_path / "broken.npz", folder=tmp_path)
