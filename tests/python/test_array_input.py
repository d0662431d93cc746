"""What comes in: dtypes, layouts and devices that are handled, and those that are refused by name."""

import headlens
import numpy as np
import pytest


class Tensor:
    """Speaks DLPack and nothing else, as tensors of other libraries do."""

    def __init__(self, array, device=(1, 0), name="cpu"):
        self._array, self._device, self.device = array, device, name

    def __dlpack__(self, **options):
        if self._device[0] != 1:
            raise BufferError("not in main memory")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device


def predictions(X, y, new=None):
    model = headlens.RandomFeatureAttentionRegressor(heads=10, ridge=1e-3, random_state=0).fit(X, y)
    return model.predict(X if new is None else new)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def objects(parts):
    array = np.empty(len(parts), object)
    array[:] = parts
    return array


FORMS = {
    "read-only": read_only,
    "big-endian": lambda a: a.astype(">f8"),
    "Fortran order": np.asfortranarray,
    "every other": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed view": lambda a: a[::-1].copy()[::-1],
    "transposed view": lambda a: a.transpose(2, 0, 1).copy().transpose(1, 2, 0),
    "nested lists": lambda a: a.tolist(),
    "objects": lambda a: a.astype(object),
    "DLPack": Tensor,
    "DLPack, read-only": lambda a: Tensor(read_only(a)),
    "memory map": lambda a: np.lib.stride_tricks.as_strided(a, writeable=False),
    "list of arrays": list,
    "array of objects": lambda a: objects(list(a)),
    "Sets": lambda a: headlens.Sets(a[:, 0], a[:, 1:]),
    "ragged Sets": lambda a: headlens.Sets(
        a[:, 0], a[:, 1:].reshape(-1, a.shape[2]), np.arange(len(a) + 1) * (a.shape[1] - 1)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_that_hold_the_same(form, tokens):
    X, y = tokens
    expected = predictions(X, y)
    np.testing.assert_array_equal(predictions(FORMS[form](X), y), expected)
    np.testing.assert_array_equal(predictions(X, y, FORMS[form](X)), expected)


def test_flat_input_is_one_key_with_a_query_of_zeros(rng):
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    sets = np.stack([np.zeros_like(X), X], axis=1)
    np.testing.assert_array_equal(predictions(X, y), predictions(sets, y))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, np.float16])
def test_other_numbers_are_read_as_float64(dtype, rng):
    X, y = rng.integers(0, 2, (30, 4, 3)).astype(dtype), rng.standard_normal(30)
    np.testing.assert_array_equal(predictions(X, y), predictions(X.astype(np.float64), y))


def test_float32_in_float32_out(tokens):
    X, y = tokens
    single = X.astype(np.float32)
    labels = (y > 0).astype(int)
    for estimator in (headlens.RandomFeatureAttentionRegressor(heads=10), headlens.AttentionKernelRidge()):
        model = estimator.fit(single, y.astype(np.float32))
        assert model.predict(single).dtype == model.transform(single).dtype == np.float32
        assert model.predict(X).dtype == np.float32  # the model decides
        assert type(estimator)().fit(X, y).predict(X).dtype == np.float64
    classifier = headlens.RandomFeatureAttentionClassifier(heads=10, ridge=0.1).fit(single, labels)
    assert classifier.predict_proba(single).dtype == np.float32
    assert classifier.decision_function(single).dtype == np.float32
    assert headlens.attention_kernel(single).dtype == np.float32
    assert headlens.Sets(single[:, 0], single[:, 1:]).dtype == np.float32


def test_arrays_are_borrowed_and_left_alone(tokens):
    X, y = tokens
    sets = headlens.Sets(X[:, 0].copy(), X[:, 1:].copy())
    before = X.copy(), sets.query.copy(), sets.keys.copy()
    predictions(X, y)
    predictions(sets, y)
    for now, then in zip((X, sets.query, sets.keys), before):
        np.testing.assert_array_equal(now, then)


