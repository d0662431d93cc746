// What the heads of two layers have in common, pair by pair.
#pragma once

#include <vector>

#include "match/form_stack.hpp"

namespace headlens::matching {

struct Forms {
  FormStack theta, w;
  std::vector<double> theta_norms, w_norms;
};
// In factors, or multiplied out where the layers to compare with are.
Forms make_forms(const LayerHeads& layer, bool dense_theta, bool dense_w, int threads);

struct Overlaps {
  Matrix<double> theta, w;  // cosines
  Matrix<double> cost;      // the sum of both distances, to the root of the machine's epsilon

  double mean(Index i, Index j) const { return (theta(i, j) + w(i, j)) / 2; }
};
Overlaps find_overlaps(const Forms& a, const Forms& b, int threads);

// |difference| relative to the root mean square of two norms; 0 where both are 0.
double relative(double difference, double a, double b);

// Pairs of different heads of one layer, by their mean overlap; copies of one head are no such pair.
struct Within {
  double pairs = 0, largest = -1;

  void add(const Overlaps& of_a_layer_with_itself);
  void add(const Within& other);
};

}  // namespace headlens::matching
