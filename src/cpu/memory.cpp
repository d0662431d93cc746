#include "cpu/memory.hpp"

#include <algorithm>
#include <cmath>

#include "cpu/design/design_matrix.hpp"
#include "cpu/features/rfa.hpp"
#include "cpu/kernels/closed_form.hpp"
#include "cpu/products/float_products.hpp"
#include "features/heads.hpp"
#include "linalg/band.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {
namespace {

using backend::Method;
using backend::Route;
using backend::Shape;
using backend::Side;

constexpr double kDouble = 8, kFloat = 4;
constexpr double kSmall = 1 << 16;  // words, options, lists of penalties

double as_double(Index i) { return static_cast<double>(i); }
double square(double size) { return size * size; }
double item_of(const FeatureOptions& f) { return f.precision == Precision::f32 ? kFloat : kDouble; }

// Blocks in which the columns of heads are computed.
struct ColumnBlocks {
  double count = 0;
  Index columns = 0;  // of a block
  Index heads = 0;    // of a block

  ColumnBlocks(const FeatureOptions& f, Index dim) {
    heads = f.kind == ModelKind::mlp ? 256 : kLanes;
    columns = f.kind == ModelKind::mlp ? 256 : (dim + 1) * kLanes;
    count = std::ceil(as_double(f.heads) / as_double(heads));
  }
};

// Phi, as the products need it.
struct DesignBytes {
  double rows = 0, columns = 0;  // n, p
  double used = 0;               // p without padding
  double item = kDouble;
  double fixed = 0;                 // data, heads or centres, means
  double held = 0;                  // all of Phi, or nothing
  double row_block = 0, chunk = 0;  // buffers of the two ways to walk over Phi; nothing if it is held
  double block_rows = 0, chunk_columns = 0;  // what is seen at once, held or not

