// The features of a model: a map from sets to rows of Phi, computed in blocks and never held whole unless the
// caller does. Columns are ordered for speed, not as in the model file; column_of() translates.
#pragma once

#include <memory>
#include <vector>

#include "base/cpu.hpp"
#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/sets.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

template <class T>
class HeadMap;

template <class T>
class FeatureMap {
 public:
  // `heads` as in the model file. `keys` is N, used by mlp only.
  static std::unique_ptr<HeadMap<T>> make(const FeatureOptions& options, Index dim, Index keys,
                                          const Array& heads, SimdLevel level = simd_level());
  virtual ~FeatureMap() = default;

  Index columns() const { return blocks() * block_columns(); }  // padded with columns of zeros
  virtual Index blocks() const = 0;                             // the unit in which columns are computed
  virtual Index block_columns() const = 0;
  virtual Index heads() const = 0;
  virtual Index width() const = 0;  // columns of a head: D, or 1 for mlp
  virtual Index column_of(Index head, Index coordinate) const = 0;

  // Features of the sets [begin, end), column blocks [block_begin, block_end), into `out`. Throws Error if a
  // feature overflows, naming the sets. Rows do not depend on the range they are computed in.
  virtual void compute(const Sets& sets, Index begin, Index end, Index block_begin, Index block_end,
                       MatrixView<T> out, int threads) const = 0;

  void compute(const Sets& sets, Index begin, Index end, MatrixView<T> out, int threads) const {
    compute(sets, begin, end, 0, blocks(), out, threads);
  }
};

// Features of heads that are drawn one by one, so that a few of them can be multiplied while they are in
// cache.
template <class T>
class HeadMap : public FeatureMap<T> {
 public:
  // out (end - begin, q) = Phi[begin, end) V on the calling thread; values (q, columns()) is V^T, in
  // memory aligned as that of a Matrix. Products are summed in double. Throws Error if a feature overflows.
  // Rows do not depend on the range if `begin` is a multiple of tile_sets().
  virtual void multiply(const Sets& sets, Index begin, Index end, MatrixView<const double> values,
                        MatrixView<double> out) const = 0;
  virtual Index tile_sets() const = 0;
};

}  // namespace headlens::cpu
