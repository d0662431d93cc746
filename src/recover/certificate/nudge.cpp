#include "recover/certificate/nudge.hpp"

#include <cmath>

#include "attention/packing.hpp"
#include "base/random.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kNudge = 1e-3;
constexpr double kReturned = 0.02;  // of the nudge: what a solver that stopped early may leave

}  // namespace

double distance(const Candidate& a, const Candidate& b) {
  return compare_layers(unpack_layer(a.theta, a.w), unpack_layer(b.theta, b.w)).worst_error;
}

bool returns_after_nudge(const Split& split, const Candidate& candidate, std::uint64_t seed, Effort& effort) {
  const Index d = candidate.theta.rows();
  Candidate nudged = copy_of(candidate);
  for (Index i = 0; i < candidate.heads(); ++i) {
    const MatrixView<double> theta = nudged.theta.view().block(0, i * d, d, d);
    const double entry = std::sqrt(squared_norm(theta)) / static_cast<double>(d);  // root mean square entry
    Stream stream(seed, "nudge", static_cast<std::uint64_t>(i));
    for (Index a = 0; a < d; ++a)
      for (Index b = 0; b < d; ++b) theta(a, b) += kNudge * entry * stream.normal();
  }
  // One step undoes most nudges; directions that the labels hardly see may need the last digit.
  for (const double tolerance : {1e-10, 1e-27}) {
    const LmOptions options{.ridge = 1e-12,
                            .mu = 1e-6,
                            .tolerance = tolerance,
                            .max_steps = 40,
                            .stall_steps = 8,
                            .flat = kTight};
    nudged = solve_from(split, std::move(nudged.theta), options, "nudge", effort);
    if (distance(nudged, candidate) < kReturned * kNudge) return true;
  }
  return false;
}

}  // namespace headlens::recovery
