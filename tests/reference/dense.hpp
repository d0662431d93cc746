// Dense linear algebra as one would write it on a blackboard.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "headlens/array.hpp"

namespace headlens::reference {

struct Dense {
  Index rows, cols;
  std::vector<double> values;

  Dense(Index r, Index c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c), 0.0) {}
  double& operator()(Index i, Index j) { return values[static_cast<std::size_t>(i * cols + j)]; }
  double operator()(Index i, Index j) const { return values[static_cast<std::size_t>(i * cols + j)]; }
};

inline Dense multiply(const Dense& a, const Dense& b) {
  Dense c(a.rows, b.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index k = 0; k < a.cols; ++k)
      for (Index j = 0; j < b.cols; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

inline Dense transposed(const Dense& a) {
  Dense t(a.cols, a.rows);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) t(j, i) = a(i, j);
  return t;
}

inline Dense scaled(Dense a, double by) {
  for (double& x : a.values) x *= by;
  return a;
}

inline Dense add(Dense a, const Dense& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
  return a;
}

inline double frobenius(const Dense& a) {
  double sum = 0;
  for (const double x : a.values) sum += x * x;
  return std::sqrt(sum);
}

// Subtracts the mean of every column and returns the means.
inline std::vector<double> centre(Dense& a) {
  std::vector<double> means(static_cast<std::size_t>(a.cols));
  for (Index j = 0; j < a.cols; ++j) {
    double& mean = means[static_cast<std::size_t>(j)];
    for (Index i = 0; i < a.rows; ++i) mean += a(i, j) / static_cast<double>(a.rows);
    for (Index i = 0; i < a.rows; ++i) a(i, j) -= mean;
  }
  return means;
}

// Gaussian elimination with partial pivoting.
inline Dense solve(Dense a, Dense b) {
  for (Index k = 0; k < a.rows; ++k) {
    Index pivot = k;
    for (Index i = k; i < a.rows; ++i)
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    for (Index j = 0; j < a.cols; ++j) std::swap(a(k, j), a(pivot, j));
    for (Index j = 0; j < b.cols; ++j) std::swap(b(k, j), b(pivot, j));
    for (Index i = 0; i < a.rows; ++i) {
      if (i == k) continue;
      const double factor = a(i, k) / a(k, k);
      for (Index j = k; j < a.cols; ++j) a(i, j) -= factor * a(k, j);
      for (Index j = 0; j < b.cols; ++j) b(i, j) -= factor * b(k, j);
    }
  }
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < b.cols; ++j) b(i, j) /= a(i, i);
  return b;
}

}  // namespace headlens::reference
