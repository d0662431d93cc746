// The kernels of random-feature attention with infinitely many heads:
//
//   K(x, x') = lim (1/M) sum_m <phi_m(x), phi_m(x')>
//            = 1/(N N') sum_ij <xt_i, xt'_j> E[score(xt_0^T W xt_i) score(xt'_0^T W xt'_j)],
//
// the mean over heads of the products of the features of model.hpp; mlp: E[relu(<w, x>) relu(<w, x'>)]. relu,
// step and exp have closed forms; softmax, and heads of a given rank, are estimated from random heads.
// docs/kernels.md has the mathematics.
#pragma once

#include <optional>
#include <string>

#include "headlens/array.hpp"
#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/sets.hpp"

namespace headlens {

struct KernelOptions {
  FeatureOptions features;  // heads: how many are drawn where there is no closed form; else ignored
  bool exact = false;  // biased relu by Owen's T for every pair, instead of a series wherever one is as good

  void validate() const;
};

struct Kernel {
  Array values;                          // (n, n') in the precision of the features
  std::string method;                    // in words
  std::optional<double> standard_error;  // Monte Carlo: root mean square over the entries; else none
};

// One set of sets: symmetric, computed once. Throws Error if an entry overflows; never returns NaN.
[[nodiscard]] Kernel attention_kernel(const Sets& sets, const KernelOptions& options,
                                      const Execution& execution);
[[nodiscard]] Kernel attention_kernel(const Sets& a, const Sets& b, const KernelOptions& options,
                                      const Execution& execution);

}  // namespace headlens
