#include "parity_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace headlens::app {

Json parity_json(const ParityReport& report) {
  Json out{{"set", report.set},
           {"sharpness", report.sharpness},
           {"sharpness_determined", report.sharpness_determined},
           {"active_examples", report.active_examples},
           {"spare_bits", report.spare_bits}};
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

std::string parity_text(const ParityReport& report) {
  std::string text = fmt::format("\nhidden set        {}", fmt::join(report.set, " "));
  if (report.candidates > 0)
    text += fmt::format(" (correlation {:.3f}, next best {:.3f}; {:.0f} of {:.0f} sets tried)",
                        report.correlation, report.next_correlation, report.tried, report.candidates);
  else
    text += fmt::format(" ({} equations of rank {}, {} contradict)", report.equations, report.rank,
                        report.violated);
  return text + fmt::format("\nsharpness         {:.6g}{}\nactive examples   {}, {:.0f} more than name a set",
                            report.sharpness, report.sharpness_determined ? "" : ", or any above",
                            report.active_examples, report.spare_bits);
}

}  // namespace headlens::app
