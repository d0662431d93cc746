#include "recover/certify.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"

namespace headlens {
namespace {

double frobenius(const double* a, Index size) {
  double sum = 0;
  for (Index i = 0; i < size; ++i) sum += a[i] * a[i];
  return std::sqrt(sum);
}

}  // namespace

double examples_per_unknown(const Split& split, Index heads) {
  const double d = static_cast<double>(split.train_x.cols), e = static_cast<double>(split.train_y.cols);
  return static_cast<double>(split.train_x.rows) * e / (static_cast<double>(heads) * d * (d + e));
}

RecoveryStatus verdict(const Split& split, const Candidate& candidate, const Challenge& challenge,
                       bool expired) {
  if (squared_norm(split.train_y) == 0)
    return RecoveryStatus::not_identified;  // the zero layer has no heads to find
  const double c = examples_per_unknown(split, candidate.heads());
  if (candidate.held_out_error < kProof)
    return challenge.returns ? RecoveryStatus::recovered
           : expired         ? RecoveryStatus::stalled
                             : RecoveryStatus::not_identified;
  if (c < kFewestEquations) return RecoveryStatus::needs_more_examples;
  // Least squares with p of N equations spent leaves (1 - p/N) of the noise on its own examples and (1 + p/N)
  // of it on others: sqrt((c + 1) / (c - 1)) between the two errors. Twice that is more than noise.
  const double expected = std::sqrt((c + 1) / (c - 1));
  const bool generalises = candidate.held_out_error < 2 * expected * candidate.train_error;
  const bool noise_floor =
      generalises && candidate.held_out_error < 0.9 && !challenge.more_heads_help && challenge.leaves_noise;
  if (noise_floor && challenge.agrees && challenge.returns) return RecoveryStatus::approximate;
  if (expired) return RecoveryStatus::stalled;
  return generalises ? RecoveryStatus::not_identified : RecoveryStatus::needs_more_examples;
}

std::vector<HeadReport> describe_heads(const AttentionLayer& layer) {
  const Index d = layer.dim();
  std::vector<HeadReport> reports;
  for (Index i = 0; i < layer.heads(); ++i) {
    const double* theta = layer.theta.data<double>() + i * d * d;
    const MatrixView<const double> view(theta, d, d);
    Matrix<double> gram = Matrix<double>::zeros(d, d);
    syrk(Trans::no, 1.0, view, 0.0, gram.view());
    const SymmetricEigen eigen = symmetric_eigen(gram);
    double sum = 0, squares = 0;
    for (const double value : eigen.values) {
      sum += std::sqrt(std::max(value, 0.0));
      squares += std::max(value, 0.0);
    }
    reports.push_back({frobenius(theta, d * d), squares > 0 ? sum * sum / squares : 0,
                       frobenius(layer.w.data<double>() + i * d * layer.outputs(), d * layer.outputs())});
  }
  return reports;
}

}  // namespace headlens
