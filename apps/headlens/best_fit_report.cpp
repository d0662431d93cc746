#include "best_fit_report.hpp"

#include <fmt/format.h>

namespace headlens::app {

Json best_fit_json(const BestFitReport& report) {
  Json out{{"repeats", report.repeats}, {"noise_floor", nullptr}, {"excess_error", nullptr}};
  if (report.noise_floor) out["noise_floor"] = *report.noise_floor;
  if (report.excess_error) out["excess_error"] = *report.excess_error;
  out["excess_interval"] = {report.excess_low, report.excess_high};
  return out;
}

std::string best_fit_text(const BestFitReport& report) {
  if (!report.noise_floor)
    return fmt::format(
        "\nnoise floor       unknown: no two examples have the same X\n"
        "excess error      at most {:.2e} (with 95%)",
        report.excess_high);
  return fmt::format(
      "\nnoise floor       {:.2e} (from {} repeats of an X)\n"
      "excess error      {:.2e} (95%: {:.2e} to {:.2e})",
      *report.noise_floor, report.repeats, *report.excess_error, report.excess_low, report.excess_high);
}

}  // namespace headlens::app
