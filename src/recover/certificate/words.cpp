#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "headlens/certificate.hpp"

namespace headlens {
namespace {

std::string carving_text(const Carving& c) {
  return fmt::format(
      "{} rows accepted, {:.2e} off in logits (median); {} slabs, {} half-spaces ({} outliers); body of "
      "width "
      "{:.3g}, "
      "|proxy| {:.3g}",
      c.accepted_rows, c.tolerance, c.slabs, c.half_spaces, c.outliers, c.body_width, c.minimum_norm);
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
         fmt::format("variable projection from the {}: held-out error {:.2e}",
                     r.polished_tuples == 1 ? "best tuple" : fmt::format("{} best tuples", r.polished_tuples),
                     *r.polished_error));
  text += fmt::format("\nwhose accuracy    sculpting alone predicts held-out labels to {:.1e}", r.net_error);
  if (!r.polish_distance) return text;
  if (*r.polished_error >= r.net_error) return text + ";\n                  the polish does no better";
  return text + fmt::format(
                    ", and its worst head is {:.1e} of its size away;\n                  all digits "
                    "beyond are the polish's",
                    *r.polish_distance);
}

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

std::string weakest_text(const Certificate& c) {
  if (!c.smallest_singular_value.value_or(0) || c.weakest_shares.empty()) return "";
  const auto most = std::max_element(c.weakest_shares.begin(), c.weakest_shares.end());
  return fmt::format(
      "\nleast seen        moving Theta by its own size along the direction that the labels see least "
      "changes them\n"
      "                  by {:.1e} of their size; {:.0f}% of that direction lies in head {}",
      *c.smallest_singular_value, 100 * *most, most - c.weakest_shares.begin());
}

// Three decimals where they say something.
std::string size_text(double size) {
  return size == 0 || (size >= 0.01 && size < 1e4) ? fmt::format("{:.3f}", size)
                                                   : fmt::format("{:.1e}", size);
}

std::string heads_text(const Certificate& c) {
  if (c.per_head.empty()) return "";
  const char* bars = c.status == RecoveryStatus::recovered     ? "relative, at most"
                     : c.status == RecoveryStatus::approximate ? "relative, at most with 95%"
                                                               : "relative, not certified";
  std::string text =
      fmt::format("\n\nhead  logit scale  effective rank      |W|   error of Theta   error of W ({})", bars);
  for (std::size_t i = 0; i < c.per_head.size(); ++i) {
    const HeadReport& head = c.per_head[i];
    text += fmt::format("\n{:<4}  {:>11}  {:>14.2f}  {:>7}  {:>15}  {:>11.1e}", i, size_text(head.scale),
                        head.effective_rank, size_text(head.w_norm),
                        head.mean_pooling ? "plain mean" : fmt::format("{:.1e}", head.theta_bar), head.w_bar);
  }
  return text;
}

}  // namespace

std::string in_words(const Certificate& c, const Spelling& spelling) {
  std::string text = fmt::format("status            {}\n", name(c.status));
  for (const VariantTrial& trial : c.variant_trials)
    text += fmt::format("tried             {}: held-out error {:.1e}\n", name(trial.variant),
                        trial.held_out_error);
  if (!c.variant.plain()) text += fmt::format("variant           {}\n", name(c.variant));
  if (c.span_dimension)
    text += fmt::format(
        "span              the tokens span {} dimensions; heads are determined there, and zero beyond\n",
        *c.span_dimension);
  if (!c.reason.empty()) text += fmt::format("why               {}\n", c.reason);
  if (!c.advice.empty()) text += fmt::format("what next         {}\n", c.advice.spelled(spelling));
  const std::string held_out =
      c.held_out > 0 ? fmt::format("{:.2e} (on {} of {} examples; training {:.2e})", c.held_out_error,
                                   c.held_out, c.examples, c.train_error)
                     : fmt::format("none: no example was held out (training {:.2e})", c.train_error);
  text += fmt::format(
      "heads             {}\nheld-out error    {}\n"
      "equations/unknown {:.2f}\nwork              {} starts, {} steps, {} inner steps, {:.2f} s\n",
      c.heads, held_out, c.examples_per_unknown, c.starts, c.steps, c.inner_steps, c.seconds);
  text += "heads tried      ";
  for (const HeadCountTrial& trial : c.trials)
    text += fmt::format(" {}: {:.1e}", trial.heads, trial.held_out_error);
  if (!c.moment_values.empty()) {
    text += "\nmoment's values  ";
    for (const double value : c.moment_values) text += fmt::format(" {:.2g}", value / c.moment_values[0]);
  }
  text += weakest_text(c);
  if (c.noise) text += fmt::format("\nnoise of labels   {:.1e} (standard deviation)", *c.noise);
  text += heads_text(c);
  if (c.sculpt) text += sculpt_text(*c.sculpt);
  if (c.parity) text += parity_text(*c.parity);
  if (c.best_fit) text += best_fit_text(*c.best_fit);
  return text;
}

}  // namespace headlens
