// Predictions and bounds of theory.hpp beside measured learning curves of nmse.
//
// A cell is tested on targets without noise, theory's y has it: with error e and variance v of theory, the
// prediction is
//
//   (e v - noise^2) / (v - noise^2).
//
// The bounds are about training over a norm ball: of the excess risk, in units of y, and of the excess mean
// square error over the variance of the target, which stands beside an nmse.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/summarise.hpp"

namespace headlens::report {

struct TheoryAt {
  StudyValue x_value;
  double x = kNoNumber;
  double predicted = kNoNumber;       // nmse
  double bound = kNoNumber;           // TheoryPoint::bound
  double bound_as_nmse = kNoNumber;   // TheoryPoint::square_bound / variance
  Index seeds = 0;                    // measured
  double ratio = kNoNumber;           // mean over seeds / predicted
  double standard_error = kNoNumber;  // of that mean; two seeds or more
  bool agrees = false;                // within 10% or two standard errors
};

struct TheoryCurve {
  std::string panel, series;
  std::vector<TheoryAt> points;  // those about which theory speaks, by x
};

struct TheoryOverlay {
  std::vector<TheoryCurve> curves;  // one a curve of the summary
  std::string silence;              // why the first curve without theory has none; "" if all have

  bool empty() const { return curves.empty(); }
  const TheoryCurve* find(const Curve& curve) const;
  const TheoryAt* find(const Curve& curve, const Point& point) const;  // null: theory is silent
};

TheoryOverlay theory_overlay(StudyCommand command, const Summary& summary);

// "The measured error divided by the predicted one is 0.97 to 1.06 at 24 points, all within 10% or 2 standard
// errors."
std::string theory_sentence(const TheoryOverlay& overlay);

}  // namespace headlens::report
