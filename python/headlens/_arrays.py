"""Arrays of any library, as NumPy arrays that headlens can borrow: C order, native bytes, main memory."""

from typing import Any

import numpy as np

from ._device import is_on_cuda


def _fetched(values: Any) -> Any:
    """`values` in main memory if it is a tensor of PyTorch or CuPy on a device of CUDA; else as it is."""
    if not is_on_cuda(values):
        return values
    for fetch in ("cpu", "get"):  # PyTorch's and CuPy's: both wait for what the device still computes
        if callable(getattr(values, fetch, None)):
            return getattr(values, fetch)()
    return values


def as_numpy(values: Any, name: str) -> np.ndarray:
    """NumPy's view of `values`: arrays, nested lists, and tensors of PyTorch, JAX and others through DLPack.

    Tensors on a device of CUDA are copied to main memory: `_sets.sets_on_cuda` is for calls that read them there.
    """
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "tocsr"):
        raise TypeError(f"{name}: sparse data given, but dense data is required (X.toarray() is dense)")
    if hasattr(values, "detach") and getattr(values, "requires_grad", False):
        values = values.detach()
    values = _fetched(values)
    if hasattr(values, "__dlpack__"):
        try:
            return np.from_dlpack(values)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            if "cpu" not in str(getattr(values, "device", "cpu")).lower():
                raise ValueError(
                    f"{name}: it is on {values.device}, expected main memory (copy it there first, as .cpu() does)"
                ) from error
            # Types that DLPack has and NumPy has not (bfloat16), and read-only memory of older NumPy.
            if callable(getattr(values, "float", None)) and values.float() is not values:
                return as_numpy(values.float(), name)
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name}: its parts have unequal shapes, expected one array") from None


def as_array(values: Any, name: str) -> np.ndarray:
    """Real numbers in C order; float32 and float64 stay, everything else becomes float64."""
    array = as_numpy(values, name)
    if array.dtype.kind == "c":
        raise ValueError(f"{name}: Complex data not supported, found {array.dtype} {array.shape}")
    if array.dtype.kind not in "fiub":
        if array.dtype.kind != "O":
            raise ValueError(f"{name}: {array.dtype} {array.shape} given, expected numbers")
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            kind = type(error)
            raise kind(f"{name}: objects {array.shape} given, expected numbers ({error})") from None
    keep = array.dtype.newbyteorder("=") in (np.float32, np.float64)
    dtype = array.dtype.newbyteorder("=") if keep else np.dtype(np.float64)
    return np.ascontiguousarray(array, dtype=dtype) if array.ndim else array.astype(dtype)


def as_float64(values: Any, name: str) -> np.ndarray:
    """Real numbers in C order, as float64."""
    return np.ascontiguousarray(as_array(values, name), dtype=np.float64)


def as_mean(mean: Any) -> np.ndarray | None:
    """A copy: the model keeps it, and the caller may change his own."""
    return None if mean is None else as_float64(mean, "mean").copy()
