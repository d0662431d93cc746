// Overlaps and distances of heads in factors, against matrices written out entry by entry.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "base/random.hpp"
#include "match/form_stack.hpp"

namespace headlens::matching {
namespace {

Array normal_array(std::vector<Index> shape, std::uint64_t index) {
  Array out(DType::f64, std::move(shape));
  Stream stream(1, "forms-test", index);
  for (Index i = 0; i < out.size(); ++i) out.data<double>()[i] = stream.normal();
  return out;
}

LayerHeads factored(Index m, Index d, Index r, Index s, Index e, std::uint64_t seed) {
  LayerHeads out;
  out.q = normal_array({m, d, r}, 10 * seed), out.k = normal_array({m, d, r}, 10 * seed + 1);
  out.v = normal_array({m, d, s}, 10 * seed + 2), out.o = normal_array({m, s, e}, 10 * seed + 3);
  return out;
}

// Entry (i, j) of head h: Theta over tokens with a trailing 1.
double theta_entry(const LayerHeads& l, Index h, Index i, Index j) {
  const Index d = l.dim(), r = l.q.dim(2);
  double sum = 0;
  if (i < d && j < d)
    for (Index a = 0; a < r; ++a) sum += l.q.at((h * d + i) * r + a) * l.k.at((h * d + j) * r + a);
  if (i == d && j < d && !l.query_bias.empty()) sum = l.query_bias.at(h * d + j);
  return sum;
}

double w_entry(const LayerHeads& l, Index h, Index i, Index c) {
  const Index d = l.dim(), s = l.v.dim(2), e = l.outputs();
  double sum = 0;
  for (Index a = 0; a < s; ++a) sum += l.v.at((h * d + i) * s + a) * l.o.at((h * s + a) * e + c);
  return sum;
}

template <class Entry>
void expect_products(const FormStack& a, const FormStack& b, const LayerHeads& la, const LayerHeads& lb,
                     Entry entry) {
  const Matrix<double> products = inner_products(a, b, 2);
  for (Index h = 0; h < a.heads; ++h)
    for (Index g = 0; g < b.heads; ++g) {
      double product = 0, squares = 0, size = 0;
      for (Index i = 0; i < a.rows; ++i)
        for (Index j = 0; j < a.cols; ++j) {
          const double x = entry(la, h, i, j), y = entry(lb, g, i, j);
          product += x * y, squares += (x - y) * (x - y), size += x * x + y * y;
        }
      EXPECT_NEAR(products(h, g), product, 1e-13 * size);
      EXPECT_NEAR(difference(a, h, b, g), std::sqrt(squares), 1e-13 * std::sqrt(size));
    }
}

TEST(FormStack, ProductsAndDistancesAreThoseOfMatrices) {
  for (const Index r : {1, 3, 8}) {  // 8: more columns side by side than rows
    LayerHeads a = factored(3, 9, r, 2, 5, 1), b = factored(2, 9, r == 3 ? 2 : r, 3, 5, 2);
    if (r > 1) a.query_bias = normal_array({3, 9}, 40);
    if (r > 3) b.query_bias = normal_array({2, 9}, 41);
    expect_products(theta_forms(a), theta_forms(b), a, b, theta_entry);
    expect_products(w_forms(a), w_forms(b), a, b, w_entry);
    expect_products(multiplied_out(theta_forms(a)), multiplied_out(theta_forms(b)), a, b, theta_entry);
    expect_products(multiplied_out(w_forms(a)), multiplied_out(w_forms(b)), a, b, w_entry);
  }
}

TEST(FormStack, EqualHeadsInOtherBasesHaveNoDistance) {
  const LayerHeads a = factored(1, 30, 2, 2, 30, 3);
  LayerHeads b = a;
  b.q = Array(DType::f64, a.q.shape()), b.k = Array(DType::f64, a.k.shape());
  const double m[2][2] = {{2, 3}, {1, 2}}, inverse[2][2] = {{2, -1}, {-3, 2}};  // (M^-1)^T
  for (Index i = 0; i < 30; ++i)
    for (Index c = 0; c < 2; ++c)
      for (Index k = 0; k < 2; ++k) {
        b.q.data<double>()[i * 2 + c] += a.q.at(i * 2 + k) * m[k][c];
        b.k.data<double>()[i * 2 + c] += a.k.at(i * 2 + k) * inverse[k][c];
      }
  const FormStack x = theta_forms(a), y = theta_forms(b);
  EXPECT_LT(difference(x, 0, y, 0), 1e-14 * std::sqrt(inner_products(x, x, 1)(0, 0)));
}

// Theta at a distance of tokens, the slow way: turn every plane of the keys.
double turned_entry(const LayerHeads& l, Index h, Index i, Index j, Index distance) {
  const Index d = l.dim(), r = l.q.dim(2);
  std::vector<bool> turned(static_cast<std::size_t>(r), false);
  double sum = 0;
  for (Index p = 0; p < l.rotary->pairs(r); ++p) {
    const auto [a, b] = l.rotary->columns(p, r);
    turned[static_cast<std::size_t>(a)] = turned[static_cast<std::size_t>(b)] = true;
    const std::complex<double> q(l.q.at((h * d + i) * r + a), l.q.at((h * d + i) * r + b)),
        k(l.k.at((h * d + j) * r + a), l.k.at((h * d + j) * r + b));
    sum += (q * std::conj(k) * std::polar(1.0, static_cast<double>(distance) * l.rotary->frequency(p, r)))
               .real();
  }
  for (Index a = 0; a < r; ++a)
    if (!turned[static_cast<std::size_t>(a)])
      sum += l.q.at((h * d + i) * r + a) * l.k.at((h * d + j) * r + a);
  return sum;
}

// Multiplying q_j and dividing conj(k_j) by a complex number changes Theta at no distance.
LayerHeads in_another_gauge(const LayerHeads& a) {
  LayerHeads b = a;
  const Index m = a.heads(), d = a.dim(), r = a.q.dim(2);
  b.q = Array::from(a.q.to_doubles(), a.q.shape()), b.k = Array::from(a.k.to_doubles(), a.k.shape());
  Stream stream(1, "gauge", 0);
  for (Index h = 0; h < m; ++h)
    for (Index p = 0; p < a.rotary->pairs(r); ++p) {
      const auto [s, t] = a.rotary->columns(p, r);
      const std::complex<double> factor(stream.normal(), stream.normal());
      for (Index i = 0; i < d; ++i) {
        const Index row = (h * d + i) * r;
        const std::complex<double> q = std::complex(a.q.at(row + s), a.q.at(row + t)) * factor,
                                   k = std::complex(a.k.at(row + s), a.k.at(row + t)) / std::conj(factor);
        b.q.data<double>()[row + s] = q.real(), b.q.data<double>()[row + t] = q.imag();
        b.k.data<double>()[row + s] = k.real(), b.k.data<double>()[row + t] = k.imag();
      }
    }
  return b;
}

TEST(FormStack, RotaryHeadsAreComparedAtAllDistances) {
  for (const double share : {1.0, 0.5})
    for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
      LayerHeads a = factored(2, 20, 4, 2, 20, 5);
      a.rotary = Rotary{.base = 100, .layout = layout, .share = share};
      const LayerHeads b = in_another_gauge(a);
      for (const Index distance : {-3, 0, 1, 7})
        EXPECT_NEAR(turned_entry(a, 1, 3, 4, distance), turned_entry(b, 1, 3, 4, distance), 1e-12);
      const FormStack x = theta_forms(a), y = theta_forms(b);
      const double size = std::sqrt(inner_products(x, x, 1)(1, 1));
      EXPECT_LT(difference(x, 1, y, 1), 1e-13 * size);
      EXPECT_NEAR(inner_products(x, y, 1)(1, 1), size * size, 1e-12 * size * size);
      // Another real basis of a plane keeps Q K^T, which is Theta at distance 0, and no other.
      LayerHeads c = b;
      c.q = Array::from(b.q.to_doubles(), b.q.shape()), c.k = Array::from(b.k.to_doubles(), b.k.shape());
      const auto [s, t] = a.rotary->columns(0, 4);
      for (Index i = 0; i < 20; ++i) {
        c.q.data<double>()[(20 + i) * 4 + s] *= 2;
        c.k.data<double>()[(20 + i) * 4 + s] /= 2;
      }
      EXPECT_NEAR(turned_entry(a, 1, 3, 4, 0), turned_entry(c, 1, 3, 4, 0), 1e-12);
      EXPECT_GT(difference(x, 1, theta_forms(c), 1), 0.05 * size);
      // |F - F'|^2 = |F|^2 + |F'|^2 - 2 <F, F'>, for heads that are far from each other.
      const LayerHeads other = [&] {
        LayerHeads l = factored(2, 20, 4, 2, 20, 6);
        l.rotary = a.rotary;
        return l;
      }();
      const FormStack z = theta_forms(other);
      EXPECT_NEAR(
          difference(x, 0, z, 1) * difference(x, 0, z, 1),
          inner_products(x, x, 1)(0, 0) + inner_products(z, z, 1)(1, 1) - 2 * inner_products(x, z, 1)(0, 1),
          1e-12 * size * size);
    }
}

}  // namespace
}  // namespace headlens::matching
