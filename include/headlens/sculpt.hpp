// The six phases of Chen and Li, "Provably learning a multi-head attention layer", made practical: options,
// and what every phase found. See docs/recovery.md, "The paper's method: sculpting".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headlens/array.hpp"

namespace headlens {

enum class SculptForm {
  least_squares,   // the body is an ellipsoid
  linear_program,  // the body is a polytope, known by linear programs
};
enum class SpanForm {
  eigenvectors,  // the long directions of the body from its own description
  membership,    // from the answers to "is this point in the body?" alone
};
std::string name(SculptForm form);
std::string name(SpanForm form);

struct SculptOptions {
  SculptForm form = SculptForm::least_squares;
  SpanForm span = SpanForm::eigenvectors;
  bool polish = true;  // false: the best tuple of the net, as it is; never certified
};

// One pass of sculpting.
struct Carving {
  Index accepted_rows = 0;           // where all heads seem to attend alike, repeated ones included
  double tolerance = 0;              // the median error of the slabs, in logits
  Index slabs = 0, half_spaces = 0;  // that differ
  Index outliers = 0;                // cuts left out because the centre of the others misses them by far
  double body_width = 0;             // length of the longest direction
  double minimum_norm = 0;           // |proxy|_F
};

struct SculptReport {
  Carving rough, fine;
  int rounds = 0;              // of phases 4 to 6; the figures are those of the best
  std::string refinement;      // "one head" (soft attention) or "trimmed" (sharp)
  double sum_change = 0;       // |S refined - S crude| / |S refined|; 1 if S refined is 0
  std::vector<double> widths;  // of the body along its long directions, longest first; one more than the span
  double eigengap = 0;         // (width of the last direction in the span / width of the next)^2
  Index span_dimension = 0;    // heads - 1
  Index net_size = 0;          // tuples of heads that were tried
  // Relative error of the best tuple, before the polish, on the held-out examples. These also chose the tuple
  // and the round, so that the error on fresh examples is a little larger.
  double net_error = 1;
  int polished_tuples = 0;  // the best one, and the next best where that ended in a local minimum
  // What the polish adds, where there is one: the held-out error after it, and how far it moved a head (the
  // worst Theta or W, relative). The heads that sculpting alone has are as wrong as that.
  std::optional<double> polished_error, polish_distance;

  struct Seconds {
    double sum = 0, carve = 0, refine = 0, carve_again = 0, span = 0, net = 0, polish = 0;
  } seconds;
};

}  // namespace headlens
