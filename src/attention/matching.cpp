// Layers up to what their outputs cannot tell: the order of heads, equal heads, absent heads.
#include <algorithm>
#include <cmath>

#include "attention/head_content.hpp"
#include "attention/magnitude.hpp"
#include "attention/pairing.hpp"
#include "headlens/error.hpp"
#include "headlens/layer.hpp"

namespace headlens {
namespace {

constexpr double kSame = 1e-12;  // as canonical() has it by default

const double* head(const Array& array, Index i) {
  return array.data<double>() + i * array.dim(1) * array.dim(2);
}
Index head_size(const Array& array) { return array.dim(1) * array.dim(2); }

double relative_error(const Array& a, Index i, const Array& b, Index j) {
  const Index size = head_size(b);
  const Magnitude scale = norm_of(head(b, j), size), error = distance_of(head(a, i), head(b, j), size);
  return scale.mantissa > 0 ? ratio(error, scale) : error.value();
}

bool equal_theta(const Array& theta, Index i, Index j, double tolerance) {
  const Index size = head_size(theta);
  const Magnitude error = distance_of(head(theta, i), head(theta, j), size);
  const Magnitude first = norm_of(head(theta, i), size), second = norm_of(head(theta, j), size);
  return error.mantissa == 0 || (first.mantissa > 0 && ratio(error, first) <= tolerance) ||
         (second.mantissa > 0 && ratio(error, second) <= tolerance);
}

// The content of every head (head_content.hpp) in place of Theta, (m, size, 1).
AttentionLayer with_contents(const AttentionLayer& layer) {
  if (layer.variant.plain()) return layer;
  const VariantShape shape = shape_of(layer);
  const Matrix<double> parameters = pack_parameters(layer);
  std::vector<double> all;
  for (Index i = 0; i < layer.heads(); ++i) {
    const std::vector<double> own = content_of(shape, parameters, i);
    all.insert(all.end(), own.begin(), own.end());
  }
  const Index size = static_cast<Index>(all.size()) / layer.heads();
  return {Array::from(all, {layer.heads(), size, 1}), layer.w};
}

// Heads with equal Theta become one, heads without W are dropped.
AttentionLayer merged(const AttentionLayer& layer, double tolerance) {
  const Index theta_size = head_size(layer.theta), w_size = head_size(layer.w);
  std::vector<Index> leader;               // the head whose Theta each group has
  std::vector<std::vector<double>> total;  // its summed W
  Magnitude largest;
  for (Index i = 0; i < layer.heads(); ++i) {
    std::size_t group = 0;
    while (group < leader.size() && !equal_theta(layer.theta, leader[group], i, tolerance)) ++group;
    if (group == leader.size()) {
      leader.push_back(i);
      total.emplace_back(static_cast<std::size_t>(w_size), 0.0);
    }
    for (Index j = 0; j < w_size; ++j) {
      double& sum = total[group][static_cast<std::size_t>(j)];
      sum += head(layer.w, i)[j];
      require(
          std::isfinite(sum), "heads ", leader[group], " and ", i,
          " have the same Theta, and their W add up to more than 1.8e308, the largest number that a double "
          "holds; divide W by a power of two first");
    }
    const Magnitude size = norm_of(head(layer.w, i), w_size);
    if (largest.mantissa == 0 || (size.mantissa > 0 && ratio(size, largest) > 1)) largest = size;
  }
  std::vector<double> theta, w;
  Index kept = 0;
  for (std::size_t group = 0; group < leader.size(); ++group) {
    const Magnitude size = norm_of(total[group].data(), w_size);
    if (size.mantissa == 0 || ratio(size, largest) <= tolerance) continue;
    theta.insert(theta.end(), head(layer.theta, leader[group]),
                 head(layer.theta, leader[group]) + theta_size);
    w.insert(w.end(), total[group].begin(), total[group].end());
    ++kept;
  }
  return {Array::from(theta, {kept, layer.theta.dim(1), layer.theta.dim(2)}),
          Array::from(w, {kept, layer.dim(), layer.outputs()})};
}

// |c_a - c_b| / |c_b|
double constant_error(const AttentionLayer& a, const AttentionLayer& b) {
  if (!b.variant.bias) return 0;
  const Magnitude scale = norm_of(b.constant.data<double>(), b.outputs()),
                  error = distance_of(a.constant.data<double>(), b.constant.data<double>(), b.outputs());
  return scale.mantissa > 0 ? ratio(error, scale) : error.value();
}

}  // namespace

AttentionLayer canonical(const AttentionLayer& layer, double tolerance) {
  require_plain(layer, "the canonical form");
  return merged(layer, tolerance);
}

Comparison compare_layers(const AttentionLayer& a, const AttentionLayer& b) {
  require(a.dim() == b.dim() && a.outputs() == b.outputs(), "compare: the layers have (d, e) = (", a.dim(),
          ", ", a.outputs(), ") and (", b.dim(), ", ", b.outputs(), ")");
  require(
      a.variant.mask == b.variant.mask && a.variant.bias == b.variant.bias &&
          a.variant.rotary == b.variant.rotary &&
          (!a.variant.rotary || a.variant.rotary->pairs(a.q.dim(2)) == b.variant.rotary->pairs(b.q.dim(2))),
      "compare: the layers are of different kinds: ", headlens::name(a.variant), ", and ",
      headlens::name(b.variant));
  const AttentionLayer first = merged(with_contents(a), kSame), second = merged(with_contents(b), kSame);
  Comparison result = pair_heads(first.heads(), second.heads(), [&](Index i, Index j) {
    return HeadMatch{i, j, relative_error(first.theta, i, second.theta, j),
                     relative_error(first.w, i, second.w, j)};
  });
  result.constant_error = constant_error(a, b);
  result.worst_error = std::max(result.worst_error, result.constant_error);
  return result;
}

}  // namespace headlens
