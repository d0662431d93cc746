// The second phase: Levenberg-Marquardt in Q, K and V with O eliminated, on the first examples that determine
// the heads well.
#pragma once

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

// Equations per unknown of factors of these ranks: n k e / (m r (3 d + e)).
double equations_per_unknown(const Split& split, const backend::HeadRanks& ranks);
// So many of them settle most layers without noise. Closer to one the condition number of the problem eats
// what fewer examples save. Heads with sharp attention, which tell little in most rows, need more.
inline constexpr double kPolishEquations = 10;
Split first_equations(const Split& split, const backend::HeadRanks& ranks, double equations);
// Of a polish of so many rows, and of what else a recovery holds then.
double polish_bytes(const Split& split, const backend::HeadRanks& ranks, double rows, const Effort& effort);

struct PolishOptions {
  double damping = 1e-3;  // mu, in units of |Y|^2 / |parameters|^2
  double ridge = 1e-4;
  double tolerance = 1e-24;  // on |r|^2 / |Y|^2; a further step costs as much and wins what rounding leaves
  int max_steps = 60, stall_steps = 8;
  int max_inner = 200;        // iterations of conjugate gradients per step
  double stall_factor = 0.9;  // of squares, over stall_steps
  bool early = false;         // a try that is given up soon: no more iterations for it
  bool ends_capped = false;   // where so many do not solve a step: more equations or iterations would help
};
struct Polished {
  Factors factors;
  LmStatus status = LmStatus::stalled;
};
// From the balanced form of the start; held_out_error is that of all held-out examples.
Polished polish(const Split& split, const Factors& start, const PolishOptions& options,
                const std::string& phase, Effort& effort);

}  // namespace headlens::recovery
