// Kernels of infinitely many heads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/gram.hpp"
#include "headlens/array.hpp"

namespace headlens::backend {

// K of the training sets as a Gram matrix on the dual side, centred if there is an intercept:
// H K H, H = I - 1 1^T / n.
struct KernelGram {
  std::unique_ptr<Gram> gram;
  std::vector<double> means;  // of the columns of K, before centring; zeros without an intercept
};

// K(a, b) by a closed form.
class ClosedKernel {
 public:
  virtual ~ClosedKernel() = default;
  virtual std::string method() const = 0;
  virtual double buffer_bytes() const = 0;     // beside the result
  virtual void compute(Array& out) const = 0;  // (a, b), float32 or float64. Error if an entry overflows
};

// Sums of products of features over some of many heads, which come in blocks: for kernels without a closed
// form.
class HeadProducts {
 public:
  static constexpr double kHeldFeatures = 1 << 22;  // about so many features at once: 32 MiB

  virtual ~HeadProducts() = default;
  virtual Index blocks() const = 0;
  virtual Index block_heads() const = 0;  // the last block may have fewer
  // sum over the heads of the blocks [first, last) of <phi_m(x), phi_m(x')>, (a, b); for one list of sets the
  // lower triangle only. Good until the next call.
  virtual MatrixView<const double> sum(Index first, Index last) = 0;
};

}  // namespace headlens::backend
