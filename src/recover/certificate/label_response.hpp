// How firmly the labels hold the parameters of an answer: what draws of errors in the labels do, and the
// directions that the labels see least.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "recover/certificate/error_draws.hpp"
#include "recover/certificate/weakest_direction.hpp"

namespace headlens::recovery {

struct LabelResponse {
  bool resolved = false;  // every draw was solved for, and the lowest eigenvalue is above rounding
  std::unique_ptr<backend::LinearModel> model;  // at the point
  std::vector<ErrorDraw> drawn;
  WeakestDirection weakest;
};

// The problem with the directions fixed that change no head (factors/gauge.hpp), by so much curvature.
using FixGauge = std::function<std::unique_ptr<backend::LayerProblem>(double curvature)>;

struct ResponseOptions {
  DrawOptions draws;            // at least three; mu is set here
  std::string_view any_stream;  // of a direction in which draws may have no part
};
// At a linearised point.
LabelResponse label_response(const backend::LayerProblem& problem, const backend::LayerPoint& point,
                             ResponseOptions options, const FixGauge& fixed, Effort& effort);

}  // namespace headlens::recovery
