#include "refit/tied_examples.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/cholesky.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::refitting {
namespace {

constexpr double kReadoutRidge = 1e-10;
constexpr Index kReadoutRows = 4096;

// gram becomes L with L L^T = gram + kReadoutRidge of its mean diagonal; false where there is none.
bool factorise(Matrix<double>& gram, int threads) {
  double mean = 0;
  for (Index j = 0; j < gram.rows(); ++j) mean += gram(j, j) / static_cast<double>(gram.rows());
  for (Index j = 0; j < gram.rows(); ++j) gram(j, j) += kReadoutRidge * mean;
  return std::isfinite(mean) && mean > 0 && cholesky(gram, threads).ok();
}

}  // namespace

TiedExamples TiedExamples::part(Index first, Index count) const {
  TiedExamples out{x.block(first * tokens, 0, count * tokens, x.cols),
                   y.block(first * tokens, 0, count * tokens, y.cols), tokens};
  if (!lengths.empty()) out.lengths.assign(lengths.begin() + first, lengths.begin() + first + count);
  return out;
}

double relative_error(const TiedLayer& layer, const TiedExamples& examples, int threads) {
  const Matrix<double> f = apply_tied(layer, examples.x, examples.tokens, examples.lengths, threads);
  double left = 0, all = 0;
  for (Index i = 0; i < f.rows(); ++i)
    for (Index j = 0; j < f.cols(); ++j) {
      const double difference = f(i, j) - examples.y(i, j);
      left += difference * difference;
      all += examples.y(i, j) * examples.y(i, j);
    }
  return std::sqrt(left / std::max(all, 1e-300));
}

bool solve_readout(TiedLayer& layer, const TiedExamples& examples, int threads) {
  const Index features = layer.shape.features(), outputs = examples.y.cols,
              step = std::max<Index>(1, kReadoutRows / examples.tokens);
  Matrix<double> gram = Matrix<double>::zeros(features, features),
                 w = Matrix<double>::zeros(features, outputs);
  for (Index first = 0; first < examples.count(); first += step) {
    const TiedExamples here = examples.part(first, std::min(step, examples.count() - first));
    const TiedMap<double> map(here.x, here.tokens, layer.shape, here.lengths, threads);
    const Matrix<double> phi = features_of(map, layer.parameters.view());
    add_inner(phi.view(), gram, threads);
    multiply(Trans::yes, Trans::no, 1.0, phi.view(), here.y, 1.0, w.view(), threads);
  }
  if (!factorise(gram, threads)) return false;
  cholesky_solve(gram, w, threads);
  layer.readout = std::move(w);
  return true;
}

}  // namespace headlens::refitting
