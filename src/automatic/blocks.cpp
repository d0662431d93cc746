#include "automatic/blocks.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/multiply.hpp"

namespace headlens::automatic {
namespace {

constexpr Index kSetsInTile = 32;

void softmax(double* scores, Index size) {
  const double most = *std::max_element(scores, scores + size);
  double sum = 0;
  for (Index k = 0; k < size; ++k) sum += scores[k] = std::exp(scores[k] - most);
  for (Index k = 0; k < size; ++k) scores[k] /= sum;
}

// Averages of the keys by every head: weights softmax_k(T q^T W_m x_k / rms), W_m = Q_m K_m^T / sqrt(r).
class Attention {
 public:
  Attention(const TokenFrame& frame, double deviation)
      : queries_(frame.head_queries),
        keys_(frame.head_keys),
        count_(keys_.dim(0)),
        rank_(keys_.dim(1)),
        d_(keys_.dim(2)),
        unit_(deviation * frame.score_unit / std::sqrt(static_cast<double>(rank_))) {}

  void fill(const Tokens& tokens, Index first, Index last, MatrixView<double> out) const {
    Matrix<double> read(last - first, count_ * rank_);  // q^T Q_m of every set
    gemm(Trans::no, Trans::no, unit_, tokens.queries.view().block(first, 0, last - first, d_ + 1),
         MatrixView<const double>{queries_.data<double>(), d_ + 1, count_ * rank_}, 0, read);
    Matrix<double> maps(count_, d_);
    for (Index i = first; i < last; ++i) {
      map_heads(read.view().row(i - first), maps);
      const MatrixView<const double> keys = tokens.keys_of(i);
      Matrix<double> weights(count_, keys.rows);
      gemm(Trans::no, Trans::yes, 1, maps, keys, 0, weights);
      for (Index m = 0; m < count_; ++m) softmax(weights.view().row(m), keys.rows);
      gemm(Trans::no, Trans::no, 1, weights, keys, 0, MatrixView<double>{out.row(i), count_, d_});
    }
  }

