#include "fit/score_digits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/set_part.hpp"
#include "fit/penalties.hpp"

namespace headlens::training {
namespace {

// Mean and spread of tokens, summed about the first one: squares of the tokens themselves would lose what is
// asked for.
class Spread {
 public:
  explicit Spread(Index dim) : origin_(static_cast<std::size_t>(dim)), sums_(origin_.size()) {}

  void add(const double* token) {
    if (count_ == 0) std::copy_n(token, origin_.size(), origin_.begin());
    for (std::size_t j = 0; j < origin_.size(); ++j) {
      const double difference = token[j] - origin_[j];
      sums_[j] += difference;
      squares_ += difference * difference;
    }
    ++count_;
  }

  // rho; 1 for tokens that are all the same, of which nothing can be lost.
  double factor() const {
    double mean = 0, shift = 0;
    for (std::size_t j = 0; j < origin_.size(); ++j) {
      const double moved = sums_[j] / count_;
      shift += moved * moved;
      mean += (origin_[j] + moved) * (origin_[j] + moved);
    }
    const double variance = squares_ / count_ - shift;
    const double eps = std::numeric_limits<double>::epsilon();
    return variance > eps * eps * mean ? std::sqrt(1 + mean / variance) : 1;
  }

 private:
  std::vector<double> origin_, sums_;
  double squares_ = 0, count_ = 0;
};

struct Factors {
  double query = 1, key = 1;
};

// From some thousand sets, evenly taken, and the first keys of large ones: a mean and a spread need no more,
// and what is taken of sets on a device comes here. Queries are never fewer: one alone has no spread.
Factors factors_of(const Sets& all, Index most_numbers) {
  constexpr Index kSets = 1024;
  const Index d = all.dim(), step = std::max(Index{1}, all.count() / kSets);
  const Index chosen = (all.count() + step - 1) / step;
  const Index most_keys = std::max(Index{1}, most_numbers / (chosen * d));
  const Sets sets = all.on_device() ? part_of(all, step, most_keys) : all;
  Spread queries(d), keys(d);
  std::vector<double> query(static_cast<std::size_t>(d)),
      tokens(static_cast<std::size_t>(d * sets.max_keys()));
  for (Index i = 0; i < sets.count(); i += all.on_device() ? 1 : step) {
    sets.copy_set(i, query.data(), tokens.data(), d);
    queries.add(query.data());
    for (Index k = 0; k < std::min(sets.keys_of(i), most_keys); ++k) keys.add(tokens.data() + k * d);
  }
  return {queries.factor(), keys.factor()};
}

constexpr double kDouble = std::numeric_limits<double>::epsilon() / 2;
constexpr double kFloat = std::numeric_limits<float>::epsilon() / 2;

double rounding_unit(Precision precision) { return precision == Precision::f32 ? kFloat : kDouble; }

}  // namespace

double score_digits(const Problem& problem, Index most_numbers) {
  const FeatureOptions& features = problem.options.features;
  const Factors rho = factors_of(problem.sets, most_numbers);
  const double product = features.kind == ModelKind::mlp ? std::max(rho.query, rho.key) : rho.query * rho.key;
  const bool single = features.precision == Precision::f32;
  double rounding = rounding_unit(features.precision) * product;
  // Kernels are computed in double, from tokens of either precision.
  if (features.infinite())
    rounding = std::max(kDouble * product * product, single ? kFloat * std::max(rho.query, rho.key) : 0.0);
  return std::max(0.0, -std::log10(rounding));
}

double enough_digits(const Problem& problem) {
  const FeatureOptions& features = problem.options.features;
  if (features.infinite() || features.kind == ModelKind::mlp) return 2;
  return std::log10(smallest_share(features.precision) / rounding_unit(features.precision));
}

std::string lost_digits_note(const Problem& problem, double digits) {
  return fmt::format(
      "{}: the tokens differ little beside the mean that all share, so that the scores keep {:.1f} digits of "
      "what "
      "differs: subtract the mean of the training tokens from all tokens, here and where the model is used",
      problem.sets.name(), digits);
}

}  // namespace headlens::training
