// Which labels count. Outputs whose labels are missing in the same rows are one group: a layer of which rows
// are missing has one group, a layer of which single labels are missing has up to one group per output.
#pragma once

#include <vector>

#include "comm/communicator.hpp"
#include "linalg/matrix.hpp"

namespace headlens::backend {

class SeenLabels {
 public:
  struct Group {
    std::vector<Index> outputs;
    std::vector<Index> missing;  // rows
  };
  // weights (n k, e) of 1 and 0; all where it has no rows. Over ranks, of the rows of this one: groups are
  // the same on every rank.
  SeenLabels(MatrixView<const double> weights, comm::Communicator& ranks);

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

}  // namespace headlens::backend
