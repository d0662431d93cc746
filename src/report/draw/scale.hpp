// From values to pixels along one axis, and the ticks that fit there.
#pragma once

#include <string>
#include <vector>

namespace headlens::report {

struct Tick {
  double value = 0;
  std::string label;
};

class Scale {
 public:
  // Covers `values` with some room; a single value gets room on both sides. Logarithmic, or linear if a value
  // is 0 or below.
  Scale(const std::vector<double>& values, double room);

  void set_pixels(double first, double last) { first_ = first, last_ = last; }
  double operator()(double value) const;  // pixel of a value

  std::vector<Tick> ticks()
      const;  // logarithmic scales: 1, 2, 5 times powers of ten, or the powers alone when there are many
  std::vector<Tick> linear_ticks() const;
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double low_ = 0.1, high_ = 10, first_ = 0, last_ = 1;
  bool linear_ = false;
};

// The labels that fit: from the last one down, each at least a gap away from the one kept before.
std::vector<Tick> thin(std::vector<Tick> ticks, const Scale& scale, double text_size);

}  // namespace headlens::report
