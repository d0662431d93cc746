#include "refit/starts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "headlens/error.hpp"
#include "linalg/vector_space.hpp"
#include "refit/head_factors.hpp"

namespace headlens::refitting {
namespace {

Matrix<double> scaled(const Matrix<double>& a, double factor) {
  Matrix<double> out = headlens::copy_of(a);
  for (Index i = 0; i < a.rows() * a.cols(); ++i) out.data()[i] *= factor;
  return out;
}

Head truncated(const Head& head, Index rank) {
  Product theta = cut(head.q, head.k, std::min(rank, head.q.cols())),
          w = cut(head.v, transposed(head.o), std::min(rank, head.v.cols()));
  return {std::move(theta.left), std::move(theta.right), std::move(w.left), transposed(w.right)};
}

Head merged(const Head& a, const Head& b, Index rank, Index value_rank) {
  const double of_a = w_product(a, a), of_b = w_product(b, b), all = std::max(of_a + of_b, 1e-300);
  const Matrix<double> q_a = scaled(a.q, of_a / all), q_b = scaled(b.q, of_b / all), o_a = transposed(a.o),
                       o_b = transposed(b.o);
  Product theta = cut(beside({q_a.view(), q_b.view()}), beside({a.k.view(), b.k.view()}), rank),
          w = cut(beside({a.v.view(), b.v.view()}), beside({o_a.view(), o_b.view()}), value_rank);
  return {std::move(theta.left), std::move(theta.right), std::move(w.left), transposed(w.right)};
}

double merge_cost(const Head& a, const Head& b) {
  const double apart = theta_product(a, a) - 2 * theta_product(a, b) + theta_product(b, b);
  return apart * std::min(w_product(a, a), w_product(b, b));
}

Matrix<double> mean_of(const std::vector<Head>& heads, Index first, Index count, Matrix<double> Head::*part) {
  Matrix<double> out = headlens::copy_of(heads[static_cast<std::size_t>(first)].*part);
  for (Index i = first + 1; i < first + count; ++i) add(1.0, heads[static_cast<std::size_t>(i)].*part, out);
  return scaled(out, 1 / static_cast<double>(count));
}

// The heads of one group with the nearest keys and values that they can share.
void share_in_group(std::vector<Head>& heads, Index first, Index count, Index most, bool rotary) {
  const Index rank = std::min(most, heads.front().q.cols()), values = std::min(most, heads.front().v.cols());
  std::vector<MatrixView<const double>> q, k, v;
  std::vector<Matrix<double>> turned;
  for (Index i = first; i < first + count; ++i) {
    const Head& head = heads[static_cast<std::size_t>(i)];
    q.push_back(head.q.view()), k.push_back(head.k.view()), v.push_back(head.v.view());
    turned.push_back(transposed(head.o));
  }
  std::vector<MatrixView<const double>> o;
  for (const Matrix<double>& part : turned) o.push_back(part.view());
  const Product w = cut(beside(v), block_diagonal(o), values);
  const Index rows = heads.front().q.rows(), e = heads.front().o.cols();
  Product theta;
  Matrix<double> mean;
  if (rotary)
    mean = mean_of(heads, first, count, &Head::k);
  else
    theta = cut(block_diagonal(q), beside(k), rank);
  for (Index i = 0; i < count; ++i) {
    Head& head = heads[static_cast<std::size_t>(first + i)];
    head.k = headlens::copy_of(rotary ? mean : theta.right);
    head.v = headlens::copy_of(w.left);
    head.o = transposed(w.right.view().block(i * e, 0, e, values));
    if (rotary) continue;
    head.q = Matrix<double>(rows, rank);
    copy_rows(theta.left.view().block(i * rows, 0, rows, rank), head.q.view());
  }
}

}  // namespace

TiedLayer prune(const TiedLayer& layer, Index heads) {
  std::vector<Head> all = heads_in(layer), kept;
  std::vector<double> sizes;
  for (const Head& head : all) sizes.push_back(w_product(head, head));
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  order.resize(static_cast<std::size_t>(heads));
  std::sort(order.begin(), order.end());
  for (const std::size_t i : order) kept.push_back(std::move(all[i]));
  return assemble(kept, heads, layer);
}

TiedLayer merge(const TiedLayer& layer, Index heads) {
  std::vector<Head> all = heads_in(layer);
  while (static_cast<Index>(all.size()) > heads) {
    std::size_t a = 0, b = 1;
    double least = merge_cost(all[0], all[1]);
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = i + 1; j < all.size(); ++j)
        if (const double cost = merge_cost(all[i], all[j]); cost < least) least = cost, a = i, b = j;
    all[a] = merged(all[a], all[b], layer.shape.rank, layer.shape.value_rank);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(b));
  }
  return assemble(all, heads, layer);
}

TiedLayer truncate(const TiedLayer& layer, Index rank) {
  std::vector<Head> all = heads_in(layer);
  for (Head& head : all) head = truncated(head, rank);
  return assemble(all, layer.shape.heads, layer);
}

TiedLayer pool(const TiedLayer& layer, Index groups) {
  std::vector<Head> all = heads_in(layer);
  const Index count = layer.shape.heads / groups;
  for (Index first = 0; first < layer.shape.heads; first += count) {
    Head& head = all[static_cast<std::size_t>(first)];
    Matrix<double> k = mean_of(all, first, count, &Head::k), v = mean_of(all, first, count, &Head::v);
    head.k = std::move(k), head.v = std::move(v);
  }
  return assemble(all, groups, layer);
}

TiedLayer share(const TiedLayer& layer, Index groups, Index rank) {
  std::vector<Head> all = heads_in(layer);
  const Index count = layer.shape.heads / groups;
  for (Index first = 0; first < layer.shape.heads; first += count)
    share_in_group(all, first, count, rank, layer.shape.rotary.has_value());
  return assemble(all, groups, layer);
}

TiedLayer random_layer(const TiedShape& shape, std::uint64_t seed, int start) {
  TiedLayer out{shape, Matrix<double>(shape.rows, shape.columns()),
                Matrix<double>::zeros(shape.features(), shape.outputs)};
  Stream stream(seed, "refit-start", static_cast<std::uint64_t>(start));
  const auto rows = static_cast<double>(shape.rows);
  const double logits = 0.7 / std::pow(rows * rows * static_cast<double>(shape.rank), 0.25);
  for (Index i = 0; i < shape.rows; ++i)
    for (Index j = 0; j < shape.columns(); ++j)
      out.parameters(i, j) = stream.normal() * (j < shape.v(0) ? logits : 1 / std::sqrt(rows));
  for (Index i = 0; i < shape.features() * shape.outputs; ++i)
    out.readout.data()[i] = stream.normal() / std::sqrt(static_cast<double>(shape.features()));
  return out;
}

}  // namespace headlens::refitting
