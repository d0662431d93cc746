#include "headlens/variant.hpp"

#include <fmt/format.h>

#include <cmath>

#include "headlens/error.hpp"
#include "headlens/options.hpp"

namespace headlens {
namespace {

constexpr const char* kExpected =
    ", expected for instance base=10000,layout=half (or interleaved), share=0.5";

double read_number(const std::string& key, const std::string& text, double least, double most) {
  double value = 0;
  std::size_t used = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  require(used > 0 && used == text.size() && value > least && value <= most, option("rotary"), ": ", key, "=",
          text, " given", kExpected);
  return value;
}

void read_part(const std::string& part, Rotary& rotary) {
  const std::size_t equals = part.find('=');
  require(equals != std::string::npos, option("rotary"), ": '", part, "' given", kExpected);
  const std::string key = part.substr(0, equals), value = part.substr(equals + 1);
  require(key == "base" || key == "layout" || key == "share", option("rotary"), ": '", key, "' given",
          kExpected);
  if (key == "base") rotary.base = read_number(key, value, 1, 1e300);
  if (key == "share") rotary.share = read_number(key, value, 0, 1);
  if (key != "layout") return;
  require(value == "half" || value == "interleaved", option("rotary"), ": layout=", value, " given",
          kExpected);
  rotary.layout = value == "half" ? RotaryLayout::half : RotaryLayout::interleaved;
}

}  // namespace

Index Rotary::pairs(Index rank) const {
  return static_cast<Index>(std::floor(share * static_cast<double>(rank) / 2 + 1e-9));
}

std::pair<Index, Index> Rotary::columns(Index pair, Index rank) const {
  if (layout == RotaryLayout::half) return {pair, pair + pairs(rank)};
  return {2 * pair, 2 * pair + 1};
}

double Rotary::frequency(Index pair, Index rank) const {
  return std::pow(base, -static_cast<double>(pair) / static_cast<double>(pairs(rank)));
}

Rotary read_rotary(const std::string& text) {
  Rotary rotary;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    read_part(text.substr(from, to - from), rotary);
    from = to + 1;
  }
  return rotary;
}

std::string name(const Rotary& rotary) {
  std::string text = fmt::format("base={},layout={}", rotary.base, name(rotary.layout));
  return rotary.share == 1 ? text : text + fmt::format(",share={}", rotary.share);
}

std::string name(const LayerVariant& variant) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (variant.mask == Mask::causal) add("causal mask");
  if (variant.bias) add("biases");
  if (variant.rotary) add("rotary " + name(*variant.rotary));
  if (variant.kv_groups > 0) add(fmt::format("{} groups of keys and values", variant.kv_groups));
  return text.empty() ? "plain" : text;
}

}  // namespace headlens
