"""Tokens that share a large mean: the fit says that the scores have lost the digits, and what to do."""

import json

import numpy as np
import pytest
from binary import fit, read_model, run, run_json


@pytest.fixture
def shifted(tmp_path):
    """shifted(offset, scale): files of sets whose target is learned well without an offset."""
    for name, seed in ("train", 1), ("test", 2):
        run(f"generate correlation --dim 6 --keys 8 --count 400 --seed {seed} -o", tmp_path / f"{name}.npz")

    def write(offset, where=("query", "keys")):
        for name in "train", "test":
            data = dict(np.load(tmp_path / f"{name}.npz"))
            for array in where:
                data[array] = data[array] + offset
            np.savez(tmp_path / f"{name}-shifted.npz", **data)
        return tmp_path / "train-shifted.npz", tmp_path / "test-shifted.npz"

    return write


@pytest.mark.parametrize(
    "options, offset",
    [("--heads 100", 1e8), ("--heads 100", 1e6), ("--heads 100 --precision f32", 3e3), ("--heads inf", 3e4)],
)
def test_a_large_offset_is_not_solved(shifted, tmp_path, options, offset):
    train, _ = shifted(offset)
    done = run("fit", train, options, "--json -o", tmp_path / "m", status=3)
    report = json.loads(done.stdout)
    assert report["status"] == "digits_lost" and report["score_digits"] < 7
    assert "subtract the mean of the training tokens" in done.stderr
    assert read_model(tmp_path / "m")[1]["report.status"] == "digits_lost"


def test_no_offset_keeps_all_digits(shifted, tmp_path):
    train, test = shifted(0)
    report = fit(train, tmp_path / "m", "--heads 100")
    assert report["status"] == "solved" and report["score_digits"] > 15
    assert run_json("evaluate", tmp_path / "m", test)["nmse"] < 0.5


def test_the_remedy_works(shifted, tmp_path):
    """Centred tokens are fitted as those without an offset are, but for what the offset cost in the file."""
    train, test = shifted(1e8)
    mean = np.load(train)["keys"].mean(axis=(0, 1))
    for path in train, test:
        data = dict(np.load(path))
        np.savez(path, query=data["query"] - mean, keys=data["keys"] - mean, y=data["y"])
    report = fit(train, tmp_path / "m", "--heads 100")
    assert report["status"] == "solved" and report["score_digits"] > 15
    assert run_json("evaluate", tmp_path / "m", test)["nmse"] < 0.5


def test_a_query_that_never_changes_loses_nothing(shifted, tmp_path):
    train, _ = shifted(0)
    data = dict(np.load(train))
    np.savez(train, **data | {"query": np.full_like(data["query"], 1e8)})
    assert fit(train, tmp_path / "m", "--heads 20")["score_digits"] > 15


def test_an_offset_of_the_keys_alone_counts_once(shifted, tmp_path):
    train, _ = shifted(1e4, ["keys"])
    assert 11 < fit(train, tmp_path / "m", "--heads 20 --ridge 1")["score_digits"] < 13
