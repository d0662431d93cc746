#include "report/draw/theme.hpp"

#include <fmt/format.h>

#include <regex>

#include "headlens/error.hpp"
#include "report/draw/canvas.hpp"
#include "report/escape.hpp"

namespace headlens::report {
namespace {

struct Pair {
  const char *light, *dark;
};
constexpr Pair kColours[] = {
    {colour::kBack, "#151b23"}, {colour::kInk, "#e6edf3"},  {colour::kSoft, "#9ea7b1"},
    {colour::kAxis, "#4b545e"}, {colour::kGrid, "#262d37"}, {"#0072b2", "#4ba9ea"},
    {"#d55e00", "#f58b46"},     {"#009e73", "#3ec79b"},     {"#7b4fb0", "#b795f0"},
    {"#a87400", "#e3b341"},     {"#c2528b", "#f08cc0"},     {"#6b7280", "#a3acb8"},
    {"#8c564b", "#cf9a8f"},     {"#2f3e55", "#c3cddb"},
};

std::string style_sheet() {
  std::string dark;
  for (const auto& [from, to] : kColours)
    for (const char* property : {"fill", "stroke", "color"})
      dark += fmt::format(".headlens-figure [{0}=\"{1}\"]{{{0}:{2}}}\n", property, from, to);
  return fmt::format(
      "<style>\n.headlens-figure text{{font-family:Inter,\"Helvetica Neue\",\"Liberation "
      "Sans\",Arial,sans-serif}}\n"
      "@media (prefers-color-scheme:dark){{\n{}}}\n</style>\n",
      dark);
}

// rgb( 31, 35, 40) as #1f2328, and ids with the prefix: inside tags only, the words of the user stay.
std::string rewritten_tag(const std::string& tag, const std::string& prefix) {
  static const std::regex colours(R"(rgb\(\s*(\d+),\s*(\d+),\s*(\d+)\))"), ids(R"((id=['"]|href=['"]#))");
  std::string text;
  auto last = tag.cbegin();
  for (std::sregex_iterator it(tag.begin(), tag.end(), colours), end; it != end; ++it) {
    const std::smatch& match = *it;
    text.append(last, match[0].first);
    text += fmt::format("#{:02x}{:02x}{:02x}", std::stoi(match[1]), std::stoi(match[2]), std::stoi(match[3]));
    last = match[0].second;
  }
  text.append(last, tag.cend());
  // A font's weight is part of its name in gnuplot, not in SVG.
  text = std::regex_replace(text, std::regex(":Bold\""), "\" font-weight=\"600\"");
  return std::regex_replace(text, ids, "$1" + prefix + "-");
}

}  // namespace

std::string themed(std::string_view svg, const std::string& prefix, const std::string& title) {
  const std::size_t open = svg.find("<svg"), canvas = svg.find("<g id=\"gnuplot_canvas\">");
  ensure(open != std::string_view::npos && canvas != std::string_view::npos,
         "gnuplot wrote an SVG without a canvas");
  std::smatch box;
  const std::string head(svg.substr(open, canvas - open));
  const bool sized = std::regex_search(head, box, std::regex(R"(viewBox="0 0 (\d+) (\d+)\")"));
  ensure(sized, "gnuplot wrote an SVG without a size");
  std::string body;
  for (std::string_view rest = svg.substr(canvas); !rest.empty();) {
    const std::size_t begin = rest.find('<'), end = rest.find('>', begin);
    body += rest.substr(0, begin);
    if (end == std::string_view::npos) break;
    body += rewritten_tag(std::string(rest.substr(begin, end - begin + 1)), prefix);
    rest.remove_prefix(end + 1);
  }
  // gnuplot names its plots in titles, which browsers show as tips, and leaves groups without content.
  body = std::regex_replace(body, std::regex("<title>gnuplot_plot_[0-9a-z]*</title>"), "");
  for (int nested = 0; nested < 2; ++nested)
    body = std::regex_replace(body, std::regex(R"(<g [^<>]*>\s*</g>\n?)"), "");
  return fmt::format(
      "<svg class=\"headlens-figure\" role=\"img\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\">\n"
      "<title>{2}</title>\n{3}{4}",
      box[1].str(), box[2].str(), html(title), style_sheet(), body);
}

}  // namespace headlens::report
