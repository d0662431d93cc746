#include "headlens/export.hpp"

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "io/stored_matrix.hpp"
#include "linalg/blas.hpp"
#include "linalg/slice.hpp"
#include "linalg/svd.hpp"

namespace headlens {
namespace {

constexpr double kMostLost = 1e-5;  // as kSameDistance: what float32 weights keep in any basis

// The sizes of the weights that are replaced.
struct Room {
  Index heads = 0, groups = 0, rank = 0, value_rank = 0;
  Index shared() const { return heads / groups; }
};

// A = L R with L (n, rank) and R (rank, p), singular values shared; what is cut off is added to `loss`.
struct Cut {
  Matrix<double> left, right;
};
Cut cut(MatrixView<const double> a, Index rank, double& loss) {
  const Svd s = svd(a);
  Cut out{Matrix<double>::zeros(a.rows, rank), Matrix<double>::zeros(rank, a.cols)};
  double all = 0, lost = 0;
  for (std::size_t c = 0; c < s.values.size(); ++c) {
    const double root = std::sqrt(s.values[c]);
    const auto j = static_cast<Index>(c);
    all += s.values[c] * s.values[c];
    if (j >= rank) {
      lost += s.values[c] * s.values[c];
      continue;
    }
    for (Index i = 0; i < a.rows; ++i) out.left(i, j) = s.left(i, j) * root;
    for (Index i = 0; i < a.cols; ++i) out.right(j, i) = s.right(j, i) * root;
  }
  if (all > 0) loss = std::max(loss, std::sqrt(lost / all));
  return out;
}

// The least squares solution of A x = b, by singular values.
std::vector<double> solve(MatrixView<const double> a, const std::vector<double>& b, double& loss) {
  const Svd s = svd(a);
  std::vector<double> x(static_cast<std::size_t>(a.cols), 0.0);
  for (std::size_t c = 0; c < s.values.size() && s.values[c] > 1e-13 * s.values[0]; ++c) {
    double sum = 0;
    for (Index i = 0; i < a.rows; ++i)
      sum += s.left(i, static_cast<Index>(c)) * b[static_cast<std::size_t>(i)];
    for (Index j = 0; j < a.cols; ++j)
      x[static_cast<std::size_t>(j)] += sum / s.values[c] * s.right(static_cast<Index>(c), j);
  }
  double all = 0, lost = 0;
  for (Index i = 0; i < a.rows; ++i) {
    double left = b[static_cast<std::size_t>(i)];
    all += left * left;
    for (Index j = 0; j < a.cols; ++j) left -= a(i, j) * x[static_cast<std::size_t>(j)];
    lost += left * left;
  }
  if (all > 0) loss = std::max(loss, std::sqrt(lost / all));
  return x;
}

Array zeros(std::vector<Index> shape) {
  Array out(DType::f64, std::move(shape));
  std::fill_n(out.data<double>(), out.size(), 0.0);
  return out;
}

// The weights to write, (out, in) and biases (1, out).
struct Filled {
  Array q, k, v, o, bq, bk, bv, bo;
};

// Whether the factors a head of A[i] and B[i] of a group are written as they are: they fit, and the group
// shares K.
bool fits_as_it_is(const Array& shared, Index first, Index count, Index rank) {
  if (shared.empty() || shared.dim(2) > rank) return false;
  const Index size = shared.dim(1) * shared.dim(2);
  const double* one = shared.data<double>() + first * size;
  for (Index h = 1; h < count; ++h)
    if (!std::equal(one, one + size, one + h * size)) return false;
  return true;
}

Matrix<double> theta_of(const LayerHeads& layer, Index h) {
  const Index d = layer.dim();
  Matrix<double> out = Matrix<double>::zeros(d + 1, d);
  const MatrixView<double> theta = out.view().block(0, 0, d, d);
  if (layer.k.empty())
    copy_rows(slice(layer.q, h), theta);
  else
    gemm(Trans::no, Trans::yes, 1.0, slice(layer.q, h), slice(layer.k, h), 0.0, theta);
  for (Index i = 0; i < d && !layer.query_bias.empty(); ++i)
    out(d, i) = layer.query_bias.data<double>()[h * d + i];
  return out;
}

// Queries and keys of the heads of one group. `scale` is sqrt(r): the checkpoint divides by it.
void fill_queries(const LayerHeads& layer, const Room& room, Index group, Filled& to, double& loss) {
  const Index d = layer.dim(), r = room.rank, n = room.shared(), first = group * n;
  const double scale = std::sqrt(static_cast<double>(r));
  Matrix<double> stack(n * (d + 1), r), keys;  // [Q; b] of every head, and K^T (r, d)
  if (fits_as_it_is(layer.k, first, n, r)) {
    const MatrixView<const double> k = slice(layer.k, first);
    stack = Matrix<double>::zeros(n * (d + 1), r), keys = Matrix<double>::zeros(r, d);
    for (Index i = 0; i < d; ++i)
      for (Index a = 0; a < k.cols; ++a) keys(a, i) = k(i, a);
    for (Index h = 0; h < n; ++h) {
      copy_rows(slice(layer.q, first + h), stack.view().block(h * (d + 1), 0, d, k.cols));
      if (layer.query_bias.empty()) continue;
      const double* u = layer.query_bias.data<double>() + (first + h) * d;
      const std::vector<double> b = solve(k, {u, u + d}, loss);
      std::copy(b.begin(), b.end(), stack.view().row(h * (d + 1) + d));
    }
  } else {
    Matrix<double> all(n * (d + 1), d);
    for (Index h = 0; h < n; ++h)
      copy_rows(theta_of(layer, first + h), all.view().block(h * (d + 1), 0, d + 1, d));
    Cut parts = cut(all, r, loss);
    stack = std::move(parts.left), keys = std::move(parts.right);
  }
  std::copy_n(keys.data(), r * d, to.k.data<double>() + group * r * d);
  for (Index h = 0; h < n; ++h)
    for (Index a = 0; a < r; ++a) {
      for (Index i = 0; i < d; ++i)
        to.q.data<double>()[((first + h) * r + a) * d + i] = scale * stack(h * (d + 1) + i, a);
      to.bq.data<double>()[(first + h) * r + a] = scale * stack(h * (d + 1) + d, a);
    }
}

// Biases that rotary positions turn are those of the checkpoint itself.
void fill_turned_biases(const LayerHeads& layer, const Room& room, Filled& to) {
  const Index r = room.rank;
  const double scale = std::sqrt(static_cast<double>(r));
  for (Index i = 0; i < room.heads * r; ++i) to.bq.data<double>()[i] = scale * layer.turned_query.at(i);
  for (Index g = 0; g < room.groups; ++g)
    for (Index a = 0; a < r; ++a)
      to.bk.data<double>()[g * r + a] = layer.turned_key.at(g * room.shared() * r + a);
}

void fill_values(const LayerHeads& layer, const Room& room, Index group, Filled& to, double& loss) {
  const Index d = layer.dim(), e = layer.outputs(), s = room.value_rank, n = room.shared(), first = group * n;
  Matrix<double> values, outputs;  // V (d, s), and [O_1 O_2 ...] (s, n e)
  if (!layer.o.empty() && fits_as_it_is(layer.v, first, n, s)) {
    values = Matrix<double>::zeros(d, s), outputs = Matrix<double>::zeros(s, n * e);
    copy_rows(slice(layer.v, first), values.view().block(0, 0, d, layer.v.dim(2)));
    for (Index h = 0; h < n; ++h)
      copy_rows(slice(layer.o, first + h), outputs.view().block(0, h * e, layer.v.dim(2), e));
  } else {
    Matrix<double> all(d, n * e);
    for (Index h = 0; h < n; ++h) {
      if (layer.o.empty())
        copy_rows(slice(layer.v, first + h), all.view().block(0, h * e, d, e));
      else
        gemm(Trans::no, Trans::no, 1.0, slice(layer.v, first + h), slice(layer.o, first + h), 0.0,
             all.view().block(0, h * e, d, e));
    }
    Cut parts = cut(all, s, loss);
    values = std::move(parts.left), outputs = std::move(parts.right);
  }
  for (Index a = 0; a < s; ++a) {
    for (Index i = 0; i < d; ++i) to.v.data<double>()[(group * s + a) * d + i] = values(i, a);
    for (Index h = 0; h < n; ++h)
      for (Index c = 0; c < e; ++c)
        to.o.data<double>()[c * room.heads * s + (first + h) * s + a] = outputs(a, h * e + c);
  }
}

// c as the output bias, or as value biases.
void fill_constant(const LayerHeads& layer, const Room& room, const AttentionWeights& like, Filled& to,
                   double& loss, const std::string& name) {
  if (layer.constant.empty()) return;
  const Index e = layer.outputs(), s = room.value_rank;
  if (!like.bo.empty()) {
    to.bo = Array::from(layer.constant.to_doubles(), {1, e});
    return;
  }
  const std::vector<double> c = layer.constant.to_doubles();
  const bool zero = std::ranges::all_of(c, [](double value) { return value == 0; });
  require(zero || !like.bv.empty(), name,
          ": the layer has a constant, but the file has no bias of values or outputs");
  if (zero) return;
  Matrix<double> a = Matrix<double>::zeros(e, room.groups * s);
  for (Index h = 0; h < room.heads; ++h)
    for (Index i = 0; i < s; ++i)
      for (Index row = 0; row < e; ++row)
        a(row, h / room.shared() * s + i) += to.o.data<double>()[row * room.heads * s + h * s + i];
  to.bv = Array::from(solve(a, c, loss), {1, room.groups * s});
}

Room room_of(const LayerHeads& layer, const AttentionWeights& like, const std::string& name) {
  const Index m = layer.heads();
  for (std::size_t i = 0; i < 4; ++i)
    require(like.stored[i].rows > 0, name, ": ", like.stored[i].tensor,
            " has a layer axis; give a file of one layer");
  require(like.q.dim(1) == layer.dim() && like.o.dim(0) == layer.outputs(), name,
          ": its weights are for (d, e) = (", like.q.dim(1), ", ", like.o.dim(0), ") and the layer has (",
          layer.dim(), ", ", layer.outputs(), ")");
  require(like.q.dim(0) % m == 0 && like.k.dim(0) % (like.q.dim(0) / m) == 0 && like.o.dim(1) % m == 0 &&
              (like.heads == 0 || like.heads == m),
          name, ": ", like.names[0], " ", format_shape(like.q.shape()), " has no room for ", m, " heads");
  Room out{.heads = m, .rank = like.q.dim(0) / m, .value_rank = like.o.dim(1) / m};
  out.groups = like.k.dim(0) / out.rank;
  require(m % out.groups == 0, name, ": ", like.names[1], " ", format_shape(like.k.shape()), " has ",
          out.groups, " heads of ", out.rank, " rows, which ", m, " heads cannot share");
  const std::vector<Index> k{like.k.dim(0), layer.dim()}, v{out.groups * out.value_rank, layer.dim()};
  require(like.k.shape() == k, name, ": ", like.names[1], " has shape ", format_shape(like.k.shape()),
          ", expected ", format_shape(k));
  require(like.v.shape() == v, name, ": ", like.names[2], " has shape ", format_shape(like.v.shape()),
          ", expected ", format_shape(v));
  return out;
}

void check_rotary(const LayerHeads& layer, const Room& room, const AttentionWeights& like,
                  const std::string& name) {
  for (Index g = 0; g < room.groups; ++g)
    require(
        layer.q.dim(2) == room.rank && fits_as_it_is(layer.k, g * room.shared(), room.shared(), room.rank),
        name, ": with rotary positions queries and keys are copied, but the layer has rank ", layer.q.dim(2),
        " and the file has ", room.rank, ", or heads of a group have different keys");
  require(layer.query_bias.empty(), name,
          ": rotary positions turn the biases of a checkpoint, and those of the layer "
          "are not turned");
  require(layer.turned_query.empty() || (!like.bq.empty() && !like.bk.empty()), name,
          ": the layer has biases of queries and keys, but the file has none");
}

// The tensors with these matrices in their places; the others as they are.
NamedArrays put_back(NamedArrays like, const AttentionWeights& weights, const Filled& to) {
  const Array* const parts[] = {&to.q, &to.k, &to.v, &to.o, &to.bq, &to.bk, &to.bv, &to.bo};
  NamedArrays out;
  for (std::size_t i = 0; i < 8; ++i) {
    const StoredMatrix& stored = weights.stored[i];
    if (!stored.present()) continue;
    const Array& before = like.at(stored.tensor);
    auto [place, fresh] = out.try_emplace(stored.tensor);
    if (fresh) place->second = Array(before.dtype(), before.shape());  // every item is one of the eight parts
    io::put_matrix(*parts[i], stored, place->second);
  }
  out.merge(like);
  return out;
}

}  // namespace

Export export_layer(const LayerHeads& layer, NamedArrays like, const WeightsOptions& options,
                    const std::string& name) {
  const AttentionWeights weights = find_weights(like, options, name);
  const Room room = room_of(layer, weights, name);
  require(layer.query_bias.empty() || !weights.bq.empty(), name,
          ": the layer has query biases, but the file has none");
  const Index d = layer.dim(), e = layer.outputs();
  Filled to{zeros({room.heads * room.rank, d}),        zeros({room.groups * room.rank, d}),
            zeros({room.groups * room.value_rank, d}), zeros({e, room.heads * room.value_rank}),
            zeros({1, room.heads * room.rank}),        zeros({1, room.groups * room.rank}),
            zeros({1, room.groups * room.value_rank}), zeros({1, e})};
  Export out;
  if (layer.rotary) check_rotary(layer, room, weights, name);
  for (Index g = 0; g < room.groups; ++g) {
    fill_queries(layer, room, g, to, out.loss);
    fill_values(layer, room, g, to, out.loss);
  }
  if (!layer.turned_query.empty()) fill_turned_biases(layer, room, to);
  fill_constant(layer, room, weights, to, out.loss, name);
  require(out.loss <= kMostLost, name, ": the layer does not fit into heads of rank ", room.rank, " with ",
          room.groups, " groups of keys and values: a share of ", out.loss, " would be lost");
  out.tensors = put_back(std::move(like), weights, to);
  return out;
}

}  // namespace headlens
