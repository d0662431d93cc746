#include "cpu/layer/seen_labels.hpp"

#include <map>
#include <utility>

namespace headlens::cpu {

SeenLabels::SeenLabels(MatrixView<const double> weights) {
  std::map<std::vector<Index>, std::vector<Index>> outputs;  // by the rows that are missing
  bool any = false;
  for (Index j = 0; j < weights.cols; ++j) {
    std::vector<Index> missing;
    for (Index i = 0; i < weights.rows; ++i)
      if (weights(i, j) == 0) missing.push_back(i);
    any = any || !missing.empty();
    outputs[std::move(missing)].push_back(j);
  }
  if (!any) return;
  for (auto& [missing, own] : outputs) groups_.push_back({std::move(own), missing});
}

}  // namespace headlens::cpu
