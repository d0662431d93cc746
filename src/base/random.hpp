// Counter-based random numbers (Philox 4x64-10). A stream is named by (seed, purpose, index): the seed and
// the purpose are the key, the index and the position are the counter. Any number can be had without the ones
// before it, so results do not depend on threads, on block sizes or on resuming.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace headlens {

class Stream {
 public:
  Stream(std::uint64_t seed, std::string_view purpose, std::uint64_t index = 0);

  static constexpr int kBlock = 4;  // draws to a block; a normal takes one, since two come at once
  Stream from_block(std::uint64_t block) const;  // the same stream from there, as if all before were drawn

  std::uint64_t bits();
  double uniform();                          // in [0, 1), 53 bits
  double normal();                           // Box-Muller, in pairs
  std::uint64_t below(std::uint64_t bound);  // uniform in [0, bound), bound >= 1, without bias

 private:
  std::array<std::uint64_t, 2> key_;
  std::uint64_t index_;
  std::uint64_t block_ = 0;
  std::array<std::uint64_t, 4> buffer_{};
  int used_ = 4;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace headlens
