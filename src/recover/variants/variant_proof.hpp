// Bounds on the errors of the heads of a variant, and attempts to break them: the tests of
// recover/certificate/proof.hpp on the content of heads (attention/head_content.hpp).
//
// To first order an error nu of the labels moves the parameters by dp = (J^T P_perp J)^+ J^T P_perp nu and W'
// by the best W' of nu - J dp. |A nu| <= |nu| |A|_F for the linear map A from nu to the error of one head,
// and |A|_F^2 = E |A g|^2 for standard normal g: bounds come from draws of g, and so do the bars of labels
// with noise. Draws say nothing about directions that no label shows, so the smallest eigenvalue of J^T
// P_perp J, beside the directions that change no head, is asked for as well.
#pragma once

#include "recover/certificate/proof.hpp"
#include "recover/unit_scales.hpp"
#include "recover/variants/variant_search.hpp"

namespace headlens::recovery {

// From the whitened coordinates of the search to those of the user: x_white = x M with M = D T, D the units
// of the coordinates and T the whitening. Theta = M Theta' M^T, u = M u', Q = M Q', K = M K', W = M W' 2^y.
// Where the tokens span s < d dimensions M is (d, s), and heads are zero beyond the span.
struct VariantOutside {
  Matrix<double> m;  // (d, d)
  int labels = 0;    // y

  VariantShape shape(VariantShape white) const {
    white.dim = m.rows();
    return white;
  }
  Matrix<double> parameters(const VariantShape& shape, MatrixView<const double> white) const;
  Matrix<double> readout(const VariantShape& shape, MatrixView<const double> white) const;
};

struct VariantBars {
  bool resolved = false;
  double noise = 0;  // deviation of the labels' noise, from the residual
  double response = 0;
  std::vector<HeadBound> relative;  // of every head, as shares of its size outside
};
enum class VariantLabels { exact, noisy };
VariantBars variant_bars(const VariantData& data, const VariantOutside& outside,
                         const VariantCandidate& candidate, VariantLabels labels, std::uint64_t seed,
                         Effort& effort);

// The largest relative distance of a head's content or W after the heads were matched.
double variant_distance(const VariantCandidate& a, const VariantCandidate& b);

Proof prove_variant(const VariantData& data, const VariantOutside& outside, const VariantCandidate& candidate,
                    std::uint64_t seed, Effort& effort);

}  // namespace headlens::recovery
