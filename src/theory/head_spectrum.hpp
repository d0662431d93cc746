// What single heads of rfa see: the spectrum of attention split into groups of features that behave alike.
//
// A head is D features, relu(score) x_i (d of them) and relu(score) (one), averaged over the keys. With
// xt = [x; 1] its score is
//
//   xt_0^T W xt_i = <x_0, W' x_i> + <w, x_i> + <w', x_0> + theta,    theta ~ N(0, 1/4),
//
// and the first three terms look the same in every head once d is large: they have variance 3/4 and, between
// two pairs of tokens, covariance (a b + b + a) / 4, a = <x_0, x_0'>, b = <x_i, x_j'>. The threshold theta
// differs from head to head in every dimension. So heads are sorted by theta (Gauss nodes theta_q, weights
// p_q), and for each node the two kinds of features have the kernels
//
//   p_q b E,  p_q E    with    E = 3/4 sum_t c_t(h_q)^2 / t! ((a + b + a b) / 3)^t,    h_q = theta_q /
//   sqrt(3/4),
//
// which are diagonal in products of harmonics, with positive terms. Their sum over q and both kinds is the
// kernel of attention_spectrum.hpp.
#pragma once

#include <vector>

#include "headlens/array.hpp"

namespace headlens {

struct HeadLevel {
  Index query_degree = 0;
  Index key_degree = 0;
  double multiplicity = 0;
  std::vector<double> eigenvalues;  // one per group
};

struct HeadSpectrum {
  std::vector<double> features;   // per head and group: p_q d, p_q
  std::vector<HeadLevel> levels;  // without the constant function
  std::vector<double> rest;       // per group, the part of the trace that is not in `levels`
  double trace = 0;
};

// Levels as AttentionSpectrum::levels(degree) keeps them. Error beyond degree 64.
HeadSpectrum head_spectrum(Index dim, Index keys, Index degree);

}  // namespace headlens
