#include "recover/factors/biases.hpp"

#include <algorithm>
#include <utility>

#include "linalg/blas.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

// 0 in rows of padding, whose tokens are zero.
Matrix<double> one_appended(MatrixView<const double> x, Index tokens, const std::vector<Index>& lengths) {
  Matrix<double> out(x.rows, x.cols + 1);
  for (Index i = 0; i < x.rows; ++i) {
    const Index length = lengths.empty() ? tokens : lengths[static_cast<std::size_t>(i / tokens)];
    std::copy_n(x.row(i), x.cols, out.view().row(i));
    out(i, x.cols) = i % tokens < length ? 1 : 0;
  }
  return out;
}

// The slice of one head in an array (m, rows, cols).
MatrixView<double> slice(Array& array, Index head, Index rows, Index cols) {
  return {array.data<double>() + head * rows * cols, rows, cols};
}

}  // namespace

WithOnes with_ones(const Split& split) {
  WithOnes out{one_appended(split.train_x, split.tokens, split.train_lengths),
               one_appended(split.held_x, split.tokens, split.held_lengths), split};
  out.split.train_x = std::as_const(out.train_x).view();
  out.split.held_x = std::as_const(out.held_x).view();
  return out;
}

Factors with_variant(Factors start, const RecoverOptions& options) {
  start.ranks.causal = options.mask == Mask::causal;
  start.ranks.rotary = options.variant().rotary;
  if (!options.bias) return start;
  std::vector<OwnHead> heads;
  for (Index i = 0; i < start.heads(); ++i) heads.push_back(own_head(start, i));
  const Index d = start.dim();
  OwnHead constant{Matrix<double>(d, 0), Matrix<double>(d, 0), Matrix<double>::zeros(d, 1),
                   Matrix<double>::zeros(1, start.outputs())};
  constant.v(d - 1, 0) = 1;
  heads.push_back(std::move(constant));
  for (std::size_t i = 0; i + 1 < heads.size(); ++i) {
    std::fill_n(heads[i].k.view().row(d - 1), heads[i].k.cols(), 0.0);
    std::fill_n(heads[i].v.view().row(d - 1), heads[i].v.cols(), 0.0);
  }
  backend::HeadRanks like = start.ranks;
  like.biased = true;
  return assemble(heads, like);
}

Index layer_heads(const Factors& factors) { return factors.heads() - (factors.ranks.biased ? 1 : 0); }

Factors without_constant(const Factors& factors) {
  std::vector<OwnHead> heads;
  for (Index i = 0; i < layer_heads(factors); ++i) heads.push_back(own_head(factors, i));
  backend::HeadRanks like = factors.ranks;
  like.biased = false;
  Factors out = assemble(heads, like);
  out.train_error = factors.train_error;
  out.held_out_error = factors.held_out_error;
  return out;
}

Factors without_gauge(Factors factors) {
  if (!factors.ranks.biased) return factors;
  const Index last = factors.dim() - 1;
  const std::vector<backend::HeadColumns> columns = backend::columns_of(factors.ranks);
  const backend::HeadColumns& constant = columns.back();
  Matrix<double>&z = factors.values.parameters, &o = factors.values.o;
  const double unit = z(last, constant.v);  // 1 or -1
  const auto each_head = [&](const auto& work) {
    for (std::size_t i = 0; i + 1 < columns.size(); ++i) work(columns[i]);
  };
  each_head([&](const backend::HeadColumns& c) {
    for (Index j = 0; j < c.values; ++j)
      for (Index b = 0; b < o.cols(); ++b) o(constant.o, b) += z(last, c.v + j) * o(c.o + j, b) / unit;
  });
  // Only now: heads of a group share these columns, and each of them adds its own part to the constant.
  each_head([&](const backend::HeadColumns& c) {
    for (Index j = 0; j < c.logits; ++j) z(last, c.k + j) = 0;
    for (Index j = 0; j < c.values; ++j) z(last, c.v + j) = 0;
  });
  return factors;
}

AttentionLayer variant_layer(const Factors& factors, const LayerVariant& variant) {
  const Index m = layer_heads(factors), d = factors.dim() - (variant.bias ? 1 : 0), e = factors.outputs();
  AttentionLayer out{Array(), Array(DType::f64, {m, d, e}), variant};
  const Index r = factors.ranks.turned_rank();
  if (variant.rotary) {
    out.q = Array(DType::f64, {m, d, r});
    out.k = Array(DType::f64, {m, d, r});
  } else {
    out.theta = Array(DType::f64, {m, d, d});
  }
  if (variant.bias) {
    out.query_bias = Array(DType::f64, {m, d});
    out.constant = Array(DType::f64, {e});
  }
  for (Index i = 0; i < m; ++i) {
    const HeadFactors h = head_of(factors, i);
    const MatrixView<const double> k = h.k.block(0, 0, d, h.k.cols);
    if (variant.rotary) {
      copy_rows(h.q, slice(out.q, i, d, r));
      copy_rows(k, slice(out.k, i, d, r));
    } else {
      gemm(Trans::no, Trans::yes, 1.0, h.q.block(0, 0, d, h.q.cols), k, 0.0, slice(out.theta, i, d, d));
    }
    gemm(Trans::no, Trans::no, 1.0, h.v.block(0, 0, d, h.v.cols), h.o, 0.0, slice(out.w, i, d, e));
    if (variant.bias)
      gemm(Trans::no, Trans::yes, 1.0, h.q.block(d, 0, 1, h.q.cols), k, 0.0,
           {out.query_bias.data<double>() + i * d, 1, d});
  }
  if (!variant.bias) return out;
  const HeadFactors constant = head_of(factors, m);
  for (Index b = 0; b < e; ++b) out.constant.data<double>()[b] = constant.v(d, 0) * constant.o(0, b);
  return out;
}

}  // namespace headlens::recovery
