// Problems in factors for the contracts of back ends, and their layer by plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <string>

#include "backend/backend.hpp"
#include "base/random.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::factor_input {

using backend::HeadColumns;

inline constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

inline Matrix<double> drawn(Index rows, Index cols, double size, Stream& stream) {
  Matrix<double> out(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = size * stream.normal();
  return out;
}

// Which labels are missing: a fifth of them, one by one or whole rows at once.
enum class Missing { none, labels, rows };

struct Shape {
  Index examples, tokens, dim, outputs;
  backend::HeadRanks ranks;
  std::vector<Index> lengths = {};
  Missing missing = Missing::none;

  Index length(Index example) const {
    return lengths.empty() ? tokens : lengths[static_cast<std::size_t>(example)];
  }
};

inline std::vector<Shape> shapes() {
  return {
      {3, 2, 1, 1, {{1}, {1}}},        {5, 1, 3, 2, {{2}, {2}}},        {40, 7, 5, 5, {{0, 2, 5}, {5, 1, 2}}},
      {23, 4, 9, 2, {{4, 3}, {2, 4}}}, {5, 33, 6, 3, {{2, 3}, {1, 4}}}, {3, 40, 37, 5, {{36}, {35}}},
      {2, 100, 4, 3, {{3, 2}, {2, 2}}}};
}

// Layers that are not plain, with ranks and tokens on both sides of the tiles of a device, short examples
// that share a block and lengths from 1 to all tokens.
inline std::vector<Shape> variant_shapes() {
  const std::vector<Index> ends{3, 1, 2, 3, 1, 3, 2, 3, 3}, few{16, 1, 2, 9, 15, 3, 16},
      some{33, 1, 17, 32, 5, 31};
  const auto biased = [](backend::HeadRanks ranks) {
    ranks.biased = true;
    ranks.logits.push_back(0);
    ranks.values.push_back(1);
    return ranks;
  };
  const auto causal = [](backend::HeadRanks ranks) {
    ranks.causal = true;
    return ranks;
  };
  const auto turned = [](Rotary rotary, backend::HeadRanks ranks) {
    ranks.rotary = rotary;
    return ranks;
  };
  const auto shared = [](Index heads, backend::HeadRanks ranks) {
    ranks.shared = heads;
    return ranks;
  };
  return {
      {9, 3, 6, 4, biased({{2, 5}, {3, 1}})},
      {12, 1, 4, 3, biased(causal({{2, 0}, {1, 2}}))},
      {9, 3, 5, 4, causal({{2, 5}, {3, 1}})},
      {7, 16, 6, 3, causal({{1, 3}, {5, 1}})},
      {6, 33, 70, 5, biased(causal({{32, 5}, {64, 1}}))},
      {9, 3, 5, 2, {{2, 3}, {2, 1}}, ends},
      {7, 16, 5, 3, biased({{2, 4}, {3, 1}}), few},
      {6, 33, 7, 3, causal({{5, 2}, {1, 3}}), some},
      {2, 128, 8, 3, biased(causal({{5, 1}, {1, 5}})), {128, 77}},
      {2, 128, 66, 3, {{64}, {5}}},
      {30, 4, 6, 3, {{2, 3}, {3, 1}}, {}, Missing::labels},
      {30, 4, 6, 3, biased(causal({{2, 3}, {3, 1}})), {}, Missing::rows},
      {7, 16, 5, 3, {{2, 3}, {3, 1}}, few, Missing::labels},
      {20, 5, 7, 4, shared(2, {{3, 3, 3, 3}, {2, 2, 2, 2}})},
      {6, 33, 8, 4, shared(3, causal({{2, 2, 2, 5, 5, 5}, {4, 4, 4, 1, 1, 1}})), some},
      {20, 5, 7, 4, biased(shared(2, {{3, 3, 3, 3}, {2, 2, 2, 2}})), {}, Missing::labels},
      {30, 5, 7, 4, turned({}, {{4, 4}, {2, 5}})},
      {30, 5, 7, 4, turned({100, RotaryLayout::interleaved, 0.7}, biased(causal({{5, 5}, {2, 5}})))},
      {7, 16, 8, 3, turned({}, shared(2, {{6, 6, 6, 6}, {2, 2, 2, 2}})), few},
      {6, 33, 8, 3, turned({100}, causal({{4, 4}, {2, 5}})), some, Missing::rows},
  };
}

inline std::vector<Shape> all_shapes() {
  std::vector<Shape> out = shapes();
  for (Shape& each : variant_shapes()) out.push_back(std::move(each));
  return out;
}

// For messages.
inline std::string name(const Shape& s) {
  std::string out = std::to_string(s.tokens) + " tokens";
  if (s.ranks.causal) out += ", causal";
  if (s.ranks.biased) out += ", biased";
  if (s.ranks.shared > 1) out += ", shared";
  if (s.ranks.rotary) out += ", rotary";
  if (!s.lengths.empty()) out += ", padded";
  if (s.missing != Missing::none) out += ", partial";
  return out;
}

// All that a problem is made of. Logits of size one, so that no head settles on one token.
struct Input {
  Shape shape;
  Matrix<double> x, y, seen, parameters, o;

  Input(const Shape& s, std::uint64_t seed) : shape(s) {
    Stream stream(seed, "factors on back ends");
    x = drawn(s.examples * s.tokens, s.dim, 1, stream);
    y = drawn(s.examples * s.tokens, s.outputs, 1, stream);
    parameters = drawn(s.dim, s.ranks.parameter_columns(), 0.7 / std::sqrt(double(s.dim)), stream);
    o = drawn(s.ranks.value_columns(), s.outputs, 0.7, stream);
    if (s.ranks.biased) add_ones();
    hide_labels(stream);
    for (Index row = 0; row < x.rows(); ++row) {
      if (row % s.tokens < s.length(row / s.tokens)) continue;
      std::fill_n(x.view().row(row), s.dim, 0.0);
      std::fill_n(y.view().row(row), s.outputs, 0.0);
    }
  }
  backend::LayerExamples examples() const {
    return {x.view(), y.view(), shape.tokens, {}, shape.lengths, seen.view()};
  }
  // A direction of the parameters, zero where the factors are fixed.
  Matrix<double> direction(double size, Stream& stream) const {
    Matrix<double> out = drawn(shape.dim, parameters.cols(), size, stream);
    backend::pin(shape.ranks, out.view());
    return out;
  }

 private:
  void add_ones() {
    for (Index row = 0; row < x.rows(); ++row) x(row, shape.dim - 1) = 1;
    backend::pin(shape.ranks, parameters.view());
    parameters(shape.dim - 1, parameters.cols() - 1) = 1;
  }
  void hide_labels(Stream& stream) {
    if (shape.missing == Missing::none) return;
    seen = Matrix<double>(y.rows(), y.cols());
    for (Index i = 0; i < y.rows(); ++i)
      for (Index j = 0; j < y.cols(); ++j) {
        const bool follows = shape.missing == Missing::rows && j > 0;
        seen(i, j) = follows ? seen(i, 0) : stream.below(5) > 0 ? 1 : 0;
        y(i, j) *= seen(i, j);
      }
  }
};

inline Matrix<double> product(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> out = Matrix<double>::zeros(a.rows(), b.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index l = 0; l < a.cols(); ++l)
      for (Index j = 0; j < b.cols(); ++j) out(i, j) += a(i, l) * b(l, j);
  return out;
}

inline Matrix<double> sizes_of(const Matrix<double>& a) {
  Matrix<double> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) out.data()[i] = std::abs(a.data()[i]);
  return out;
}

