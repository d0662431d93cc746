// Sums over the rows of a long pass, kept in a file so that a run that was killed goes on from its last whole
// block. The sums are kept bit for bit, so that both end with the same bytes.
//
//   "HLCKPT1\n", length of the identity, identity, next row, bytes of all sums, the sums, CRC-32 of all that
//
// The file appears whole or not at all. When to write it is the one thing that a clock decides: at most
// four times per second, and so that writing takes 5% of the time at most.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "headlens/array.hpp"

namespace headlens::io {

class Checkpoint {
 public:
  // Does nothing where the folder is empty. The folder is made if it is missing. `sums` outlive this.
  Checkpoint(const std::filesystem::path& folder, const std::string& name, std::string identity,
             std::vector<std::span<std::byte>> sums);

  // The row to go on with, and the sums up to there; 0 if there is no file. Error if the file is damaged or
  // belongs to something else.
  Index resume();
  void reached(Index next_row);  // writes, if it is time

 private:
  void write(Index next_row);

  using Clock = std::chrono::steady_clock;
  std::filesystem::path file_;
  std::string identity_;
  std::vector<std::span<std::byte>> sums_;
  Clock::time_point written_ = Clock::now();
  Clock::duration wait_ = std::chrono::milliseconds(250);
};

// How the files of a rank begin.
std::string checkpoint_name(int rank, int ranks);

}  // namespace headlens::io
