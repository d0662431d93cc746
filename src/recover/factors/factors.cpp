#include "recover/factors/factors.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/blas.hpp"
#include "linalg/slice.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"
#include "recover/factors/groups.hpp"

namespace headlens::recovery {
namespace {

// The first columns of u, each times its factor.
Matrix<double> scaled_columns(MatrixView<const double> u, const std::vector<double>& factors, Index count) {
  Matrix<double> out(u.rows, count);
  for (Index i = 0; i < u.rows; ++i)
    for (Index j = 0; j < count; ++j) out(i, j) = u(i, j) * factors[static_cast<std::size_t>(j)];
  return out;
}

Index count_above(const std::vector<double>& values, double share) {
  return std::count_if(values.begin(), values.end(),
                       [&](double value) { return value > share * values.front() && value > 0; });
}

// A B = U s V^T from A = U_a s_a V_a^T and the small matrix s_a V_a^T B.
Svd product_svd(MatrixView<const double> a, MatrixView<const double> b) {
  Svd outer = svd(a);
  if (!outer.ok) return outer;
  Matrix<double> small = product(Trans::no, Trans::no, outer.right.view(), b);
  for (Index i = 0; i < small.rows(); ++i)
    for (Index j = 0; j < small.cols(); ++j) small(i, j) *= outer.values[static_cast<std::size_t>(i)];
  Svd core = svd(small);
  if (core.ok) core.left = product(Trans::no, Trans::no, outer.left.view(), core.left.view());
  return core;
}

Array zeros(std::vector<Index> shape) {
  Array out(DType::f64, std::move(shape));
  std::fill_n(out.data<double>(), out.size(), 0.0);
  return out;
}

}  // namespace

Factors copy_of(const Factors& f) {
  return {f.ranks,
          {headlens::copy_of(f.values.parameters), headlens::copy_of(f.values.o)},
          f.train_error,
          f.held_out_error};
}

HeadFactors head_of(const Factors& f, Index head) {
  const backend::HeadColumns c = backend::columns_of(f.ranks)[static_cast<std::size_t>(head)];
  const MatrixView<const double> z = f.values.parameters.view();
  return {z.block(0, c.q, z.rows, c.logits), z.block(0, c.k, z.rows, c.logits),
          z.block(0, c.v, z.rows, c.values), f.values.o.view().block(c.o, 0, c.values, f.outputs()),
          f.ranks.rotary};
}

OwnHead own_head(const Factors& f, Index head) {
  const HeadFactors h = head_of(f, head);
  return {copy_of<double>(h.q), copy_of<double>(h.k), copy_of<double>(h.v), copy_of<double>(h.o), h.rotary};
}

Factors assemble(const std::vector<OwnHead>& heads, const backend::HeadRanks& like) {
  Factors out;
  out.ranks = like;
  out.ranks.logits.clear();
  out.ranks.values.clear();
  for (const OwnHead& head : heads) {
    out.ranks.logits.push_back(head.q.cols());
    out.ranks.values.push_back(head.v.cols());
  }
  const Index d = heads.at(0).v.rows(), e = heads[0].o.cols();
  out.values.parameters = Matrix<double>(d, out.ranks.parameter_columns());
  out.values.o = Matrix<double>(out.ranks.value_columns(), e);
  const std::vector<backend::HeadColumns> columns = backend::columns_of(out.ranks);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const backend::HeadColumns& c = columns[i];
    const MatrixView<double> z = out.values.parameters.view();
    copy_rows(heads[i].q.view(), z.block(0, c.q, d, c.logits));
    copy_rows(heads[i].k.view(), z.block(0, c.k, d, c.logits));
    copy_rows(heads[i].v.view(), z.block(0, c.v, d, c.values));
    copy_rows(heads[i].o.view(), out.values.o.view().block(c.o, 0, c.values, e));
  }
  return out;
}

Factors random_factors(Index dim, Index outputs, Index heads, Index rank, std::uint64_t seed, int start) {
  const double d = static_cast<double>(dim), r = static_cast<double>(rank);
  Factors out;
  out.ranks.logits.assign(static_cast<std::size_t>(heads), rank);
  out.ranks.values = out.ranks.logits;
  out.values.parameters = Matrix<double>(dim, out.ranks.parameter_columns());
  out.values.o = Matrix<double>(out.ranks.value_columns(), outputs);
  Stream stream(seed, "start of factors", static_cast<std::uint64_t>(start));
  const Index logits = out.ranks.logit_columns() + out.ranks.key_columns();
  for (Index i = 0; i < dim; ++i)
    for (Index j = 0; j < out.ranks.parameter_columns(); ++j)
      out.values.parameters(i, j) =
          stream.normal() * (j < logits ? 0.7 / std::pow(d * d * r, 0.25) : 0.3 / std::sqrt(d));
  for (Index i = 0; i < out.values.o.rows() * outputs; ++i)
    out.values.o.data()[i] = stream.normal() * 0.3 / std::sqrt(d);
  return out;
}

