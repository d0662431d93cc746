#include "report/draw/colour_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace headlens::report {
namespace {

struct Colour {
  double red = 0, green = 0, blue = 0;
};

Colour colour_at(double share) {
  static constexpr std::array<Colour, 5> stops{
      {{0x1b, 0x2a, 0x4a}, {0x22, 0x5f, 0x82}, {0x3a, 0x9a, 0x96}, {0x9b, 0xcf, 0x8e}, {0xf4, 0xe2, 0x7a}}};
  const double place = std::clamp(share, 0.0, 1.0) * (stops.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  const double part = place - static_cast<double>(below);
  const Colour &a = stops.at(below), &b = stops.at(below + 1);
  const auto mix = [part](double from, double to) { return std::round(from + part * (to - from)); };
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

std::string hex(const Colour& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", static_cast<int>(c.red), static_cast<int>(c.green),
                     static_cast<int>(c.blue));
}

}  // namespace

std::string shade(double share) { return hex(colour_at(share)); }

std::string ink_on(double share) { return share < 0.55 ? "#fdfdfd" : "#101214"; }

}  // namespace headlens::report
