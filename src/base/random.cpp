#include "base/random.hpp"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>

namespace headlens {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

Stream::Stream(std::uint64_t seed, std::string_view purpose, std::uint64_t index)
    : key_{seed, fnv1a(purpose)}, index_(index) {}

Stream Stream::from_block(std::uint64_t block) const {
  Stream out = *this;
  out.block_ = block;
  out.used_ = kBlock;
  out.has_spare_ = false;
  return out;
}

std::uint64_t Stream::bits() {
  if (used_ == 4) {
    const r123::Philox4x64::ctr_type counter{{block_++, index_, 0, 0}};
    const r123::Philox4x64::key_type key{{key_[0], key_[1]}};
    const auto block = r123::Philox4x64()(counter, key);
    for (std::size_t i = 0; i < 4; ++i) buffer_[i] = block[i];
    used_ = 0;
  }
  return buffer_[static_cast<std::size_t>(used_++)];
}

double Stream::uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

double Stream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  // 1 - uniform() lies in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::uint64_t Stream::below(std::uint64_t bound) {
  // Draws under 2^64 mod bound would favour small results: reject them.
  const std::uint64_t reject = (0 - bound) % bound;
  std::uint64_t draw = bits();
  while (draw < reject) draw = bits();
  return draw % bound;
}

}  // namespace headlens