Factors with_silent_heads(const Factors& layer, const Factors& silent) {
  const Index heads = layer.heads() - (layer.ranks.biased ? 1 : 0);  // what is left of the biases comes last
  std::vector<OwnHead> all;
  for (Index i = 0; i < heads; ++i) all.push_back(own_head(layer, i));
  for (Index i = 0; i < silent.heads(); ++i) {
    all.push_back(own_head(silent, i));
    OwnHead& head = all.back();
    head.o = Matrix<double>::zeros(head.o.rows(), head.o.cols());
    if (!layer.ranks.biased) continue;  // keys and values do not see the coordinate 1 that biases need
    std::fill_n(head.k.view().row(head.k.rows() - 1), head.k.cols(), 0.0);
    std::fill_n(head.v.view().row(head.v.rows() - 1), head.v.cols(), 0.0);
  }
  if (layer.ranks.biased) all.push_back(own_head(layer, heads));
  return assemble(all, layer.ranks);
}

// Pairs of columns that turn keep their numbers; the others are a head of their own.
OwnHead balanced_pairs(const OwnHead& head, double w_share) {
  const Index pairs = head.view().pairs(), turned = 2 * pairs, rest = head.q.cols() - turned;
  const auto still = [&](const Matrix<double>& a) {
    return copy_of<double>(a.view().block(0, turned, a.rows(), rest));
  };
  OwnHead out = balanced({still(head.q), still(head.k), copy_of(head.v), copy_of(head.o)}, 0, w_share);
  const OwnHead others{std::move(out.q), std::move(out.k), {}, {}};
  out.q = Matrix<double>::zeros(head.q.rows(), head.q.cols());
  out.k = Matrix<double>::zeros(head.k.rows(), head.k.cols());
  copy_rows(others.q.view(), out.q.view().block(0, turned, out.q.rows(), others.q.cols()));
  copy_rows(others.k.view(), out.k.view().block(0, turned, out.k.rows(), others.k.cols()));
  for (Index j = 0; j < pairs; ++j) {
    const auto [one, other] = head.rotary->columns(j, head.q.cols());
    double q = 0, k = 0;
    for (const Index column : {one, other}) {
      for (Index i = 0; i < head.q.rows(); ++i) q += head.q(i, column) * head.q(i, column);
      for (Index i = 0; i < head.k.rows(); ++i) k += head.k(i, column) * head.k(i, column);
    }
    const double factor = q > 0 && k > 0 ? std::pow(k / q, 0.25) : 1;
    for (const Index column : {one, other}) {
      for (Index i = 0; i < head.q.rows(); ++i) out.q(i, column) = factor * head.q(i, column);
      for (Index i = 0; i < head.k.rows(); ++i) out.k(i, column) = head.k(i, column) / factor;
    }
  }
  out.rotary = head.rotary;
  return out;
}

OwnHead balanced(const OwnHead& head, double theta_share, double w_share) {
  if (head.view().pairs() > 0) return balanced_pairs(head, w_share);
  // Theta = Q (V_k s_k) U_k^T with K = U_k s_k V_k^T: the SVD of Q (V_k s_k) is that of Theta but for U_k.
  const Svd keys = svd(head.k);
  const Svd w = product_svd(head.v, head.o);
  Matrix<double> turned(keys.right.cols(), keys.right.rows());
  for (Index i = 0; i < turned.rows(); ++i)
    for (Index j = 0; j < turned.cols(); ++j)
      turned(i, j) = keys.right(j, i) * keys.values[static_cast<std::size_t>(j)];
  const Svd theta = product_svd(head.q, turned);
  if (!keys.ok || !theta.ok || !w.ok)  // not finite: nothing to balance
    return {copy_of<double>(head.q), copy_of<double>(head.k), copy_of<double>(head.v),
            copy_of<double>(head.o)};
  const Index logits = theta.values.empty() ? 0 : count_above(theta.values, theta_share);
  const Index values = std::max<Index>(1, count_above(w.values, w_share));
  std::vector<double> roots;
  for (const double value : theta.values) roots.push_back(std::sqrt(value));
  OwnHead out;
  out.q = scaled_columns(theta.left.view(), roots, logits);
  out.k = scaled_columns(product(Trans::no, Trans::yes, keys.left.view(), theta.right.view()), roots, logits);
  out.v = copy_of<double>(w.left.view().block(0, 0, w.left.rows(), values));
  out.o = copy_of<double>(w.right.view().block(0, 0, values, w.right.cols()));
  for (Index i = 0; i < values; ++i)
    for (Index j = 0; j < out.o.cols(); ++j) out.o(i, j) *= w.values[static_cast<std::size_t>(i)];
  return out;
}

