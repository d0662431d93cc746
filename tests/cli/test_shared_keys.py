"""Heads that share keys and values: constants, what is refused, reasons, and files in factors."""

import numpy as np
import pytest
from binary import refuse, run, run_json
from test_factor_variants import shared_examples, shared_layer, shared_outputs
from test_variants import outputs

ROTARY = "--rotary base=10000,layout=half"


def test_the_constant_has_parts_of_all_heads(tmp_path):
    """Tokens with a mean: centred ones, which the search has, move a part of the constant into every head."""
    rng = np.random.default_rng(3)
    q, k, w = shared_layer(1, 4, 2, 16, 4)
    truth = {"Theta": q @ k.transpose(0, 2, 1), "W": w, "constant": rng.standard_normal(16)}
    truth["query_bias"] = 0.5 * np.einsum("mdr,mr->md", k, rng.standard_normal((4, 4))) / 4
    x = 0.5 + rng.standard_normal((450, 8, 16))
    y = outputs(truth, x)
    np.savez(tmp_path / "ex.npz", X=x[:400], Y=y[:400])
    np.savez(tmp_path / "fresh.npz", X=x[400:])
    result = run_json("recover --heads 4 --kv-groups 2 --bias", tmp_path / "ex.npz", "-o", tmp_path / "l.npz")
    assert result["status"] == "recovered"
    run("predict", tmp_path / "l.npz", tmp_path / "fresh.npz", "-o", tmp_path / "y.npy")
    assert np.linalg.norm(np.load(tmp_path / "y.npy") - y[400:]) < 1e-9 * np.linalg.norm(y[400:])


def any_examples(tmp_path, d, count=12):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "any.npz", X=rng.standard_normal((count, 3, d)), Y=rng.standard_normal((count, 3, 2)))
    return tmp_path / "any.npz"


@pytest.mark.parametrize(
    "options, d, words",
    [
        (f"--heads 2 --kv-groups 1 --bias {ROTARY}", 8, "--kv-groups: 1 given, but layers with --bias and --rotary"),
        (ROTARY, 100, "--rotary: give the number of heads"),
        (f"{ROTARY} --kv-groups 2", 8, "--rotary: give the number of heads"),
        (f"{ROTARY} --rank 1", 64, "--rank: 1 columns of Q and K have no pair to turn"),
        (f"{ROTARY} --rank 1 --heads 2", 8, "--rank: 1 columns of Q and K have no pair to turn"),
    ],
)  # fmt: skip
def test_positions_that_nothing_tells_are_refused(tmp_path, options, d, words):
    examples = any_examples(tmp_path, d)
    assert words in refuse("recover", options, examples, "-o", tmp_path / "l.npz", folder=tmp_path)


def test_all_starts_are_made_where_no_other_search_follows(tmp_path):
    """Labels of a layer with a mask, looked for without one."""
    shared_examples(tmp_path, shared_layer(1, 2, 1, 8, 2), False, True, False, count=170, tokens=5)
    options = "recover --heads 2 --kv-groups 1 --starts"
    files = tmp_path / "ex.npz", "-o", tmp_path / "l.npz"
    assert [run_json(options, n, *files, status=3)["starts"] for n in ("1", "2")] == [1, 2]


def test_groups_that_are_not_there_are_not_written(tmp_path):
    shared_examples(tmp_path, shared_layer(2, 4, 4, 16, 4), False, True, False)
    result = run_json("recover --heads 4 --mask causal --kv-groups 2 --starts 1", tmp_path / "ex.npz",
                      "-o", tmp_path / "l.npz", "--keep-uncertified", tmp_path / "u.npz", status=3)  # fmt: skip
    assert "do not share" in result["reason"]
    assert result["variant"] == "causal mask"
    assert "kv_groups" not in np.load(tmp_path / "u.npz")


def test_few_examples_say_nothing_of_groups(tmp_path):
    shared_examples(tmp_path, shared_layer(1, 4, 2, 16, 4), False, False, False, count=80)
    result = run_json("recover --heads 4 --kv-groups 2 --starts 1", tmp_path / "ex.npz", "-o", tmp_path / "l.npz",
                      status=3)  # fmt: skip
    assert result["status"] == "needs_more_examples"
    assert "equations per unknown" in result["reason"] and "share" not in result["reason"]


def test_factors_of_a_group_are_written_as_they_were_found(tmp_path):
    layer = shared_layer(1, 4, 2, 16, 4)
    fresh = shared_examples(tmp_path, layer, False, False, False)
    run("recover --heads 4 --kv-groups 2 --form factors", tmp_path / "ex.npz", "-o", tmp_path / "l.npz")
    found = np.load(tmp_path / "l.npz")
    assert found["kv_groups"] == [2]
    for name in "KV":
        assert found[name].shape == (4, 16, 4)
        assert np.array_equal(found[name][0], found[name][1]) and np.array_equal(
            found[name][2], found[name][3]
        )
    x = np.load(tmp_path / "fresh.npz")["X"]
    written = found["Q"], found["K"], found["V"] @ found["O"]
    y = shared_outputs(written, x, np.full(len(x), x.shape[1]), False, False)
    assert np.linalg.norm(y - fresh) < 1e-9 * np.linalg.norm(fresh)
    run("predict", tmp_path / "l.npz", tmp_path / "fresh.npz", "-o", tmp_path / "y.npy")
    assert np.linalg.norm(np.load(tmp_path / "y.npy") - fresh) < 1e-9 * np.linalg.norm(fresh)


@pytest.mark.parametrize("options", ["", "--kv-groups 1"])
def test_two_tokens_with_padding_leave_mirror_images(tmp_path, options):
    """Examples of one token or two: the reason is whole although no head is named."""
    rng = np.random.default_rng(4)
    layer = shared_layer(5, 2, 1, 8, 2)
    lengths = rng.integers(1, 3, 400)
    x = rng.standard_normal((400, 2, 8)) * (np.arange(2)[:, None] < lengths[:, None, None])
    y = shared_outputs(layer, x, lengths, False, False)
    np.savez(tmp_path / "ex.npz", X=x, Y=y, lengths=lengths)
    result = run_json(
        "recover --heads 2 --rank 2", options, tmp_path / "ex.npz", "-o", tmp_path / "l.npz", status=3
    )
    assert result["status"] == "not_identified" and result["held_out_error"] < 1e-8
    assert "mirror image" in result["reason"] and "  " not in result["reason"]
    assert "three tokens" in result["advice"]
