// The features of a model on the device: a map from tokens to rows of Phi. Columns are ordered for speed,
// not as in the model file; column_of() translates. A row does not depend on the sets that are computed with
// it.
#pragma once

#include <memory>
#include <vector>

#include "cuda/features/rfa.hpp"
#include "cuda/features/tokens.hpp"

namespace headlens::cuda {

template <class T>
class FeatureMap {
 public:
  virtual ~FeatureMap() = default;
  virtual Index columns() const = 0;  // padded with columns of zeros
  virtual Index heads() const = 0;
  virtual Index width() const = 0;  // columns of a head: D, or 1
  virtual Index column_of(Index head, Index coordinate) const = 0;
  // Features of the sets [first, first + count) of `tokens` to out (count, columns()).
  virtual void compute(const Tokens<T>& tokens, Index first, Index count, T* out) = 0;
  // Waits, and throws Error, which names the sets, if a feature so far was not finite.
  virtual void check_finite(const Sets& sets) = 0;
};

// `heads` as in the model file. `keys` is N, used by mlp only.
template <class T>
std::unique_ptr<FeatureMap<T>> make_head_map(const FeatureOptions& options, Index dim, Index keys,
                                             const Array& heads);

// Columns of that map, and what it takes of the device beside tokens and features.
Index head_columns(const FeatureOptions& options, Index dim);
double head_map_bytes(const FeatureOptions& options, Index dim, Index keys);

}  // namespace headlens::cuda
