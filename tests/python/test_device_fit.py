"""Fits and predictions on PyTorch's tensors that lie on a device: those of main memory, without the way through it."""

import gc

import headlens
import numpy as np
import pytest

CUDA = next(b for b in headlens.info()["backends"] if b["name"] == "cuda")
HEADS = {"heads": 7, "ridge": 0.1, "random_state": 0}


def predictions(X, y, **options):
    return headlens.RandomFeatureAttentionRegressor(**HEADS, **options).fit(X, y).predict(X)


@pytest.fixture
def torch():
    library = pytest.importorskip("torch", reason="needs PyTorch")
    if not CUDA["available"]:
        pytest.skip(f"the CUDA back end: {CUDA['reason']}")
    if not library.cuda.is_available():
        pytest.skip("PyTorch sees no device of CUDA")
    return library


def on_cuda(torch, X):
    return torch.from_numpy(np.ascontiguousarray(X)).cuda()


def close_the_way_back(torch, monkeypatch):
    """From now on a tensor that is fetched to main memory fails the test."""

    def refuse(tensor, *rest, **options):
        raise AssertionError(f"a tensor {tuple(tensor.shape)} was copied to main memory")

    for name in ("cpu", "numpy", "tolist", "__array__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ridge": "auto"},
        {"sequence": True, "positions": "sinusoidal"},
        {"model": "mlp"},
        {"precision": "f64"},
        {"precision": "f32", "score_function": "softmax"},
        {"loss": "huber"},
    ],
    ids=str,
)
def test_fit_predict_and_transform_are_those_of_main_memory(options, dtype, tokens, torch, monkeypatch):
    X, y = tokens[0].astype(dtype), tokens[1]
    if options.get("sequence"):
        y = X[:, :, 0] * 2.0
    options = {**HEADS, **options, "backend": "cuda"}
    here = headlens.RandomFeatureAttentionRegressor(**options).fit(X, y)
    expected = here.predict(X), here.transform(X)
    tensor = on_cuda(torch, X)
    with monkeypatch.context() as patched:
        close_the_way_back(torch, patched)
        there = headlens.RandomFeatureAttentionRegressor(**options).fit(tensor, y)
        predicted, features = there.predict(tensor), there.transform(tensor)
    np.testing.assert_array_equal(predicted, expected[0])
    assert isinstance(features, torch.Tensor) and features.device == tensor.device
    np.testing.assert_array_equal(features.cpu().numpy(), expected[1])
    np.testing.assert_array_equal(there.values_, here.values_)


@pytest.mark.parametrize("offsets", [None, [0, 1, 9, 40, 80, 160]])
def test_sets_of_tensors_are_read_there(offsets, rng, torch, monkeypatch):
    n = 40 if offsets is None else 5
    query = rng.standard_normal((n, 3)).astype(np.float32)
    keys = rng.standard_normal((n, 4, 3) if offsets is None else (160, 3))
    y = rng.standard_normal(n)
    make = headlens.RandomFeatureAttentionRegressor
    here = make(**HEADS, backend="cuda").fit(headlens.Sets(query, keys, offsets), y)
    expected = here.transform(headlens.Sets(query, keys, offsets))
    tensors = on_cuda(torch, query), on_cuda(torch, keys)
    with monkeypatch.context() as patched:
        close_the_way_back(torch, patched)
        sets = headlens.Sets(*tensors, offsets)
        there = make(**HEADS, backend="cuda").fit(sets, y)
        features = there.transform(sets)
    np.testing.assert_array_equal(there.values_, here.values_)
    assert isinstance(features, torch.Tensor)
    np.testing.assert_array_equal(features.cpu().numpy(), expected)


def test_classifiers_take_them_too(tokens, torch):
    X, y = tokens
    labels = np.where(y > 0, "high", "low")
    model = headlens.RandomFeatureAttentionClassifier(heads=7, ridge=0.1, random_state=0, backend="cuda")
    expected = model.fit(X, labels).predict_proba(X)
    tensor = on_cuda(torch, X)
    np.testing.assert_array_equal(model.fit(tensor, labels).predict_proba(tensor), expected)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int32", "int64", "bool"])
def test_other_numbers_become_what_they_are_in_main_memory(kind, tokens, torch):
    X, y = torch.from_numpy(3 * tokens[0]).to(getattr(torch, kind)), tokens[1]
    found, expected = (
        headlens.RandomFeatureAttentionRegressor(**HEADS, backend="cuda").fit(x, y).predict(x)
        for x in (X.cuda(), X)
    )
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_views_and_tensors_with_gradients(tokens, torch):
    X, y = tokens
    expected = predictions(X, y, backend="cuda")
    wide = torch.zeros(40, 5, 9, dtype=torch.float64, device="cuda")
    wide[:, :, 2:5] = on_cuda(torch, X)
    turned = on_cuda(torch, X.transpose(2, 1, 0)).permute(2, 1, 0)
    for tensor in (wide[:, :, 2:5], turned, on_cuda(torch, X).requires_grad_(), on_cuda(torch, X)[0:40]):
        np.testing.assert_array_equal(predictions(tensor, y, backend="cuda"), expected)


def test_bad_tensors_are_refused_by_name(tokens, torch):
    X, y = tokens
    X[7, 3, 1] = np.nan
    model = headlens.RandomFeatureAttentionRegressor(**HEADS, backend="cuda")
    with pytest.raises(ValueError, match=r"X: tokens\[7, 3, 1\] is nan, expected finite values"):
        model.fit(on_cuda(torch, X), y)
    with pytest.raises(ValueError, match="X: tokens is empty"):
        model.fit(on_cuda(torch, X[:0]), y[:0])
    with pytest.raises(ValueError, match="X: .*at least two tokens"):
        model.fit(on_cuda(torch, X[:, :1]), y)
    with pytest.raises(ValueError, match="X: Complex data not supported"):
        model.fit(on_cuda(torch, X).to(torch.complex64), y)


def test_what_another_stream_still_computes_is_waited_for(tokens, torch):
    X, y = tokens
    expected = predictions(X, y, backend="cuda")
    given, result = on_cuda(torch, X), torch.zeros(X.shape, dtype=torch.float64, device="cuda")
    slow = torch.ones(4000, 4000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(20):
            slow = slow @ slow * 1e-4
        result.copy_(given + 0 * slow[0, 0].double().nan_to_num())
        np.testing.assert_array_equal(predictions(result, y, backend="cuda"), expected)


def test_features_outlive_all_that_made_them(tokens, torch):
    X, y = tokens
    model = headlens.RandomFeatureAttentionRegressor(**HEADS, backend="cuda").fit(X, y)
    expected = model.transform(X)
    features = model.transform(on_cuda(torch, X))
    for _ in range(20):
        model.transform(on_cuda(torch, X + 1))
    del model
    gc.collect()
    np.testing.assert_array_equal(features.cpu().numpy(), expected)


def test_calls_that_read_main_memory_fetch_a_copy(tokens, torch):
    """Kernels and flat tokens: the same numbers, by way of main memory."""
    X, y = tokens
    tensor = on_cuda(torch, X)
    kernel = headlens.attention_kernel(tensor, backend="cuda")
    np.testing.assert_array_equal(kernel, headlens.attention_kernel(X, backend="cuda"))
    model = headlens.AttentionKernelRidge(ridge=0.1, backend="cuda").fit(tensor, y)
    assert isinstance(model.transform(tensor), np.ndarray)
    flat = predictions(X[:, 0], y, backend="cuda")
    np.testing.assert_array_equal(predictions(tensor[:, 0], y, backend="cuda"), flat)