// Of query q and key k at a distance of tokens. Pairs of columns that turn are complex numbers.
inline double logit_of(const Shape& s, const HeadColumns& h, Index distance, const double* q,
                       const double* k) {
  double out = 0;
  const Index pairs = s.ranks.rotary && h.logits > 0 ? s.ranks.rotary->pairs(h.logits) : 0;
  for (Index j = 0; j < pairs; ++j) {
    const auto [one, other] = s.ranks.rotary->columns(j, h.logits);
    const std::complex<double> query(q[h.q + one], q[h.q + other]), key(k[h.k + one], k[h.k + other]),
        turn = std::polar(1.0, double(distance) * s.ranks.rotary->frequency(j, h.logits));
    out += std::real(query * turn * std::conj(key));
  }
  for (Index j = 2 * pairs; j < h.logits; ++j) out += q[h.q + j] * k[h.k + j];
  return out;
}

// The most that a logit can be: of products of columns, whatever turns into which.
inline double size_of(const HeadColumns& h, const double* q, const double* k) {
  double queries = 0, keys = 0;
  for (Index j = 0; j < h.logits; ++j) {
    queries += q[h.q + j] * q[h.q + j];
    keys += k[h.k + j] * k[h.k + j];
  }
  return std::sqrt(queries * keys);
}

