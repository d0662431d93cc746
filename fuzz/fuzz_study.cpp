#include "entry_points.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    headlens::fuzz::read_study(std::as_bytes(std::span(data, size)));
  } catch (const headlens::Error&) {
  }
  return 0;
}