 private:
  // q^T W_m of one set.
  void map_heads(const double* read, MatrixView<double> maps) const {
    for (Index m = 0; m < count_; ++m) {
      std::fill_n(maps.row(m), d_, 0.0);
      for (Index r = 0; r < rank_; ++r) {
        const double* key = keys_.data<double>() + (m * rank_ + r) * d_;
        for (Index j = 0; j < d_; ++j) maps(m, j) += read[m * rank_ + r] * key[j];
      }
    }
  }
  const Array &queries_, &keys_;
  Index count_, rank_, d_;
  double unit_;
};

// Means or sums over the keys of cos and sin of <w, x>: inner products are those of a Gaussian kernel of
// keys.
void fill_embedding(const TokenFrame& frame, const SetBlockInfo& block, const Tokens& tokens, Index set,
                    double* out) {
  const MatrixView<const double> keys = tokens.keys_of(set);
  const Index count = frame.frequencies.dim(0), d = keys.cols;
  const double scale = std::sqrt(2 * block.parameter / frame.key_distance);
  const double share = block.kind == BlockKind::total ? 1 : 1 / static_cast<double>(keys.rows);
  Matrix<double> phases(keys.rows, count);
  gemm(Trans::no, Trans::yes, scale, keys,
       MatrixView<const double>{frame.frequencies.data<double>(), count, d}, 0, phases);
  std::fill_n(out, 2 * count, 0.0);
  for (Index k = 0; k < keys.rows; ++k)
    for (Index f = 0; f < count; ++f) {
      out[f] += std::cos(phases(k, f)) * share;
      out[count + f] += std::sin(phases(k, f)) * share;
    }
}

// The average of the keys by weights softmax_k(-beta |x_k - q|^2 / distance).
void fill_nearest(const TokenFrame& frame, double beta, const Tokens& tokens, Index set, double* out) {
  const MatrixView<const double> keys = tokens.keys_of(set);
  const double* query = tokens.queries.view().row(set);
  std::vector<double> weights(static_cast<std::size_t>(keys.rows));
  for (Index k = 0; k < keys.rows; ++k)
    for (Index j = 0; j < keys.cols; ++j)
      weights[static_cast<std::size_t>(k)] -=
          beta / frame.key_distance * (keys(k, j) - query[j]) * (keys(k, j) - query[j]);
  softmax(weights.data(), keys.rows);
  std::fill_n(out, keys.cols, 0.0);
  for (Index k = 0; k < keys.rows; ++k)
    for (Index j = 0; j < keys.cols; ++j) out[j] += weights[static_cast<std::size_t>(k)] * keys(k, j);
}

void fill_pool(BlockKind kind, const Tokens& tokens, Index set, double* out) {
  const MatrixView<const double> keys = tokens.keys_of(set);
  if (kind == BlockKind::size) {
    out[0] = std::log(static_cast<double>(keys.rows));
    return;
  }
  const Matrix<double>* known = kind == BlockKind::query    ? &tokens.queries
                                : kind == BlockKind::centre ? &tokens.centres
                                : kind == BlockKind::spread ? &tokens.spreads
                                                            : nullptr;
  if (known) {
    std::copy_n(known->view().row(set), kind == BlockKind::spread ? known->cols() : keys.cols, out);
    return;
  }
  for (Index j = 0; j < keys.cols; ++j) {
    double mean = 0, square = 0, most = keys(0, j), least = keys(0, j);
    for (Index k = 0; k < keys.rows; ++k) {
      mean += keys(k, j) / static_cast<double>(keys.rows);
      square += keys(k, j) * keys(k, j) / static_cast<double>(keys.rows);
      most = std::max(most, keys(k, j));
      least = std::min(least, keys(k, j));
    }
    out[j] = kind == BlockKind::mean      ? mean
             : kind == BlockKind::second  ? square
             : kind == BlockKind::maximum ? most
                                          : least;
  }
}

bool is_embedding(BlockKind kind) { return kind == BlockKind::embedding || kind == BlockKind::total; }

Index block_width(const SetBlockInfo& block, const TokenFrame& frame, const Tokens& tokens) {
  if (block.kind == BlockKind::attention) return frame.head_keys.dim(0) * frame.head_keys.dim(2);
  if (is_embedding(block.kind)) return 2 * frame.frequencies.dim(0);
  if (block.kind == BlockKind::spread) return frame.frequencies.dim(0);
  return block.kind == BlockKind::size ? 1 : tokens.width();
}

std::vector<double> squared_norms(MatrixView<const double> rows, int threads) {
  std::vector<double> out(static_cast<std::size_t>(rows.rows));
  parallel_for(threads, rows.rows, [&](Index i, int) {
    double sum = 0;
    for (Index j = 0; j < rows.cols; ++j) sum += rows(i, j) * rows(i, j);
    out[static_cast<std::size_t>(i)] = sum;
  });
  return out;
}

bool same_block(const SetBlockInfo& a, const SetBlockInfo& b) {
  return a.kind == b.kind && a.parameter == b.parameter;
}

}  // namespace

Matrix<double> compute_block(const SetBlockInfo& block, const TokenFrame& frame, const Tokens& tokens,
                             int threads) {
  Matrix<double> out(tokens.count(), block_width(block, frame, tokens));
  const Index n = tokens.count();
  parallel_for(threads, (n + kSetsInTile - 1) / kSetsInTile, [&](Index tile, int) {
    const Index first = tile * kSetsInTile, last = std::min(n, first + kSetsInTile);
    if (block.kind == BlockKind::attention) {
      Attention(frame, block.parameter).fill(tokens, first, last, out);
      return;
    }
    for (Index i = first; i < last; ++i) {
      if (is_embedding(block.kind))
        fill_embedding(frame, block, tokens, i, out.view().row(i));
      else if (block.kind == BlockKind::nearest)
        fill_nearest(frame, block.parameter, tokens, i, out.view().row(i));
      else
        fill_pool(block.kind, tokens, i, out.view().row(i));
    }
  });
  return out;
}

void add(Products& to, const Products& from, double weight, int threads) {
  const Index n = to.inner.rows(), m = to.inner.cols();
  parallel_for(threads, n, [&](Index i, int) {
    for (Index j = 0; j < m; ++j) to.inner(i, j) += weight * from.inner(i, j);
  });
  for (std::size_t i = 0; i < to.left.size(); ++i) to.left[i] += weight * from.left[i];
  for (std::size_t j = 0; j < to.right.size(); ++j) to.right[j] += weight * from.right[j];
}

Products products_of(const SetBlockInfo& block, const TokenFrame& frame, const Tokens& a, const Tokens& b,
                     int threads) {
  const Matrix<double> left = compute_block(block, frame, a, threads);
  Products out{Matrix<double>(a.count(), b.count()), squared_norms(left, threads), {}};
  if (&a == &b) {
    out.right = out.left;
    multiply(Trans::no, Trans::yes, 1, left, left, 0, out.inner, threads);
    return out;
  }
  const Matrix<double> right = compute_block(block, frame, b, threads);
  out.right = squared_norms(right, threads);
  multiply(Trans::no, Trans::yes, 1, left, right, 0, out.inner, threads);
  return out;
}

std::vector<Products> block_products(const std::vector<AutomaticMember>& members, const TokenFrame& frame,
                                     const Tokens& a, const Tokens& b, int threads) {
  std::vector<Products> out;
  std::vector<SetBlockInfo> distinct;
  for (const AutomaticMember& member : members) {
    out.push_back({Matrix<double>::zeros(a.count(), b.count()),
                   std::vector<double>(static_cast<std::size_t>(a.count())),
                   std::vector<double>(static_cast<std::size_t>(b.count()))});
    for (const SetBlockInfo& block : member.blocks)
      if (std::none_of(distinct.begin(), distinct.end(), [&](const auto& d) { return same_block(block, d); }))
        distinct.push_back(block);
  }
  for (const SetBlockInfo& one : distinct) {
    const Products products = products_of(one, frame, a, b, threads);
    for (std::size_t c = 0; c < members.size(); ++c)
      for (const SetBlockInfo& block : members[c].blocks)
        if (same_block(block, one)) add(out[c], products, block.scale * block.scale, threads);
  }
  return out;
}

Matrix<double> kernel_of(const AutomaticMember& member, Products products, int threads) {
  if (member.gamma == 0) return std::move(products.inner);
  Matrix<double>& inner = products.inner;
  parallel_for(threads, inner.rows(), [&](Index i, int) {
    for (Index j = 0; j < inner.cols(); ++j) {
      const double distance = products.left[static_cast<std::size_t>(i)] +
                              products.right[static_cast<std::size_t>(j)] - 2 * inner(i, j);
      inner(i, j) = std::exp(-member.gamma * std::max(0.0, distance));
    }
  });
  return std::move(products.inner);
}

double kernel_of_itself(const AutomaticMember& member, double squared_norm) {
  return member.gamma == 0 ? squared_norm : 1.0;
}

}  // namespace headlens::automatic
