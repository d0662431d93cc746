// The Fourier coefficients of a layer, and the label of a hard one, as JSON and as text.
#pragma once

#include <optional>
#include <string>

#include "command.hpp"
#include "headlens/fourier.hpp"
#include "headlens/hardness.hpp"

namespace headlens::app {

Json fourier_json(const Fourier& fourier, Index dim, bool hard);
std::string fourier_text(const Fourier& fourier, Index dim, bool hard);

Json label_json(const std::optional<HiddenLabel>& label);
std::string label_text(const HiddenLabel& label);

}  // namespace headlens::app
