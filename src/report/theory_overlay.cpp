#include "report/theory_overlay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "report/escape.hpp"
#include "study/cell_theory.hpp"

namespace headlens::report {
namespace {

constexpr double kTolerance = 0.1, kStandardErrors = 2;

void predict(TheoryAt& at, const TheoryOptions& options) {
  const Theory theory = evaluate_theory(options, {});
  const TheoryPoint& point = theory.points.front();
  const double noise = options.task.noise * options.task.noise;
  const double variance = theory.variance - noise;
  require(point.predicted_error.has_value() && variance > 0, "degree: the target is constant");
  at.predicted = (*point.predicted_error * theory.variance - noise) / variance;
  at.bound = point.bound.value_or(kNoNumber);
  at.bound_as_nmse = point.square_bound.value_or(kNoNumber) / variance;
}

void compare(TheoryAt& at, const Point& point) {
  at.seeds = static_cast<Index>(point.values.size());
  if (at.seeds == 0) return;
  at.ratio = point.mean / at.predicted;
  const double off = std::abs(point.mean - at.predicted);
  at.agrees = off <= kTolerance * at.predicted;
  if (at.seeds < 2) return;
  double squares = 0;
  for (const SeedValue& item : point.values) squares += (item.value - point.mean) * (item.value - point.mean);
  const auto count = static_cast<double>(at.seeds);
  at.standard_error = std::sqrt(squares / (count - 1) / count);
  at.agrees = at.agrees || off <= kStandardErrors * at.standard_error;
}

// Adds what theory says about a point; the reason if it says nothing.
std::string add_point(TheoryCurve& curve, StudyCommand command, const Point& point) {
  std::string reason = why_no_theory(command, point.inputs);
  if (!reason.empty()) return reason;
  TheoryAt at{.x_value = point.x_value, .x = point.x};
  try {
    predict(at, theory_options(point.inputs));
  } catch (const Error& error) {  // beyond the range of numbers, or of degrees
    return error.what();
  }
  compare(at, point);
  curve.points.push_back(at);
  return "";
}

std::string where(const TheoryCurve& curve, const TheoryAt& at) {
  std::string text = curve.panel;
  if (!curve.series.empty()) text += (text.empty() ? "" : ", ") + curve.series;
  return fmt::format("{}{}n = {}", text, text.empty() ? "" : ", ", headlens::text(at.x_value));
}

}  // namespace

const TheoryCurve* TheoryOverlay::find(const Curve& curve) const {
  for (const TheoryCurve& known : curves)
    if (known.panel == curve.panel && known.series == curve.series) return &known;
  return nullptr;
}

const TheoryAt* TheoryOverlay::find(const Curve& curve, const Point& point) const {
  const TheoryCurve* known = find(curve);
  if (known == nullptr) return nullptr;
  for (const TheoryAt& at : known->points)
    if (same(at.x_value, point.x_value)) return &at;
  return nullptr;
}

TheoryOverlay theory_overlay(StudyCommand command, const Summary& summary) {
  TheoryOverlay overlay;
  for (const Curve& curve : summary.curves) {
    TheoryCurve& theory = overlay.curves.emplace_back(TheoryCurve{curve.panel, curve.series, {}});
    for (const Point& point : curve.points) {
      const std::string reason = add_point(theory, command, point);
      if (overlay.silence.empty()) overlay.silence = reason;
    }
  }
  return overlay;
}

std::string theory_sentence(const TheoryOverlay& overlay) {
  std::size_t points = 0, agreeing = 0;
  double least = INFINITY, most = 0, farthest = 0;
  std::string at_farthest;
  for (const TheoryCurve& curve : overlay.curves)
    for (const TheoryAt& at : curve.points) {
      if (at.seeds == 0) continue;
      ++points;
      agreeing += at.agrees;
      least = std::min(least, at.ratio);
      most = std::max(most, at.ratio);
      if (at.agrees || std::abs(std::log(at.ratio)) < farthest) continue;
      farthest = std::abs(std::log(at.ratio));
      at_farthest = fmt::format("{} at {}", number(at.ratio), where(curve, at));
    }
  if (points == 0) return "";
  if (points == 1)
    return fmt::format("The measured error divided by the predicted one is {}, {} 10% or 2 standard errors.",
                       number(least), agreeing == 1 ? "within" : "beyond");
  const std::string range =
      fmt::format("The measured error divided by the predicted one is {} to {} at {} points, ", number(least),
                  number(most), points);
  if (agreeing == points) return range + "all within 10% or 2 standard errors.";
  return range + fmt::format("{} of them within 10% or 2 standard errors; farthest beyond: {}.",
                             agreeing == 0 ? "none" : std::to_string(agreeing), at_farthest);
}

}  // namespace headlens::report
