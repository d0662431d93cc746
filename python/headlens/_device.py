"""Tensors on a device of CUDA, which the CUDA back end reads where they lie."""

import sys
from typing import Any

import numpy as np

from . import _core

_CUDA = 2  # the number that DLPack gives to devices of CUDA
_LEGACY_STREAM = 1  # DLPack's number of the default stream, which the library waits for


def is_on_cuda(values: Any) -> bool:
    """Whether these are a tensor of PyTorch, CuPy or another library on a device of CUDA."""
    where = getattr(values, "__dlpack_device__", None)
    return callable(where) and where()[0] == _CUDA


def dtype_of(values: Any) -> np.dtype:
    """The type that an array of these becomes: float32 or float64."""
    return np.dtype(np.float32 if _kind(values) in ("float32", "bfloat16") else np.float64)


def borrowed(values: Any, name: str) -> _core.DeviceArray:
    """A tensor on a device of CUDA, as the library reads it there."""
    # Before the tensor is asked for: without the back end, or with another device, nothing is exported.
    _core.check_cuda_device(values.__dlpack_device__()[1], name)
    values = _floating(values, name)
    for prepare in ("detach", "contiguous"):  # PyTorch's; both leave a tensor alone that needs neither
        if callable(getattr(values, prepare, None)):
            values = getattr(values, prepare)()
    try:
        capsule = values.__dlpack__(stream=_LEGACY_STREAM)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: its library does not lend it through DLPack ({error})") from error
    return _core.cuda_array(capsule, name)


def _floating(values: Any, name: str) -> Any:
    """float32 and float64 stay, everything else is converted on the device to what arrays in main memory become."""
    kind = _kind(values)
    if kind in ("float32", "float64"):
        return values
    if kind.startswith("complex"):
        raise ValueError(f"{name}: Complex data not supported, found {kind} {tuple(values.shape)}")
    wanted = dtype_of(values).name
    convert = getattr(values, {"float32": "float", "float64": "double"}[wanted], None)  # PyTorch
    if callable(convert):
        return convert()
    if callable(getattr(values, "astype", None)):  # CuPy
        return values.astype(wanted)
    raise ValueError(f"{name}: {kind} {tuple(values.shape)} on a device given, expected float32 or float64")


def _kind(values: Any) -> str:
    return str(values.dtype).split(".")[-1]  # "torch.float32", "float32"


def returned(result: Any, like: Any) -> Any:
    """A result on a device as a tensor of the library of `like`; what speaks DLPack and no more, if it has no such."""
    if isinstance(result, np.ndarray):
        return result
    if not is_on_cuda(result):
        raise TypeError(
            f"a result of {type(result).__name__} came, expected an array or a tensor on a device"
        )
    for kind in type(like).__mro__:
        take = getattr(sys.modules.get(kind.__module__.split(".")[0]), "from_dlpack", None)
        if callable(take):
            return take(result)
    return result
