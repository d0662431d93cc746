#include "best_fit_report.hpp"

#include <fmt/format.h>

namespace headlens::app {

Json best_fit_json(const BestFitReport& report) {
  return {{"repeats", report.repeats},
          {"noise_floor", optional_json(report.noise_floor)},
          {"excess_error", optional_json(report.excess_error)},
          {"excess_interval",
           report.excess_low ? Json::array({*report.excess_low, *report.excess_high}) : Json(nullptr)}};
}

std::string best_fit_text(const BestFitReport& report) {
  std::string text = "\nnoise floor       ";
  text += report.noise_floor
              ? fmt::format("{:.2e} (from {} repeats of an X)", *report.noise_floor, report.repeats)
              : "unknown: no two examples have the same X";
  if (report.excess_error) text += fmt::format("\nexcess error      {:.2e}", *report.excess_error);
  if (!report.excess_low) return text;
  if (!report.excess_error)
    return text + fmt::format("\nexcess error      at most {:.2e} (95%)", *report.excess_high);
  return text + fmt::format(" (95%: {:.2e} to {:.2e})", *report.excess_low, *report.excess_high);
}

}  // namespace headlens::app
