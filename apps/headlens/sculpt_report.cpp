#include "sculpt_report.hpp"

#include <fmt/format.h>

#include <map>

#include "words.hpp"

namespace headlens::app {
namespace {

Json carving_json(const Carving& c) {
  return {{"accepted_rows", c.accepted_rows}, {"tolerance", c.tolerance}, {"slabs", c.slabs},
          {"half_spaces", c.half_spaces},     {"outliers", c.outliers},   {"body_width", c.body_width},
          {"minimum_norm", c.minimum_norm}};
}

std::string carving_text(const Carving& c) {
  return fmt::format(
      "{} rows accepted, {:.2e} off in logits (median); {} slabs, {} half-spaces ({} outliers); body of "
      "width "
      "{:.3g}, "
      "|proxy| {:.3g}",
      c.accepted_rows, c.tolerance, c.slabs, c.half_spaces, c.outliers, c.body_width, c.minimum_norm);
}

}  // namespace

void add_sculpt_options(CLI::App& command, SculptOptions& options) {
  static const std::map<std::string, SculptForm> forms{{"least-squares", SculptForm::least_squares},
                                                       {"lp", SculptForm::linear_program}};
  static const std::map<std::string, SpanForm> spans{{"eigenvectors", SpanForm::eigenvectors},
                                                     {"membership", SpanForm::membership}};
  add_choice(command, "--sculpt-form", options.form, "the body of --method sculpt: ellipsoid or polytope",
             "least-squares|lp", forms);
  add_choice(command, "--span-form", options.span,
             "how --method sculpt finds the long directions of the body", "eigenvectors|membership", spans);
  command.add_flag("!--no-polish", options.polish,
                   "leave out the polish of --method sculpt: what sculpting alone reaches, never certified");
}

Json sculpt_json(const SculptReport& r) {
  const SculptReport::Seconds& s = r.seconds;
  return {{"carve", carving_json(r.rough)},
          {"refinement", r.refinement},
          {"sum_change", r.sum_change},
          {"carve_again", carving_json(r.fine)},
          {"widths", r.widths},
          {"eigengap", r.eigengap},
          {"span_dimension", r.span_dimension},
          {"rounds", r.rounds},
          {"net_size", r.net_size},
          {"net_error", r.net_error},
          {"polished_error", optional_json(r.polished_error)},
          {"polish_distance", optional_json(r.polish_distance)},
          {"seconds",
           {{"sum", s.sum},
            {"carve", s.carve},
            {"refine", s.refine},
            {"carve_again", s.carve_again},
            {"span", s.span},
            {"net", s.net},
            {"polish", s.polish}}}};
}

std::string sculpt_text(const SculptReport& r) {
  const SculptReport::Seconds& s = r.seconds;
  std::string text = "\nphase             time  found";
  const auto line = [&](const char* phase, double seconds, const std::string& found) {
    text += fmt::format("\n{:<12} {:>7.2f} s  {}", phase, seconds, found);
  };
  const auto unfinished = [&](const char* phases) {
    return text + fmt::format("\nunfinished        the time limit came before the end of phases {}", phases);
  };
  if (r.refinement.empty()) return unfinished("1 to 3");
  line("1 sum", s.sum, "a crude sum of all W");
  line("2 carve", s.carve, carving_text(r.rough));
  line("3 refine", s.refine,
       fmt::format("a better sum ({}), which differs by {:.2e} of its size", r.refinement, r.sum_change));
  if (r.rounds == 0) return unfinished("4 to 6");
  line("4 carve", s.carve_again, carving_text(r.fine));
  line("5 span", s.span, fmt::format("span of dimension {}, eigengap {:.3g}", r.span_dimension, r.eigengap));
  line("6 net", s.net,
       fmt::format("{} tuples of heads tried, held-out error {:.2e}, the best of {} round{} of phases 4 to 6",
                   r.net_size, r.net_error, r.rounds, r.rounds == 1 ? "" : "s"));
  if (r.polished_error)
    line("  polish", s.polish,
         fmt::format("variable projection from the best tuple: held-out error {:.2e}", *r.polished_error));
  text += fmt::format("\nwhose accuracy    sculpting alone predicts held-out labels to {:.1e}", r.net_error);
  if (r.polish_distance)
    text += fmt::format(
        ", and its worst head is {:.1e} of its size away;\n                  all digits beyond are the "
        "polish's",
        *r.polish_distance);
  return text;
}

}  // namespace headlens::app
