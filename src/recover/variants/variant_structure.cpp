#include "recover/variants/variant_structure.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/attention_map.hpp"
#include "linalg/blas.hpp"

namespace headlens::recovery {
namespace {

// Examples at the candidate: attention, values and what is left of the labels.
struct Side {
  VariantMap<double> map;
  MatrixView<const double> x;
  Matrix<double> p, v, left;

  Side(const VariantData& data, const VariantCandidate& c, bool held, int threads)
      : map(held ? data.split.held_x : data.split.train_x, data.split.tokens, c.shape,
            held ? data.held_lengths : data.train_lengths, threads),
        x(held ? data.split.held_x : data.split.train_x),
        p(map.make_attention()),
        v(x.rows, c.shape.heads * c.w.cols()),
        left(x.rows, c.w.cols()) {
    Matrix<double> z = map.make_activations(), phi = map.make_phi();
    map.evaluate(c.parameters, z, p, phi);
    map.values(c.w, v);
    copy_rows(held ? data.split.held_y : data.split.train_y, left);
    gemm(Trans::no, Trans::no, -1.0, std::as_const(phi).view(), c.w.view(), 1.0, left.view());
  }
  Index examples() const { return x.rows / map.tokens(); }
};

// M (d, d) and N (d, e) of one head and distance.
struct Change {
  Matrix<double> m, n;
};

// to += factor a b^T
void add_outer(const double* a, const double* b, double factor, Matrix<double>& to) {
  for (Index i = 0; i < to.rows(); ++i)
    for (Index j = 0; j < to.cols(); ++j) to(i, j) += factor * a[i] * b[j];
}

double product(const double* a, const Matrix<double>& m, const double* b) {
  double sum = 0;
  for (Index i = 0; i < m.rows(); ++i) {
    double row = 0;
    for (Index j = 0; j < m.cols(); ++j) row += m(i, j) * b[j];
    sum += a[i] * row;
  }
  return sum;
}

// The gradient in M and N of one head, by distance b - a + k - 1.
std::vector<Change> gradient(const Side& side, Index head) {
  const Index k = side.map.tokens(), d = side.x.cols, e = side.left.cols();
  std::vector<Change> out(static_cast<std::size_t>(2 * k - 1));
  for (Change& change : out) change = {Matrix<double>::zeros(d, d), Matrix<double>::zeros(d, e)};
  Matrix<double> c(k, k);
  for (Index example = 0; example < side.examples(); ++example) {
    const Index row = example * k;
    const MatrixView<const double> weights = side.map.attention(side.p, example, head);
    gemm(Trans::no, Trans::yes, 1.0, side.left.view().block(row, 0, k, e), side.v.view().block(row, head * e, k, e),
         0.0, c.view());
    softmax_derivative<double>(weights, c.view());
    for (Index a = 0; a < k; ++a)
      for (Index b = 0; b < k; ++b) {
        if (weights(a, b) == 0) continue;
        Change& change = out[static_cast<std::size_t>(b - a + k - 1)];
        add_outer(side.x.row(row + a), side.x.row(row + b), c(a, b), change.m);
        add_outer(side.x.row(row + b), side.left.view().row(row + a), weights(a, b), change.n);
      }
  }
  return out;
}

// to_logits and to_values += dF of one head along its change.
void add_effect(const Side& side, Index head, const std::vector<Change>& changes, Matrix<double>& to_logits,
                Matrix<double>& to_values) {
  const Index k = side.map.tokens(), e = side.left.cols();
  Matrix<double> dl(k, k);
  for (Index example = 0; example < side.examples(); ++example) {
    const Index row = example * k;
    const MatrixView<const double> weights = side.map.attention(side.p, example, head);
    for (Index a = 0; a < k; ++a)
      for (Index b = 0; b < k; ++b) {
        const Change& change = changes[static_cast<std::size_t>(b - a + k - 1)];
        dl(a, b) = weights(a, b) == 0 ? 0 : product(side.x.row(row + a), change.m, side.x.row(row + b));
        for (Index q = 0; q < side.x.cols && weights(a, b) != 0; ++q)
          for (Index j = 0; j < e; ++j)
            to_values(row + a, j) += weights(a, b) * side.x(row + b, q) * change.n(q, j);
      }
    softmax_derivative<double>(weights, dl.view());
    gemm(Trans::no, Trans::no, 1.0, std::as_const(dl).view(), side.v.view().block(row, head * e, k, e), 1.0,
         to_logits.view().block(row, 0, k, e));
  }
}

// The correlation of two matrices in units of its standard error for independent rows.
double z_score(const Matrix<double>& predicted, const Matrix<double>& left) {
  double sum = 0, squares = 0;
  for (Index i = 0; i < left.rows(); ++i) {
    double row = 0;
    for (Index j = 0; j < left.cols(); ++j) row += predicted(i, j) * left(i, j);
    sum += row;
    squares += row * row;
  }
  return squares > 0 ? sum / std::sqrt(squares) : 0;
}

}  // namespace

double distance_structure(const VariantData& data, const VariantCandidate& candidate, int threads) {
  const Side train(data, candidate, false, threads), held(data, candidate, true, threads);
  Matrix<double> logits = Matrix<double>::zeros(held.x.rows, candidate.w.cols()),
                 values = Matrix<double>::zeros(held.x.rows, candidate.w.cols());
  for (Index i = 0; i < candidate.shape.heads; ++i) {
    heed();
    add_effect(held, i, gradient(train, i), logits, values);
  }
  return std::max(z_score(logits, held.left), z_score(values, held.left));
}

}  // namespace headlens::recovery
