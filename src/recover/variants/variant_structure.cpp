#include "recover/variants/variant_structure.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/attention_map.hpp"
#include "linalg/blas.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kMostProducts = 1e9, kFewestExamples = 50;

// Some examples at the candidate: attention, values and what is left of the labels; and what is predicted of
// it.
struct Side {
  VariantMap<double> map;
  MatrixView<const double> x;
  Matrix<double> p, v, left, by_logits, by_values;

  Side(const VariantCandidate& c, MatrixView<const double> tokens, MatrixView<const double> labels,
       MatrixView<const double> seen, Index k, const std::vector<Index>& lengths, int threads)
      : map(tokens, k, c.shape, lengths, threads),
        x(tokens),
        p(map.make_attention()),
        v(x.rows, c.shape.heads * c.w.cols()),
        left(x.rows, c.w.cols()),
        by_logits(Matrix<double>::zeros(x.rows, c.w.cols())),
        by_values(Matrix<double>::zeros(x.rows, c.w.cols())) {
    Matrix<double> z = map.make_activations(), phi = map.make_phi();
    map.evaluate(c.parameters, z, p, phi);
    map.values(c.w, v);
    copy_rows(labels, left);
    gemm(Trans::no, Trans::no, -1.0, std::as_const(phi).view(), c.w.view(), 1.0, left.view());
    hide_missing(seen, left);
  }
  Index examples() const { return x.rows / map.tokens(); }
};

MatrixView<const double> seen_from(MatrixView<const double> seen, Index first, Index rows) {
  return seen.rows > 0 ? seen.block(first, 0, rows, seen.cols) : seen;
}

// A half of the training examples.
Side half(const VariantData& data, const VariantCandidate& c, bool second, int threads) {
  const Index k = data.split.tokens, all = data.split.train_x.rows / k, first = second ? all / 2 : 0,
              count = second ? all - all / 2 : all / 2;
  std::vector<Index> lengths;
  if (!data.split.train_lengths.empty())
    lengths.assign(data.split.train_lengths.begin() + first,
                   data.split.train_lengths.begin() + first + count);
  return {c,
          data.split.train_x.block(first * k, 0, count * k, data.split.train_x.cols),
          data.split.train_y.block(first * k, 0, count * k, data.split.train_y.cols),
          seen_from(data.split.train_seen, first * k, count * k),
          k,
          lengths,
          threads};
}

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
    gemm(Trans::no, Trans::yes, 1.0, side.left.view().block(row, 0, k, e),
         side.v.view().block(row, head * e, k, e), 0.0, c.view());
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

// What is predicted += dF of one head along its change.
void add_effect(Index head, const std::vector<Change>& changes, Side& side) {
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
            side.by_values(row + a, j) += weights(a, b) * side.x(row + b, q) * change.n(q, j);
      }
    softmax_derivative<double>(weights, dl.view());
    gemm(Trans::no, Trans::no, 1.0, std::as_const(dl).view(), side.v.view().block(row, head * e, k, e), 1.0,
         side.by_logits.view().block(row, 0, k, e));
  }
}

// A correlation in units of its standard error, for rows that are independent.
struct Score {
  double sum = 0, squares = 0;

  void add(const Matrix<double>& predicted, const Matrix<double>& left) {
    for (Index i = 0; i < left.rows(); ++i) {
      double row = 0;
      for (Index j = 0; j < left.cols(); ++j) row += predicted(i, j) * left(i, j);
      sum += row;
      squares += row * row;
    }
  }
  double z() const { return squares > 0 ? sum / std::sqrt(squares) : 0; }
};

void add_to(const std::vector<Change>& from, std::vector<Change>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) add(1.0, from[i].m, to[i].m), add(1.0, from[i].n, to[i].n);
}

// Changes that depend on the distance in any way, or as a given function of it: the fewer, the less noise.
enum class Along { any, distance, sign };

// g(D) sum_D' g(D') M_D'
std::vector<Change> restricted(const std::vector<Change>& all, Along along) {
  const auto size = static_cast<Index>(all.size());
  const auto g = [&](Index i) {
    const double distance = static_cast<double>(i - size / 2);
    return along == Along::distance ? distance : static_cast<double>((distance > 0) - (distance < 0));
  };
  const Change& like = all[0];
  Change sum{Matrix<double>::zeros(like.m.rows(), like.m.cols()),
             Matrix<double>::zeros(like.n.rows(), like.n.cols())};
  std::vector<Change> out;
  for (Index i = 0; i < size; ++i) {
    const Change& change = all[static_cast<std::size_t>(i)];
    out.push_back({copy_of(change.m), copy_of(change.n)});
    add(g(i), change.m, sum.m);
    add(g(i), change.n, sum.n);
  }
  for (Index i = 0; i < size && along != Along::any; ++i) {
    Change& change = out[static_cast<std::size_t>(i)];
    for (Index j = 0; j < sum.m.rows() * sum.m.cols(); ++j) change.m.data()[j] = g(i) * sum.m.data()[j];
    for (Index j = 0; j < sum.n.rows() * sum.n.cols(); ++j) change.n.data()[j] = g(i) * sum.n.data()[j];
  }
  return out;
}

double structure_along(const VariantData& data, const VariantCandidate& candidate, Along along, int threads) {
  Side first = half(data, candidate, false, threads), second = half(data, candidate, true, threads);
  Side held(candidate, data.split.held_x, data.split.held_y, data.split.held_seen, data.split.tokens,
            data.split.held_lengths, threads);
  for (Index i = 0; i < candidate.shape.heads; ++i) {
    heed();
    std::vector<Change> by_first = restricted(gradient(first, i), along);
    const std::vector<Change> by_second = restricted(gradient(second, i), along);
    add_effect(i, by_first, second);
    add_effect(i, by_second, first);
    add_to(by_second, by_first);
    add_effect(i, by_first, held);
  }
  Score logits, values;
  for (const Side* side : {&first, &second, &held}) {
    logits.add(side->by_logits, side->left);
    values.add(side->by_values, side->left);
  }
  return std::max(logits.z(), values.z());
}

}  // namespace

double distance_structure(const VariantData& data, const VariantCandidate& candidate, int threads) {
  double largest = 0;
  for (const Along along : {Along::any, Along::distance, Along::sign})
    largest = std::max(largest, structure_along(data, candidate, along, threads));
  return largest;
}

double distance_structure(const Split& split, const AttentionLayer& layer, int threads) {
  // Twelve passes, each of so many products per example: as many examples as a few seconds allow, or none.
  const double k = static_cast<double>(split.tokens), d = static_cast<double>(split.train_x.cols),
               e = static_cast<double>(split.train_y.cols), m = static_cast<double>(layer.heads());
  const double examples = kMostProducts / (k * k * m * d * (d + e));
  if (examples < kFewestExamples) return 0;
  const auto few = [&](MatrixView<const double> all) {
    const auto rows = static_cast<Index>(std::min(examples, static_cast<double>(all.rows))) * split.tokens;
    return all.block(0, 0, std::min(all.rows, rows), all.cols);
  };
  Split thin = split.first_rows(few(split.train_x).rows);
  thin.held_x = few(split.held_x);
  thin.held_y = few(split.held_y);
  thin.held_seen = few(split.held_seen);
  if (!thin.held_lengths.empty())
    thin.held_lengths.resize(static_cast<std::size_t>(thin.held_x.rows / split.tokens));
  VariantData data{thin};
  data.variant = layer.variant;
  return distance_structure(data, {shape_of(layer), pack_parameters(layer), pack_readout(layer)}, threads);
}

}  // namespace headlens::recovery
