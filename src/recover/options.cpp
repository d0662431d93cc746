// The options of a recovery, checked, and the words of its status.
#include "headlens/options.hpp"
#include "headlens/error.hpp"
#include "headlens/recover.hpp"

namespace headlens {

std::string name(RecoveryStatus status) {
  constexpr const char* names[] = {"recovered",      "approximate", "needs_more_examples",
                                   "not_identified", "stalled",     "best_fit"};
  return names[static_cast<int>(status)];
}

bool knows_parities(RecoverMethod method) {
  return method == RecoverMethod::brute_force || method == RecoverMethod::linear_algebra;
}
bool is_shown_alone(RecoverMethod method) {
  return method == RecoverMethod::moments || method == RecoverMethod::gradient;
}

LayerVariant RecoverOptions::variant() const {
  LayerVariant out{mask, bias};
  if (rotary != "none") out.rotary = read_rotary(rotary);
  out.kv_groups = kv_groups.value_or(0);
  return out;
}

void RecoverOptions::validate() const {
  check_ranges(*this);
  require(choice == VariantChoice::given || (variant().plain() && heads), option("variant"),
          ": auto given, expected ", option("heads"), " with it, and neither ", option("mask"), " nor ",
          option("bias"), " nor ", option("rotary"));
  require((choice == VariantChoice::given && variant().plain()) || method == RecoverMethod::varpro,
          option("method"), ": ", name(method),
          " given, but layers with a mask, biases or rotary positions are recovered by varpro alone");
  require(!kv_groups || (method == RecoverMethod::varpro && !best_fit && start == RecoverStart::random &&
                         rank != "full"),
          option("kv-groups"), ": ", kv_groups.value_or(0),
          " given, but only method varpro from random starts looks for factors that heads share");
  require(!kv_groups || !bias || rotary == "none", option("kv-groups"), ": ", kv_groups.value_or(0),
          " given, but layers with ", option("bias"), " and ", option("rotary"),
          " are not looked for in factors that heads share; leave out ", option("kv-groups"));
  require(!kv_groups || !heads || *heads % *kv_groups == 0, option("kv-groups"), ": ", kv_groups.value_or(0),
          " given, which does not divide the number of heads, ", heads.value_or(0));
  require(steps == RecoverOptions{}.steps || method == RecoverMethod::gradient, option("steps"), ": ", steps,
          " given, but only method gradient counts them; the method is ", name(method));
  const bool plain_sculpting =
      sculpt.polish && sculpt.form == SculptForm::least_squares && sculpt.span == SpanForm::eigenvectors;
  require(plain_sculpting || method == RecoverMethod::sculpt,
          sculpt.polish ? message(option("sculpt-form"), ", ", option("span-form"))
                        : message(option("polish", "false")),
          ": an option of method sculpt; the method is ", name(method));
  require(rank == "auto" || rank == "full" || rank.find_first_not_of("0123456789") == std::string::npos,
          option("rank"), ": '", rank, "' given, expected auto, full or a whole number, 1 or more");
  require(rank != "" && rank.size() < 10 && rank.find_first_not_of('0') != std::string::npos, option("rank"),
          ": '", rank, "' given, expected auto, full or a whole number, 1 or more");
  require(rank == "auto" || rank == "full" ||
              (method == RecoverMethod::varpro && !best_fit && start == RecoverStart::random),
          option("rank"), ": ", rank, " given, but only method varpro from random starts looks for factors");
  require(heads || (!best_fit && method != RecoverMethod::gradient), option("heads"),
          ": auto given, expected a number with ", best_fit ? "a best fit" : "method gradient");
  require(!best_fit || method == RecoverMethod::varpro, option("best-fit"), ": given with method ",
          name(method), ", expected method varpro");
}

}  // namespace headlens
