// headlens compare A B: how far two layers are apart, up to the order of heads.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "command.hpp"
#include "headlens/layer.hpp"

namespace headlens::app {
namespace {

struct CompareArguments {
  CommonOptions common;
  std::string a, b;
};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

struct Compared {
  Comparison result;
  bool biased = false;
};
// In factors where both files hold factors: Theta may be too large to form.
Compared compare(const CompareArguments& a, const Execution& execution) {
  if (const std::optional<FactoredLayer> first = load_factored_layer(a.a, execution))
    if (const std::optional<FactoredLayer> second = load_factored_layer(a.b, execution))
      return {compare_layers(*first, *second)};
  const AttentionLayer first = load_layer(a.a, execution), second = load_layer(a.b, execution);
  return {compare_layers(first, second), second.variant.bias};
}

int run(const CompareArguments& a) {
  const Execution execution = a.common.execution();
  const auto [result, biased] = compare(a, execution);
  Json matches = Json::array();
  std::string text =
      fmt::format("worst error {:.3e} (Theta {:.3e}, W {:.3e}) over {} matched heads", result.worst_error,
                  result.worst_theta_error, result.worst_w_error, result.matches.size());
  if (biased) text += fmt::format("\nerror of the constant {:.3e}", result.constant_error);
  if (result.heads_a != result.heads_b)
    text += fmt::format("\nthe layers have {} and {} distinct heads", result.heads_a, result.heads_b);
  for (const HeadMatch& match : result.matches) {
    matches.push_back(
        {{"a", match.a}, {"b", match.b}, {"theta_error", match.theta_error}, {"w_error", match.w_error}});
    text += fmt::format("\n  {} ~ {}: Theta {:.3e}, W {:.3e}", match.a, match.b, match.theta_error,
                        match.w_error);
  }
  print(a.common,
        {{"worst_error", number(result.worst_error)},
         {"worst_theta_error", result.worst_theta_error},
         {"worst_w_error", result.worst_w_error},
         {"constant_error", biased ? number(result.constant_error) : Json(nullptr)},
         {"heads_a", result.heads_a},
         {"heads_b", result.heads_b},
         {"matches", matches}},
        text);
  return kOk;
}

}  // namespace

void add_compare(Command& app) {
  auto a = std::make_shared<CompareArguments>();
  Command& command = app.add_command("compare", "Compare two layers up to the order of their heads");
  command.add_positional("A", a->a, "layer (.npz: Theta, W; or Q, K, V, O)");
  command.add_positional("B", a->b, "layer to measure against: errors are relative to it");
  add_unused_seed(command, a->common, "accepted everywhere; comparison draws nothing");
  add_common_options(command, a->common);
  command.set_footer(
      "Heads with equal Theta are merged and heads with W = 0 dropped first. worst_error is null when the "
      "numbers of\n"
      "heads then differ. The error of Theta is that of what labels tell: with biases that of Theta and u "
      "together, with\n"
      "rotary positions that of Q R_D K^T for all distances D together. Two files of factors are compared "
      "without "
      "forming\n"
      "Theta, so d = 4096 is no problem.\n\n"
      "Example:\n  headlens compare recovered.npz truth.npz --json");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app
