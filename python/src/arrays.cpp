#include "arrays.hpp"

#include <cstdint>
#include <memory>

#include "headlens/device_memory.hpp"
#include "headlens/error.hpp"

namespace headlens::python {
namespace {

using nb::dlpack::dtype_code;

DType dtype_of(const nb::dlpack::dtype& type) {
  const auto code = static_cast<dtype_code>(type.code);
  const bool one_byte = type.bits == 8;
  if (code == dtype_code::Float && type.bits == 32) return DType::f32;
  if (code == dtype_code::Float && type.bits == 64) return DType::f64;
  if (code == dtype_code::Bool && one_byte) return DType::boolean;
  if (code == dtype_code::Int)
    return one_byte ? DType::i8 : type.bits == 16 ? DType::i16 : type.bits == 32 ? DType::i32 : DType::i64;
  if (code == dtype_code::UInt)
    return one_byte ? DType::u8 : type.bits == 16 ? DType::u16 : type.bits == 32 ? DType::u32 : DType::u64;
  throw Error(ErrorCode::misuse, "array: its type is not one that headlens knows");
}

nb::dlpack::dtype dlpack_of(DType type) {
  switch (type) {
    case DType::f32:
      return nb::dtype<float>();
    case DType::f64:
      return nb::dtype<double>();
    case DType::i64:
      return nb::dtype<std::int64_t>();
    default:
      throw Bug("an array of type " + name(type) + " has no way to Python");
  }
}

template <class Imported>
std::vector<Index> shape_of(const Imported& array) {
  std::vector<Index> shape(array.ndim());
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = static_cast<Index>(array.shape(i));
  return shape;
}

// The memory, with all that keeps it.
template <class Imported>
std::shared_ptr<void> memory_of(const Imported& array) {
  // The last Array that shares the memory may die in a call that has released the interpreter.
  auto* keep = new Imported(array);
  const auto release = [keep](void*) {
    const nb::gil_scoped_acquire gil;
    delete keep;
  };
  return {const_cast<void*>(array.data()), release};
}

bool is_in_c_order(const DeviceCapsule& array) {
  std::int64_t expected = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) != 1 && array.stride(axis) != expected) return array.size() == 0;
    expected *= static_cast<std::int64_t>(array.shape(axis));
  }
  return true;
}

template <class... Flags>
nb::object lend(Array array) {
  auto* owner = new Array(std::move(array));
  const nb::capsule keep(owner, [](void* p) noexcept { delete static_cast<Array*>(p); });
  std::vector<std::size_t> shape(owner->shape().begin(), owner->shape().end());
  return nb::cast(nb::ndarray<nb::numpy, Flags...>(owner->raw(), shape.size(), shape.data(), keep, nullptr,
                                                   dlpack_of(owner->dtype())));
}

}  // namespace

Array borrow(const AnyArray& array) { return {dtype_of(array.dtype()), shape_of(array), memory_of(array)}; }

Array borrow_from_cuda(const DeviceCapsule& array, const std::string& name) {
  require(array.device_type() == nb::device::cuda::value, name,
          ": it is said to lie on a device of CUDA, and ", "its memory has DLPack's device type ",
          array.device_type(), ", expected ", nb::device::cuda::value);
  const DType type = dtype_of(array.dtype());
  std::vector<Index> shape = shape_of(array);
  require(is_in_c_order(array), name, ": ", headlens::name(type), " ", format_shape(shape),
          " on a device given whose items do not lie in C order: give .contiguous() of PyTorch, "
          "ascontiguousarray() of CuPy");
  std::shared_ptr<void> address = memory_of(array);
  const int number = array.device_id();
  const nb::gil_scoped_release release;  // what computes the tensor may take its time
  return cuda_array(type, std::move(shape), std::move(address), number, name);
}

nb::object to_numpy(Array array) { return lend<>(std::move(array)); }
nb::object to_numpy_or_device(Array array) {
  if (!array.device()) return to_numpy(std::move(array));
  auto* owner = new Array(std::move(array));
  const nb::capsule keep(owner, [](void* p) noexcept {
    const nb::gil_scoped_release release;  // who frees memory of a device waits for the device
    delete static_cast<Array*>(p);
  });
  const std::vector<std::size_t> shape(owner->shape().begin(), owner->shape().end());
  const DeviceMemory& memory = *owner->device();
  // Not nb::ndarray<>, which comes out as a bare capsule: from_dlpack() of other libraries needs the methods.
  return nb::cast(nb::ndarray<nb::array_api>(const_cast<void*>(memory.address()), shape.size(), shape.data(),
                                             keep, nullptr, dlpack_of(owner->dtype()),
                                             nb::device::cuda::value, memory.number()));
}
nb::object to_numpy_view(Array array) { return lend<nb::ro>(std::move(array)); }

nb::object to_numpy(const std::vector<std::int64_t>& values) {
  return to_numpy(Array::from(values, {static_cast<Index>(values.size())}));
}

}  // namespace headlens::python
