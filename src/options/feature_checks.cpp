// What options of the features mean together.
#include <cmath>

#include "headlens/error.hpp"
#include "headlens/model.hpp"
#include "headlens/options.hpp"

namespace headlens {
namespace {

// W_0 is a square matrix of numbers; whether it fits the tokens is seen when there are some.
void check_mean(const FeatureOptions& options) {
  if (!options.mean) return;
  const Array& mean = *options.mean;
  require(options.kind != ModelKind::mlp, option("mean"), ": mlp has no query-key matrices");
  require(options.kind == ModelKind::brfa || options.bias_scale, option("mean"),
          ": given, but the heads of rfa have mean 0: use ", option("model", "brfa"), ", or give ",
          option("bias-scale"));
  require(
      mean.rank() == 2 && mean.dim(0) == mean.dim(1) && mean.dim(0) >= 1 && mean.dtype() != DType::boolean,
      option("mean"), ": ", mean.describe(), " given, expected a square matrix of numbers");
  for (Index i = 0; i < mean.size(); ++i)
    require(std::isfinite(mean.at(i)), option("mean"), ": holds ", mean.at(i), ", expected finite numbers");
}

// Features are sums of entries of heads times tokens, and their squares must be numbers: single precision
// ends at 3e38, double precision at 1e308.
void check_sizes(const FeatureOptions& options) {
  const double most = options.precision == Precision::f32 ? 1e15 : 1e100;
  const auto check = [&](const auto& name, double value) {
    require(std::abs(value) <= most, name, ": ", value, " given, expected at most ", most,
            " in size with precision ", headlens::name(options.precision),
            ": squares of features would overflow");
  };
  check(option("weight-scale"), options.weight_scale.value_or(0));
  check(option("bias-scale"), options.bias_scale.value_or(0));
  for (Index i = 0; options.mean && i < options.mean->size(); ++i) {
    check(option("mean"), options.mean->at(i));
    check(message(option("mean"), " times ", option("bias-scale")),
          options.mean->at(i) * options.bias_scale.value_or(1));
  }
}

}  // namespace

void FeatureOptions::validate() const {
  check_mean(*this);
  check_ranges(*this);
  const bool mlp = kind == ModelKind::mlp;
  require(!infinite() || score != Score::softmax, option("heads"),
          ": inf given, but the softmax score has no closed form: give a number of heads");
  require(!mlp || score == Score::relu, option("score"), ": mlp has relu neurons only, ", name(score),
          " given");
  require(!mlp || !bias_scale || *bias_scale == 0, option("bias-scale"), ": mlp takes no bias matrix");
  require(!head_rank || !mlp, option("head-rank"), ": mlp has no query-key matrices");
  require(!head_rank || !infinite(), option("head-rank"),
          ": infinitely many heads of a given rank have no closed form: give a number of heads");
  check_sizes(*this);
}

}  // namespace headlens
