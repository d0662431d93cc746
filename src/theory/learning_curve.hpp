// The predicted error of ridge regression with an intercept on n sets. With eigenvalues lambda_i
// (multiplicities included), delta = n ridge and kappa the root of
//
//   n - 1 = sum_i L_i + delta / kappa,    L_i = lambda_i / (lambda_i + kappa),
//
// the mean squared error on fresh sets is
//
//   (1 + 1/n) (sum_i f_i^2 (1 - L_i)^2 + sigma^2) / (1 - sum_i L_i^2 / (n - 1)),
//
// f_i the coefficients of the target, sigma the noise: Jacot et al. 2020, Canatar et al. 2021, Simon et al.
// 2021, with n - 1 for n because the intercept takes the mean out; the mean of Gaussian features is
// independent of what is left and costs the first factor. It holds in the limit of large n, for features that
// look Gaussian. Eigenvalues far below kappa act as their sum added to delta.
#pragma once

#include <functional>
#include <utility>

#include "theory/spectrum.hpp"
#include "theory/target.hpp"

namespace headlens {

struct LearnedPart {
  double square = 0;  // f_i^2, summed over a level
  double eigenvalue = 0;
};

struct Prediction {
  double mean_square = 0;
  double ridge = 0;
};

// The least error(ridge) over the grid of penalties that fit searches.
Prediction best_of_grid(double trace, Index samples, const std::function<double(double)>& error);

class LearningCurve {
 public:
  // `most_samples` decides how many levels are needed; Error if too many.
  LearningCurve(const KernelSpectrum& spectrum, const std::vector<TargetPart>& parts, double noise,
                Index most_samples);

  LearningCurve(Levels levels, std::vector<LearnedPart> parts, double noise)
      : levels_(std::move(levels)), parts_(std::move(parts)), noise_square_(noise * noise) {}

  // Whether what is left out counts as one penalty: no eigenvalue there is above kappa / 100.
  bool has_enough_levels(Index samples) const;
  double variance() const;                          // of y
  double error(Index samples, double ridge) const;  // mean square
  Prediction best(Index samples) const;             // over the grid of penalties that fit searches
  double trace() const { return levels_.trace; }
  Index degree() const { return degree_; }  // of the levels that are needed

 private:
  Index degree_ = 0;
  Levels levels_;
  std::vector<LearnedPart> parts_;
  double noise_square_;
};

}  // namespace headlens
