// What a refit is given: checked options, and tokens at random.
#include "headlens/options.hpp"
#include "base/random.hpp"
#include "headlens/refit.hpp"

namespace headlens {

std::string name(RefitStatus status) { return status == RefitStatus::refitted ? "refitted" : "out_of_time"; }

void RefitOptions::validate() const { check_ranges(*this); }
void RefitInputs::validate() const { check_ranges(*this); }

Tokens draw_tokens(Index dim, const RefitInputs& inputs, std::uint64_t seed) {
  inputs.validate();
  Tokens out{Array(DType::f64, {inputs.count, inputs.length, dim})};
  const Index per = inputs.length * dim;
  for (Index i = 0; i < inputs.count; ++i) {
    Stream stream(seed, "examples", static_cast<std::uint64_t>(i));
    double* row = out.x.data<double>() + i * per;
    for (Index j = 0; j < per; ++j)
      row[j] = inputs.inputs == Inputs::signs ? (stream.below(2) == 0 ? -1.0 : 1.0) : stream.normal();
  }
  return out;
}

}  // namespace headlens
