// What lies on a device comes in as an array, once the back end has seen that it does lie there.
#include <cstdint>

#include "backend/backend.hpp"
#include "headlens/device_memory.hpp"
#include "headlens/error.hpp"

namespace headlens {

void check_cuda_device(int number, const std::string& name) {
  const int used = backend::cuda_machine().device_number();
  require(number == used, name, ": lies on cuda:", number, ", and headlens works on cuda:", used,
          ": copy it there, or let CUDA_VISIBLE_DEVICES show that device alone");
}

Array cuda_array(DType type, std::vector<Index> shape, std::shared_ptr<void> address, int number,
                 const std::string& name) {
  check_cuda_device(number, name);
  const Array form(type, shape, nullptr);  // refuses shapes that cannot be
  require(form.is_float(), name, ": ", form.describe(), " on a device given, expected float32 or float64");
  require(reinterpret_cast<std::uintptr_t>(address.get()) % item_bytes(type) == 0, name, ": ",
          form.describe(), " on a device begins at an address that is no multiple of ", item_bytes(type),
          " bytes: give a copy of it");
  return Array::on_device(type, std::move(shape),
                          backend::cuda_machine().borrow(std::move(address), form.bytes()));
}

}  // namespace headlens
