#include "cpu/layer/slow_turns.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
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

}  // namespace

SlowTurns::SlowTurns(const FactorProblem& problem, const FactorPoint& point, Index head) {
  const backend::HeadRanks& ranks = problem.head_ranks();
  const std::vector<backend::HeadColumns> columns = backend::columns_of(ranks);
  const Index end = std::min(ranks.heads(), head + ranks.shared);
  keys_ = columns[static_cast<std::size_t>(head)].k;
  rank_ = columns[static_cast<std::size_t>(head)].logits;
  if (!ranks.rotary || rank_ == 0) return;
  choose_columns(problem);
  list_directions(static_cast<Index>(frequencies_.size()));
  if (directions_.empty()) return;
  const auto size = static_cast<Index>(directions_.size());
  curvature_ = Matrix<double>::zeros(size, size);
  k_ = taken(point.parameters.view(), keys_);
  Matrix<double> queries = Matrix<double>::zeros(k_.cols(), k_.cols());
  for (Index i = head; i < end; ++i) {
    heads_.push_back(columns[static_cast<std::size_t>(i)].q);
    q_.push_back(taken(point.parameters.view(), heads_.back()));
    add(1.0, product(Trans::yes, Trans::no, q_.back().view(), q_.back().view()), queries);
    take_curvature(problem, point, i);
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

void SlowTurns::choose_columns(const FactorProblem& problem) {
  const Rotary& rotary = *problem.head_ranks().rotary;
  const Index pairs = rotary.pairs(rank_), still = rank_ - 2 * pairs;
  for (Index j = pairs - 1; j >= 0; --j) {  // frequencies fall
    const double frequency = rotary.frequency(j, rank_);
    const Index room = kMostColumns - still - static_cast<Index>(columns_.size());
    if (frequency * static_cast<double>(problem.tokens()) > kSlow || room < 2) break;
    frequencies_.push_back(frequency);
    const auto [one, other] = rotary.columns(j, rank_);
    columns_.push_back(one);
    columns_.push_back(other);
  }
  for (Index j = 2 * pairs; j < rank_ && !columns_.empty(); ++j) columns_.push_back(j);
}

void SlowTurns::list_directions(Index pairs) {
  const auto size = static_cast<Index>(columns_.size());
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
  Matrix<double> out(a.rows, static_cast<Index>(columns_.size()));
  for (Index i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < columns_.size(); ++j)
      out(i, static_cast<Index>(j)) = a(i, first + columns_[j]);
  return out;
}

// H of one head, lower.
void SlowTurns::take_curvature(const FactorProblem& problem, const FactorPoint& point, Index head) {
  const backend::HeadColumns c = backend::columns_of(problem.head_ranks())[static_cast<std::size_t>(head)];
  const Index k = problem.tokens(), width = static_cast<Index>(columns_.size()),
              size = static_cast<Index>(directions_.size());
  const double wanted = kRowsPerColumn * static_cast<double>(width);
  const auto step = std::max<Index>(1, static_cast<Index>(static_cast<double>(problem.rows()) / wanted)) | 1;
  const MatrixView<const double> o = point.w.view().block(c.o, 0, c.values, point.w.cols());
  Matrix<double> root = product(Trans::no, Trans::yes, o, o);
  for (Index j = 0; j < root.rows(); ++j) root(j, j) *= 1 + 1e-12;
  if (!cholesky(root, 1).ok()) return;
  for (Index i = 0; i < root.rows(); ++i)
    for (Index j = i + 1; j < root.cols(); ++j) root(i, j) = 0;
  const auto turned = [&](Matrix<double>& a, Index row, double token) {
    for (std::size_t j = 0; j < frequencies_.size(); ++j)
      turn(a(row, static_cast<Index>(2 * j)), a(row, static_cast<Index>(2 * j + 1)), token * frequencies_[j]);
  };
  Matrix<double> change(k, size), seen(c.values, size);
  for (Index row = 0; row < problem.rows(); row += step) {
    const Index first = row / k * k, a = row - first;
    const double* p = problem.map().attention(point.p, row / k, head).row(a);
    const Matrix<double> v =
        product(Trans::no, Trans::no, point.z.view().block(first, c.v, k, c.values), root.view());
    const Matrix<double> bend = bend_of(p, v.view());
    // Turned by their own tokens: q (1, width), k (k, width). Back by their own and by the other's.
    Matrix<double> query = taken(point.z.view().block(row, 0, 1, point.z.cols()), c.q),
                   keys = taken(point.z.view().block(first, 0, k, point.z.cols()), c.k);
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
    syrk(Trans::yes, static_cast<double>(step), std::as_const(seen).view(), 1.0, curvature_.view());
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
        out(i, first + columns_[static_cast<std::size_t>(j)]) += sign * change(i, j);
  };
  for (std::size_t i = 0; i < heads_.size(); ++i)
    put(product(Trans::no, Trans::no, q_[i].view(), along.view()), heads_[i], 1);
  put(product(Trans::no, Trans::yes, k_.view(), along.view()), keys_, -1);
}

}  // namespace headlens::cpu
