"""Whatever is wrong with the input: exit status 2, one line that names the culprit, files as they were."""

import struct
import zipfile

import numpy as np
import pytest
from binary import fit, read_model, refuse

OLD = b"an old model, not to be destroyed"
GOOD = {
    "query": np.random.default_rng(0).standard_normal((20, 3)),
    "keys": np.random.default_rng(1).standard_normal((20, 4, 3)),
    "y": np.random.default_rng(2).standard_normal(20),
}


@pytest.fixture
def out(tmp_path):
    """An output file that exists already and must survive."""
    path = tmp_path / "out"
    path.write_bytes(OLD)
    return path


@pytest.fixture
def model(save, tmp_path):
    fit(save("good", **GOOD).path, tmp_path / "model", "--heads 5")
    return tmp_path / "model"


def with_item(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


def ragged(offsets, keys=40):
    return GOOD | {"keys": np.ones((keys, 3)), "offsets": np.asarray(offsets)}


BAD_ARRAYS = {
    "NaN key": (GOOD | {"keys": with_item(GOOD["keys"], (3, 1, 2), np.nan)}, "keys[3, 1, 2] is nan"),
    "infinite query": (GOOD | {"query": with_item(GOOD["query"], (0, 0), np.inf)}, "query[0, 0] is inf"),
    "other dimension of queries": (GOOD | {"query": np.ones((20, 5))}, "(20, 5)"),
    "keys of rank 1": (GOOD | {"keys": np.ones(20)}, "keys has shape (20,)"),
    "keys of rank 4": (GOOD | {"keys": np.ones((20, 1, 4, 3))}, "keys has shape"),
    "query of rank 1": (GOOD | {"query": np.ones(20)}, "query has shape (20,)"),
    "fewer keys than queries": (GOOD | {"keys": np.ones((19, 4, 3))}, "(19, 4, 3)"),
    "no sets": ({"query": np.ones((0, 3)), "keys": np.ones((0, 4, 3)), "y": np.ones(0)}, "no sets"),
    "no keys": (GOOD | {"keys": np.ones((20, 0, 3))}, "at least one key"),
    "no coordinates": (GOOD | {"query": np.ones((20, 0)), "keys": np.ones((20, 4, 0))}, "no coordinates"),
    "strings": (GOOD | {"query": np.array([["a", "b", "c"]] * 20)}, "query"),
    "complex": (GOOD | {"query": GOOD["query"] + 1j}, "query"),
    "booleans": (GOOD | {"query": GOOD["query"] > 0}, "query"),
    "objects": (GOOD | {"keys": np.array([[[None] * 3] * 4] * 20)}, "keys"),
    "half precision": (GOOD | {"keys": GOOD["keys"].astype(np.float16)}, "keys"),
    "big-endian": (GOOD | {"keys": GOOD["keys"].astype(">f8")}, "keys"),
    "Fortran order": (GOOD | {"keys": np.asfortranarray(GOOD["keys"])}, "keys"),
    "query missing": ({k: GOOD[k] for k in ("keys", "y")}, "'query' is missing"),
    "keys missing": ({k: GOOD[k] for k in ("query", "y")}, "'keys' is missing"),
    "offsets beyond the keys": (ragged(np.r_[np.arange(20), 999]), "999"),
    "offsets go down": (ragged(np.r_[0, 5, 3, np.arange(4, 22)]), "offsets"),
    "offsets do not start at 0": (ragged(np.arange(1, 22), 21), "offsets[0] is 1"),
    "offsets end early": (ragged(np.arange(21), 22), "22 rows"),
    "negative offsets": (ragged(np.r_[-1, np.arange(1, 21)], 20), "offsets"),
    "an empty key list": (ragged(np.r_[0, 1, 1, np.arange(2, 20)], 19), "at least one key"),
    "too few offsets": (ragged(np.arange(20), 19), "offsets has 20 entries"),
    "offsets of floats": (ragged(np.arange(21.0), 20), "offsets"),
    "offsets of rank 2": (ragged(np.arange(21).reshape(1, 21), 20), "offsets"),
    "offsets beside rectangular keys": (GOOD | {"offsets": np.arange(21)}, "keys has shape (20, 4, 3)"),
    "tokens instead of sets": ({"tokens": np.ones((5, 4, 3)), "y": np.ones((5, 4))}, "--sequence"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays(save, model, out, tmp_path, case):
    arrays, culprit = BAD_ARRAYS[case]
    data = save("bad", **arrays)
    for command in (("fit", data.path, "--heads 5"), ("predict", model, data.path)):
        line = refuse(*command, "-o", out, folder=tmp_path)
        assert str(data.path) in line and culprit in line, line


BAD_TARGETS = {
    "NaN": (with_item(GOOD["y"], 4, np.nan), "", "y[4] is nan"),
    "too short": (GOOD["y"][:7], "", "y has shape (7,)"),
    "missing": (None, "", "'y' is missing"),
    "rank 3": (np.ones((20, 1, 1)), "", "y has shape (20, 1, 1)"),
    "no outputs": (np.ones((20, 0)), "", "y has shape (20, 0)"),
    "strings": (np.array(["a"] * 20), "", "y"),
    "one class": (np.ones(20, int), "--loss logistic", "only the class 1"),
    "fractions as labels": (np.linspace(0, 1, 20), "--loss logistic", "integer class labels"),
    "fractions as labels, hinge": (np.linspace(0, 1, 20), "--loss hinge", "integer class labels"),
    "labels of two outputs": (np.ones((20, 2), int), "--loss hinge", "one class label"),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_bad_targets(save, out, tmp_path, case):
    y, options, culprit = BAD_TARGETS[case]
    arrays = {k: GOOD[k] for k in ("query", "keys")} | ({} if y is None else {"y": y})
    data = save("bad", **arrays)
    line = refuse("fit", data.path, "--heads 5 -o", out, options, folder=tmp_path)
    assert str(data.path) in line and culprit in line, line


def test_evaluate_checks_targets(save, model, tmp_path):
    for y in (None, GOOD["y"][:7], np.ones((20, 2))):
        data = save("bad", **{k: GOOD[k] for k in ("query", "keys")} | ({} if y is None else {"y": y}))
        assert "y" in refuse("evaluate", model, data.path, folder=tmp_path)


def npz_with(header, body=b"\0" * 8):
    """An .npz file whose array `query` has this header text."""
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


BROKEN = {
    "empty": lambda blob: b"",
    "zeros": lambda blob: b"\0" * 100,
    "text": lambda blob: b"hello\nworld\n",
    "half": lambda blob: blob[: len(blob) // 2],
    "all but the last byte": lambda blob: blob[:-1],
    "a larger shape": lambda blob: blob.replace(b"(20, 4, 3)", b"(99, 4, 3)"),
    "a smaller shape": lambda blob: blob.replace(b"(20, 4, 3)", b"(20, 4, 2)"),
    "a huge shape": lambda blob: blob.replace(b"(20, 4, 3), }", b"(9999999999,)"),
    "a negative shape": lambda blob: blob.replace(b"(20, 4, 3)", b"(-2, 4, 3)"),
    "a flipped bit": lambda blob: blob[:400] + bytes([blob[400] ^ 1]) + blob[401:],
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_data_files(save, model, out, tmp_path, case):
    data = save("good", **GOOD)
    blob = data.path.read_bytes()
    assert BROKEN[case](blob) != blob
    path = tmp_path / "broken.npz"
    path.write_bytes(BROKEN[case](blob))
    for command in (("fit", path, "--heads 5"), ("predict", model, path)):
        assert str(path) in refuse(*command, "-o", out, folder=tmp_path)


@pytest.mark.parametrize("header", [
    "{'descr': '|O', 'fortran_order': False, 'shape': (20, 3), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999, 99999999999), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': 20, }",
    "{'descr': '<f8', 'shape': (20, 3), }",
    "not a dictionary",
])  # fmt: skip
def test_lying_headers(tmp_path, out, header):
    path = tmp_path / "lying.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("query.npy", npz_with(header))
    assert str(path) in refuse("fit", path, "--heads 5 -o", out, folder=tmp_path)


def retag(blob, change):
    """A model file whose metadata text is changed."""
    (size,) = struct.unpack("<Q", blob[:8])
    header = change(blob[8 : 8 + size])
    return struct.pack("<Q", len(header)) + header + blob[8 + size :]


BROKEN_MODELS = BROKEN | {
    "a huge header": lambda blob: struct.pack("<Q", 2**62) + blob[8:],
    "another format": lambda blob: retag(blob, lambda h: h.replace(b"headlens-model", b"tailless-model")),
    "a later version": lambda blob: retag(blob, lambda h: h.replace(b'version":"1"', b'version":"9"')),
    "another number of heads": lambda blob: retag(blob, lambda h: h.replace(b'"heads":"5"', b'"heads":"6"')),
    "an unknown score": lambda blob: retag(blob, lambda h: h.replace(b'"relu"', b'"gelu"')),
    "no metadata": lambda blob: retag(blob, lambda h: h.replace(b"__metadata__", b"__metadeta__")),
    "a NaN in the values": lambda blob: blob[:-8] + struct.pack("<d", float("nan")),
    "more bytes than tensors": lambda blob: blob + b"\0" * 8,
}
for name in ("a larger shape", "a smaller shape", "a huge shape", "a negative shape", "a flipped bit"):
    del BROKEN_MODELS[name]  # npz headers


@pytest.mark.parametrize("case", BROKEN_MODELS)
def test_broken_models(save, model, out, tmp_path, case):
    data = save("good", **GOOD)
    path = tmp_path / "broken"
    blob = model.read_bytes()
    assert BROKEN_MODELS[case](blob) != blob
    path.write_bytes(BROKEN_MODELS[case](blob))
    assert str(path) in refuse("predict", path, data.path, "-o", out, folder=tmp_path)
    assert str(path) in refuse("evaluate", path, data.path, folder=tmp_path)


def test_files_of_the_wrong_kind(save, model, out, tmp_path):
    data = save("good", **GOOD)
    assert str(data.path) in refuse("predict", data.path, data.path, "-o", out, folder=tmp_path)
    assert str(model) in refuse("predict", model, model, "-o", out, folder=tmp_path)
    empty = tmp_path / "empty"  # a folder of data files would be one list of sets
    empty.mkdir()
    assert str(empty) in refuse("fit", empty, "--heads 5 -o", out, folder=tmp_path)
    assert "none.npz" in refuse("fit", tmp_path / "none.npz", "--heads 5 -o", out, folder=tmp_path)
    assert "none" in refuse("predict", tmp_path / "none", data.path, "-o", out, folder=tmp_path)


def test_data_that_do_not_fit_the_model(save, make_sets, tmp_path, out):
    data, wide = save("good", **GOOD), make_sets(d=4, name="wide")
    more_keys, sequence = make_sets(keys=5, name="more"), make_sets("sequence", name="sequence")
    fit(data.path, tmp_path / "rfa", "--heads 5")
    fit(data.path, tmp_path / "mlp", "--model mlp --heads 5")
    fit(sequence.path, tmp_path / "sequence", "--sequence --heads 5")

    def refused(model, sets):
        return refuse("predict", tmp_path / model, sets.path, "-o", out, folder=tmp_path)

    assert "4 coordinates, the model expects 3" in refused("rfa", wide)
    assert "fitted on sets of 4 keys, found 5" in refused("mlp", more_keys)
    assert "tokens" in refused("rfa", sequence) and "tokens" in refused("sequence", data)
    two = make_sets(q=2, name="two")
    assert "y has 2 outputs, the model has 1" in refuse(
        "evaluate", tmp_path / "rfa", two.path, folder=tmp_path
    )


def test_mlp_needs_equal_sizes(make_sets, out, tmp_path):
    data = make_sets("ragged")
    assert "equal size" in refuse("fit", data.path, "--model mlp --heads 5 -o", out, folder=tmp_path)


@pytest.mark.parametrize("options", [
    "--heads 0", "--heads -3", "--heads many", "--heads 1.5", "--heads", "--model gru", "--score tanh",
    "--precision f16", "--positions learned", "--loss absolute", "--ridge -1", "--ridge nan", "--ridge inf",
    "--ridge 1e", "--ridge small", "--norm-ball 1", "--norm-ball 1,0", "--norm-ball 1,2,3", "--norm-ball a,b",
    "--weight-scale nan", "--weight-scale -1", "--bias-scale inf", "--huber-delta 0", "--huber-delta -1",
    "--solver magic", "--solver iterative --ridge 0", "--solver dual --loss huber", "--block-sets -1",
    "--threads 0", "--threads -1", "--threads two", "--max-memory lots", "--max-memory 0", "--max-memory -1G",
    "--max-memory 1X", "--seed -1", "--seed x", "--loss hinge --ridge 0", "--unknown", "--unknown 3", "extra",
])  # fmt: skip
def test_bad_options_of_fit(save, out, tmp_path, options):
    data = save("good", **GOOD)
    heads = "" if "--heads" in options else "--heads 5"
    refuse("fit", data.path, "-o", out, heads, options, folder=tmp_path)


@pytest.mark.parametrize("task", [
    "power-mean --dim 0", "power-mean --dim -2", "power-mean --keys 0", "power-mean --keys 5:2",
    "power-mean --keys 4:",
    "power-mean --keys a", "power-mean --count 0", "power-mean --degree -1", "power-mean --noise -1",
    "power-mean --noise nan", "power-mean --pure", "power-mean --matrix shift", "query-power --weight 1",
    "correlation --matrix hilbert", "mixture --weight nan", "native --degree 2", "power-mean --precision f16",
    "ordered --keys 1", "ordered --keys 1:4", "ordered --pure", "ordered --matrix shift",
    "sorting", "", "power-mean --seed 1.5", "power-mean --count 99999999999999999999",
])  # fmt: skip
def test_bad_options_of_generate(out, tmp_path, task):
    refuse("generate", task, "-o", out, folder=tmp_path)


@pytest.mark.parametrize("line", [
    "", "fitt", "--nonsense", "fit", "fit data.npz", "predict", "predict model", "evaluate model",
    "info extra", "completion", "completion fish", "man extra", "generate power-mean", "info --threads 0",
    "info --max-memory lots",
])  # fmt: skip
def test_incomplete_commands(tmp_path, line):
    refuse(line, folder=tmp_path)


@pytest.mark.parametrize("target", ["missing/out", "folder", "/proc/out", "/dev/full", "out/below"])
@pytest.mark.parametrize("command", ["fit", "predict", "generate"])
def test_outputs_that_cannot_be_written(save, model, out, tmp_path, command, target):
    data = save("good", **GOOD)
    (tmp_path / "folder").mkdir()
    path = tmp_path / target  # absolute targets replace the folder
    arguments = {
        "fit": ("fit", data.path, "--heads 5"),
        "predict": ("predict", model, data.path),
        "generate": ("generate power-mean --count 10",),
    }[command]
    if command == "predict" and target == "folder":
        (tmp_path / "folder.npy").mkdir()
    line = refuse(*arguments, "-o", path, folder=tmp_path)
    assert target.removesuffix("/below") in line


def test_an_old_output_is_replaced_by_a_good_run(save, out):
    fit(save("good", **GOOD).path, out, "--heads 5")
    assert read_model(out)[1]["model"] == "rfa"
