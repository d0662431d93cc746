#include "report/escape.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "io/printable.hpp"

namespace headlens::report {
namespace {

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string html_line(std::string_view line) {
  std::string safe;
  for (const char c : io::printable(line)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string superscript(int value) {
  static constexpr std::array<const char*, 10> kDigits{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = value < 0 ? "⁻" : "";
  for (const char c : std::to_string(std::abs(value))) text += kDigits.at(static_cast<std::size_t>(c - '0'));
  return text;
}

}  // namespace

std::string html(std::string_view text) {
  std::string safe;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
    safe += html_line(text.substr(0, end)) + "\n";
  return safe + html_line(text);
}

std::string quoted(std::string_view text) { return "'" + replace_all(io::printable(text), "'", "''") + "'"; }

std::string field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  return "\"" + replace_all(std::string(text), "\"", "\"\"") + "\"";
}

std::string slug(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || upper;
    if (kept)
      name += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  name.resize(std::min<std::size_t>(name.size(), 60));
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "study" : name;
}

std::string cut(std::string_view text, std::size_t characters) {
  std::size_t seen = 0, last = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U;
    if (!begins) continue;
    if (seen + 1 == characters) last = i;
    if (seen++ == characters) return std::string(text.substr(0, last)) + "…";
  }
  return std::string(text);
}

std::string number(double value, int digits) {
  // Whole numbers (sample sizes) are not rounded to three digits.
  if (value == std::round(value) && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}g}", value, digits);
}

std::string exact(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

std::string axis_number(double value) {
  if (value == 0) return "0";
  const int power = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
  if (power >= -3 && power <= 5) return fmt::format("{:g}", value);
  const std::string mantissa = fmt::format("{:g}", value / std::pow(10.0, power));
  return (mantissa == "1" ? "" : mantissa + "·") + "10" + superscript(power);
}

}  // namespace headlens::report
