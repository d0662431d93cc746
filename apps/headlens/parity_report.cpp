#include "parity_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace headlens::app {

Json parity_json(const ParityReport& report) {
  Json out{{"set", report.set},
           {"sharpness", report.sharpness},
           {"sharpness_determined", report.sharpness_determined},
           {"active_examples", report.active_examples},
           {"spare_bits", report.spare_bits},
           {"steps", report.steps}};
  if (report.candidates > 0) {
    out["candidates"] = report.candidates;
    out["tried"] = report.tried;
    out["correlation"] = report.correlation;
    out["next_correlation"] = report.next_correlation;
  } else {
    out["equations"] = report.equations;
    out["rank"] = report.rank;
    out["violated"] = report.violated;
  }
  return out;
}

namespace {

// How many examples say anything of the hidden set, and how many of them are left to confirm it.
std::string active_text(const ParityReport& report) {
  if (!report.steps.empty())
    return fmt::format(
        "{} of the examples have the control on; they say {:.0f} bits more than naming a set takes",
        report.active_examples, report.spare_bits);
  const double naming = static_cast<double>(report.active_examples) - report.spare_bits;
  const std::string text = fmt::format("{} of the examples have the control on; naming a set takes {:.0f}",
                                       report.active_examples, naming);
  return report.spare_bits > 0
             ? text + fmt::format(" of them, the other {:.0f} confirm it", report.spare_bits)
             : text;
}

}  // namespace

std::string parity_text(const ParityReport& report) {
  std::string text = fmt::format("\nhidden set        {}", fmt::join(report.set, " "));
  if (report.candidates > 0)
    text += fmt::format(" (correlation {:.3f}, next best {:.3f}; {:.0f} of {:.0f} sets tried)",
                        report.correlation, report.next_correlation, report.tried, report.candidates);
  else
    text += fmt::format(" ({} equations of rank {}; {} contradict the others)", report.equations, report.rank,
                        report.violated);
  if (!report.steps.empty())
    text += fmt::format("\nlabel             no parity, but a function of the hidden sum: {:.4g}",
                        fmt::join(report.steps, " "));
  return text + fmt::format("\nsharpness         {:.6g}{}\nactive examples   {}", report.sharpness,
                            report.sharpness_determined ? "" : ", or any larger one", active_text(report));
}

}  // namespace headlens::app