  void cut(Index block, Index chunk_width, bool hold) {
    block_rows = std::min(rows, as_double(block));
    chunk_columns = std::min(columns, as_double(chunk_width));
    held = hold ? rows * columns * item : 0;
    row_block = hold ? 0 : block_rows * columns * item;
    chunk = hold ? 0 : rows * chunk_columns * item;
  }
  double widest() const { return std::max(row_block, chunk); }
  double size(Side side) const { return side == Side::dual ? rows : columns; }
  // The buffer of the pass that sums the Gram matrix.
  double gram_pass(Side side) const { return side == Side::dual ? chunk : row_block; }
};

// What the threads hold while they compute features: tokens of a tile of sets, packed and, for mlp, in rows,
// and a group of heads.
double map_scratch(const Shape& shape, int threads) {
  const FeatureOptions& f = shape.features;
  const double tokens = as_double(shape.sets.max_keys() + 1), dim = as_double(shape.sets.dim() + 1);
  const double sets = std::clamp(65536.0 / tokens, 1.0, 64.0);
  const double block = f.kind == ModelKind::mlp
                           ? sets * (tokens * dim + 256)
                           : as_double(rfa_scratch_items(shape.sets.dim(), shape.sets.max_keys()));
  // Products of floats are taken in tiles of doubles.
  const double converted = f.precision == Precision::f32 ? 32 * 512 * kDouble : 0;
  return threads * (item_of(f) * (sets * tokens * dim + block) + converted);
}

DesignBytes head_design(const Shape& shape, int threads) {
  const FeatureOptions& f = shape.features;
  const Index n = shape.sets.count(), dim = shape.sets.dim();
  const Index keys = f.kind == ModelKind::mlp ? shape.sets.keys_of(0) : 0;
  const ColumnBlocks blocks(f, dim);
  DesignBytes out;
  out.rows = as_double(n);
  out.columns = design_columns(f, dim, keys);
  out.used = out.columns * as_double(f.heads) / (blocks.count * as_double(blocks.heads));
  out.item = item_of(f);
  const double stored = out.item * head_items(f, dim, keys);
  const double packed = stored / as_double(f.heads) * blocks.count * as_double(blocks.heads);
  const double means = out.columns * (4 * kDouble + 2 * out.item);
  out.fixed = shape.sets.host_bytes() + stored + packed + means + map_scratch(shape, threads);
  out.cut(rows_of_block(shape.block_sets, static_cast<Index>(out.columns)), columns_of_chunk(blocks.columns),
          shape.hold);
  return out;
}

double closed_form_bytes(const Shape& shape, int threads) {
  const FeatureOptions& f = shape.features;
  const TokenSource source(shape.sets, f.kind, f.positions, f.precision);
  return ClosedFormKernel(f, false).buffer_bytes(source, source, threads);
}

// The sets that a model of infinitely many heads keeps.
double support_bytes(const Shape& shape, double count) {
  const double tokens = as_double(shape.sets.count() + shape.sets.total_keys());
  return item_of(shape.features) * as_double(shape.sets.dim()) * tokens * count /
         as_double(shape.sets.count());
}

DesignBytes centre_design(const Shape& shape, int threads) {
  DesignBytes out;
  const double m = as_double(shape.centres);
  out.rows = as_double(shape.sets.count());
  out.columns = out.used = m;
  out.fixed = shape.sets.host_bytes() + support_bytes(shape, m) + square(m) * kDouble +
              closed_form_bytes(shape, threads) + m * 6 * kDouble + threads * square(128) * kDouble;
  out.cut(rows_of_block(shape.block_sets > 0 ? shape.block_sets : kRowTile, shape.centres), shape.centres,
          shape.hold);
  return out;
}

// Tiles of threads that sum products of floats in double.
double gram_scratch(const DesignBytes& design, int threads) {
  return design.item == kFloat ? threads * square(kLargestSquareTile) * kFloat : 0.0;
}

// Integers of one panel of a rounded Gram matrix, what the threads gather them from, and floats of a chunk or
// tile of doubles.
double rounded_scratch(const DesignBytes& design, Side side, double size, int threads) {
  const double groups = std::ceil(size / kSingleLanes);
  const double integers = groups * (as_double(float_products(simd_level()).group_items) + kSingleLanes) * 4 +
                          threads * as_double(kSingleLanes * kRoundedSteps) * kFloat;
  if (design.item == kFloat) return integers;
  const double rows = std::min(design.rows, as_double(kRowTile));
  return integers +
         kFloat * (side == Side::dual ? design.rows * design.chunk_columns : rows * design.columns);
}

// Beside the matrix, while it is reduced and afterwards.
double band_bytes(double size, double item, int threads) {
  const double panels = 5 * kBandWidth, kept = 2 * kBandWidth, reflectors = 256;
  return size * (panels + kept + reflectors / 2) * item + threads * 256 * 256 * item;
}

// A factor of the band: three blocks of kBandWidth for every row.
double factor_bytes(double size, double item) { return size * 3 * kBandWidth * item; }

double exact_gram(const Route& route, const DesignBytes& design, const Shape& shape, int threads) {
  const double size = design.size(route.side), q = as_double(shape.outputs);
  const double gram = square(size) * kDouble;
  const double summed = gram + design.gram_pass(route.side) + gram_scratch(design, threads);
  if (route.method == Method::cholesky) return std::max(summed, gram + 4 * size * q * kDouble);
  if (route.method == Method::minimum_norm)  // eigenvectors and LAPACK's workspace
    return std::max(summed, 4 * gram + 12 * size * kDouble);
  const double penalties = as_double(shape.penalties);
  const double band = gram + band_bytes(size, kDouble, threads) +
                      penalties * (factor_bytes(size, kDouble) + size * q * kDouble);
  if (route.side == Side::dual) return std::max(summed, band + gram + penalties * size * q * kDouble);
  const double tile = std::min(design.rows, as_double(kRowTile)) * (size + penalties * q) * kDouble;
  return std::max(summed, band + design.row_block + tile);
}

double float_gram(const Route& route, const DesignBytes& design, const Shape& shape, int threads) {
  const bool dual = route.side == Side::dual;
  const double size = dual ? design.rows : design.used, q = as_double(shape.outputs);
  const double gram = square(size) * kFloat;
  const double summed =
      gram + design.gram_pass(route.side) + rounded_scratch(design, route.side, size, threads);
  // Conjugate gradients, and values V = Phi^T alpha while the factor is still there.
  const double refined = gram + (dual ? design.widest() : design.row_block) + 8 * size * q * kDouble;
  if (route.method == Method::cholesky) return std::max(summed, refined);
  const double penalties = as_double(shape.penalties) * q;
  const double left_out = as_double(shape.left_out) * size * kFloat;
  const double band = gram + left_out + band_bytes(size, kFloat, threads) + factor_bytes(size, kFloat) +
                      2 * penalties * size * kFloat;
  const double fitted =
      dual ? 0.0
           : penalties * design.columns * kFloat + design.row_block +
                 (design.item == kDouble ? design.block_rows * design.columns * kFloat : 0.0);
  return std::max({summed + left_out, band + penalties * design.rows * kFloat + fitted,
                   refined + left_out + band_bytes(size, kFloat, 0) + factor_bytes(size, kFloat)});
}

// Sketches and the products of one application.
double sketch_bytes(const Route& route, const DesignBytes& design, const Shape& shape) {
  const double rank = as_double(shape.sketch), size = design.size(route.side);
  if (shape.sketch == 0)  // the centres' own
    return square(size) * kDouble + std::max(design.row_block, 256 * size * kDouble);
  if (route.side == Side::dual)
    return std::max((4 * size + design.chunk_columns) * rank * kDouble + design.chunk,
                    size * rank * kDouble + design.row_block);
  return (3 * size + design.block_rows) * rank * kDouble + design.row_block;
}

double solver_bytes(const Route& route, const DesignBytes& design, const Shape& shape, int threads) {
  switch (route.method) {
    case Method::cholesky:
    case Method::path:
    case Method::minimum_norm: {
      const double solve = route.precision == Precision::f32 ? float_gram(route, design, shape, threads)
                                                             : exact_gram(route, design, shape, threads);
      return std::max(solve, design.row_block);  // the residual is measured row by row
    }
    case Method::conjugate_gradients:
      return std::max(sketch_bytes(route, design, shape), design.row_block);
    case Method::newton:
      return std::max(square(design.rows) * kDouble + design.chunk + gram_scratch(design, threads),
                      square(design.rows) * kDouble + design.row_block);
    case Method::newton_on_features:
      return design.widest();
    case Method::norm_ball:
      return design.row_block;
  }
  return 0;
}

}  // namespace

double design_columns(const FeatureOptions& features, Index dim, Index) {
  const ColumnBlocks blocks(features, dim);
  return blocks.count * as_double(blocks.columns);
}

double route_bytes(const Route& route, const Shape& shape, int threads) {
  if (shape.features.infinite() && shape.centres == 0) {
    DesignBytes design;
    design.rows = as_double(shape.sets.count());
    // The kernel matrix is kept to measure the residual with; the solver has a copy.
    const double kernel = square(design.rows) * kDouble;
    return kSmall + shape.sets.host_bytes() + support_bytes(shape, design.rows) + kernel +
           std::max(closed_form_bytes(shape, threads), solver_bytes(route, design, shape, threads));
  }
  const DesignBytes design =
      shape.features.infinite() ? centre_design(shape, threads) : head_design(shape, threads);
  return kSmall + design.fixed + design.held + solver_bytes(route, design, shape, threads);
}

}  // namespace headlens::cpu
