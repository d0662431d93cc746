// Names of the options as they appear on the command line and in model files.
#include <algorithm>
#include <array>
#include <cmath>

#include "headlens/error.hpp"
#include "headlens/model.hpp"

namespace headlens {
namespace {

template <class Enum>
struct Names;
template <>
struct Names<ModelKind> {
  static constexpr std::array values{"rfa", "brfa", "mlp"};
  static constexpr const char* what = "model";
};
template <>
struct Names<Score> {
  static constexpr std::array values{"relu", "softmax", "exp", "step"};
  static constexpr const char* what = "score";
};
template <>
struct Names<Positions> {
  static constexpr std::array values{"none", "sinusoidal"};
  static constexpr const char* what = "positions";
};
template <>
struct Names<Precision> {
  static constexpr std::array values{"f32", "f64"};
  static constexpr const char* what = "precision";
};
template <>
struct Names<Loss> {
  static constexpr std::array values{"squared", "huber", "logistic", "hinge"};
  static constexpr const char* what = "loss";
};

template <class Enum>
std::string name_of(Enum value) {
  return Names<Enum>::values.at(static_cast<std::size_t>(value));
}

}  // namespace

std::string name(ModelKind kind) { return name_of(kind); }
std::string name(Score score) { return name_of(score); }
std::string name(Positions positions) { return name_of(positions); }
std::string name(Precision precision) { return name_of(precision); }
std::string name(Loss loss) { return name_of(loss); }

template <class Enum>
Enum parse(const std::string& text) {
  const auto& values = Names<Enum>::values;
  const auto found = std::find(values.begin(), values.end(), text);
  if (found != values.end()) return static_cast<Enum>(found - values.begin());
  std::string allowed;
  for (const char* value : values) allowed += (allowed.empty() ? "" : ", ") + std::string(value);
  throw Error(ErrorCode::misuse, join(Names<Enum>::what, ": '", text, "' given, expected one of ", allowed));
}
template ModelKind parse<ModelKind>(const std::string&);
template Score parse<Score>(const std::string&);
template Positions parse<Positions>(const std::string&);
template Precision parse<Precision>(const std::string&);
template Loss parse<Loss>(const std::string&);

// Features are sums of entries of heads times tokens, and their squares must be numbers: single precision
// ends at 3e38, double precision at 1e308.
static void check_sizes(const FeatureOptions& options) {
  const double most = options.precision == Precision::f32 ? 1e15 : 1e100;
  const auto check = [&](const char* name, double value) {
    require(std::abs(value) <= most, name, ": ", value, " given, expected at most ", most,
            " in size with precision ", headlens::name(options.precision),
            ": squares of features would overflow");
  };
  check("weight-scale", options.weight_scale.value_or(0));
  check("bias-scale", options.bias_scale.value_or(0));
  for (Index i = 0; options.mean && i < options.mean->size(); ++i) {
    check("mean", options.mean->at(i));
    check("mean times bias-scale", options.mean->at(i) * options.bias_scale.value_or(1));
  }
}

// W_0 is a square matrix of numbers; whether it fits the tokens is seen when there are some.
static void check_mean(const FeatureOptions& options) {
  if (!options.mean) return;
  const Array& mean = *options.mean;
  require(options.kind != ModelKind::mlp, "mean: mlp has no query-key matrices");
  require(options.kind == ModelKind::brfa || options.bias_scale,
          "mean: given, but the heads of rfa have mean 0: use --model brfa, or give --bias-scale");
  require(
      mean.rank() == 2 && mean.dim(0) == mean.dim(1) && mean.dim(0) >= 1 && mean.dtype() != DType::boolean,
      "mean: ", mean.describe(), " given, expected a square matrix of numbers");
  for (Index i = 0; i < mean.size(); ++i)
    require(std::isfinite(mean.at(i)), "mean: holds ", mean.at(i), ", expected finite numbers");
}

void FeatureOptions::validate() const {
  check_mean(*this);
  require(heads >= 1 && (infinite() || heads <= kMostFiniteHeads), "heads: ", heads, " given, expected 1 to ",
          kMostFiniteHeads);
  const bool mlp = kind == ModelKind::mlp;
  require(!infinite() || score != Score::softmax,
          "heads: inf given, but the softmax score has no closed form: give a number of heads");
  require(!mlp || score == Score::relu, "score: mlp has relu neurons only, ", name(score), " given");
  require(!mlp || !bias_scale || *bias_scale == 0, "bias-scale: mlp takes no bias matrix");
  require(!bias_scale || std::isfinite(*bias_scale), "bias-scale: ", bias_scale.value_or(0),
          " given, expected a number");
  require(!head_rank || (*head_rank >= 1 && *head_rank <= kMostHeadRank),
          "head-rank: ", head_rank.value_or(0), " given, expected 1 to ", kMostHeadRank);
  require(!head_rank || !mlp, "head-rank: mlp has no query-key matrices");
  require(!head_rank || !infinite(),
          "head-rank: infinitely many heads of a given rank have no closed form: give a number of heads");
  require(!weight_scale || (std::isfinite(*weight_scale) && *weight_scale >= 0),
          "weight-scale: ", weight_scale.value_or(0), " given, expected 0 or more");
  check_sizes(*this);
}

}  // namespace headlens
