#include "backend/slow_turns.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::backend {
namespace {

constexpr double kSlow = 3;         // angle between the first and the last token, below which a pair is slow
constexpr Index kMostColumns = 32;  // the slowest
constexpr double kRowsPerColumn = 8;
constexpr double kFloor = 1e-13;  // of the mean curvature: what rounding leaves of it

// (a, b) of a pair turned by an angle.
void turn(double& a, double& b, double angle) {
  const double c = std::cos(angle), s = std::sin(angle), turned = a * c - b * s;
  b = a * s + b * c;
  a = turned;
}

// Half of (diag p - p p^T) v O O^T v^T (diag p - p p^T): (k, r) with the root of O O^T in v.
Matrix<double> bend_of(const double* p, MatrixView<const double> v) {
  Matrix<double> out(v.rows, v.cols);
  for (Index j = 0; j < v.cols; ++j) {
    double mean = 0;
    for (Index b = 0; b < v.rows; ++b) mean += p[b] * v(b, j);
    for (Index b = 0; b < v.rows; ++b) out(b, j) = p[b] * (v(b, j) - mean);
  }
  return out;
}

SlowColumns slow_columns(const HeadRanks& ranks, Index tokens) {
  SlowColumns out;
  const Rotary& rotary = *ranks.rotary;
  const Index rank = ranks.turned_rank(), pairs = rotary.pairs(rank), still = rank - 2 * pairs;
  for (Index j = pairs - 1; j >= 0; --j) {  // frequencies fall
    const double frequency = rotary.frequency(j, rank);
    const Index room = kMostColumns - still - static_cast<Index>(out.columns.size());
    if (frequency * static_cast<double>(tokens) > kSlow || room < 2) break;
    out.frequencies.push_back(frequency);
    const auto [one, other] = rotary.columns(j, rank);
    out.columns.push_back(one);
    out.columns.push_back(other);
  }
  for (Index j = 2 * pairs; j < rank && !out.columns.empty(); ++j) out.columns.push_back(j);
  return out;
}

}  // namespace

Index turned_step(const HeadRanks& ranks, Index tokens, Index rows) {
  if (!ranks.rotary) return 0;
  const double wanted = kRowsPerColumn * static_cast<double>(slow_columns(ranks, tokens).columns.size());
  if (wanted == 0) return 0;
  return std::max<Index>(1, static_cast<Index>(static_cast<double>(rows) / wanted)) | 1;
}

SlowTurns::SlowTurns(const TurnedRows& sample, Index head) {
  const HeadRanks& ranks = sample.ranks;
  const std::vector<HeadColumns> columns = columns_of(ranks);
  const Index end = std::min(ranks.heads(), head + ranks.shared);
  keys_ = columns[static_cast<std::size_t>(head)].k;
  if (!ranks.rotary || columns[static_cast<std::size_t>(head)].logits == 0) return;
  slow_ = slow_columns(ranks, sample.tokens);
  list_directions(static_cast<Index>(slow_.frequencies.size()));
  if (directions_.empty()) return;
  const auto size = static_cast<Index>(directions_.size());
  curvature_ = Matrix<double>::zeros(size, size);
  k_ = taken(sample.parameters, keys_);
  Matrix<double> queries = Matrix<double>::zeros(k_.cols(), k_.cols());
  for (Index i = head; i < end; ++i) {
    heads_.push_back(columns[static_cast<std::size_t>(i)].q);
    q_.push_back(taken(sample.parameters, heads_.back()));
    add(1.0, product(Trans::yes, Trans::no, q_.back().view(), q_.back().view()), queries);
    take_curvature(sample, i);
  }
  const Matrix<double> keys = product(Trans::yes, Trans::no, k_.view(), k_.view());
  metric_ = Matrix<double>::zeros(size, size);
  for (Index i = 0; i < size; ++i)
    for (Index j = 0; j <= i; ++j)
      for (const Entry& a : directions_[static_cast<std::size_t>(i)])
        for (const Entry& b : directions_[static_cast<std::size_t>(j)])
          metric_(i, j) +=
              a.value * b.value *
              ((a.col == b.col ? queries(a.row, b.row) : 0) + (a.row == b.row ? keys(a.col, b.col) : 0));
}

void SlowTurns::list_directions(Index pairs) {
  const auto size = static_cast<Index>(slow_.columns.size());
  const auto pair_of = [&](Index column) { return std::min(column / 2, pairs); };  // pairs: does not turn
  for (Index i = 0; i < size; ++i)
    for (Index j = 0; j < size; ++j)
      if (pair_of(i) != pair_of(j)) directions_.push_back({{i, j, 1}});
  for (Index i = 0; i < 2 * pairs; i += 2) {
    directions_.push_back({{i, i, 1}, {i + 1, i + 1, -1}});
    directions_.push_back({{i, i + 1, 1}, {i + 1, i, 1}});
  }
}

Matrix<double> SlowTurns::taken(MatrixView<const double> a, Index first) const {
  Matrix<double> out(a.rows, static_cast<Index>(slow_.columns.size()));
  for (Index i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < slow_.columns.size(); ++j)
      out(i, static_cast<Index>(j)) = a(i, first + slow_.columns[j]);
  return out;
}

