// Hidden sets, examples with flipped bits, and the number of rival sets.
#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/hardness.hpp"

namespace headlens {
namespace {

// `size` of the coordinates 1 .. dim-1, uniform among such sets, in increasing order.
std::vector<Index> draw_set(const HardOptions& options) {
  Stream stream(options.seed, "hidden-set");
  std::vector<Index> set;
  Index wanted = options.size;
  for (Index j = 1; j < options.dim && wanted > 0; ++j)
    if (stream.below(static_cast<std::uint64_t>(options.dim - j)) < static_cast<std::uint64_t>(wanted)) {
      set.push_back(j);
      --wanted;
    }
  return set;
}

bool is_parity(const HiddenLabel& label) {
  const bool indicator = std::all_of(label.weights.begin(), label.weights.end(),
                                     [](std::int64_t u) { return u == 0 || u == 1; });
  bool alternates = indicator && label.steps.size() >= 3 && label.steps[0] != label.steps[1];
  for (std::size_t i = 2; alternates && i < label.steps.size(); ++i)
    alternates = label.steps[i] == label.steps[i - 2];
  return alternates;
}

// The same inputs, with a hidden sign of the first token turned over.
Array turned(const Array& x, Index hidden) {
  Array out(DType::f64, x.shape());
  std::copy_n(x.data<double>(), x.size(), out.data<double>());
  const Index step = x.dim(1) * x.dim(2);
  for (Index i = 0; i < x.dim(0); ++i) out.data<double>()[i * step + hidden] *= -1;
  return out;
}

std::vector<Index> chosen_examples(Index count, double share, std::uint64_t seed) {
  std::vector<Index> chosen;
  for (Index i = 0; i < count; ++i)
    if (Stream(seed, "label-flips", static_cast<std::uint64_t>(i)).uniform() < share) chosen.push_back(i);
  return chosen;
}

}  // namespace

void HardOptions::validate() const {
  require(dim >= 2, option("dim"), ": ", dim, " given, expected 2 or more");
  const Mention what = option(kind == HardKind::parity ? "size" : "weight");
  require(size >= 1 && size < dim, what, ": ", size, " given, expected 1 to dim - 1 = ", dim - 1);
  require(sharpness > 0 && std::isfinite(sharpness), option("sharpness"), ": ", sharpness,
          " given, expected a number above 0");
  if (kind == HardKind::parity) return;
  require(modulus >= 2 && modulus <= 1000000, option("modulus"), ": ", modulus,
          " given, expected 2 to 1000000");
  require(levels >= 2 && levels <= modulus, option("levels"), ": ", levels,
          " given, expected 2 to modulus = ", modulus);
  const std::vector<double> g = rounding_steps(size, modulus, levels);
  require(std::any_of(g.begin(), g.end(), [&](double value) { return value != g[0]; }), option("weight"),
          ": ", size,
          " given, but a hidden sum of so few coordinates never leaves the first level of modulus ", modulus,
          "; raise the weight");
}

HardLayer draw_hard_layer(const HardOptions& options) {
  options.validate();
  const std::vector<Index> set = draw_set(options);
  if (options.kind == HardKind::parity) return parity_layer(options.dim, set, options.sharpness);
  std::vector<std::int64_t> weights(static_cast<std::size_t>(options.dim), 0);
  for (const Index j : set) weights[static_cast<std::size_t>(j)] = 1;
  return step_layer(std::move(weights), rounding_steps(options.size, options.modulus, options.levels),
                    options.sharpness);
}

Examples draw_hard_examples(const HardLayer& hard, const ExampleOptions& options, double flips,
                            const Execution& execution) {
  require(options.tokens == 2, option("tokens"), ": ", options.tokens,
          " given, but an example of a hard layer has two tokens");
  require(options.inputs == Inputs::signs, option("inputs"),
          ": gaussian given, but a hard layer is defined for sign tokens");
  require(flips >= 0 && flips <= 1, option("flips"), ": ", flips, " given, expected a share from 0 to 1");
  Examples examples = draw_examples(hard.layer, options, execution);
  const std::vector<Index> chosen = chosen_examples(examples.count(), flips, options.seed);
  if (chosen.empty()) return examples;
  const Index d = examples.dim();
  Array x(DType::f64, {static_cast<Index>(chosen.size()), 2, d});
  for (std::size_t i = 0; i < chosen.size(); ++i)
    std::copy_n(examples.x.data<double>() + chosen[i] * 2 * d, 2 * d,
                x.data<double>() + static_cast<Index>(i) * 2 * d);
  const auto& u = hard.label.weights;
  const Index hidden = std::find_if(u.begin(), u.end(), [](std::int64_t w) { return w != 0; }) - u.begin();
  const Array before = apply_layer(hard.layer, x, execution);
  const Array after = apply_layer(hard.layer, turned(x, hidden), execution);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (Index a = 0; a < 2; ++a) {
      const Index from = static_cast<Index>(i) * 2 + a;
      examples.y.data<double>()[chosen[i] * 2 + a] +=
          after.data<double>()[from] - before.data<double>()[from];
    }
  return examples;
}

double binomial(Index n, Index k) {
  k = std::min(k, n - k);
  double out = k < 0 ? 0 : 1;
  // Each product is divisible: out is C(n - k + i, i) after step i.
  for (Index i = 1; i <= k; ++i) out = out * static_cast<double>(n - k + i) / static_cast<double>(i);
  return out;
}

std::optional<double> sq_dimension(const HiddenLabel& label) {
  if (!is_parity(label)) return std::nullopt;
  return binomial(label.dim() - 1, label.reach());
}

}  // namespace headlens