// Phi by loops, with the bound on its rounding: a logit of size s has an error of (2 d + r) eps s, and one
// of (2 d + r + k) eps s where columns turn by angles up to k. That changes a weight by twice as much, and
// sums over d coordinates and k tokens add (d + k) eps. Factor 4 for the order of the sums and for exp. Rows
// of padding are zero.
struct Phi {
  Matrix<double> values, bounds;
};
inline Phi phi_of(const Input& in, const Matrix<double>& parameters) {
  const Shape& s = in.shape;
  const Index k = s.tokens, rows = s.examples * k, features = s.ranks.value_columns();
  const Index turns = s.ranks.rotary ? 4 * k : 0;
  Phi out{Matrix<double>::zeros(rows, features), Matrix<double>::zeros(rows, features)};
  const Matrix<double> z = product(in.x, parameters), sizes = product(sizes_of(in.x), sizes_of(parameters));
  for (const HeadColumns& h : backend::columns_of(s.ranks))
    for (Index row = 0; row < rows; ++row) {
      const Index a = row % k, first = row - a, length = s.length(row / k);
      if (a >= length) continue;
      std::vector<double> weight;
      double total = 0, largest = 0;
      for (Index b = 0; b < (s.ranks.causal ? a + 1 : length); ++b) {
        const double logit = logit_of(s, h, a - b, z.view().row(row), z.view().row(first + b)),
                     size = size_of(h, sizes.view().row(row), sizes.view().row(first + b));
        weight.push_back(std::exp(logit));
        total += weight.back();
        largest = std::max(largest, size);
      }
      for (Index j = 0; j < h.values; ++j) {
        double sum = 0, size = 0;
        for (std::size_t b = 0; b < weight.size(); ++b) {
          sum += weight[b] / total * z(first + Index(b), h.v + j);
          size += weight[b] / total * sizes(first + Index(b), h.v + j);
        }
        const double roundings = 2 * double(2 * s.dim + h.logits + turns) * largest + double(s.dim + k) + 8;
        out.values(row, h.o + j) = sum;
        out.bounds(row, h.o + j) = 4 * kEpsilon * roundings * size;
      }
    }
  return out;
}

// Of labels, what counts.
inline void hide(const Input& in, Matrix<double>& z) {
  for (Index i = 0; i < in.seen.rows() * in.seen.cols(); ++i) z.data()[i] *= in.seen.data()[i];
}

inline double norm(const Matrix<double>& a) { return std::sqrt(squared_norm(a)); }

// |a^T b|
inline double overlap(const Matrix<double>& a, const Matrix<double>& b) {
  double squares = 0;
  for (Index i = 0; i < a.cols(); ++i)
    for (Index j = 0; j < b.cols(); ++j) {
      double sum = 0;
      for (Index row = 0; row < a.rows(); ++row) sum += a(row, i) * b(row, j);
      squares += sum * sum;
    }
  return std::sqrt(squares);
}

// A problem at its point, with a linear model there.
struct Posed {
  std::unique_ptr<backend::LayerProblem> problem;
  std::unique_ptr<backend::LayerPoint> point;
  std::unique_ptr<backend::LinearModel> model;

  Posed(const Input& in, const backend::Context& context, double ridge = 0)
      : problem(context.machine.make_factor_problem(in.examples(), in.shape.ranks, context)),
        point(problem->make_point()) {
    problem->evaluate(copy_of(in.parameters), ridge, *point);
    problem->linearise(*point);
    model = problem->make_linear_model();
    model->move_to(*point);
  }
};

}  // namespace headlens::factor_input
