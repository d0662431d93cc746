#include "refit/whiten.hpp"

#include <cmath>
#include <utility>

#include "headlens/error.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::refitting {
namespace {

constexpr double kFloor = 1e-8;

TiedLayer moved(const Matrix<double>& turn, const TiedLayer& layer, int threads) {
  TiedLayer out = copy_of(layer);
  multiply(Trans::no, Trans::no, 1.0, turn.view(), layer.parameters.view(), 0.0, out.parameters.view(),
           threads);
  return out;
}

}  // namespace

Matrix<double> power_of(const SymmetricEigen& eigen, double floor, double power, int threads) {
  const Index d = eigen.vectors.rows();
  Matrix<double> left(d, d), out(d, d);
  for (Index k = 0; k < d; ++k) {
    const double value = std::pow(std::max(eigen.values[static_cast<std::size_t>(k)], 0.0) + floor, power);
    for (Index j = 0; j < d; ++j) left(k, j) = value * eigen.vectors(k, j);
  }
  multiply(Trans::yes, Trans::no, 1.0, std::as_const(left).view(), eigen.vectors.view(), 0.0, out.view(),
           threads);
  return out;
}

Matrix<double> Whitening::tokens(MatrixView<const double> x, int threads) const {
  Matrix<double> out(x.rows, x.cols);
  multiply(Trans::no, Trans::no, 1.0, x, turn.view(), 0.0, out.view(), threads);
  return out;
}

TiedLayer Whitening::in_white(const TiedLayer& layer, int threads) const {
  return moved(back, layer, threads);
}
TiedLayer Whitening::from_white(const TiedLayer& layer, int threads) const {
  return moved(turn, layer, threads);
}

Whitening whiten(MatrixView<const double> x, int threads) {
  Matrix<double> moment = Matrix<double>::zeros(x.cols, x.cols);
  add_inner(x, moment, threads);
  double mean = 0;
  for (Index i = 0; i < x.cols; ++i) mean += moment(i, i);
  mean /= static_cast<double>(x.cols * x.rows);
  require(mean > 0 && std::isfinite(mean), "refit: all tokens are zero");
  for (Index i = 0; i < x.cols; ++i)
    for (Index j = 0; j <= i; ++j) moment(i, j) /= static_cast<double>(x.rows);
  const SymmetricEigen eigen = symmetric_eigen(moment.view());
  require(eigen.ok(), "refit: the tokens have no second moment: their entries are not finite numbers");
  return {power_of(eigen, kFloor * mean, -0.5, threads), power_of(eigen, kFloor * mean, 0.5, threads)};
}

}  // namespace headlens::refitting
