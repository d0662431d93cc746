// headlens recover EXAMPLES: the heads of an unknown attention layer, with a certificate.
#include "headlens/recover.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "best_fit_report.hpp"
#include "command.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/files.hpp"
#include "parity_report.hpp"
#include "sculpt_report.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  RecoverOptions recover;
  std::string examples, output, certificate, span_output, uncertified;
  std::string heads = "auto", start = "random";
};

std::optional<Index> parse_heads(const std::string& text) {
  if (text == "auto") return std::nullopt;
  const auto value = parse_whole<Index>(text);
  require(value && *value >= 1, "heads: '", text, "' given, expected auto, or 1 or more");
  return *value;
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json certificate_json(const Certificate& c) {
  Json trials = Json::array(), heads = Json::array(), phases = Json::object();
  for (const HeadCountTrial& trial : c.trials)
    trials.push_back({{"heads", trial.heads},
                      {"train_error", trial.train_error},
                      {"held_out_error", trial.held_out_error}});
  for (const HeadReport& head : c.per_head)
    heads.push_back({{"scale", head.scale},
                     {"effective_rank", head.effective_rank},
                     {"w_norm", head.w_norm},
                     {"theta_error_bar", head.theta_bar},
                     {"w_error_bar", head.w_bar},
                     {"mean_pooling", head.mean_pooling}});
  Json trace = Json::array();
  for (const TracePoint& point : c.trace)
    trace.push_back({{"phase", point.phase},
                     {"heads", point.heads},
                     {"step", point.step},
                     {"seconds", point.seconds},
                     {"train_error", point.train_error},
                     {"held_out_error", optional_json(point.held_out_error)}});
  for (const Phase& phase : c.phases) phases[phase.name] = phase.seconds;
  return {{"status", name(c.status)},
          {"reason", c.reason},
          {"advice", c.advice},
          {"heads_in_doubt", c.heads_in_doubt},
          {"unseen_directions", c.unseen_directions},
          {"heads", c.heads},
          {"held_out_error", c.held_out_error},
          {"train_error", c.train_error},
          {"examples", c.examples},
          {"held_out", c.held_out},
          {"examples_per_unknown", c.examples_per_unknown},
          {"residual_z", optional_json(c.residual_z)},
          {"noise", optional_json(c.noise)},
          {"smallest_singular_value", optional_json(c.smallest_singular_value)},
          {"weakest_direction", c.weakest_shares},
          {"head_count_evidence", trials},
          {"moment_singular_values", c.moment_values},
          {"per_head", heads},
          {"starts", c.starts},
          {"steps", c.steps},
          {"inner_steps", c.inner_steps},
          {"sculpt", c.sculpt ? sculpt_json(*c.sculpt) : Json(nullptr)},
          {"parity", c.parity ? parity_json(*c.parity) : Json(nullptr)},
          {"best_fit", c.best_fit ? best_fit_json(*c.best_fit) : Json(nullptr)},
          {"phases", phases},
          {"trace", trace},
          {"seconds", c.seconds}};
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

std::string certificate_text(const Certificate& c) {
  std::string text = fmt::format("status            {}\n", name(c.status));
  if (!c.reason.empty()) text += fmt::format("why               {}\n", c.reason);
  if (!c.advice.empty()) text += fmt::format("what next         {}\n", c.advice);
  text += fmt::format(
      "heads             {}\nheld-out error    {:.2e} (on {} of {} examples; training {:.2e})\n"
      "equations/unknown {:.2f}\nwork              {} starts, {} steps, {} inner steps, {:.2f} s\n",
      c.heads, c.held_out_error, c.held_out, c.examples, c.train_error, c.examples_per_unknown, c.starts,
      c.steps, c.inner_steps, c.seconds);
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

int run(Arguments& a) {
  a.recover.heads = parse_heads(a.heads);
  a.recover.start = a.start == "spectral" ? RecoverStart::spectral : RecoverStart::random;
  a.recover.seed = a.common.seed;
  a.recover.validate();
  require(a.span_output.empty() || a.recover.method == RecoverMethod::sculpt,
          "span-out: given with --method ", name(a.recover.method), ", expected --method sculpt");
  Files files({a.examples});
  const auto file = files.output("-o", a.output, Stream::binary);
  const auto certificate_file = files.output("--certificate", a.certificate, Stream::refused);
  const auto span_file = files.output("--span-out", a.span_output, Stream::refused);
  const auto uncertified_file = files.output("--keep-uncertified", a.uncertified, Stream::refused);
  const Execution execution = a.common.execution();
  const Examples examples = load_examples(a.examples, execution);
  const Recovery recovery = recover(examples, a.recover, execution);
  const Json json = certificate_json(recovery.certificate);
  FileGroup together;
  const bool best_fit = recovery.certificate.status == RecoveryStatus::best_fit;
  if (recovery.layer) save_layer(file, *recovery.layer, best_fit ? Certified::no : Certified::not_said);
  if (!a.uncertified.empty() && recovery.best)
    save_layer(uncertified_file, *recovery.best,
               recovery.layer && !best_fit ? Certified::yes : Certified::no);
  if (!a.span_output.empty()) write_npz(span_file, {{"span", *recovery.sculpt_span}});
  if (!a.certificate.empty()) write_text(certificate_file, json.dump(2) + "\n");
  together.commit();
  print(a.common, json, certificate_text(recovery.certificate));
  return recovery.layer ? kOk : kOutcome;
}

}  // namespace

void add_recover(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("recover", "Recover the heads of an attention layer from examples");
  command.add_option("EXAMPLES", a->examples, "examples (.npz: X (n,k,d), Y (n,k,e))")->required();
  command.add_option("-o,--output", a->output, "layer to write (.npz: Theta, W), if one is certified")
      ->type_name("LAYER")
      ->required();
  command
      .add_option("--keep-uncertified", a->uncertified,
                  "layer to write whatever the status (.npz: Theta, W, and certified, 1 or 0)")
      ->type_name("FILE");
  command.add_option("--certificate", a->certificate, "certificate to write (.json)")->type_name("FILE");
  command.add_option("--heads", a->heads, "number of heads, or auto")->type_name("m")->capture_default_str();
  add_whole(command, "--max-heads", a->recover.max_heads, "most heads that auto tries", "M")
      ->capture_default_str();
  add_whole(command, "--starts", a->recover.starts, "starts for each number of heads", "R")
      ->capture_default_str();
  add_choice(command, "--start", a->start, "random, or spectral (many examples, three tokens or more)",
             "random|spectral");
  std::map<std::string, RecoverMethod> methods;
  for (const RecoverMethod method :
       {RecoverMethod::varpro, RecoverMethod::sculpt, RecoverMethod::moments, RecoverMethod::gradient,
        RecoverMethod::brute_force, RecoverMethod::linear_algebra})
    methods[name(method)] = method;
  add_choice(command, "--method", a->recover.method,
             "variable projection, or the paper's six phases; moments or gradient descent, shown without a "
             "polish; or, for hard parities only, all hidden sets or equations over GF(2)",
             "varpro|sculpt|moments|gradient|brute-force|linear-algebra", methods);
  add_whole(command, "--steps", a->recover.steps, "steps of gradient descent for each start", "T")
      ->capture_default_str();
  command.add_flag("--best-fit", a->recover.best_fit,
                   "the best layer of --heads m for labels of any origin, with its excess error");
  add_sculpt_options(command, a->recover.sculpt);
  command
      .add_option("--span-out", a->span_output, "estimated span of Theta_i - Theta_j to write (.npz: span)")
      ->type_name("FILE");
  command
      .add_option("--time-limit", a->recover.time_limit_seconds, "seconds after which to stop with a status")
      ->type_name("T");
  add_seed(command, a->common, "seed of the starts");
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.footer(
      "The status is recovered, approximate, needs_more_examples, not_identified or stalled; only the first "
      "two come\n"
      "with a layer, the others say why and what to do next, and exit with status 3. With --best-fit it is "
      "best_fit,\n"
      "which comes with a layer that is certified by nothing.\n\n"
      "Examples:\n"
      "  headlens recover examples.npz -o layer.npz --certificate certificate.json\n"
      "  headlens recover examples.npz --heads 4 --time-limit 60 -o layer.npz\n"
      "  headlens recover examples.npz -o layer.npz --keep-uncertified best.npz\n"
      "  headlens recover examples.npz --method sculpt --heads 2 --sculpt-form lp -o layer.npz\n"
      "  headlens recover examples.npz --method sculpt --no-polish --keep-uncertified alone.npz -o "
      "layer.npz\n"
      "  headlens recover examples.npz --method gradient --heads 2 --starts 1 -o layer.npz --certificate "
      "path.json\n"
      "  headlens recover labels.npz --best-fit --heads 2 -o layer.npz\n"
      "  headlens recover hard.npz --method brute-force --heads 6 --time-limit 60 -o layer.npz");
  set_action(command, [a] { return run(*a); });
}

}  // namespace headlens::app
