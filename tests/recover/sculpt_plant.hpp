// Planted layers and what is known of them exactly, for the tests of sculpting.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "headlens/recover.hpp"
#include "linalg/vector_space.hpp"
#include "recover/candidate.hpp"

namespace headlens::recovery {

using Vector = std::vector<double>;

struct Plant {
  AttentionLayer layer;
  Examples examples;
  Split split;
};

inline Plant plant(AttentionLayer layer, Index tokens, Index count, Inputs inputs = Inputs::signs) {
  Examples examples =
      draw_examples(layer, {.count = count, .tokens = tokens, .inputs = inputs, .seed = 3}, {});
  const Split split = hold_out(examples);
  return {std::move(layer), std::move(examples), split};
}

inline AttentionLayer equal_heads(AttentionLayer layer) {
  const Index size = layer.dim() * layer.dim();
  for (Index i = 1; i < layer.heads(); ++i)
    std::copy_n(layer.theta.data<double>(), size, layer.theta.data<double>() + i * size);
  return layer;
}

inline Matrix<double> true_sum(const AttentionLayer& layer) {
  Matrix<double> s = Matrix<double>::zeros(layer.dim(), layer.outputs());
  for (Index i = 0; i < layer.w.size(); ++i)
    s.data()[i % (layer.dim() * layer.outputs())] += layer.w.data<double>()[i];
  return s;
}

inline Vector theta_of(const AttentionLayer& layer, Index head) {
  const Index size = layer.dim() * layer.dim();
  const double* from = layer.theta.data<double>() + head * size;
  return {from, from + size};
}

inline double relative_distance(const Matrix<double>& a, const Matrix<double>& b) {
  double sum = 0;
  for (Index i = 0; i < a.rows() * a.cols(); ++i) sum += std::pow(a.data()[i] - b.data()[i], 2);
  return std::sqrt(sum / squared_norm(b));
}

inline double dot(const double* a, const Vector& b) {
  double sum = 0;
  for (std::size_t j = 0; j < b.size(); ++j) sum += a[j] * b[j];
  return sum;
}

// |projection of unit u on the span of orthonormal rows|
inline double inside_span(const Matrix<double>& rows, const Vector& u) {
  double sum = 0;
  for (Index i = 0; i < rows.rows(); ++i) sum += std::pow(dot(rows.view().row(i), u), 2);
  return std::sqrt(sum);
}

}  // namespace headlens::recovery
