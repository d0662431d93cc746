"""Tensors on a device of CUDA as they come in: lent, converted, refused or fetched. No device is needed (test_device_fit.py has one)."""

import ctypes
import gc
import pickle
import sys
import types

import headlens
import numpy as np
import pytest
from headlens import _core, _device, _sets

CUDA = next(b for b in headlens.info()["backends"] if b["name"] == "cuda")
without_device = pytest.mark.skipif(CUDA["available"], reason="the CUDA back end is there")
HEADS = {"heads": 7, "ridge": 0.1, "random_state": 0}


class Pretended:
    """Says that it is a tensor on a device, and counts how often it is lent."""

    def __init__(self, array, number=0):
        self._array, self._number, self.streams = array, number, []
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack_device__(self):
        return (2, self._number)

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return self._array.__dlpack__()

    def cpu(self):
        return self._array


def predictions(X, y, **options):
    return headlens.RandomFeatureAttentionRegressor(**HEADS, **options).fit(X, y).predict(X)


@pytest.mark.parametrize("backend", ["auto", "cpu"])
def test_the_processor_gets_a_copy(backend, tokens):
    X, y = tokens
    there = Pretended(X)
    np.testing.assert_array_equal(predictions(there, y, backend=backend), predictions(X, y))
    assert there.streams == []


@without_device
@pytest.mark.parametrize("heads", [7, "inf"])
def test_without_a_device_nothing_is_lent(heads, tokens):
    X, y = tokens
    there = Pretended(X)
    model = headlens.RandomFeatureAttentionRegressor(heads=heads, backend="cuda")
    with pytest.raises(ValueError, match="backend: cuda given: .*ask for cpu"):
        model.fit(there, y)
    assert there.streams == []
    fitted = headlens.RandomFeatureAttentionRegressor(**HEADS).fit(X, y).set_params(backend="cuda")
    query, keys = Pretended(X[:, 0]), Pretended(X[:, 1:])
    for call in (fitted.predict, fitted.transform):
        for given in (there, headlens.Sets(query, keys)):
            with pytest.raises(ValueError, match="backend: cuda given"):
                call(given)
    assert there.streams == query.streams == keys.streams == []


@pytest.fixture
def lends(monkeypatch):
    """A back end that takes what it is lent: the capsules."""
    monkeypatch.setattr(_core, "check_cuda_device", lambda number, name: None)
    monkeypatch.setattr(_core, "cuda_array", lambda capsule, name: capsule)


def test_tensors_are_lent_for_the_legacy_default_stream(lends):
    there = Pretended(np.ones((4, 3, 2), np.float32))
    assert "dltensor" in repr(_device.borrowed(there, "X"))
    assert there.streams == [1]


def test_what_is_not_tokens_on_a_device_is_left_alone(lends):
    flat = Pretended(np.ones((4, 3)))
    mixed = headlens.Sets(flat, np.ones((4, 2, 3)))
    for values in (np.ones((4, 3, 2)), [[1.0]], "X", None, flat, mixed, [flat]):
        assert _sets.sets_on_cuda(values) is None
        assert _sets.sequences_on_cuda(values) is None
    assert flat.streams == []


@pytest.mark.parametrize("offsets", [None, [0, 3, 4]])
def test_sets_on_a_device_come_to_main_memory_when_they_are_read_there(offsets, rng):
    query = rng.standard_normal((2, 3)).astype(np.float32)
    keys = rng.standard_normal((2, 2, 3) if offsets is None else (4, 3))
    fetched = []

    class Watched(Pretended):
        def cpu(self):
            fetched.append(self.shape)
            return self._array

    here = headlens.Sets(query, keys, offsets)
    there = headlens.Sets(Watched(query), Watched(keys), offsets)
    assert (len(there), there.dim, there.dtype) == (2, 3, np.float64)
    assert there.sizes.tolist() == here.sizes.tolist() and repr(there) == repr(here)
    assert fetched == []
    np.testing.assert_array_equal(there[1], here[1])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(there))[0], here[0])
    assert sorted(fetched) == sorted([query.shape, keys.shape])  # each once
    model = headlens.RandomFeatureAttentionRegressor(**HEADS).fit(here, [1.0, 2.0])
    np.testing.assert_array_equal(model.predict(there), model.predict(here))


