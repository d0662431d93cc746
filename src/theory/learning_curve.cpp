#include "theory/learning_curve.hpp"

#include <cmath>

namespace headlens {
namespace {

constexpr double kNegligible = 0.01;  // of kappa: what is left out counts to first order in this

double learned(double eigenvalue, double kappa) { return eigenvalue / (eigenvalue + kappa); }

// Newton's method in log kappa, kept inside a bracket. sum L + (delta + rest) / kappa falls from above n - 1
// to below.
double find_kappa(const Levels& levels, Index samples, double delta) {
  const double wanted = static_cast<double>(samples) - 1, ridge = delta + levels.rest;
  double low = std::log(std::max(ridge, 1e-300) / wanted), high = std::log((levels.trace + delta) / wanted);
  double at = high;
  for (int step = 0; step < 200 && high - low > 1e-14; ++step) {
    const double kappa = std::exp(at);
    double value = ridge / kappa - wanted, slope = -ridge / kappa;
    for (const auto& [eigenvalue, multiplicity] : levels.kept) {
      const double share = learned(eigenvalue, kappa);
      value += multiplicity * share;
      slope -= multiplicity * share * (1 - share);
    }
    (value > 0 ? low : high) = at;
    const double next = at - value / slope;
    if (std::abs(next - at) < 1e-13) break;
    at = next > low && next < high ? next : 0.5 * (low + high);
  }
  return std::exp(at);
}

bool enough(const Levels& levels, Index samples) {
  return levels.largest_left_out <= kNegligible * find_kappa(levels, samples, 0);
}

Levels enough_levels(const KernelSpectrum& spectrum, Index samples, Index& degree) {
  for (degree = 3;; degree += 1 + degree / 3) {
    Levels levels = spectrum.levels(degree);
    if (enough(levels, samples)) return levels;
  }
}

}  // namespace

Prediction best_of_grid(double trace, Index samples, const std::function<double(double)>& error) {
  const double top = 1e3 * trace, bottom = 1e-9 * trace / static_cast<double>(samples);
  Prediction best{error(top), top};
  for (double ridge = top / std::sqrt(10.0); ridge >= 0.99 * bottom; ridge /= std::sqrt(10.0)) {
    const double value = error(ridge);
    if (value < best.mean_square) best = {value, ridge};
  }
  return best;
}

LearningCurve::LearningCurve(const KernelSpectrum& spectrum, const std::vector<TargetPart>& parts,
                             double noise, Index most_samples)
    : levels_(enough_levels(spectrum, most_samples, degree_)), noise_square_(noise * noise) {
  double sum = 0;
  for (const TargetPart& part : parts) {
    if (part.query_degree + part.key_degree == 0) continue;  // the intercept's
    const double square = std::exp(part.log_square);
    sum += square;
    if (square < 1e-18 * sum) continue;
    parts_.push_back({square, std::exp(spectrum.log_eigenvalue(part.query_degree, part.key_degree))});
  }
}

bool LearningCurve::has_enough_levels(Index samples) const { return enough(levels_, samples); }

double LearningCurve::variance() const {
  double sum = noise_square_;
  for (const LearnedPart& part : parts_) sum += part.square;
  return sum;
}

double LearningCurve::error(Index samples, double ridge) const {
  const double n = static_cast<double>(samples), kappa = find_kappa(levels_, samples, n * ridge);
  double missed = noise_square_, squares = 0;
  for (const LearnedPart& part : parts_) {
    const double left = 1 - learned(part.eigenvalue, kappa);
    missed += part.square * left * left;
  }
  for (const auto& [eigenvalue, multiplicity] : levels_.kept) {
    const double share = learned(eigenvalue, kappa);
    squares += multiplicity * share * share;
  }
  return (1 + 1 / n) * missed / (1 - squares / (n - 1));
}

Prediction LearningCurve::best(Index samples) const {
  return best_of_grid(levels_.trace, samples, [&](double ridge) { return error(samples, ridge); });
}

}  // namespace headlens
