// Between a layer and its factors.
#include <algorithm>

#include "headlens/layer.hpp"
#include "linalg/blas.hpp"
#include "linalg/slice.hpp"
#include "linalg/svd.hpp"

namespace headlens {
namespace {

constexpr double kNothing = 1e-13;  // of a head's largest singular value

Array zeros(std::vector<Index> shape) {
  Array out(DType::f64, std::move(shape));
  std::fill_n(out.data<double>(), out.size(), 0.0);
  return out;
}

std::vector<Svd> spectra(const Array& array) {
  std::vector<Svd> out;
  for (Index i = 0; i < array.dim(0); ++i) out.push_back(svd(slice(array, i)));
  return out;
}

Index rank_of(const Svd& s) {
  return std::count_if(s.values.begin(), s.values.end(),
                       [&](double value) { return value > kNothing * s.values.front(); });
}

// The heads as products of (m, d, r) and (m, r, e), the singular values shared out by these powers.
struct Halves {
  Array left, right;
};
Halves halves(const Array& array, double left_power) {
  const std::vector<Svd> all = spectra(array);
  Index rank = 1;
  for (const Svd& s : all) rank = std::max(rank, rank_of(s));
  Halves out{zeros({array.dim(0), array.dim(1), rank}), zeros({array.dim(0), rank, array.dim(2)})};
  for (Index i = 0; i < array.dim(0); ++i) {
    const Svd& s = all[static_cast<std::size_t>(i)];
    for (Index r = 0; r < rank_of(s); ++r) {
      const double value = s.values[static_cast<std::size_t>(r)];
      for (Index a = 0; a < array.dim(1); ++a)
        slice(out.left, i)(a, r) = s.left(a, r) * std::pow(value, left_power);
      for (Index b = 0; b < array.dim(2); ++b)
        slice(out.right, i)(r, b) = s.right(r, b) * std::pow(value, 1 - left_power);
    }
  }
  return out;
}

}  // namespace

AttentionLayer multiply_out(const FactoredLayer& f) {
  const Index m = f.q.dim(0), d = f.q.dim(1), e = f.o.dim(2);
  AttentionLayer out{Array(DType::f64, {m, d, d}), Array(DType::f64, {m, d, e})};
  for (Index i = 0; i < m; ++i) {
    gemm(Trans::no, Trans::yes, 1.0, slice(f.q, i), slice(f.k, i), 0.0, slice(out.theta, i));
    gemm(Trans::no, Trans::no, 1.0, slice(f.v, i), slice(f.o, i), 0.0, slice(out.w, i));
  }
  out.variant.kv_groups = f.kv_groups;
  return out;
}

FactoredLayer factors_of(const AttentionLayer& layer) {
  require_plain(layer, "the form of factors");
  Halves theta = halves(layer.theta, 0.5), w = halves(layer.w, 0);
  Array keys = zeros({layer.heads(), layer.dim(), theta.right.dim(1)});
  for (Index i = 0; i < layer.heads(); ++i)
    for (Index a = 0; a < layer.dim(); ++a)
      for (Index r = 0; r < keys.dim(2); ++r) slice(keys, i)(a, r) = slice(theta.right, i)(r, a);
  return {std::move(theta.left), std::move(keys), std::move(w.left), std::move(w.right)};
}

}  // namespace headlens
