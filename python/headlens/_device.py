"""Tensors on a device of CUDA, which the CUDA back end reads where they lie."""

import sys
from typing import Any

from . import _core

_CUDA = 2  # the number that DLPack gives to devices of CUDA
_LEGACY_STREAM = 1  # DLPack's number of the default stream, which the library waits for


def is_on_cuda(values: Any) -> bool:
    """Whether these are a tensor of PyTorch, CuPy or another library on a device of CUDA."""
    where = getattr(values, "__dlpack_device__", None)
    return callable(where) and where()[0] == _CUDA


def borrowed(values: Any, name: str) -> Any:
    """Tokens (n, tokens, d) on a device of CUDA as the library reads them there; all else as it is."""
    if not is_on_cuda(values) or len(getattr(values, "shape", ())) != 3:
        return values
    # Before the tensor is asked for: without the back end, or with another device, nothing is exported.
    _core.check_cuda_device(values.__dlpack_device__()[1], name)
    values = _floating(values, name)
    for prepare in ("detach", "contiguous"):  # PyTorch's; both leave a tensor alone that needs neither
        if callable(getattr(values, prepare, None)):
            values = getattr(values, prepare)()
    try:
        capsule = values.__dlpack__(stream=_LEGACY_STREAM)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(f"{name}: its library does not lend it through DLPack ({error})") from error
    return _core.cuda_array(capsule, name)


def _floating(values: Any, name: str) -> Any:
    """float32 and float64 stay, everything else is converted on the device to what arrays in main memory become."""
    kind = str(values.dtype).split(".")[-1]
    if kind in ("float32", "float64"):
        return values
    if kind.startswith("complex"):
        raise ValueError(f"{name}: Complex data not supported, found {kind} {tuple(values.shape)}")
    convert = getattr(values, "float" if kind == "bfloat16" else "double", None)  # PyTorch
    if callable(convert):
        return convert()
    if callable(getattr(values, "astype", None)):  # CuPy
        return values.astype("float64")
    raise ValueError(f"{name}: {kind} {tuple(values.shape)} on a device given, expected float32 or float64")


def returned(result: Any, like: Any) -> Any:
    """A result on a device as a tensor of the library of `like`; what speaks DLPack and no more, if it has no such."""
    if not is_on_cuda(result):
        return result
    for kind in type(like).__mro__:
        take = getattr(sys.modules.get(kind.__module__.split(".")[0]), "from_dlpack", None)
        if callable(take):
            return take(result)
    return result
