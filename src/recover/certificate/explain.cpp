#include "recover/certificate/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention/attention_map.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/token_span.hpp"
#include "recover/certificate/words_of_doubt.hpp"

namespace headlens::recovery {
namespace {

constexpr double kSaturated = 1e-6;  // of a row's weight: what a saturated head leaves to all other tokens
constexpr double kMostlySaturated = 0.8;  // of the rows: then the lack of others is the likely cause
constexpr double kComfortable = 8;        // equations per unknown with which recovery nearly always succeeds
constexpr double kParallel = 0.1;         // relative distance of two Theta that are hard to tell apart

Mention keep_uncertified() { return option("keep-uncertified", "FILE"); }

std::string list_of(const std::vector<Index>& heads) {
  std::string text = heads.size() == 1 ? "head " : "heads ";
  for (std::size_t i = 0; i < heads.size(); ++i)
    text += (i == 0 ? "" : i + 1 == heads.size() ? " and " : ", ") + std::to_string(heads[i]);
  return text;
}

std::string counted(Index count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string upper_first(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// The share of rows in which some head puts all its weight on one token.
double saturated_share(const Split& split, const Candidate& candidate) {
  const Index m = candidate.heads(), k = split.tokens,
              rows = std::min<Index>(split.train_x.rows, 4096 / k * k);
  if (m == 0 || rows == 0) return 0;
  Matrix<double> p(rows * m, k), phi(rows, m * split.train_x.cols);
  AttentionMap<double>(split.train_x.block(0, 0, rows, split.train_x.cols), k, m, 1)
      .evaluate(candidate.theta, p, phi);
  Index saturated = 0;
  for (Index row = 0; row < rows; ++row) {
    bool any = false;
    for (Index i = 0; i < m; ++i)
      any =
          any || *std::max_element(p.view().row(row * m + i), p.view().row(row * m + i) + k) > 1 - kSaturated;
    saturated += any;
  }
  return static_cast<double>(saturated) / static_cast<double>(rows);
}

std::string saturation_words(double share) {
  return fmt::format(
      " In {:.0f}% of the rows a head puts all its weight on one token; such rows show which token wins, but "
      "not by "
      "how much.",
      100 * share);
}
const char* const kSaturationAdvice =
    "If you can query the layer, ask with smaller tokens (a tenth of their size, say); otherwise give many "
    "more "
    "examples.";

Words unseen_words(const std::vector<std::vector<double>>& directions, double held_out) {
  std::string where;
  for (std::size_t i = 0; i < std::min<std::size_t>(directions.size(), 4); ++i)
    where += (i ? "; " : "") + describe_direction(directions[i]);
  if (directions.size() > 4) where += fmt::format("; and {} more", directions.size() - 4);
  return {
      fmt::format(
          "The held-out labels are predicted to {:.1e}, but within an example the tokens never vary along: "
          "{}. The labels say nothing about the heads there.",
          held_out, where),
      "Give tokens that vary along every direction, or leave these directions out of X and recover the "
      "rest."};
}

// Two heads in doubt whose Theta are nearly the same.
std::string parallel_words(const Candidate& c, const std::vector<Index>& heads) {
  const Index d = c.theta.rows();
  for (const Index i : heads)
    for (const Index j : heads) {
      if (j <= i) continue;
      double squares = 0, size = 0;
      for (Index a = 0; a < d; ++a)
        for (Index b = 0; b < d; ++b) {
          squares += std::pow(c.theta(a, i * d + b) - c.theta(a, j * d + b), 2);
          size += std::pow(c.theta(a, i * d + b), 2);
        }
      const double gap = std::sqrt(squares / std::max(size, 1e-300));
      if (gap < kParallel)
        return fmt::format(
            " Heads {} and {} have nearly the same Theta (they differ by {:.1e} of its size), so the labels "
            "hardly "
            "show how W is shared between them.",
            i, j, gap);
    }
  return "";
}

Words wide_bars_words(const Situation& s, Certificate& certificate) {
  const double held_out = s.candidate.held_out_error;
  certificate.unseen_directions = unseen_directions(s.split);
  if (!certificate.unseen_directions.empty()) return unseen_words(certificate.unseen_directions, held_out);
  const double saturated = saturated_share(s.split, s.candidate);
  Words words{
      fmt::format("The held-out labels are predicted to {:.1e}, but {} cannot be bounded: errors of 1% or "
                  "more would move no label by more than rounding does.",
                  held_out, list_of(s.proof.heads)),
      message("Give more examples, or tokens on which these heads differ more. ", keep_uncertified(),
              " writes the layer that was found.")};
  words.reason += parallel_words(s.candidate, s.proof.heads);
  if (saturated > kMostlySaturated) {
    words.reason += saturation_words(saturated);
    words.advice = kSaturationAdvice;
  }
  return words;
}

// Doubts that lie in the tokens of the examples: other layers give the same labels there.
Words token_words(const Proof& proof) {
  switch (proof.doubt) {
    case Doubt::mirror:
      return {
          fmt::format(
              "The tokens of every example lie symmetrically around their mean (as {} always do). Then {} "
              "and "
              "the mirror image (-Theta, -W) differ by a multiple of that mean, which is zero or which other "
              "heads can supply: two layers give the same labels.",
              "two tokens", list_of(proof.heads)),
          "Give examples of three tokens or more that are not symmetric."};
    case Doubt::mean_unseen:
      return {
          "In every example the mean of the tokens is zero along some direction: a head that takes the plain "
          "mean "
          "(Theta = 0) would not show there, so the number of heads is not determined.",
          "Give examples whose tokens are not centred."};
    case Doubt::few_tokens:
      return {
          fmt::format(
              "The tokens lie on few lines or in groups with independent spans, and {} agree in W or on one "
              "of the groups: parts of the two heads may be exchanged without changing a label.",
              list_of(proof.heads)),
          "Give tokens in general position (random vectors, or sums of the tokens that you have)."};
    default:
      return {
          "The examples repeat: up to the order of tokens every held-out example was also trained on, and "
          "those that "
          "differ are too few to be evidence by their number.",
          "Give more examples that differ from one another, or tokens with more distinct values."};
  }
}

Words doubt_words(const Situation& s, Certificate& certificate) {
  const Proof& proof = s.proof;
  const double held_out = s.candidate.held_out_error;
  switch (proof.doubt) {
    case Doubt::wide_bars:
      return wide_bars_words(s, certificate);
    case Doubt::another_layer:
      return {
          fmt::format(
              "The held-out labels are predicted to {:.1e}, but after a small push along the direction that "
              "the labels see least, {} did not come back to the same values.",
              held_out, proof.heads.empty() ? "the heads" : list_of(proof.heads)),
          message("Give more examples. ", keep_uncertified(), " writes the layer that was found.")};
    case Doubt::mirror:
    case Doubt::mean_unseen:
    case Doubt::few_tokens:
    case Doubt::few_distinct:
      return token_words(proof);
    case Doubt::structure:
      return {
          fmt::format(
              "The held-out labels are predicted to {:.1e}, but what is left is more than the rounding of "
              "float64: something is not explained yet.",
              held_out),
          s.options.heads
              ? message("There may be another head: let ", option("heads", "auto"), " look for one.")
              : message("If the labels were rounded (text files, float32), this may be all there is; "
                        "otherwise give more examples. ",
                        keep_uncertified(), " writes the layer that was found.")};
    case Doubt::out_of_time:
    case Doubt::untested:
    case Doubt::none:
      break;
  }
  return {"The time limit came before the heads could be tested.",
          message("Raise ", option("time-limit"), ".")};
}

Words too_few_words(const Certificate& c) {
  const double wanted = static_cast<double>(c.examples) * kComfortable / c.examples_per_unknown;
  return {fmt::format("{} heads have {:.2f} equations per unknown; recovery needs at least {:.1f}.", c.heads,
                      c.examples_per_unknown, kFewestEquations),
          fmt::format("Give about {:.0f} examples ({:.0f} equations per unknown).", std::ceil(wanted),
                      kComfortable)};
}

Words more_heads_words(const Situation& s, const Certificate& c) {
  return {fmt::format("{} heads leave {:.1e} of the held-out labels, and more heads would explain more.",
                      c.heads, c.held_out_error),
          s.options.heads ? message("Give more heads with ", option("heads"), ", or let ",
                                    option("heads", "auto"), " find their number.")
                          : message("Raise ", option("max-heads"), " (now ", s.options.max_heads,
                                    "), and give more examples for that many.")};
}

Words noise_words(const Situation& s, const Certificate& c) {
  const Challenge& challenge = s.challenge;
  if (c.examples_per_unknown < kFewestEquations) return too_few_words(c);
  if (challenge.more_heads_help && challenge.too_few_to_ask)
    return {
        fmt::format(
            "{} heads leave {:.1e} of the held-out labels, and for more heads there are fewer than {:.1f} "
            "equations per unknown.",
            c.heads, c.held_out_error, kFewestEquations),
        "Give more examples."};
  if (c.status == RecoveryStatus::needs_more_examples)
    return {
        fmt::format("The heads fit their own examples ({:.1e}) far better than the held-out ones ({:.1e}).",
                    c.train_error, c.held_out_error),
        message("Give more examples, or try fewer heads with ", option("heads"), ".")};
  if (c.held_out_error > 0.9)
    return {fmt::format("{} heads leave {:.0f}% of the held-out labels unexplained.", c.heads,
                        100 * c.held_out_error),
            "Check that X and Y belong together, that Y are the outputs of one attention layer without mask, "
            "bias or "
            "positions, and that the noise is smaller than the signal."};
  if (challenge.more_heads_help) return more_heads_words(s, c);
  if (!challenge.agrees)
    return {fmt::format(
                "Independent starts ended at different heads; the best leave {:.1e} of the held-out labels.",
                c.held_out_error),
            message("Raise ", option("starts"), ", or give more examples.")};
  if (!challenge.leaves_noise)
    return {
        fmt::format("What {} heads leave of the labels ({:.1e}) is not noise: it depends on X (z = {:.0f}).",
                    c.heads, c.held_out_error, c.residual_z.value_or(0)),
        c.held_out_error < kNear
            ? message("There may be another head, faint or nearly parallel to one of these: give more "
                      "examples, or try more heads with ",
                      option("heads"), ".")
            : message("The labels are probably not those of an attention layer without mask, bias or "
                      "positions.")};
  if (!c.heads_in_doubt.empty())
    return {fmt::format("The labels are too noisy for {}: errors of half their size would not show.",
                        list_of(c.heads_in_doubt)),
            "Give more examples, or labels with less noise."};
  return {"After a small nudge the heads did not come back to the same values.",
          "Give more examples, or labels with less noise."};
}

Words stalled_words(const Situation& s, const Certificate& c) {
  if (c.heads == 0)
    return {"The time limit came before any head was found.",
            message("Raise ", option("time-limit"), ", or give fewer examples.")};
  Words words{
      fmt::format("The time limit came first; {} heads leave {:.1e} of the held-out labels so far.", c.heads,
                  c.held_out_error),
      message("Raise ", option("time-limit"), ", or give the number of heads with ", option("heads"), ".")};
  const double saturated = saturated_share(s.split, s.candidate);
  if (saturated > kMostlySaturated) {
    words.reason += saturation_words(saturated);
    words.advice += message(" ", kSaturationAdvice);
  }
  return words;
}

// Of methods that are shown as they are: how far they came.
Words alone_words(const Situation& s, const Certificate& c) {
  const std::string left = fmt::format("{:.1e} of the held-out labels", c.held_out_error);
  const std::string goal = fmt::format("a proof needs {:.0e} and the last digits", kProof);
  if (s.options.method == RecoverMethod::moments)
    return {fmt::format("Moments alone leave {}; {}. The formulas of the moments are approximate, and more "
                        "examples do not remove their bias.",
                        left, goal),
            message("Let the default method go on from the same moments: ", option("method", "varpro"), " ",
                    option("start", "spectral"), ".")};
  return {
      fmt::format("Gradient descent leaves {} after {} of {} steps; {}.", left, counted(c.starts, "start"),
                  s.options.steps, goal),
      message("Raise ", option("steps"), ", or use the default method (", option("method", "varpro"), ").")};
}

Words best_fit_words(const Situation& s, const Certificate& c) {
  Words words{fmt::format("A best fit was asked for: the layer of {} with the smallest training error of {}. "
                          "A best fit says nothing about where the labels come from.",
                          counted(c.heads, "head"), counted(c.starts, "start")),
              ""};
  if (c.held_out_error <= kProof)
    words.advice = message("The held-out labels are predicted to 8 digits: without ",
                           option("best-fit", "true"), " the heads can be certified.");
  else if (!generalises(s.split, s.candidate))
    words.advice = fmt::format(
        "The training error ({:.1e}) is far smaller than the held-out error: give more examples, or fewer "
        "heads.",
        c.train_error);
  else if (!c.best_fit->noise_floor)
    words.advice =
        "Give some inputs several times, each with a label of its own: their spread is the noise floor.";
  return words;
}

}  // namespace

void explain(const Situation& s, Certificate& certificate) {
  Words words;
  if (certificate.status == RecoveryStatus::recovered || certificate.status == RecoveryStatus::approximate)
    return;
  if (s.proof.found_doubt()) certificate.heads_in_doubt = s.proof.heads;
  if (squared_norm(s.split.train_y) == 0)
    words = {"All labels are zero: every layer with W = 0 has these outputs, so there is no head to find.",
             "Check that Y holds the outputs of the layer."};
  else if (certificate.status == RecoveryStatus::best_fit)
    words = best_fit_words(s, certificate);
  else if (certificate.status == RecoveryStatus::stalled)
    words = stalled_words(s, certificate);
  else if (certificate.sculpt && !s.options.sculpt.polish)
    words = {
        fmt::format("Sculpting alone predicts the held-out labels to {:.1e}; the polish was left out, so "
                    "nothing was tested.",
                    certificate.held_out_error),
        message("Leave out ", option("polish", "false"), " to have the last digits and a certificate; ",
                keep_uncertified(), " writes the layer that sculpting alone has.")};
  else if (is_shown_alone(s.options.method) && certificate.status == RecoveryStatus::not_identified &&
           (!s.proof.found_doubt() || s.proof.doubt == Doubt::structure))
    words = alone_words(s, certificate);
  else if (s.proof.found_doubt())
    words = doubt_words(s, certificate);
  else
    words = noise_words(s, certificate);
  certificate.reason = upper_first(words.reason);
  certificate.advice = words.advice;
}

}  // namespace headlens::recovery