Factors balanced(const Factors& f, double theta_share, double w_share, int threads) {
  std::vector<OwnHead> heads = tall_heads(f);
  parallel_for(threads, static_cast<Index>(heads.size()), [&](Index i, int) {
    OwnHead& head = heads[static_cast<std::size_t>(i)];
    head = balanced(head, theta_share, w_share);
  });
  Factors out = from_tall(heads, f.ranks);
  out.train_error = f.train_error;
  out.held_out_error = f.held_out_error;
  return out;
}

OwnHead cut_to(const OwnHead& head, Index logits, Index values) {
  const Index d = head.v.rows(), a = std::min(logits, head.q.cols()), b = std::min(values, head.v.cols());
  return {copy_of<double>(head.q.view().block(0, 0, head.q.rows(), a)),
          copy_of<double>(head.k.view().block(0, 0, d, a)), copy_of<double>(head.v.view().block(0, 0, d, b)),
          copy_of<double>(head.o.view().block(0, 0, b, head.o.cols())), head.rotary};
}

Factors cut_to(const Factors& f, Index rank) {
  std::vector<OwnHead> heads;
  for (Index i = 0; i < f.heads(); ++i) heads.push_back(cut_to(own_head(f, i), rank, rank));
  return assemble(heads, f.ranks);
}

double factored_product(MatrixView<const double> a, MatrixView<const double> b, MatrixView<const double> c,
                        MatrixView<const double> d) {
  return inner_product(product(Trans::yes, Trans::no, a, c), product(Trans::yes, Trans::no, b, d));
}

double w_norm(const HeadFactors& h) {
  const Matrix<double> vv = product(Trans::yes, Trans::no, h.v, h.v),
                       oo = product(Trans::no, Trans::yes, h.o, h.o);
  return std::sqrt(std::max(0.0, inner_product(vv, oo)));
}

double factor_unknowns(const backend::HeadRanks& ranks, Index dim, Index outputs) {
  return static_cast<double>(dim * ranks.parameter_columns() + outputs * ranks.value_columns());
}

double error_on(const backend::LayerExamples& examples, const Factors& factors,
                const backend::Context& context) {
  const double scale = squared_norm(examples.y);
  if (scale == 0) return 1;  // nothing held out, or nothing to predict
  return std::sqrt(context.machine.factor_squares(examples, factors.ranks, factors.values, context) / scale);
}

FactoredLayer factored_layer(const Factors& f) {
  const Index m = f.heads(), d = f.dim(), e = f.outputs();
  const auto most = [](const std::vector<Index>& ranks) {
    return std::max<Index>(1, *std::max_element(ranks.begin(), ranks.end()));
  };
  const Index a = most(f.ranks.logits), b = most(f.ranks.values);
  FactoredLayer out{zeros({m, d, a}), zeros({m, d, a}), zeros({m, d, b}), zeros({m, b, e})};
  const auto place = [](MatrixView<const double> from, Index head, Array& to) {
    MatrixView<double> all(to.data<double>() + head * to.dim(1) * to.dim(2), to.dim(1), to.dim(2));
    copy_rows(from, all.block(0, 0, from.rows, from.cols));
  };
  for (Index i = 0; i < m; ++i) {
    const HeadFactors head = head_of(f, i);
    place(head.q, i, out.q);
    place(head.k, i, out.k);
    place(head.v, i, out.v);
    place(head.o, i, out.o);
  }
  return out;
}

Factors factors_from(const FactoredLayer& layer) {
  std::vector<OwnHead> heads;
  for (Index i = 0; i < layer.q.dim(0); ++i)
    heads.push_back({copy_of<double>(slice(layer.q, i)), copy_of<double>(slice(layer.k, i)),
                     copy_of<double>(slice(layer.v, i)), copy_of<double>(slice(layer.o, i))});
  return assemble(heads);
}

}  // namespace headlens::recovery
