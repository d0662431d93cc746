// Synthetic targets on sets of unit tokens. With beta a random unit vector and S an orthogonal matrix:
//
//   power-mean    (1/N) sum_i <beta, x_i>^p
//   correlation   (1/N) sum_i <x_0, S x_i>^p <beta, x_i>
//   native        (1/N) sum_i c_0(<x_0, S x_i>) <beta, x_i>,    c_0(s) = s Phi(s) + phi(s) = E[relu(s + g)]
//   query-power   <beta, x_0>^p
//   mixture       (1 - g) correlation with the identity + g correlation with the shift
//   ordered       (1/N) sum_i a_i <beta, x_i>^p,    a_i = (N + 1 - 2 i) / (N - 1), from 1 down to -1
//
// ordered is the only task that depends on the order of the keys: since the a_i add up to 0, its mean over
// all orders is 0, and a model that cannot see the order can predict nothing.
//
// pure: the correlation less its projections on functions of x_0 alone and of single keys alone; with T one
// coordinate of a uniform unit vector, E[T^(p+1)] <x_0, S beta> for odd p, E[T^p] (1/N) sum_i <beta, x_i> for
// even p. Without it a linear share hides in the monomial, and every model learns that share first.
#pragma once

#include <cstdint>
#include <string>

#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/sets.hpp"

namespace headlens {

enum class Task { power_mean, correlation, native, query_power, mixture, ordered };
enum class TaskMatrix {
  identity,
  shift,
  random
};  // S: cyclic shift of the coordinates; Haar-random orthogonal

std::string name(Task task);
std::string name(TaskMatrix matrix);

struct TaskOptions {
  Task task = Task::power_mean;
  Index dim = 16;
  Index min_keys = 16;  // sets have between min_keys and max_keys keys, uniformly
  Index max_keys = 16;
  Index count = 1024;
  int degree = 1;
  bool pure = false;
  TaskMatrix matrix = TaskMatrix::identity;
  double weight = 0.5;            // g of the mixture
  double noise = 0;               // standard deviation of Gaussian noise added to y
  std::uint64_t seed = 0;         // tokens, set sizes and noise
  std::uint64_t target_seed = 0;  // beta and S
  Precision precision = Precision::f64;

  void validate() const;
};

// S (d, d), as the target of this seed has it.
Array target_matrix(TaskMatrix matrix, Index dim, std::uint64_t target_seed);

LabelledSets generate(const TaskOptions& options, const Execution& execution);

}  // namespace headlens
