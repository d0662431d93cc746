// Problems in factors for the contracts of back ends, and their layer by plain loops.
#pragma once

#include <cmath>
#include <limits>

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

struct Shape {
  Index examples, tokens, dim, outputs;
  backend::HeadRanks ranks;
};

inline std::vector<Shape> shapes() {
  return {
      {3, 2, 1, 1, {{1}, {1}}},        {5, 1, 3, 2, {{2}, {2}}},        {40, 7, 5, 5, {{0, 2, 5}, {5, 1, 2}}},
      {23, 4, 9, 2, {{4, 3}, {2, 4}}}, {5, 33, 6, 3, {{2, 3}, {1, 4}}}, {3, 40, 37, 5, {{36}, {35}}},
      {2, 100, 4, 3, {{3, 2}, {2, 2}}}};
}

// All that a problem is made of. Logits of size one, so that no head settles on one token.
struct Input {
  Shape shape;
  Matrix<double> x, y, parameters, o;

  Input(const Shape& s, std::uint64_t seed) : shape(s) {
    Stream stream(seed, "factors on back ends");
    x = drawn(s.examples * s.tokens, s.dim, 1, stream);
    y = drawn(s.examples * s.tokens, s.outputs, 1, stream);
    parameters = drawn(s.dim, s.ranks.parameter_columns(), 0.7 / std::sqrt(double(s.dim)), stream);
    o = drawn(s.ranks.value_columns(), s.outputs, 0.7, stream);
  }
  backend::LayerExamples examples() const { return {x.view(), y.view(), shape.tokens}; }
};

// Phi by loops, with the bound on its rounding: a logit of size s has an error of (2 d + r) eps s, which
// changes a weight by twice that, and sums over d coordinates and k tokens add (d + k) eps. Factor 4 for the
// order of the sums and for exp.
struct Phi {
  Matrix<double> values, bounds;
};
inline Phi phi_of(const Input& in, const Matrix<double>& parameters) {
  const Shape& s = in.shape;
  const Index k = s.tokens, rows = s.examples * k;
  Phi out{Matrix<double>(rows, s.ranks.value_columns()), Matrix<double>(rows, s.ranks.value_columns())};
  const auto projected = [&](Index row, Index column, bool absolute) {
    double sum = 0;
    for (Index q = 0; q < s.dim; ++q)
      sum += absolute ? std::abs(in.x(row, q) * parameters(q, column)) : in.x(row, q) * parameters(q, column);
    return sum;
  };
  for (const HeadColumns& h : backend::columns_of(s.ranks))
    for (Index row = 0; row < rows; ++row) {
      const Index first = row / k * k;
      std::vector<double> weight;
      double total = 0, largest = 0;
      for (Index b = 0; b < k; ++b) {
        double logit = 0, size = 0;
        for (Index j = 0; j < h.logits; ++j) {
          logit += projected(row, h.q + j, false) * projected(first + b, h.k + j, false);
          size += projected(row, h.q + j, true) * projected(first + b, h.k + j, true);
        }
        weight.push_back(std::exp(logit));
        total += weight.back();
        largest = std::max(largest, size);
      }
      for (Index j = 0; j < h.values; ++j) {
        double sum = 0, size = 0;
        for (Index b = 0; b < k; ++b) {
          sum += weight[std::size_t(b)] / total * projected(first + b, h.v + j, false);
          size += weight[std::size_t(b)] / total * projected(first + b, h.v + j, true);
        }
        const double roundings = 2 * double(2 * s.dim + h.logits) * largest + double(s.dim + k) + 8;
        out.values(row, h.o + j) = sum;
        out.bounds(row, h.o + j) = 4 * kEpsilon * roundings * size;
      }
    }
  return out;
}

inline Matrix<double> product(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> out = Matrix<double>::zeros(a.rows(), b.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index l = 0; l < a.cols(); ++l)
      for (Index j = 0; j < b.cols(); ++j) out(i, j) += a(i, l) * b(l, j);
  return out;
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

  Posed(const Input& in, const backend::Context& context)
      : problem(context.machine.make_factor_problem(in.examples(), in.shape.ranks, context)),
        point(problem->make_point()) {
    problem->evaluate(copy_of(in.parameters), 0, *point);
    problem->linearise(*point);
    model = problem->make_linear_model();
    model->move_to(*point);
  }
};

}  // namespace headlens::factor_input
