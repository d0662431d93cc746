#include "backend/seen_labels.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace headlens::backend {

namespace {

std::vector<Index> missing_rows(MatrixView<const double> weights, Index output) {
  std::vector<Index> out;
  for (Index i = 0; i < weights.rows; ++i)
    if (weights(i, output) == 0) out.push_back(i);
  return out;
}

}  // namespace

SeenLabels::SeenLabels(MatrixView<const double> weights, comm::Communicator& ranks) {
  if (weights.rows == 0) return;
  // The number of the list of rows that an output misses here: 0 for none. Outputs whose numbers are the same
  // on every rank are one group.
  std::map<std::vector<Index>, std::int64_t> lists{{{}, 0}};
  std::vector<std::int64_t> own;
  for (Index j = 0; j < weights.cols; ++j)
    own.push_back(lists.try_emplace(missing_rows(weights, j), std::ssize(lists)).first->second);
  const std::vector<std::int64_t> all = comm::gather(ranks, std::span<const std::int64_t>(own));
  if (std::all_of(all.begin(), all.end(), [](std::int64_t number) { return number == 0; })) return;
  std::map<std::vector<std::int64_t>, std::vector<Index>> outputs;
  for (Index j = 0; j < weights.cols; ++j) {
    std::vector<std::int64_t> numbers;
    for (Index r = 0; r < ranks.size(); ++r)
      numbers.push_back(all[static_cast<std::size_t>(r * weights.cols + j)]);
    outputs[std::move(numbers)].push_back(j);
  }
  for (auto& [numbers, group] : outputs) groups_.push_back({group, missing_rows(weights, group[0])});
}

}  // namespace headlens::backend
