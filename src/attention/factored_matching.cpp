// Layers in factors up to what their outputs cannot tell, without Theta. The difference of two products is
// one product,
//
//   A B^T - C D^T = [A, -C] [B, D]^T,     |M N^T| = |R_M R_N^T|  with the triangles of QR,
//
// so that d (r + r')^2 flops find a distance to eps |A B^T|: inner products would leave the root of eps.
#include <algorithm>
#include <cmath>
#include <optional>

#include "attention/pairing.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/qr.hpp"
#include "linalg/slice.hpp"
#include "linalg/vector_space.hpp"

namespace headlens {
namespace {

constexpr double kSameHead = 1e-12;  // as canonical() has it by default

// left right^T
struct Product {
  Matrix<double> left, right;
};
struct FactoredHead {
  Product theta, w;
};

double norm_of_parts(Product p) {
  const Index rank = p.left.cols();
  Matrix<double> all;
  if (rank >= std::min(p.left.rows(), p.right.rows())) {
    all = Matrix<double>(p.left.rows(), p.right.rows());
    gemm(Trans::no, Trans::yes, 1.0, std::as_const(p.left).view(), std::as_const(p.right).view(), 0.0,
         all.view());
  } else {
    const Matrix<double> left = TallQr(std::move(p.left)).factor(),
                         right = TallQr(std::move(p.right)).factor();
    all = Matrix<double>(rank, rank);
    gemm(Trans::yes, Trans::no, 1.0, left.view(), right.view(), 0.0, all.view());
  }
  return std::sqrt(squared_norm(all));
}

double norm_of_product(const Product& p) { return norm_of_parts({copy_of(p.left), copy_of(p.right)}); }

double product_distance(const Product& a, const Product& b) {
  return norm_of_parts({side_by_side(a.left, 1, b.left, -1), side_by_side(a.right, 1, b.right, 1)});
}

// |A - B| / |B|, or |A| where B = 0.
double product_error(const Product& a, const Product& b) {
  const double size = norm_of_product(b), error = product_distance(a, b);
  return size > 0 ? error / size : error;
}

bool are_same(const Product& a, const Product& b) {
  return product_distance(a, b) <= kSameHead * std::max(norm_of_product(a), norm_of_product(b));
}

// Heads with equal Theta become one, heads without W are dropped.
std::vector<FactoredHead> merged_heads(const FactoredLayer& layer) {
  std::vector<FactoredHead> groups;
  double largest = 0;
  for (Index i = 0; i < layer.q.dim(0); ++i) {
    FactoredHead head{{copy_of(slice(layer.q, i)), copy_of(slice(layer.k, i))},
                      {copy_of(slice(layer.v, i)), transposed(slice(layer.o, i))}};
    largest = std::max(largest, norm_of_product(head.w));
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const FactoredHead& group) {
      return are_same(group.theta, head.theta);
    });
    if (same == groups.end())
      groups.push_back(std::move(head));
    else
      same->w = {side_by_side(same->w.left, 1, head.w.left, 1),
                 side_by_side(same->w.right, 1, head.w.right, 1)};
  }
  std::erase_if(groups,
                [&](const FactoredHead& group) { return !(norm_of_product(group.w) > kSameHead * largest); });
  return groups;
}

bool is_finite(const Comparison& result) {
  return std::all_of(result.matches.begin(), result.matches.end(), [](const HeadMatch& match) {
    return std::isfinite(match.theta_error) && std::isfinite(match.w_error);
  });
}

}  // namespace

Comparison compare_layers(const FactoredLayer& a, const FactoredLayer& b) {
  require(a.q.dim(1) == b.q.dim(1) && a.o.dim(2) == b.o.dim(2), "compare: the layers have (d, e) = (",
          a.q.dim(1), ", ", a.o.dim(2), ") and (", b.q.dim(1), ", ", b.o.dim(2), ")");
  const std::vector<FactoredHead> first = merged_heads(a), second = merged_heads(b);
  const Comparison result =
      pair_heads(static_cast<Index>(first.size()), static_cast<Index>(second.size()), [&](Index i, Index j) {
        const FactoredHead &one = first[static_cast<std::size_t>(i)],
                           &other = second[static_cast<std::size_t>(j)];
        return HeadMatch{i, j, product_error(one.theta, other.theta), product_error(one.w, other.w)};
      });
  // Squares of numbers beyond 1e154 overflow; dense comparison minds that.
  return is_finite(result) ? result : compare_layers(multiply_out(a), multiply_out(b));
}

}  // namespace headlens
