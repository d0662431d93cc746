// What a model says of sets, before it becomes a label or a prediction: Phi V, or for infinitely many heads
// sum_i K(x, z_i) a_i. Packed once, applied to blocks of sets. The scores of a set do not depend on threads,
// nor on the block that holds the set.
#pragma once

#include "headlens/model.hpp"
#include "headlens/sets.hpp"
#include "linalg/matrix.hpp"

namespace headlens::backend {

class Scorer {
 public:
  virtual ~Scorer() = default;
  // Scores (last - first, q) of the sets [first, last), without the intercept, on `threads` threads. first: a
  // multiple of tile_sets() in the file, unless the sets are a block that begins at one.
  virtual void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out,
                        int threads) const = 0;

  virtual Index tile_sets() const = 0;
  virtual Index largest_block() const = 0;     // sets
  virtual bool wants_all_threads() const = 0;  // for one block at a time; else a thread takes a block
  virtual double packed_bytes() const = 0;
  virtual double buffer_bytes(Index sets, int threads) const = 0;  // beside the scores of a block
};

}  // namespace headlens::backend
