#include "cuda/memory.hpp"

#include <algorithm>

#include "cuda/design/head_design.hpp"
#include "cuda/products/block_products.hpp"

namespace headlens::cuda {
namespace {

using backend::Method;
using backend::Route;
using backend::Shape;
using backend::Side;

constexpr double kDouble = 8;
constexpr double kLibraries = 512.0 * 1024 * 1024;  // workspaces of cuBLAS and cuSOLVER

double as_double(Index i) { return static_cast<double>(i); }

// The square array that is factored in place, rows whose quadratic forms are taken, and the workspace.
double factor_bytes(double size, double item, double forms) {
  return (size * size + 2 * std::min(forms, 4096.0) * size) * item;
}

double solver_bytes(const Route& route, const Shape& shape, double rows, double columns) {
  const double size = route.side == Side::dual ? rows : columns;
  const bool single = route.precision == Precision::f32;
  const double forms = single ? as_double(shape.left_out) : rows;
  switch (route.method) {
    case Method::cholesky:
      return factor_bytes(size, single ? 4 : kDouble, 0);
    case Method::path:
      return factor_bytes(size, single ? 4 : kDouble, forms) + size * size * (single ? 4 : kDouble);
    case Method::minimum_norm:
      return 4 * size * size * kDouble;
    case Method::newton:
      return rows * rows * kDouble;
    case Method::conjugate_gradients:
      return (rows + columns) * as_double(std::max<Index>(shape.sketch, shape.outputs)) * kDouble;
    default:
      return 0;
  }
}

// Only products with rows of Phi do without all of it on the dual side.
bool needs_all(const Route& route) {
  const bool products = route.method == Method::conjugate_gradients ||
                        route.method == Method::newton_on_features || route.method == Method::norm_ball;
  return !products && route.side == Side::dual;
}

double kernel_bytes(const Route& route, const Shape& shape) {
  const double n = as_double(shape.sets.count());
  // Of the matrix: one measures the residual; a path keeps the best factor beside the latest.
  const double copies = route.method == Method::minimum_norm ? 5 : route.method == Method::path ? 3 : 2;
  const double forms = route.method == Method::path ? 2 * 4096 * n : 0;
  return token_bytes(shape.sets, sizeof(double)) + (copies * n * n + forms) * kDouble + kLibraries;
}

}  // namespace

double route_bytes(const Route& route, const Shape& shape) {
  const FeatureOptions& f = shape.features;
  if (shape.centres > 0) return 0;  // refused when they are asked for
  if (f.infinite()) return kernel_bytes(route, shape);
  const std::size_t item = f.precision == Precision::f32 ? 4 : 8;
  const double rows = as_double(shape.sets.count()), q = as_double(shape.outputs);
  const Index p = head_columns(f, shape.sets.dim());
  const double columns = as_double(p);
  const double block_rows = std::min(rows, as_double(rows_of_block(p, item)));
  const bool all = shape.hold || needs_all(route);
  const double phi = (all ? rows : block_rows) * columns * static_cast<double>(item);
  const double tokens =
      token_bytes(shape.sets, item) * (are_resident(shape.sets, item) ? 1.0 : block_rows / rows);
  const Index keys = f.kind == ModelKind::mlp ? shape.sets.keys_of(0) : 0;
  const double sums = 2 * (block_rows / kSumRows + 2) * columns * kDouble * std::max(1.0, std::min(q, 4.0));
  return tokens + head_map_bytes(f, shape.sets.dim(), keys) + phi + sums +
         block_product_bytes(all ? rows : block_rows, columns) + 4 * (rows + columns) * q * kDouble +
         solver_bytes(route, shape, rows, columns) + kLibraries;
}

}  // namespace headlens::cuda
