#include "cpu/layer/factor_descent.hpp"

#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "cpu/layer/sum_over.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr float kMean = 0.9f, kSquare = 0.98f, kSmall = 1e-8f;
constexpr Index kTile = 1 << 16;

Matrix<float> in_float(const Matrix<double>& a) {
  Matrix<float> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) out.data()[i] = static_cast<float>(a.data()[i]);
  return out;
}

Matrix<double> in_double(const Matrix<float>& a) {
  Matrix<double> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) out.data()[i] = static_cast<double>(a.data()[i]);
  return out;
}

}  // namespace

AdamDescent::Moving::Moving(const Matrix<double>& start)
    : value(in_float(start)),
      gradient(start.rows(), start.cols()),
      mean(Matrix<float>::zeros(start.rows(), start.cols())),
      square(Matrix<float>::zeros(start.rows(), start.cols())),
      averaged(in_float(start)) {}

void AdamDescent::Moving::step(int t, double rate, int threads) {
  const float mean_share = 1 - std::pow(kMean, static_cast<float>(t)),
              square_share = 1 - std::pow(kSquare, static_cast<float>(t));
  const float along = static_cast<float>(rate) / mean_share, unit = 1 / square_share;
  const auto share = static_cast<float>(backend::averaged_share(t));
  const Index size = value.rows() * value.cols();
  parallel_for(threads_for(static_cast<double>(size) * 10, threads), tile_count(size, kTile),
               [&](Index item, int) {
                 const Tile tile = tile_at(size, kTile, item);
                 float *v = value.data() + tile.begin, *m = mean.data() + tile.begin,
                       *s = square.data() + tile.begin, *a = averaged.data() + tile.begin;
                 const float* g = gradient.data() + tile.begin;
                 for (Index i = 0; i < tile.size; ++i) {
                   m[i] += (1 - kMean) * (g[i] - m[i]);
                   s[i] += (1 - kSquare) * (g[i] * g[i] - s[i]);
                   v[i] -= along * m[i] / (std::sqrt(s[i] * unit) + kSmall);
                   a[i] += share * (v[i] - a[i]);
                 }
               });
}

AdamDescent::AdamDescent(const backend::LayerExamples& examples, backend::HeadRanks ranks,
                         const backend::FactorValues& start, int threads, comm::Communicator& all_ranks)
    : examples_(examples),
      head_ranks_(std::move(ranks)),
      threads_(threads),
      ranks_(all_ranks),
      parameters_(start.parameters),
      o_(start.o) {}

void AdamDescent::gather(const std::vector<Index>& batch) {
  const Index k = examples_.tokens, rows = static_cast<Index>(batch.size()) * k;
  if (x_.rows() != rows) {
    x_ = Matrix<float>(rows, examples_.x.cols);
    y_ = Matrix<float>(rows, examples_.y.cols);
    z_ = Matrix<float>(rows, head_ranks_.parameter_columns());
    p_ = Matrix<float>(rows * head_ranks_.heads(), k);
    phi_ = Matrix<float>(rows, head_ranks_.value_columns());
    g_ = Matrix<float>(rows, head_ranks_.value_columns());
  }
  parallel_for(threads_, static_cast<Index>(batch.size()), [&](Index e, int) {
    for (Index t = 0; t < k; ++t) {
      const Index from = batch[static_cast<std::size_t>(e)] * k + t, to = e * k + t;
      for (Index j = 0; j < x_.cols(); ++j) x_(to, j) = static_cast<float>(examples_.x(from, j));
      for (Index j = 0; j < y_.cols(); ++j) y_(to, j) = static_cast<float>(examples_.y(from, j));
    }
  });
}

void AdamDescent::hide_missing(const std::vector<Index>& batch) {
  if (examples_.seen.rows == 0) return;
  const Index k = examples_.tokens;
  for (Index row = 0; row < y_.rows(); ++row) {
    const double* seen = examples_.seen.row(batch[static_cast<std::size_t>(row / k)] * k + row % k);
    for (Index j = 0; j < y_.cols(); ++j) y_(row, j) *= static_cast<float>(seen[j]);
  }
}

double AdamDescent::step(const std::vector<Index>& batch, double rate) {
  gather(batch);
  std::vector<Index> lengths;
  for (const Index example : batch)
    if (!examples_.lengths.empty()) lengths.push_back(examples_.lengths[static_cast<std::size_t>(example)]);
  const FactorMap<float> map(std::as_const(x_).view(), examples_.tokens, head_ranks_, lengths, threads_);
  const double labels = ranks_.sum(inner_product(std::as_const(y_).view(), std::as_const(y_).view()));
  map.evaluate(parameters_.value.view(), z_.view(), p_.view(), phi_.view());
  multiply(Trans::no, Trans::no, 1.0f, std::as_const(phi_).view(), std::as_const(o_.value).view(), -1.0f,
           y_.view(), threads_);  // F - Y
  hide_missing(batch);
  const MatrixView<const float> left = std::as_const(y_).view();
  const double squares = ranks_.sum(inner_product(left, left)) / std::max(labels, 1e-300);
  // Adam does not mind the size of a gradient; it is kept near one for the sake of kSmall.
  const auto factor = static_cast<float>(2 / std::max(labels, 1e-300));
  multiply(Trans::yes, Trans::no, factor, std::as_const(phi_).view(), left, 0.0f, o_.gradient.view(),
           threads_);
  multiply(Trans::no, Trans::yes, factor, left, std::as_const(o_.value).view(), 0.0f, g_.view(), threads_);
  map.adjoint(z_.view(), p_.view(), g_.view(), parameters_.gradient.view());
  sum_over(ranks_, o_.gradient.view());
  sum_over(ranks_, parameters_.gradient.view());
  ++steps_;
  parameters_.step(steps_, rate, threads_);
  o_.step(steps_, rate, threads_);
  return squares;
}

backend::FactorValues AdamDescent::values() const {
  return {in_double(parameters_.value), in_double(o_.value)};
}

backend::FactorValues AdamDescent::mean_values() const {
  return {in_double(parameters_.averaged), in_double(o_.averaged)};
}

void AdamDescent::go_to_mean() {
  for (Moving* moving : {&parameters_, &o_}) moving->value = copy_of(moving->averaged);
}

}  // namespace headlens::cpu
