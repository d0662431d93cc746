#include "arrays.hpp"

#include <cstdint>
#include <memory>

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

template <class... Flags>
nb::object lend(Array array) {
  auto* owner = new Array(std::move(array));
  const nb::capsule keep(owner, [](void* p) noexcept { delete static_cast<Array*>(p); });
  std::vector<std::size_t> shape(owner->shape().begin(), owner->shape().end());
  return nb::cast(nb::ndarray<nb::numpy, Flags...>(owner->raw(), shape.size(), shape.data(), keep, nullptr,
                                                   dlpack_of(owner->dtype())));
}

}  // namespace

Array borrow(const AnyArray& array) {
  std::vector<Index> shape(array.ndim());
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = static_cast<Index>(array.shape(i));
  // The last Array that shares the memory may die in a call that has released the interpreter.
  auto* keep = new AnyArray(array);
  const auto release = [keep](void*) {
    const nb::gil_scoped_acquire gil;
    delete keep;
  };
  return {dtype_of(array.dtype()), std::move(shape),
          std::shared_ptr<void>(const_cast<void*>(array.data()), release)};
}

nb::object to_numpy(Array array) { return lend<>(std::move(array)); }
nb::object to_numpy_view(Array array) { return lend<nb::ro>(std::move(array)); }

nb::object to_numpy(const std::vector<std::int64_t>& values) {
  return to_numpy(Array::from(values, {static_cast<Index>(values.size())}));
}

}  // namespace headlens::python
