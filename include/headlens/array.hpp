// A typed, C-ordered, reference-counted array: what files hold and what crosses the public interface.
// It may own its bytes or keep another owner alive (a NumPy buffer, a mapped file), in main memory or in that
// of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headlens {

using Index = std::ptrdiff_t;

class DeviceMemory;  // device_memory.hpp

enum class DType { f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

std::size_t item_bytes(DType type);
std::string name(DType type);  // "float32", "int64", ...

template <class T>
DType dtype_of();  // float, double and the fixed-width integers

class Array {
 public:
  Array() = default;
  Array(DType type, std::vector<Index> shape);  // zero-filled; refuses shapes whose byte count overflows
  Array(DType type, std::vector<Index> shape, std::shared_ptr<void> bytes);  // borrows

  // In the memory of a device, which the host never reads: raw(), data() and at() are then an Error.
  static Array on_device(DType type, std::vector<Index> shape, std::shared_ptr<const DeviceMemory> memory);

  template <class T>
  static Array from(const std::vector<T>& values, std::vector<Index> shape);

  DType dtype() const { return type_; }
  const std::vector<Index>& shape() const { return shape_; }
  Index rank() const { return static_cast<Index>(shape_.size()); }
  Index dim(Index axis) const { return shape_.at(static_cast<std::size_t>(axis)); }
  Index size() const;  // number of items
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * item_bytes(type_); }
  bool empty() const { return size() == 0; }
  bool is_float() const { return type_ == DType::f32 || type_ == DType::f64; }

  const DeviceMemory* device() const { return device_.get(); }  // null: in main memory

  const void* raw() const {
    if (device_) refuse_device();
    return bytes_.get();
  }
  void* raw() {
    if (device_) refuse_device();
    return bytes_.get();
  }
  template <class T>
  const T* data() const;  // throws Bug unless dtype() is T
  template <class T>
  T* data();

  double at(Index flat) const;             // any type, converted
  std::vector<double> to_doubles() const;  // a converted copy
  std::string describe() const;            // "float64 (20, 4, 3)"

 private:
  [[noreturn]] void refuse_device() const;

  DType type_ = DType::f64;
  std::vector<Index> shape_{0};
  std::shared_ptr<void> bytes_;  // null where the array lies on a device
  std::shared_ptr<const DeviceMemory> device_;
};

std::string format_shape(const std::vector<Index>& shape);  // "(20, 4, 3)"

}  // namespace headlens
