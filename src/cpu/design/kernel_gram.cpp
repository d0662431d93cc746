#include "cpu/design/kernel_gram.hpp"

#include <limits>
#include <numeric>

#include "base/parallel.hpp"
#include "cpu/design/design_matrix.hpp"
#include "cpu/design/exact_gram.hpp"
#include "cpu/kernels/closed_form.hpp"

namespace headlens::cpu {
namespace {

// Replaces the lower triangle of K by that of H K H; the means of the columns of K.
std::vector<double> centre(MatrixView<double> kernel, int threads) {
  const Index n = kernel.rows;
  std::vector<double> means(static_cast<std::size_t>(n), 0.0);
  parallel_for(threads, n, [&](Index i, int) {
    double& mean = means[static_cast<std::size_t>(i)];
    for (Index j = 0; j < n; ++j) mean += kernel(i, j);
    mean /= static_cast<double>(n);
  });
  const double all = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(n);
  parallel_for(threads, n, [&](Index i, int) {
    const double mean = means[static_cast<std::size_t>(i)];
    for (Index j = 0; j <= i; ++j) kernel(i, j) -= mean + means[static_cast<std::size_t>(j)] - all;
  });
  return means;
}

}  // namespace

backend::KernelGram make_kernel_gram(const backend::FeatureSource& source, MatrixView<const double> targets,
                                     const backend::Context& context) {
  const FeatureOptions& f = source.features;
  const Index n = source.sets.count();
  const TokenSource tokens(source.sets, f.kind, f.positions, f.precision);
  Matrix<double> kernel(n, n);
  ClosedFormKernel(f, false).compute_symmetric(tokens, kernel.view(), context.execution);
  require_finite_squares(trace(kernel), source.sets);
  backend::KernelGram out{nullptr, std::vector<double>(static_cast<std::size_t>(n), 0.0)};
  if (source.centre) out.means = centre(kernel, context.threads);
  out.gram = std::make_unique<ExactGram>(std::move(kernel),
                                         NormalEquations{backend::Side::dual, source.centre, targets},
                                         std::numeric_limits<double>::epsilon(), context);
  return out;
}

}  // namespace headlens::cpu
