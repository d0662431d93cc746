"""Writes the golden files beside this script with NumPy: python tests/io/golden/make.py

The tests compare bytes, so the files are committed; run this again only to add cases.
"""

import struct
import zipfile
from pathlib import Path

import numpy as np

here = Path(__file__).parent

TYPES = [
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]


def counting(dtype, shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def save(name, array):
    np.save(here / f"{name}.npy", array)


def save_version(name, array, version):
    with open(here / f"{name}.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)


def save_npy():
    for dtype in TYPES:
        save(f"type_{dtype}", counting(dtype, (2, 3)))
    for shape in [(), (5,), (0,), (2, 0, 3), (1, 2, 3, 4)]:
        save("shape_" + "x".join(map(str, shape)), counting("float64", shape))
    for version in [(2, 0), (3, 0)]:
        save_version(f"version_{version[0]}", counting("float64", (2, 3)), version)
    # What headlens refuses, or accepts although NumPy calls it Fortran order.
    save("bad_fortran", np.asfortranarray(counting("float64", (2, 3))))
    with open(here / "fortran_column.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": True, "shape": (3, 1)})
        file.write(struct.pack("<3d", 0, 1, 2))
    save("bad_big_endian", counting(">f8", (3,)))
    save("bad_complex", counting("complex128", (3,)))
    save("bad_half", counting("float16", (3,)))
    save("bad_string", np.array(["a", "b"]))
    save("bad_date", np.array(["2020-01-01"], dtype="datetime64[D]"))
    save("bad_object", np.array([{"a": 1}], dtype=object))
    save("bad_structured", np.zeros(2, dtype=[("a", "<f8"), ("b", "<i4")]))


def save_npz():
    arrays = {
        "keys": counting("float64", (2, 3)),
        "offsets": counting("int64", (4,)),
        "y": counting("float32", ()),
        "é": counting("bool", (2,)),
    }
    np.savez(here / "stored.npz", **arrays)
    np.savez_compressed(here / "deflated.npz", **arrays)
    np.savez(here / "none.npz")
    np.savez_compressed(here / "zeros.npz", zeros=np.zeros(1 << 17))
    with zipfile.ZipFile(here / "bad_lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("keys.npy", (here / "type_float64.npy").read_bytes())


if __name__ == "__main__":
    save_npy()
    save_npz()
