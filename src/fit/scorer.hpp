// What a model says of sets, before it becomes a label or a prediction: b + Phi V, or for infinitely many
// heads b + sum_i K(x, z_i) a_i. Packed once, applied to blocks of sets; of their features only as many are
// held as fit in cache. The scores of a set do not depend on threads, nor on the block it is in.
#pragma once

#include <memory>

#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/sets.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

class Scorer {
 public:
  // max_keys: the largest of all sets to come. Keeps a reference to the model.
  static std::unique_ptr<Scorer> make(const Model& model, Index max_keys);
  virtual ~Scorer() = default;

  // Scores (last - first, q) of the sets [first, last) on the threads of `execution`. first: a multiple of
  // tile_sets() in the file, unless the sets are a block that begins at one. Throws Error if one overflows.
  void score(const Sets& sets, Index first, Index last, MatrixView<double> out,
             const Execution& execution) const;

  virtual Index tile_sets() const = 0;
  virtual Index largest_block() const = 0;     // sets
  virtual bool wants_all_threads() const = 0;  // for one block at a time; else a thread takes a block
  virtual double packed_bytes() const = 0;
  virtual double buffer_bytes(Index sets, int threads) const = 0;  // beside the scores of a block

 protected:
  explicit Scorer(const Model& model) : model_(model) {}
  // Without b.
  virtual void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out,
                        const Execution& execution) const = 0;
  const Model& model_;
};

}  // namespace headlens
