"""Sets have no order, sequences are equivariant, positions break both."""

import numpy as np
import pytest
from binary import fit, predict
from reference import relative_error

MODELS = ["--model rfa", "--model brfa --score softmax", "--model rfa --score exp"]


@pytest.mark.parametrize("model", MODELS)
def test_permuting_tokens_permutes_predictions(make_sets, save, tmp_path, model):
    data = make_sets("sequence", n=12, keys=6, q=2)
    fit(data.path, tmp_path / "m", "--sequence --heads 20 --ridge 1e-3", model)
    order = np.array([np.random.default_rng(i).permutation(6) for i in range(12)])
    permuted = save("permuted", tokens=np.take_along_axis(data["tokens"], order[..., None], axis=1))
    before, after = predict(tmp_path / "m", data.path), predict(tmp_path / "m", permuted.path)
    assert before.shape == (12, 6, 2)
    assert relative_error(after, np.take_along_axis(before, order[..., None], axis=1)) <= 1e-12
    assert relative_error(after, before) > 1e-2


@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
@pytest.mark.parametrize("model", MODELS)
def test_order_of_keys(make_sets, save, tmp_path, model, positions):
    data = make_sets(n=20, keys=5)
    fit(data.path, tmp_path / "m", f"--heads 20 --ridge 1e-3 --positions {positions}", model)
    reversed_keys = save("reversed", query=data["query"], keys=data["keys"][:, ::-1].copy())
    difference = relative_error(
        predict(tmp_path / "m", reversed_keys.path), predict(tmp_path / "m", data.path)
    )
    assert difference <= 1e-12 if positions == "none" else difference > 1e-3


def test_positions_break_equivariance(make_sets, save, tmp_path):
    data = make_sets("sequence", n=12, keys=6)
    fit(data.path, tmp_path / "m", "--sequence --heads 20 --ridge 1e-3 --positions sinusoidal")
    flipped = save("flipped", tokens=data["tokens"][:, ::-1].copy())
    before, after = predict(tmp_path / "m", data.path), predict(tmp_path / "m", flipped.path)
    assert relative_error(after, before[:, ::-1]) > 1e-3


@pytest.mark.parametrize("model", ["--model rfa", "--model mlp"])
def test_a_sequence_is_its_sets(make_sets, save, tmp_path, model):
    """Every token in turn is the query and the others are its keys: the same model as on those sets."""
    data = make_sets("sequence", n=8, keys=4)
    others = [[j for j in range(4) if j != i] for i in range(4)]
    sets = save(
        "sets",
        query=data["tokens"].reshape(32, 3),
        keys=data["tokens"][:, others].reshape(32, 3, 3),
        y=data["y"].reshape(32),
    )
    fit(data.path, tmp_path / "sequence", model, "--sequence --heads 10 --ridge 1e-3")
    fit(sets.path, tmp_path / "sets", model, "--heads 10 --ridge 1e-3")
    found, expected = predict(tmp_path / "sequence", data.path), predict(tmp_path / "sets", sets.path)
    assert relative_error(found.reshape(32), expected) <= 1e-12


def test_sequence_classifier(make_sets, tmp_path):
    y = np.random.default_rng(0).integers(0, 3, (15, 4))
    data = make_sets("sequence", n=15, keys=4, y=y)
    fit(data.path, tmp_path / "m", "--sequence --loss logistic --ridge 1e-2 --heads 20")
    assert predict(tmp_path / "m", data.path).shape == (15, 4)
    assert predict(tmp_path / "m", data.path, "--scores").shape == (60, 3)