def test_results_do_not_depend_on_what_happens_to_the_input(tokens):
    """A model keeps nothing of X, not even the sets of a kernel."""
    X, y = tokens
    model = headlens.AttentionKernelRidge().fit(X, y)
    new = X[:5].copy()
    expected = model.predict(new)
    X[:] = np.nan
    np.testing.assert_array_equal(model.predict(new), expected)


X0, Y0 = np.ones((4, 3, 2)), np.arange(4.0)


def spoiled(value, shape=(4, 3, 2)):
    array = np.ones(shape)
    array[1, 2, 1] = value
    return array


BAD = {
    "rank 1": (np.ones(4), Y0, r"X: shape \(4,\)"),
    "rank 4": (np.ones((4, 3, 2, 2)), Y0, r"X: shape \(4, 3, 2, 2\)"),
    "a number": (3.0, Y0, r"X: shape \(\)"),
    "no sets": (np.ones((0, 3, 2)), np.ones(0), "X: tokens is empty"),
    "no keys": (np.ones((4, 1, 2)), Y0, "X: .*at least two tokens"),
    "no coordinates": (np.ones((4, 3, 0)), Y0, r"X: 0 feature\(s\)"),
    "NaN": (spoiled(np.nan), Y0, r"X: tokens\[1, 2, 1\] is nan"),
    "infinity": (spoiled(np.inf), Y0, r"X: tokens\[1, 2, 1\] is inf"),
    "complex": (np.ones((4, 3, 2), complex), Y0, "X: Complex"),
    "strings": (np.full((4, 3, 2), "a"), Y0, "X: <U1"),
    "dates": (np.zeros((4, 3, 2), "datetime64[s]"), Y0, "X: datetime64"),
    "unequal lists": ([[[1.0]], [[1.0, 2.0]]], Y0, "X: its parts have unequal shapes"),
    "another device": (Tensor(X0, (2, 0), "cuda:0"), Y0, "X: it is on cuda:0"),
    "a set without keys": ([np.ones((1, 2)), np.ones((3, 2))], Y0[:2], r"X\[0\]: shape \(1, 2\)"),
    "sets of two widths": ([np.ones((2, 2)), np.ones((3, 3))], Y0[:2], r"X\[1\]: shape \(3, 3\)"),
    "an empty list": ([], Y0, "X: "),
    "too few targets": (X0, Y0[:3], r"y has shape \(3,\)"),
    "too many axes of y": (X0, np.ones((4, 2, 2)), r"y has shape \(4, 2, 2\)"),
    "NaN in y": (X0, np.array([0, 1, np.nan, 2]), "Input y contains NaN"),
    "strings in y": (X0, np.array(list("abcd")), "dtype='numeric'|convert string|could not convert"),
    "no y": (X0, None, "y is None"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case):
    X, y, text = BAD[case]
    with pytest.raises(ValueError, match=text):
        headlens.RandomFeatureAttentionRegressor(heads=5).fit(X, y)


class OnDevice(Tensor):
    """As a tensor of PyTorch (`cpu`) or CuPy (`get`) on a device of CUDA."""

    def __init__(self, array, fetch):
        super().__init__(array, (2, 0), "cuda:0")
        self.shape, self.dtype = array.shape, array.dtype
        setattr(self, fetch, lambda: array)


@pytest.mark.parametrize("fetch", ["cpu", "get"])
def test_tensors_on_a_device_of_cuda_are_fetched(tokens, fetch):
    X, y = tokens
    np.testing.assert_array_equal(predictions(OnDevice(X, fetch), OnDevice(y, fetch)), predictions(X, y))
    sets = headlens.Sets(OnDevice(X[:, 0], fetch), OnDevice(X[:, 1:], fetch))
    np.testing.assert_array_equal(predictions(sets, y), predictions(X, y))


def test_sparse_input_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="X: sparse"):
        headlens.AttentionKernelRidge().fit(sparse.csr_array(np.ones((4, 3))), Y0)