@pytest.mark.parametrize(
    ("query", "keys", "offsets"),
    [
        ((2,), (2, 2, 3), None),
        ((0, 3), (0, 2, 3), None),
        ((2, 0), (2, 2, 0), None),
        ((2, 3), (4, 3), None),
        ((2, 3), (3, 2, 3), None),
        ((2, 3), (2, 2, 4), None),
        ((2, 3), (2, 0, 3), None),
        ((2, 3), (2, 2, 3), [0, 2, 4]),
        ((2, 3), (4, 4), [0, 2, 4]),
        ((2, 3), (4, 3), []),
        ((2, 3), (4, 3), [0, 4]),
        ((2, 3), (4, 3), [1, 2, 4]),
        ((2, 3), (4, 3), [0, 0, 4]),
        ((2, 3), (4, 3), [0, 5, 4]),
        ((2, 3), (4, 3), [0, 2, 3]),
        ((2, 3), (4, 3), [0.0, 2.0, 4.0]),
    ],
)
def test_shapes_and_offsets_on_a_device_are_refused_as_in_main_memory(query, keys, offsets):
    query, keys = np.ones(query), np.ones(keys)
    with pytest.raises(ValueError) as here:
        headlens.Sets(query, keys, offsets)
    with pytest.raises(ValueError) as there:
        headlens.Sets(Pretended(query), Pretended(keys), offsets)
    assert str(there.value) == str(here.value)


class Torch(Pretended):
    """Converts, and answers in C order, as tensors of PyTorch do."""

    def double(self):
        return Torch(self._array.astype(np.float64))

    def float(self):
        return Torch(self._array.astype(np.float32))

    def contiguous(self):
        return Torch(np.ascontiguousarray(self._array))

    def __dlpack__(self, *, stream=None):
        assert self._array.flags.c_contiguous
        return self._array


class CuPy(Pretended):
    def astype(self, dtype):
        return CuPy(self._array.astype(dtype))

    def __dlpack__(self, *, stream=None):
        return self._array


@pytest.mark.parametrize("library", [Torch, CuPy])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, bool])
def test_other_types_are_converted_by_their_library(library, dtype, lends):
    array = np.arange(24).reshape(4, 3, 2).astype(dtype)
    lent = _device.borrowed(library(array), "X")
    assert lent.dtype == (dtype if dtype in (np.float32, np.float64) else np.float64)
    np.testing.assert_array_equal(lent, array.astype(lent.dtype))


def test_bfloat16_becomes_float32_and_other_orders_that_of_c(lends):
    short = Torch(np.ones((4, 3, 2), np.float32))
    short.dtype = "torch.bfloat16"
    assert _device.borrowed(short, "X").dtype == np.float32
    turned = Torch(np.ones((2, 3, 4)).T)
    assert _device.borrowed(turned, "X").flags.c_contiguous


def test_bfloat16_becomes_what_its_library_can_make_of_it(lends):
    """PyTorch has .float(); others have astype(), and the type is the same."""
    short = CuPy(np.ones((4, 3, 2), np.float16))
    short.dtype = "bfloat16"
    assert _device.borrowed(short, "X").dtype == _device.dtype_of(short) == np.float32


def test_types_without_a_way_are_refused_by_name(lends):
    with pytest.raises(ValueError, match=r"^X: Complex data not supported, found complex64 \(4, 3, 2\)"):
        _device.borrowed(Torch(np.ones((4, 3, 2), np.complex64)), "X")
    with pytest.raises(ValueError, match=r"^X: int64 \(4, 3, 2\) on a device given, expected float32"):
        _device.borrowed(Pretended(np.ones((4, 3, 2), np.int64)), "X")


@pytest.mark.parametrize("kind", [BufferError, RuntimeError, TypeError, ValueError])
def test_a_library_that_does_not_lend_is_quoted(kind, lends, monkeypatch):
    def refuse(self, **options):
        raise kind("exported to nobody")

    monkeypatch.setattr(Pretended, "__dlpack__", refuse)
    with pytest.raises(
        ValueError, match=r"^X: its library does not lend it through DLPack \(exported to nobody\)"
    ):
        _device.borrowed(Pretended(np.ones((4, 3, 2))), "X")


def test_results_go_to_the_library_of_the_tensor(monkeypatch):
    result, here = Pretended(np.ones(3)), np.ones(3)
    library = types.ModuleType("lender")
    library.from_dlpack = lambda values: ("taken", values)
    monkeypatch.setitem(sys.modules, "lender", library)
    tensor = type("Tensor", (), {"__module__": "lender.core"})
    own = type("Own", (tensor,), {"__module__": "__main__"})
    for like in (tensor(), own()):
        assert _device.returned(result, like) == ("taken", result)
        assert _device.returned(here, like) is here
    assert _device.returned(result, object()) is result


