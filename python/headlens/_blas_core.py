"""OpenBLAS 0.3.21 does not know processors younger than itself and falls back to kernels of 2004, five times
slower. OPENBLAS_CORETYPE repairs that, but only if it is set before the library loads: before _core does."""

import os
import warnings

_VARIABLE = "OPENBLAS_CORETYPE"
_NEWEST_INTEL_MODEL = 143  # of family 6, Sapphire Rapids: the newest that OpenBLAS 0.3.21 knows
_NEWEST_AMD_FAMILY = 25  # Zen 3 and 4
_AVX512 = {"avx512f", "avx512dq", "avx512vl", "avx512bw"}


def wanted_core(cpuinfo: str) -> str:
    """What OPENBLAS_CORETYPE has to be on the processor of this /proc/cpuinfo; "" if OpenBLAS knows it."""
    fields: dict[str, str] = {}
    for line in cpuinfo.split("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    flags = set(fields.get("flags", "").split())
    try:
        family, model = int(fields.get("cpu family", "0")), int(fields.get("model", "0"))
    except ValueError:
        return ""
    vendor = fields.get("vendor_id", "")
    intel = vendor == "GenuineIntel" and (family > 6 or (family == 6 and model > _NEWEST_INTEL_MODEL))
    amd = vendor == "AuthenticAMD" and family > _NEWEST_AMD_FAMILY
    if not (intel or amd) or not {"avx2", "fma"} <= flags:
        return ""
    return "SkylakeX" if flags >= _AVX512 else "Haswell"


def _read_cpuinfo() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return file.read(8192)
    except OSError:
        return ""


def load_core():
    """Imports the extension, with the variable set meanwhile where it is needed and the user has not set it."""
    core = "" if os.environ.get(_VARIABLE) else wanted_core(_read_cpuinfo())
    before = os.environ.get(_VARIABLE)
    if core:
        os.environ[_VARIABLE] = core
    try:
        from . import _core
    finally:
        if core:
            os.environ.pop(_VARIABLE)
            if before is not None:
                os.environ[_VARIABLE] = before
    slow = "" if before or core else _core.blas_core_repair()
    if slow:
        warnings.warn(
            f"OpenBLAS runs kernels that are too slow for this processor: start Python with {_VARIABLE}={slow}",
            RuntimeWarning,
            stacklevel=3,
        )
    return _core
