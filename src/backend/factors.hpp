// A layer in its own factors: head i has Theta_i = Q_i K_i^T with a_i columns each and W_i = V_i O_i with b_i
// columns of V_i. For a = sum a_i and b = sum b_i the parameters are one matrix (d, 2 a + b),
//
//   Q_1 .. Q_m | K_1 .. K_m | V_1 .. V_m,        and O (b, e) stacks O_1 .. O_m.
//
// A layer with heads of rank r has 4 m d r unknowns in factors and 2 m d^2 in Theta and W. Heads that share
// keys and values have one K and one V per group, so that there are fewer columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "base/head_columns.hpp"
#include "headlens/variant.hpp"
#include "linalg/matrix.hpp"

namespace headlens::backend {

struct HeadRanks {
  std::vector<Index> logits;  // a_i; 0 is a head that takes the plain mean
  std::vector<Index> values;  // b_i
  bool causal = false;        // a token sees those up to itself
  // The last coordinate of the tokens is 1. The last row of Q_i is then the query bias of the head; that of
  // K_i would add one number to a row of logits, which the softmax ignores, and is zero. The last head takes
  // the plain mean, V = (0, .., 0, 1)^T: its O is the constant of the layer, and the last rows of the other
  // V_i are zero.
  bool biased = false;
  // Queries and keys are turned by their positions; a_i is one number for all heads that have logits.
  std::optional<Rotary> rotary = {};
  // So many heads, one after another, share K and V, and have the same a_i and b_i. The head that holds the
  // constant is a group of its own.
  Index shared = 1;

  Index heads() const { return static_cast<Index>(logits.size()); }
  bool plain() const { return !causal && !biased && !rotary && shared == 1; }
  Index turned_rank() const { return logits.empty() ? 0 : *std::max_element(logits.begin(), logits.end()); }
  bool leads(Index head) const { return head % shared == 0; }  // the first of its group

  Index logit_columns() const { return std::accumulate(logits.begin(), logits.end(), Index{0}); }
  Index value_columns() const { return std::accumulate(values.begin(), values.end(), Index{0}); }  // of Phi
  Index key_columns() const { return of_groups(logits); }
  Index parameter_columns() const { return logit_columns() + key_columns() + of_groups(values); }

 private:
  Index of_groups(const std::vector<Index>& ranks) const {
    Index out = 0;
    for (std::size_t i = 0; i < ranks.size(); i += static_cast<std::size_t>(shared)) out += ranks[i];
    return out;
  }
};

using headlens::HeadColumns;
inline std::vector<HeadColumns> columns_of(const HeadRanks& ranks) {
  const Index a = ranks.logit_columns();
  std::vector<HeadColumns> out;
  HeadColumns next{0, a, a + ranks.key_columns(), 0, 0, 0};
  for (std::size_t i = 0; i < ranks.logits.size(); ++i) {
    next.logits = ranks.logits[i];
    next.values = ranks.values[i];
    out.push_back(next);
    next.q += next.logits;
    next.o += next.values;
    if (!ranks.leads(static_cast<Index>(i) + 1)) continue;
    next.k += next.logits;
    next.v += next.values;
  }
  return out;
}

// Sets to zero what is fixed in a direction of the parameters (d, 2 a + b) of a layer with biases.
template <class T>
void pin(const HeadRanks& ranks, MatrixView<T> direction) {
  if (!ranks.biased) return;
  for (Index j = ranks.logit_columns(); j < direction.cols; ++j) direction(direction.rows - 1, j) = T(0);
  for (Index i = 0; i < direction.rows; ++i) direction(i, direction.cols - 1) = T(0);
}

struct FactorValues {
  Matrix<double> parameters;  // (d, 2 a + b)
  Matrix<double> o;           // (b, e)
};

// Of step t = 1, 2, .. in the running mean: the first steps leave soon, later a mean of about 50 steps
// remains.
inline double averaged_share(int t) { return std::max(0.02, std::pow(static_cast<double>(t), -0.8)); }

// First-order descent on Q, K, V and O in float, by Adam on batches of examples. Parameters and running means
// stay on the machine.
class FactorDescent {
 public:
  virtual ~FactorDescent() = default;
  // One step on these examples. Returns |F - Y|^2 / |Y|^2 of the batch before the step. No step, and
  // -1, where its labels are all missing or zero.
  virtual double step(const std::vector<Index>& batch, double rate) = 0;
  virtual FactorValues values() const = 0;
  // The running mean of the values, each step with the share averaged_share(t): what the batches' noise,
  // which grows with the rate, leaves of them.
  virtual FactorValues mean_values() const = 0;
  virtual void go_to_mean() = 0;  // the values become the mean
};

}  // namespace headlens::backend