def test_results_of_no_known_kind_are_refused():
    capsule = np.ones(3).__dlpack__()
    for result in (capsule, [1.0], None):
        with pytest.raises(TypeError, match="expected an array or a tensor on a device"):
            _device.returned(result, np.ones(3))


@pytest.fixture
def lender():
    return pytest.importorskip("headlens_test_lender", reason="is built beside the package, with its tests")


def test_what_the_extension_returns_of_a_device_speaks_dlpack(lender, monkeypatch):
    library = types.ModuleType("lender")
    library.from_dlpack = lambda values: (values.__dlpack_device__(), values.__dlpack__(stream=1))
    monkeypatch.setitem(sys.modules, "lender", library)
    like = type("Tensor", (), {"__module__": "lender"})()
    result = lender.on_device(3, 4)
    assert _device.returned(result, object()) is result
    place, capsule = _device.returned(result, like)
    assert place == (2, 1) and "dltensor" in repr(capsule)
    with pytest.raises((BufferError, TypeError)):  # the host cannot read the address
        memoryview(result)


def test_memory_of_a_device_is_freed_without_the_interpreter(lender):
    """Whoever frees it waits for the device: other threads of Python go on meanwhile."""
    freed, _ = lender.freed()
    result = lender.on_device(3, 4)
    capsule = result.__dlpack__()
    del result
    gc.collect()
    assert lender.freed() == (freed, 0)  # the capsule keeps it
    del capsule
    gc.collect()
    assert lender.freed() == (freed + 1, 0)


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class Capsule:
    """A capsule of DLPack that claims a device, over memory that is not there."""

    def __init__(self, shape, *, device=(2, 0), dtype=(2, 32), strides=None):
        integers = ctypes.c_int64 * len(shape)
        self.freed = 0
        self._keep = [integers(*shape), None if strides is None else integers(*strides), _Deleter(self._free)]
        tensor = _Tensor(64, *device, len(shape), _Type(*dtype, 1), self._keep[0], self._keep[1], 0)
        self._managed = _Managed(tensor, None, self._keep[2])
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = make(ctypes.addressof(self._managed), b"dltensor", None)

    def _free(self, managed):
        self.freed += 1


BAD = {
    "of a device type that is not CUDA's": (
        Capsule((4, 3, 2), device=(1, 0)),
        "X: .*device type 1, expected 2",
    ),
    "not in C order": (Capsule((4, 3, 2), strides=(1, 4, 12)), r"X: float32 \(4, 3, 2\) .*contiguous\(\)"),
    "with gaps": (Capsule((4, 3, 2), strides=(12, 2, 1)), "X: .*do not lie in C order"),
    "of half precision": (
        Capsule((4, 3, 2), dtype=(2, 16)),
        "array: its type is not one that headlens knows",
    ),
    "of bfloat16": (Capsule((4, 3, 2), dtype=(4, 16)), "array: its type is not one that headlens knows"),
}


@pytest.mark.parametrize("case", BAD)
def test_capsules_that_are_not_read_are_given_back(case):
    given, text = BAD[case]
    with pytest.raises(ValueError, match=text):
        _core.cuda_array(given.capsule, "X")
    gc.collect()
    assert given.freed == 1


NOWHERE = "^backend: cuda: what was given as an array on cuda:0 is no memory of that device"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Capsule((4, 3, 2)), NOWHERE),
        (Capsule((4, 3, 2), dtype=(2, 64)), NOWHERE),
        (Capsule((4, 1, 2), strides=(2, 77, 1)), NOWHERE),
        (Capsule((4, 3, 2), device=(2, 9)), "^X: lies on cuda:9, and headlens works on cuda:0"),
    ],
    ids=["float32", "float64", "an axis of one", "another device"],
)
def test_what_lies_on_no_device_is_not_read(given, reason):
    """Without the back end its absence is the reason."""
    with pytest.raises(ValueError, match=reason if CUDA["available"] else "^backend: cuda given: "):
        _core.cuda_array(given.capsule, "X")
    gc.collect()
    assert given.freed == 1


def test_only_capsules_of_tensors_are_taken():
    for value in (3, "X", None):
        with pytest.raises(TypeError):
            _core.cuda_array(value, "X")
