// Which labels count. Outputs whose labels are missing in the same rows are one group: a layer of which rows
// are missing has one group, a layer of which single labels are missing has up to one group per output.
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens::cpu {

class SeenLabels {
 public:
  struct Group {
    std::vector<Index> outputs;
    std::vector<Index> missing;  // rows
  };
  SeenLabels() = default;                                 // all
  explicit SeenLabels(MatrixView<const double> weights);  // (n k, e) of 1 and 0; all where it has no rows

  bool all() const { return groups_.empty(); }
  const std::vector<Group>& groups() const { return groups_; }
  // Sets what does not count to zero.
  template <class T>
  void hide(MatrixView<T> z) const {
    for (const Group& group : groups_)
      for (const Index row : group.missing)
        for (const Index output : group.outputs) z(row, output) = T(0);
  }

 private:
  std::vector<Group> groups_;
};

}  // namespace headlens::cpu
