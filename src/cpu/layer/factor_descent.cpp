#include "cpu/layer/factor_descent.hpp"

#include <algorithm>
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
constexpr Index kTile = 1 << 14;
constexpr Index kSums = 16;

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

void to_float(const double* from, Index count, float* to) {
  for (Index i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

// In double, in kSums sums side by side.
double sum_of_squares(const float* a, Index count) {
  double sums[kSums] = {};
  Index i = 0;
  for (; i + kSums <= count; i += kSums)
    for (Index s = 0; s < kSums; ++s) {
      const auto item = static_cast<double>(a[i + s]);
      sums[s] += item * item;
    }
  double sum = 0;
  for (const double each : sums) sum += each;
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(a[i]);
  return sum;
}

}  // namespace

AdamDescent::Moving::Moving(const Matrix<double>& start)
    : value(in_float(start)),
      gradient(start.rows(), start.cols()),
      mean(Matrix<float>::zeros(start.rows(), start.cols())),
      square(Matrix<float>::zeros(start.rows(), start.cols())),
      averaged(in_float(start)) {}

Index AdamDescent::Moving::tiles() const { return tile_count(value.rows() * value.cols(), kTile); }

void AdamDescent::Moving::step(Index item, const AdamStep& by) {
  const Tile tile = tile_at(value.rows() * value.cols(), kTile, item);
  float* __restrict const v = value.data() + tile.begin;
  float* __restrict const m = mean.data() + tile.begin;
  float* __restrict const s = square.data() + tile.begin;
  float* __restrict const a = averaged.data() + tile.begin;
  const float* __restrict const from = gradient.data() + tile.begin;
  const auto [unit, along, per_square, share] = by;
  for (Index i = 0; i < tile.size; ++i) {
    const float g = unit * from[i];
    m[i] += (1 - kMean) * (g - m[i]);
    s[i] += (1 - kSquare) * (g * g - s[i]);
    v[i] -= along * m[i] / (std::sqrt(s[i] * per_square) + kSmall);
    a[i] += share * (v[i] - a[i]);
  }
}

AdamDescent::AdamDescent(const backend::LayerExamples& examples, backend::HeadRanks ranks,
                         const backend::FactorValues& start, int threads, comm::Communicator& all_ranks)
    : examples_(examples),
      head_ranks_(std::move(ranks)),
      threads_(threads),
      ranks_(all_ranks),
      parameters_(start.parameters),
      o_(start.o),
      rooms_(static_cast<std::size_t>(threads)) {}

void AdamDescent::Room::fit(Index rows, const Map& map) {
  if (z.rows() >= rows) return;
  z = Matrix<float>(rows, map.columns());
  p = Matrix<float>(rows * map.heads(), map.tokens());
  g = Matrix<float>(rows, map.features());
}

void AdamDescent::make_room(Index rows) {
  if (x_.rows() == rows && x_.cols() > 0) return;
  x_ = Matrix<float>(rows, examples_.x.cols);
  left_ = Matrix<float>(rows, examples_.y.cols);
  phi_ = Matrix<float>(rows, head_ranks_.value_columns());
  back_ = Matrix<float>(rows, head_ranks_.parameter_columns());
}

double AdamDescent::gather(const std::vector<Index>& batch, Map::Block here) {
  const Index k = examples_.tokens;
  double labels = 0;
  for (Index e = here.first; e < here.first + here.count; ++e)
    for (Index t = 0; t < k; ++t) {
      const Index from = batch[static_cast<std::size_t>(e)] * k + t, to = e * k + t;
      to_float(examples_.x.row(from), x_.cols(), &x_(to, 0));
      to_float(examples_.y.row(from), left_.cols(), &left_(to, 0));
      labels += sum_of_squares(&left_(to, 0), left_.cols());
    }
  return labels;
}

// left: rows of the batch from first_row on.
void AdamDescent::hide_missing(const std::vector<Index>& batch, MatrixView<float> left, Index first_row) {
  if (examples_.seen.rows == 0) return;
  const Index k = examples_.tokens;
  for (Index i = 0; i < left.rows; ++i) {
    const Index row = first_row + i;
    const double* seen = examples_.seen.row(batch[static_cast<std::size_t>(row / k)] * k + row % k);
    for (Index j = 0; j < left.cols; ++j) left(i, j) *= static_cast<float>(seen[j]);
  }
}

AdamDescent::Squares AdamDescent::pass_block(const Map& map, Map::Block here, const std::vector<Index>& batch,
                                             Room& room) {
  const auto rows = [&](Matrix<float>& a) { return map.rows_of(a.view(), here); };
  const auto o = std::as_const(o_.value).view();
  const MatrixView<float> phi = rows(phi_), left = rows(left_);
  room.fit(phi.rows, map);
  const MatrixView<float> z = room.z.view().block(0, 0, phi.rows, map.columns()),
                          p = room.p.view().block(0, 0, phi.rows * map.heads(), map.tokens()),
                          g = room.g.view().block(0, 0, phi.rows, map.features());
  Squares out{.labels = gather(batch, here)};
  map.evaluate(here, std::as_const(parameters_.value).view(), z, p, phi);
  gemm(Trans::no, Trans::no, 1.0f, phi, o, -1.0f, left);
  hide_missing(batch, left, here.first * map.tokens());
  for (Index i = 0; i < left.rows; ++i) out.left += sum_of_squares(left.row(i), left.cols);
  gemm(Trans::no, Trans::yes, 1.0f, left, o, 0.0f, g);
  map.take_back(here, z, p, g, rows(back_));
  return out;
}

AdamDescent::Squares AdamDescent::pass(const Map& map, const std::vector<Index>& batch) {
  std::vector<Squares> parts(map.blocks().size());
  map.over_blocks([&](Map::Block here, Index b, int worker) {
    parts[static_cast<std::size_t>(b)] =
        pass_block(map, here, batch, rooms_[static_cast<std::size_t>(worker)]);
  });
  Squares sum;
  for (const Squares& part : parts) {
    sum.labels += part.labels;
    sum.left += part.left;
  }
  return {ranks_.sum(sum.labels), ranks_.sum(sum.left)};
}

double AdamDescent::step(const std::vector<Index>& batch, double rate) {
  make_room(static_cast<Index>(batch.size()) * examples_.tokens);
  std::vector<Index> lengths;
  for (const Index example : batch)
    if (!examples_.lengths.empty()) lengths.push_back(examples_.lengths[static_cast<std::size_t>(example)]);
  const MatrixView<const float> x = std::as_const(x_).view(), left = std::as_const(left_).view(),
                                phi = std::as_const(phi_).view(), back = std::as_const(back_).view();
  const Squares squares = pass({x, examples_.tokens, head_ranks_, lengths, threads_}, batch);
  if (!(squares.labels > 0)) return -1;
  multiply_tall({{x, back, parameters_.gradient.view()}, {phi, left, o_.gradient.view()}}, threads_);
  backend::pin(head_ranks_, parameters_.gradient.view());
  sum_over(ranks_, o_.gradient.view());
  sum_over(ranks_, parameters_.gradient.view());
  move(rate, static_cast<float>(2 / squares.labels));
  return squares.left / squares.labels;
}

void AdamDescent::move(double rate, float unit) {
  const int t = ++steps_;
  const AdamStep by{.unit = unit,
                    .along = static_cast<float>(rate) / (1 - std::pow(kMean, static_cast<float>(t))),
                    .per_square = 1 / (1 - std::pow(kSquare, static_cast<float>(t))),
                    .share = static_cast<float>(backend::averaged_share(t))};
  const Index first = parameters_.tiles(), all = first + o_.tiles();
  parallel_for(threads_for(static_cast<double>(all * kTile) * 10, threads_), all, [&](Index item, int) {
    item < first ? parameters_.step(item, by) : o_.step(item - first, by);
  });
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
