// NumPy arrays and tensors on a device in and out, without copies: headlens::Array borrows the memory of one,
// and lends its own.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "headlens/array.hpp"

namespace headlens::python {

namespace nb = nanobind;

// C-ordered, in main memory; the package converts whatever is not.
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

Array borrow(const AnyArray& array);

// From a capsule of DLPack, on a device of CUDA, which has been made for the legacy default stream.
using DeviceCapsule = nb::ndarray<nb::ro>;
Array borrow_from_cuda(const DeviceCapsule& array, const std::string& name);

nb::object to_numpy(Array array);            // a result: the caller may write to it
nb::object to_numpy_or_device(Array array);  // what lies on a device stays there and speaks DLPack
nb::object to_numpy_view(Array array);       // a part of something that must not change: read-only
nb::object to_numpy(const std::vector<std::int64_t>& values);

}  // namespace headlens::python
