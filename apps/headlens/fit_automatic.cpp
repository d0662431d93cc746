#include "fit_automatic.hpp"

#include <fmt/format.h>

#include "headlens/error.hpp"
#include "headlens/options.hpp"

namespace headlens::app {
namespace {

// Whether an option has another value than it has by default.
template <class Options>
struct Differs {
  const Options &given, &plain;

  bool operator()(std::monostate) const { return false; }
  bool operator()(const Choice<Options>& choice) const { return choice.get(given) != choice.get(plain); }
  bool operator()(std::optional<NormBall> Options::*member) const { return (given.*member).has_value(); }
  bool operator()(std::optional<Array> Options::*member) const { return (given.*member).has_value(); }
  template <class T>
  bool operator()(T Options::*member) const {
    return given.*member != plain.*member;
  }
};

template <class Options>
void require_defaults(const Options& given) {
  const Options plain;
  for (const Option<Options>& option : options_of<Options>())
    require(option.info.name == "seed" || !std::visit(Differs<Options>{given, plain}, option.member),
            "--auto: chooses --", option.info.name, " itself: leave one of them out");
}

Json member_json(const AutomaticMember& member) {
  Json blocks = Json::array();
  for (const SetBlockInfo& block : member.blocks)
    blocks.push_back({{"block", name(block.kind)}, {"parameter", block.parameter}, {"scale", block.scale}});
  return {{"kernel", describe(member)}, {"gamma", member.relative_gamma}, {"penalty", member.penalty},
          {"error", member.loo_error},  {"weight", member.weight},        {"blocks", blocks}};
}

Json report_json(const AutomaticFit& fit, const std::filesystem::path& file) {
  const AutomaticModel& model = fit.model;
  Json members = Json::array(), trials = Json::array();
  for (const AutomaticMember& member : model.members) members.push_back(member_json(member));
  for (const AutomaticMember& trial : fit.trials)
    trials.push_back({{"kernel", describe(trial)}, {"penalty", trial.penalty}, {"error", trial.loo_error}});
  return {{"file", file.string()},
          {"status", "solved"},
          {"model", "auto"},
          {"task", model.is_classifier() ? "classification" : "regression"},
          {"n", model.count},
          {"kept", model.support.query.dim(0)},
          {"query", model.frame.given_query ? "given" : "zero"},
          {"tokens", model.frame.by_scores() ? "normal scores" : "values"},
          {"other_tokens_error", optional_json(fit.other_tokens_error)},
          {"loo_error", model.loo_error},
          {"loo_accuracy", optional_json(model.loo_accuracy)},
          {"members", members},
          {"screened", fit.screened},
          {"trials", trials},
          {"seconds", fit.seconds}};
}

std::string report_text(const AutomaticFit& fit, const std::filesystem::path& file) {
  const AutomaticModel& model = fit.model;
  std::string out = fmt::format("{}: {} by {} of {} kernels on {} sets ({} kept){}", file.string(),
                                model.is_classifier() ? "classification" : "regression", model.members.size(),
                                fit.trials.size(), model.count, model.support.query.dim(0),
                                model.frame.by_scores() ? ", tokens as normal scores" : "");
  for (const AutomaticMember& member : model.members)
    out += fmt::format("\n  {}: penalty {:.3g}, squared error {:.4g} (leave-one-out)", describe(member),
                       member.penalty, member.loo_error);
  out += fmt::format("\n  together: squared error {:.4g}", model.loo_error);
  if (model.loo_accuracy) out += fmt::format(", accuracy {:.4f}", *model.loo_accuracy);
  return out + fmt::format(" (leave-one-out); {:.2f} s", fit.seconds);
}

}  // namespace

void require_no_choice(const FitOptions& options, const std::string& named) {
  require(named.empty(), "--auto: takes no ", named, ": leave one of them out");
  require_defaults(options.features);
  require_defaults(options);
}

int run_automatic(const CommonOptions& common, const LabelledSets& data, std::uint64_t seed,
                  const std::filesystem::path& file, const Execution& execution) {
  const AutomaticFit fit = fit_automatic(data, seed, execution);
  save_model(file, fit.model);
  print(common, report_json(fit, file), report_text(fit, file));
  return kOk;
}

}  // namespace headlens::app
