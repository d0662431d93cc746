#include "headlens/array.hpp"

#include <cstdlib>
#include <cstring>

#include "headlens/device_memory.hpp"
#include "headlens/error.hpp"

namespace headlens {

std::size_t item_bytes(DType type) {
  switch (type) {
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
    case DType::i16:
    case DType::u16:
      return 2;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return 8;
  }
  throw Bug("item_bytes: unknown type");
}

std::string name(DType type) {
  switch (type) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::i8:
      return "int8";
    case DType::i16:
      return "int16";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
    case DType::u8:
      return "uint8";
    case DType::u16:
      return "uint16";
    case DType::u32:
      return "uint32";
    case DType::u64:
      return "uint64";
    case DType::boolean:
      return "bool";
  }
  throw Bug("name: unknown type");
}

template <>
DType dtype_of<float>() {
  return DType::f32;
}
template <>
DType dtype_of<double>() {
  return DType::f64;
}
template <>
DType dtype_of<std::int8_t>() {
  return DType::i8;
}
template <>
DType dtype_of<std::int16_t>() {
  return DType::i16;
}
template <>
DType dtype_of<std::int32_t>() {
  return DType::i32;
}
template <>
DType dtype_of<std::int64_t>() {
  return DType::i64;
}
template <>
DType dtype_of<std::uint8_t>() {
  return DType::u8;
}
template <>
DType dtype_of<std::uint16_t>() {
  return DType::u16;
}
template <>
DType dtype_of<std::uint32_t>() {
  return DType::u32;
}
template <>
DType dtype_of<std::uint64_t>() {
  return DType::u64;
}

std::string format_shape(const std::vector<Index>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

namespace {

void check_shape(DType type, const std::vector<Index>& shape) {
  std::size_t bytes = item_bytes(type);
  for (const Index n : shape) {
    require(n >= 0, "array: negative dimension in shape ", format_shape(shape));
    require(
        !__builtin_mul_overflow(bytes, static_cast<std::size_t>(n), &bytes) && bytes < (std::size_t{1} << 62),
        "array: shape ", format_shape(shape), " is too large");
  }
}

}  // namespace

Array::Array(DType type, std::vector<Index> shape) : type_(type), shape_(std::move(shape)) {
  check_shape(type_, shape_);
  // calloc, so that a large array costs memory only where it is written.
  bytes_ = std::shared_ptr<void>(std::calloc(bytes() ? bytes() : 1, 1), std::free);
  if (!bytes_)
    throw Error(ErrorCode::memory, join("out of memory: an array of ", bytes(), " bytes was refused"));
}

Array::Array(DType type, std::vector<Index> shape, std::shared_ptr<void> bytes)
    : type_(type), shape_(std::move(shape)), bytes_(std::move(bytes)) {
  check_shape(type_, shape_);
}

Array Array::on_device(DType type, std::vector<Index> shape, std::shared_ptr<const DeviceMemory> memory) {
  ensure(memory != nullptr, "an array of a device has no memory");
  Array out(type, std::move(shape), nullptr);
  out.device_ = std::move(memory);
  return out;
}

void Array::refuse_device() const {
  throw Error(ErrorCode::misuse,
              message("array: ", describe(), " lies on ", device_->place(),
                      ", where the processor reads nothing: copy it to main memory first, or ask for ",
                      option("backend", "cuda"), " in a call that reads it there"));
}

Index Array::size() const {
  Index total = 1;
  for (const Index n : shape_) total *= n;
  return total;
}

std::string Array::describe() const { return name(type_) + " " + format_shape(shape_); }

double Array::at(Index flat) const {
  const auto i = static_cast<std::size_t>(flat);
  switch (type_) {
    case DType::f32:
      return data<float>()[i];
    case DType::f64:
      return data<double>()[i];
    case DType::i8:
      return data<std::int8_t>()[i];
    case DType::i16:
      return data<std::int16_t>()[i];
    case DType::i32:
      return data<std::int32_t>()[i];
    case DType::i64:
      return static_cast<double>(data<std::int64_t>()[i]);
    case DType::u8:
      return data<std::uint8_t>()[i];
    case DType::u16:
      return data<std::uint16_t>()[i];
    case DType::u32:
      return data<std::uint32_t>()[i];
    case DType::u64:
      return static_cast<double>(data<std::uint64_t>()[i]);
    case DType::boolean:
      return static_cast<const std::uint8_t*>(raw())[i] != 0;
  }
  throw Bug("Array::at: unknown type");
}

std::vector<double> Array::to_doubles() const {
  std::vector<double> out(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = at(static_cast<Index>(i));
  return out;
}

template <class T>
const T* Array::data() const {
  if (type_ != dtype_of<T>())  // texts cost more than the question, which loops ask
    ensure(false, "array of ", name(type_), " read as ", name(dtype_of<T>()));
  return static_cast<const T*>(raw());
}

template <class T>
T* Array::data() {
  if (type_ != dtype_of<T>()) ensure(false, "array of ", name(type_), " written as ", name(dtype_of<T>()));
  return static_cast<T*>(raw());
}

template <class T>
Array Array::from(const std::vector<T>& values, std::vector<Index> shape) {
  Array out(dtype_of<T>(), std::move(shape));
  ensure(out.size() == static_cast<Index>(values.size()), "array: ", values.size(), " values for ",
         out.describe());
  if (!values.empty()) std::memcpy(out.raw(), values.data(), out.bytes());
  return out;
}

#define HEADLENS_INSTANTIATE(T)             \
  template const T* Array::data<T>() const; \
  template T* Array::data<T>();             \
  template Array Array::from<T>(const std::vector<T>&, std::vector<Index>);
HEADLENS_INSTANTIATE(float)
HEADLENS_INSTANTIATE(double)
HEADLENS_INSTANTIATE(std::int8_t)
HEADLENS_INSTANTIATE(std::int16_t)
HEADLENS_INSTANTIATE(std::int32_t)
HEADLENS_INSTANTIATE(std::int64_t)
HEADLENS_INSTANTIATE(std::uint8_t)
HEADLENS_INSTANTIATE(std::uint16_t)
HEADLENS_INSTANTIATE(std::uint32_t)
HEADLENS_INSTANTIATE(std::uint64_t)
#undef HEADLENS_INSTANTIATE

}  // namespace headlens