def test_other_sets_than_fitted_on(tokens):
    X, y = tokens
    model = headlens.RandomFeatureAttentionRegressor(heads=5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 3"):
        model.predict(X[:, :, :2])
    mlp = headlens.RandomFeatureAttentionRegressor(model="mlp", heads=5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="X: the mlp was fitted on sets of 4 keys, found 3"):
        mlp.predict(X[:, :4])


BAD_OPTIONS = {
    "heads": [0, -3, "many", 2.5, None],
    "model": ["rff", 3],
    "score_function": ["tanh", 3],
    "positions": ["learned"],
    "precision": ["f16"],
    "loss": ["logloss"],
    "ridge": [-1.0, "best", None, np.nan],
    "norm_ball": [(1.0, -1.0), 3.0],
    "huber_delta": [0.0],
    "solver": ["sgd"],
    "centres": [0],
    "block_sets": [-1],
    "threads": [0, -1, 1.5],
    "max_memory": ["a lot", 0],
    "random_state": ["seed"],
    "weight_scale": ["wide"],
}


@pytest.mark.parametrize("name,value", [(n, v) for n, values in BAD_OPTIONS.items() for v in values])
def test_bad_options_are_refused_by_name(name, value, tokens):
    word = "seed|random_state" if name == "random_state" else name
    with pytest.raises((ValueError, TypeError), match=word) as caught:
        headlens.RandomFeatureAttentionRegressor(**{"heads": 5, name: value}).fit(*tokens)
    assert "--" not in str(caught.value)  # options are spelled as in Python


def test_the_score_function_is_called_by_its_parameter(tokens):
    with pytest.raises(ValueError, match="^score_function: mlp has relu neurons only"):
        headlens.RandomFeatureAttentionRegressor(model="mlp", score_function="exp").fit(*tokens)
    # Only the estimators rename it.
    with pytest.raises(ValueError, match="^score: mlp has relu neurons only"):
        headlens.attention_kernel(tokens[0], model="mlp", score="exp")


def test_sets_index_like_arrays(ragged):
    X, _ = ragged
    whole = list(X)
    picks = [slice(3, 9), slice(None, None, -2), [5, 1, 5], np.array([0, -1]), np.arange(40) % 3 == 0, []]
    for pick in picks:
        rows = (
            np.arange(40)[np.asarray(pick, int) if pick == [] else pick]
            if isinstance(pick, list)
            else np.arange(40)[pick]
        )
        if len(rows) == 0:
            continue
        chosen = X[pick]
        assert isinstance(chosen, headlens.Sets) and len(chosen) == len(rows)
        for a, row in zip(chosen, rows):
            np.testing.assert_array_equal(a, whole[row])
    np.testing.assert_array_equal(X[-1], whole[39])
    np.testing.assert_array_equal(X[np.int64(2)], whole[2])
    assert X[3:5, ...].shape == (2,) and X.shape == (40,) and X.dim == 3
    for bad in (40, -41, (1, 2), [0.5], np.zeros((2, 2), int), "a"):
        with pytest.raises((IndexError, TypeError)):
            X[bad]


BAD_SETS = {
    "offsets: float64": (np.ones((2, 3)), np.ones((4, 3)), [0.0, 1.0, 4.0]),
    "offsets has 2 entries": (np.ones((2, 3)), np.ones((4, 3)), [0, 4]),
    "offsets end at 5": (np.ones((2, 3)), np.ones((4, 3)), [0, 1, 5]),
    "at least one key": (np.ones((2, 3)), np.ones((4, 3)), [0, 0, 4]),
    "keys have 2": (np.ones((2, 3)), np.ones((4, 2)), [0, 1, 4]),
    "query has shape": (np.ones(3), np.ones((4, 2, 3)), None),
    "keys has shape": (np.ones((2, 3)), np.ones((4, 3)), None),
    "query: Complex": (np.ones((2, 3), complex), np.ones((2, 2, 3)), None),
}


@pytest.mark.parametrize("text", BAD_SETS)
def test_bad_sets_are_refused(text):
    with pytest.raises(ValueError, match=text):
        headlens.Sets(*BAD_SETS[text])
