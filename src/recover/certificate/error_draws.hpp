// What random errors of the labels would do to parameters and W: draws of noise, each followed by one solve,
// and how far the draws spread.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "backend/layer_problem.hpp"
#include "recover/candidate.hpp"

namespace headlens::recovery {

// dparameters and dW for labels with noise of deviation one.
struct ErrorDraw {
  Matrix<double> parameters, w;
};

struct DrawOptions {
  int count = 3;
  double mu = 0;  // of the solves
  std::uint64_t seed = 0;
  std::string_view stream;  // of the noise
  Index heads = 0;          // for the progress
  // (n k, e), where given: what the noise of every label is multiplied by.
  const Matrix<double>* sizes = nullptr;
};
// At the point that the model was moved to. Empty if a solve did not get there.
std::vector<ErrorDraw> draw_errors(const backend::LayerProblem& problem, backend::LinearModel& model,
                                   const backend::LayerPoint& point, const DrawOptions& options,
                                   Effort& effort);

// Of the covariance of one error: its trace, and the 95% point of |error|^2 over the trace (error_bars.hpp).
struct Spread {
  double trace = 0, quantile = 1;
};
// From the products <draw r, draw s> of errors of so many entries.
Spread spread_of(const Matrix<double>& products, Index entries);

template <class Error, class Product>
Matrix<double> products_of(const std::vector<Error>& draws, Product&& product) {
  const auto count = static_cast<Index>(draws.size());
  Matrix<double> out(count, count);
  for (Index r = 0; r < count; ++r)
    for (Index s = 0; s <= r; ++s)
      out(r, s) = out(s, r) = product(draws[static_cast<std::size_t>(r)], draws[static_cast<std::size_t>(s)]);
  return out;
}

}  // namespace headlens::recovery
