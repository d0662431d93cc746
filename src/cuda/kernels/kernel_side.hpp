// One side of a kernel on the device, and which closed form it has:
//
//   K(x, x') = f f' sum_ij w_i w'_j t_ij E(rho_ij),   rho_ij = <u_0, u'_0> <u_i, u'_j>,   u = xt / |xt|
//
// and t_ij = <u_i, u'_j>. For relu E is the moment of standardised scores, w_i = |xt_i|^2 and f =
// weight_scale |xt_0| / N. mlp is the same with the whole set as one key, no query, and t = 1.
#pragma once

#include <string>

#include "cuda/device.hpp"
#include "headlens/model.hpp"
#include "headlens/sets.hpp"

namespace headlens::cuda {

enum class Form { arc_cosine, relu, step, exponential, constant_scores };

Form form_of(const FeatureOptions& options);  // scales filled in
std::string name(Form form);

struct KernelSide {
  Index sets = 0, width = 0, max_keys = 0;
  bool mlp = false;
  DeviceArray<double> queries;      // (sets, D), unit rows; none for mlp
  DeviceArray<double> keys;         // (sum of N, width), unit rows; mlp: (sets, (N + 1) D)
  DeviceArray<std::int64_t> begin;  // (sets + 1)
  // Of every key: h; for exp, the logarithm of the mean of its exp; the score itself, where it is constant.
  DeviceArray<double> argument;
  DeviceArray<double> deviation;  // of every key's score
  DeviceArray<double> weight;     // of every key
  DeviceArray<double> factor;     // of every set
};

// The sets [first, last), tokens rounded to the precision of the features first; `positions` are added.
KernelSide make_side(const Sets& sets, Index first, Index last, const FeatureOptions& options,
                     Positions positions, int threads);

double side_bytes(const Sets& sets, const FeatureOptions& options);

}  // namespace headlens::cuda
