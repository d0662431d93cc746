#include "report/draw/scale.hpp"

#include <algorithm>
#include <cmath>

#include "report/draw/canvas.hpp"
#include "report/escape.hpp"

namespace headlens::report {

Scale::Scale(const std::vector<double>& values, double room) {
  if (values.empty()) return;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  linear_ = *least <= 0;
  if (linear_) {
    const double width = *most > *least ? *most - *least : 1;
    low_ = *least - width * room;
    high_ = *most + width * room;
    return;
  }
  // Without a span of its own a constant curve would fill the panel with the noise of its last digit.
  const double span = std::max(std::log10(*most / *least), 0.5);
  const double middle = (std::log10(*most) + std::log10(*least)) / 2;
  low_ = std::pow(10.0, middle - span * (0.5 + room));
  high_ = std::pow(10.0, middle + span * (0.5 + room));
}

double Scale::operator()(double value) const {
  if (linear_) return first_ + (last_ - first_) * (value - low_) / (high_ - low_);
  return first_ + (last_ - first_) * std::log(value / low_) / std::log(high_ / low_);
}

// Whole multiples of 1, 2 or 5 times a power of ten, six or so of them.
std::vector<Tick> Scale::linear_ticks() const {
  const double rough = (high_ - low_) / 6, power = std::pow(10.0, std::floor(std::log10(rough)));
  const double step = power * (rough > 5 * power ? 10 : rough > 2 * power ? 5 : rough > power ? 2 : 1);
  std::vector<Tick> ticks;
  for (double i = std::ceil(low_ / step); i * step <= high_; ++i)
    ticks.push_back({i * step, axis_number(i * step)});
  return ticks;
}

std::vector<Tick> Scale::ticks() const {
  if (linear_) return linear_ticks();
  const int from = static_cast<int>(std::floor(std::log10(low_))),
            to = static_cast<int>(std::ceil(std::log10(high_)));
  const double decades = std::log10(high_ / low_);
  const std::vector<double> steps = decades < 2.2 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  const int stride = std::max(1, static_cast<int>(std::ceil(decades / 6)));
  std::vector<Tick> ticks;
  for (int power = from; power <= to; ++power)
    for (const double step : steps) {
      const double value = step * std::pow(10.0, power);
      if (power % stride == 0 && value >= low_ && value <= high_)
        ticks.push_back({value, axis_number(value)});
    }
  return ticks;
}

std::vector<Tick> thin(std::vector<Tick> ticks, const Scale& scale, double text_size) {
  std::vector<Tick> kept;
  double edge = INFINITY;
  for (std::size_t i = ticks.size(); i-- > 0;) {
    const double half = text_width(ticks[i].label, text_size) / 2, middle = scale(ticks[i].value);
    if (middle + half + 6 > edge) continue;
    edge = middle - half;
    kept.push_back(std::move(ticks[i]));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace headlens::report
