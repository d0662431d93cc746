// Scores of keys become the weights that the keys are mixed with.
#pragma once

#include "headlens/model.hpp"

namespace headlens::cuda {

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }

// relu and step let NaN through.
template <class T>
__device__ inline T weight(Score score, T c) {
  if (score == Score::relu) return c < T(0) ? T(0) : c;
  if (score == Score::step) return c > T(0) ? T(1) : (c <= T(0) ? T(0) : c);
  return exponential(c);
}

// Scores of up to K keys become weights; what the mixed keys are multiplied by. Keys that are not there have
// tokens and so scores of zero, which relu and step leave at zero.
template <class T, int K>
__device__ inline T weigh(Score score, int keys, T (&c)[K]) {
  T sum = static_cast<T>(keys), highest = T(0);
  if (score == Score::relu || score == Score::step) {
#pragma unroll
    for (int k = 0; k < K; ++k) c[k] = weight(score, c[k]);
    return T(1) / sum;
  }
  if (score == Score::softmax) {
    highest = c[0], sum = T(0);
#pragma unroll
    for (int k = 1; k < K; ++k)
      if (k < keys) highest = c[k] > highest ? c[k] : highest;
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    c[k] = k < keys ? exponential(c[k] - highest) : T(0);
    if (score == Score::softmax) sum += c[k];
  }
  return T(1) / sum;
}

}  // namespace headlens::cuda