// H of one head, lower.
void SlowTurns::take_curvature(const TurnedRows& sample, Index head) {
  const HeadColumns c = columns_of(sample.ranks)[static_cast<std::size_t>(head)];
  const Index k = sample.tokens, size = static_cast<Index>(directions_.size());
  const MatrixView<const double> o = sample.o.block(c.o, 0, c.values, sample.o.cols);
  Matrix<double> root = product(Trans::no, Trans::yes, o, o);
  for (Index j = 0; j < root.rows(); ++j) root(j, j) *= 1 + 1e-12;
  if (!cholesky(root, 1).ok()) return;
  for (Index i = 0; i < root.rows(); ++i)
    for (Index j = i + 1; j < root.cols(); ++j) root(i, j) = 0;
  const auto turned = [&](Matrix<double>& a, Index row, double token) {
    for (std::size_t j = 0; j < slow_.frequencies.size(); ++j)
      turn(a(row, static_cast<Index>(2 * j)), a(row, static_cast<Index>(2 * j + 1)),
           token * slow_.frequencies[j]);
  };
  Matrix<double> change(k, size), seen(c.values, size);
  for (std::size_t at = 0; at < sample.rows.size(); ++at) {
    const Index a = sample.rows[at] % k;
    const MatrixView<const double> z = sample.images(at);
    const double* p = sample.weights(at, head);
    const Matrix<double> v = product(Trans::no, Trans::no, z.block(0, c.v, k, c.values), root.view());
    const Matrix<double> bend = bend_of(p, v.view());
    // Turned by their own tokens: q (1, width), k (k, width). Back by their own and by the other's.
    Matrix<double> query = taken(z.block(a, 0, 1, z.cols), c.q), keys = taken(z, c.k);
    Matrix<double> raw_query = copy_of(query), raw_keys = copy_of(keys), far_keys = copy_of(keys);
    turned(raw_query, 0, -static_cast<double>(a));
    for (Index b = 0; b < k; ++b) {
      Matrix<double> far_query = copy_of(query);
      turned(far_query, 0, -static_cast<double>(b));
      turned(raw_keys, b, -static_cast<double>(b));
      turned(far_keys, b, -static_cast<double>(a));
      for (Index i = 0; i < size; ++i) {
        double sum = 0;
        for (const Entry& e : directions_[static_cast<std::size_t>(i)])
          sum +=
              e.value * (raw_query(0, e.row) * far_keys(b, e.col) - far_query(0, e.row) * raw_keys(b, e.col));
        change(b, i) = sum;
      }
    }
    gemm(Trans::yes, Trans::no, 1.0, bend.view(), std::as_const(change).view(), 0.0, seen.view());
    syrk(Trans::yes, static_cast<double>(sample.step), std::as_const(seen).view(), 1.0, curvature_.view());
  }
}

void SlowTurns::shift(double mu) {
  usable_ = false;
  if (directions_.empty()) return;
  factor_ = copy_of(curvature_);
  double mean = 0;
  for (Index i = 0; i < factor_.rows(); ++i) mean += curvature_(i, i) / static_cast<double>(factor_.rows());
  for (Index i = 0; i < factor_.rows(); ++i) {
    for (Index j = 0; j <= i; ++j) factor_(i, j) += mu * metric_(i, j);
    factor_(i, i) += kFloor * mean;
  }
  usable_ = mean > 0 && cholesky(factor_, 1).ok();
}

void SlowTurns::add_to(MatrixView<const double> a, MatrixView<double> out) const {
  if (!usable_) return;
  const Index width = k_.cols(), size = factor_.rows();
  Matrix<double> along = product(Trans::yes, Trans::no, taken(a, keys_).view(), k_.view());
  for (Index i = 0; i < width * width; ++i) along.data()[i] *= -1;
  for (std::size_t i = 0; i < heads_.size(); ++i)
    add(1.0, product(Trans::yes, Trans::no, q_[i].view(), taken(a, heads_[i]).view()), along);
  Matrix<double> x(size, 1);
  for (Index i = 0; i < size; ++i) {
    x(i, 0) = 0;
    for (const Entry& e : directions_[static_cast<std::size_t>(i)]) x(i, 0) += e.value * along(e.row, e.col);
  }
  cholesky_solve(factor_, x, 1);
  along = Matrix<double>::zeros(width, width);
  for (Index i = 0; i < size; ++i)
    for (const Entry& e : directions_[static_cast<std::size_t>(i)]) along(e.row, e.col) += e.value * x(i, 0);
  const auto put = [&](const Matrix<double>& change, Index first, double sign) {
    for (Index i = 0; i < change.rows(); ++i)
      for (Index j = 0; j < width; ++j)
        out(i, first + slow_.columns[static_cast<std::size_t>(j)]) += sign * change(i, j);
  };
  for (std::size_t i = 0; i < heads_.size(); ++i)
    put(product(Trans::no, Trans::no, q_[i].view(), along.view()), heads_[i], 1);
  put(product(Trans::no, Trans::yes, k_.view(), along.view()), keys_, -1);
}

std::vector<SlowTurns> slow_turns_of(const TurnedRows& sample, int threads) {
  const HeadRanks& ranks = sample.ranks;
  std::vector<std::optional<SlowTurns>> made(static_cast<std::size_t>(ranks.heads()));
  parallel_for(threads, ranks.heads(), [&](Index head, int) {
    if (ranks.leads(head)) made[static_cast<std::size_t>(head)].emplace(sample, head);
  });
  std::vector<SlowTurns> out;
  for (std::optional<SlowTurns>& each : made)
    if (each) out.push_back(std::move(*each));
  return out;
}

}  // namespace headlens::backend
