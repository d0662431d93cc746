// A module for tests: what the extension returns of an array on a device, without a device.
#include <nanobind/stl/pair.h>

#include <atomic>
#include <cstdint>

#include "../../python/src/arrays.hpp"
#include "headlens/device_memory.hpp"

namespace {

using namespace headlens;

std::atomic<int> freed{0}, freed_with_the_interpreter{0};

// Of device 1. Nobody may read the address.
class PretendedMemory final : public DeviceMemory {
 public:
  ~PretendedMemory() override {
    ++freed;
    freed_with_the_interpreter += PyGILState_Check();
  }
  int number() const override { return 1; }
  const void* address() const override { return reinterpret_cast<const void*>(std::uintptr_t{64}); }
  Index first_non_finite(DType, Index count) const override { return count; }
  void fetch(const std::vector<Part>&, void*) const override {}
};

}  // namespace

NB_MODULE(headlens_test_lender, m) {
  m.def("on_device", [](Index rows, Index columns) {
    return python::to_numpy_or_device(
        Array::on_device(DType::f32, {rows, columns}, std::make_shared<PretendedMemory>()));
  });
  m.def("freed", [] { return std::pair(freed.load(), freed_with_the_interpreter.load()); });
}
