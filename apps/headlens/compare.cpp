// headlens compare A B: how far two layers are apart, up to the order of heads.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "command.hpp"
#include "headlens/span.hpp"

namespace headlens::app {
namespace {

struct CompareArguments {
  CommonOptions common;
  std::string a, b, tokens;
};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// What tokens tell of the difference.
struct OnTokens {
  std::optional<Index> span;
  std::optional<double> error;
};
// Both layers become what they are on the span of the tokens.
OnTokens take_to_span(const CompareArguments& a, AttentionLayer& first, AttentionLayer& second,
                      const Execution& execution) {
  if (a.tokens.empty()) return {};
  const Tokens tokens = load_tokens(a.tokens, execution);
  const TokenSpan span = span_of(tokens, second.variant, execution);
  const OnTokens out{span.dimension(), function_error(first, second, tokens, execution)};
  first = on_span(first, span), second = on_span(second, span);
  return out;
}

int run(const CompareArguments& a) {
  const Execution execution = a.common.execution();
  AttentionLayer first = load_layer(a.a, execution), second = load_layer(a.b, execution);
  const Index dim = second.dim();
  const OnTokens on_tokens = take_to_span(a, first, second, execution);
  const Comparison result = compare_layers(first, second);
  Json matches = Json::array();
  std::string text;
  if (on_tokens.span)
    text = fmt::format("function error {:.3e} on these tokens; heads are compared on their span ({} of {})\n",
                       *on_tokens.error, *on_tokens.span, dim);
  text += fmt::format("worst error {:.3e} (Theta {:.3e}, W {:.3e}) over {} matched heads", result.worst_error,
                      result.worst_theta_error, result.worst_w_error, result.matches.size());
  if (second.variant.bias) text += fmt::format("\nerror of the constant {:.3e}", result.constant_error);
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
         {"constant_error", second.variant.bias ? number(result.constant_error) : Json(nullptr)},
         {"heads_a", result.heads_a},
         {"heads_b", result.heads_b},
         {"span_dimension", on_tokens.span ? Json(*on_tokens.span) : Json(nullptr)},
         {"function_error", on_tokens.error ? number(*on_tokens.error) : Json(nullptr)},
         {"matches", matches}},
        text);
  return kOk;
}

}  // namespace

void add_compare(Command& app) {
  auto a = std::make_shared<CompareArguments>();
  Command& command = app.add_command("compare", "Compare two layers up to the order of their heads");
  command.add_positional("A", a->a, "layer (.npz: Theta, W)");
  command.add_positional("B", a->b, "layer to measure against: errors are relative to it");
  command.add_text("--tokens", a->tokens, "FILE",
                   "tokens (.npz: X, and lengths): compare outputs on them, and heads on their span");
  add_unused_seed(command, a->common, "accepted everywhere; comparison draws nothing");
  add_common_options(command, a->common);
  command.set_footer(
      "Heads with equal Theta are merged and heads with W = 0 dropped first. worst_error is null when the "
      "numbers of\n"
      "heads then differ. The error of Theta is that of what labels tell: with biases that of Theta and u "
      "together, with\n"
      "rotary positions that of Q R_D K^T for all distances D together.\n\n"
      "Tokens that lie in a subspace tell of heads there alone: give them with --tokens.\n\n"
      "Examples:\n  headlens compare recovered.npz truth.npz --json\n"
      "  headlens compare recovered.npz truth.npz --tokens examples.npz");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app
