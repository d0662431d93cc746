"""Same seed, same bytes: whatever the number of threads, the block size or the memory allowed."""

import numpy as np
import pytest
from binary import fit, predict, run


def bytes_of(tmp_path, name, data, *options):
    fit(data, tmp_path / name, *options)
    return (tmp_path / name).read_bytes()


@pytest.fixture(scope="module")
def many_sets(tmp_path_factory):
    """2500 sets: several blocks and tiles of 1024."""
    path = tmp_path_factory.mktemp("data") / "sets.npz"
    run("generate power-mean --degree 2 --dim 3 --keys 1:6 --count 2500 --noise 0.1 --seed 1 -o", path)
    return path


@pytest.fixture(scope="module")
def labelled_sets(tmp_path_factory):
    rng = np.random.default_rng(0)
    query, keys = rng.standard_normal((1100, 2)), rng.standard_normal((1100, 3, 2))
    y = np.sign(query[:, 0] * keys.mean(1)[:, 0]).astype(int)
    path = tmp_path_factory.mktemp("data") / "labels.npz"
    np.savez(path, query=query, keys=keys, y=y)
    return path


@pytest.mark.parametrize(
    "options",
    [
        "--heads 40 --ridge auto --solver primal",
        "--heads 40 --ridge 1e-3 --solver primal --precision f32",
        "--heads 300 --ridge 1e-3 --solver dual",
        "--heads 300 --ridge 1e-3 --solver dual --precision f32",
        "--heads 20 --ridge 1e-3 --solver iterative",
        "--heads 40 --ridge 0 --no-intercept",
        "--heads 40 --score softmax --positions sinusoidal --ridge 1e-2",
    ],
)
def test_threads_and_blocks(many_sets, tmp_path, options):
    expected = bytes_of(tmp_path, "a", many_sets, options, "--threads 1 --block-sets 4096")
    for change in ("--threads 2", "--threads 1 --block-sets 1024", "--threads 2 --block-sets 2048"):
        assert bytes_of(tmp_path, "b", many_sets, options, change) == expected, change


@pytest.mark.parametrize(
    "options",
    [
        "--heads 100 --ridge auto --solver dual",
        "--model mlp --heads 300 --ridge auto",
        "--loss huber --heads 20 --ridge 1e-3",
        "--loss logistic --heads 200 --ridge auto",
        "--loss hinge --heads 20 --ridge 1e-3",
        "--loss logistic --heads 20 --norm-ball 5,5",
    ],
)
def test_threads_and_blocks_of_other_paths(labelled_sets, tmp_path, options):
    expected = bytes_of(tmp_path, "a", labelled_sets, options, "--threads 1 --block-sets 2048")
    assert bytes_of(tmp_path, "b", labelled_sets, options, "--threads 2 --block-sets 1024") == expected


def test_seed_changes_the_model(many_sets, tmp_path):
    options = "--heads 5 --ridge 1"
    assert bytes_of(tmp_path, "a", many_sets, options, "--seed 1") != bytes_of(
        tmp_path, "b", many_sets, options, "--seed 2"
    )


def test_predictions_do_not_depend_on_threads(many_sets, tmp_path):
    fit(many_sets, tmp_path / "m", "--heads 40 --ridge 1e-3")
    one, two = (predict(tmp_path / "m", many_sets, "--threads", t) for t in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize(
    "task", ["power-mean --keys 4:9", "native --matrix random --noise 0.5 --precision f32"]
)
def test_generate_is_reproducible(tmp_path, task):
    for name, options in (("a", "--seed 5 --threads 1"), ("b", "--seed 5 --threads 2"), ("c", "--seed 6")):
        run("generate", task, "--count 3000 --dim 3", options, "-o", tmp_path / name)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c
