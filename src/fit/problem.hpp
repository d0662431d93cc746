// The training problem, checked: numbers instead of labels, defaults filled in.
#pragma once

#include <vector>

#include "headlens/fit.hpp"
#include "linalg/matrix.hpp"

namespace headlens::training {

struct Problem {
  const Sets& sets;
  FitOptions options;                 // with the scales filled in
  Matrix<double> targets;             // (n, q); class indices (n, 1) for classifiers
  Index outputs = 0;                  // score columns: q, or 1 for two classes, or the number of classes
  std::vector<std::int64_t> classes;  // increasing; empty for regression
  bool vector_targets = false;        // y had an axis of outputs

  // Of all ranks; `sets` are those of this one.
  Index count() const { return sets.whole().count; }
  Index keys() const { return options.features.kind == ModelKind::mlp ? sets.keys_of(0) : 0; }
  bool is_squared_ridge() const { return options.loss == Loss::squared && !options.norm_ball; }
};

Problem pose(const LabelledSets& data, const FitOptions& options);

// What every solver returns: coefficients of the centred features, in the order of the design.
struct Solution {
  Matrix<double> values;       // (p, q)
  std::vector<double> offset;  // (q) prediction at the mean features
  FitReport report;
  bool fell_back = false;  // from a route in f32 to the same in f64
};

}  // namespace headlens::training
