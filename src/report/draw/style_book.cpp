#include "report/draw/style_book.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace headlens::report {
namespace {

struct Named {
  const char *name, *colour;
  int marker;
};
constexpr std::array<Named, 9> kNamed{{{"rfa", "#0072b2", 7},
                                       {"mlp", "#d55e00", 5},
                                       {"brfa", "#009e73", 9},
                                       {"varpro", "#7b4fb0", 13},
                                       {"sculpt", "#a87400", 11},
                                       {"moments", "#8c564b", 5},
                                       {"gradient", "#2f3e55", 9},
                                       {"brute-force", "#c2528b", 15},
                                       {"linear-algebra", "#6b7280", 7}}};
constexpr std::array<const char*, 6> kPlain{"#7b4fb0", "#a87400", "#c2528b", "#6b7280", "#8c564b", "#2f3e55"};
constexpr std::array<int, 6> kMarkers{7, 5, 9, 13, 11, 15};
constexpr std::array<const char*, 3> kDashes{"", "(12,6)", "(3,5)"};

const Named* find_named(const std::string& name) {
  const auto found =
      std::find_if(kNamed.begin(), kNamed.end(), [&](const Named& n) { return name == n.name; });
  return found == kNamed.end() ? nullptr : &*found;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// "" if the cells of the series have several.
std::string identity_of_series(const Summary& summary, const std::string& series) {
  std::set<std::string> found;
  for (const Curve& curve : summary.curves)
    if (curve.series == series)
      for (const Point& point : curve.points) found.insert(identity_of(point.inputs, series));
  return found.size() == 1 ? *found.begin() : "";
}

}  // namespace

std::string identity_of(const StudyValues& inputs, const std::string& label) {
  for (const char* option : {"model", "method"})
    if (const StudyValue* value = find(inputs, option);
        value != nullptr && find_named(text(*value)) != nullptr)
      return text(*value);
  const std::string name = lower(label) == "rfmlp" ? "mlp" : lower(label);
  return find_named(name) == nullptr ? "" : name;
}

SeriesStyle style_of(const std::string& identity) {
  const Named& named = *find_named(identity);
  return {named.colour, named.marker, ""};
}

SeriesStyle plain_style(std::size_t index) {
  const std::size_t round = index / kPlain.size();  // each round pairs the colours with other markers
  return {kPlain.at(index % kPlain.size()), kMarkers.at((index + round) % kMarkers.size()),
          kDashes.at(round % kDashes.size())};
}

std::vector<SeriesStyle> StyleBook::styles(const Summary& summary) {
  std::vector<std::string> identities;
  for (const std::string& series : summary.series) identities.push_back(identity_of_series(summary, series));
  const std::set<std::string> different(identities.begin(), identities.end());
  const bool told_apart = different.size() > 1 || summary.series.size() == 1;
  if (!told_apart || different.contains("")) return plain_styles(summary.series);
  std::map<std::string, std::size_t> seen;
  std::vector<SeriesStyle> styles;
  for (const std::string& identity : identities) {
    SeriesStyle& style = styles.emplace_back(style_of(identity));
    // Two series of one model share its colour: marker and line tell them apart.
    if (const std::size_t again = seen[identity]++; again > 0) {
      style.marker = kMarkers.at((again + 2) % kMarkers.size());
      style.dash = kDashes.at(again % kDashes.size());
    }
  }
  return styles;
}

// A series keeps its colour in all figures of a page, as long as no two in one figure get the same.
std::vector<SeriesStyle> StyleBook::plain_styles(const std::vector<std::string>& series) {
  std::vector<std::size_t> chosen(series.size()), open;
  std::set<std::size_t> used;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const auto found = known_.find(series[i]);
    if (found != known_.end() && used.insert(found->second).second)
      chosen[i] = found->second;
    else
      open.push_back(i);
  }
  for (const std::size_t i : open) {
    for (chosen[i] = 0; !used.insert(chosen[i]).second;) ++chosen[i];
    known_.emplace(series[i], chosen[i]);
  }
  std::vector<SeriesStyle> styles;
  for (const std::size_t index : chosen) styles.push_back(plain_style(index));
  return styles;
}

}  // namespace headlens::report
