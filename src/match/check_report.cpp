// A check as JSON and in words.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "headlens/check.hpp"

namespace headlens {
namespace {

using Json = nlohmann::ordered_json;

std::string next_step(const Check& check) {
  if (check.fits && check.convention == "as stored") return "The weights produce these outputs.";
  if (check.fits)
    return fmt::format("The weights produce these outputs with this change: {}.", check.convention);
  if (check.constant_share > 0.99)
    return "One vector, the same in every row, is missing: compare the biases of values and outputs.";
  if (check.suspects.empty())
    return "No convention fits, and no head alone explains what is left: the weights belong to another "
           "layer, or the "
           "inputs to another place in the model (before or after a norm, say).";
  const double rest = check.damage.back().error;
  if (rest <= check.tolerance) return "These heads are wrong; with them refitted the weights fit.";
  return fmt::format("These heads explain most of what is left, and not all: {:.2g} remains.", rest);
}

}  // namespace

std::string to_json(const Check& check) {
  Json tried = Json::array(), damage = Json::array();
  for (const TriedConvention& one : check.tried)
    tried.push_back({{"convention", one.convention}, {"error", one.error}});
  for (const Damage& one : check.damage)
    damage.push_back({{"head", one.head}, {"part", one.part}, {"share", one.share}, {"error", one.error}});
  return Json{{"fits", check.fits},
              {"convention", check.convention},
              {"error", check.error},
              {"tolerance", check.tolerance},
              {"explanation", next_step(check)},
              {"suspects", check.suspects},
              {"damage", damage},
              {"constant_share", check.constant_share},
              {"tried", tried}}
      .dump(2);
}

std::string in_words(const Check& check) {
  std::string text = fmt::format("{}: error {:.2e} (tolerance {:.2g})\nconvention  {}\n{}\n",
                                 check.fits ? "fits" : "does not fit", check.error, check.tolerance,
                                 check.convention, next_step(check));
  if (!check.damage.empty()) {
    text += fmt::format("\n{:>6} {:>10} {:>14}   {}", "head", "explained", "error after", "wrong part");
    for (const Damage& one : check.damage)
      text += fmt::format("\n{:>6} {:>9.2f}% {:>14.2e}   {}", one.head, 100 * one.share, one.error, one.part);
    text += "\n";
  }
  text += fmt::format("\n{:>10}   {} conventions tried, the best first", "error", check.tried.size());
  for (std::size_t i = 0; i < check.tried.size() && i < 8; ++i)
    text += fmt::format("\n{:>10.2e}   {}", check.tried[i].error, check.tried[i].convention);
  return text;
}

}  // namespace headlens
