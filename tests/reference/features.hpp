// The feature map, the obvious way: one set, one head, one key at a time, in long double.
#pragma once

#include <cmath>
#include <vector>

#include "headlens/model.hpp"
#include "headlens/sets.hpp"

namespace headlens::reference {

using Real = long double;

struct PlainSet {
  std::vector<double> query;              // d
  std::vector<std::vector<double>> keys;  // N of d
};

inline PlainSet plain_set(const Sets& sets, Index s, Positions positions) {
  const Index d = sets.dim(), n = sets.keys_of(s);
  PlainSet out{std::vector<double>(static_cast<std::size_t>(d)), {}};
  std::vector<double> keys(static_cast<std::size_t>(n * d));
  sets.copy_set(s, out.query.data(), keys.data(), d);
  for (Index k = 0; k < n; ++k) {
    std::vector<double> key(keys.begin() + k * d, keys.begin() + (k + 1) * d);
    for (Index j = 0; positions == Positions::sinusoidal && j < d; ++j) {
      const double rate = std::pow(10000.0, static_cast<double>(2 * (j / 2)) / static_cast<double>(d));
      const double angle = static_cast<double>(sets.key_position(s, k)) / rate;
      key[static_cast<std::size_t>(j)] += j % 2 ? std::cos(angle) : std::sin(angle);
    }
    out.keys.push_back(key);
  }
  return out;
}

inline Real extended(const std::vector<double>& x, std::size_t i) { return i < x.size() ? x[i] : 1.0; }

// phi of one head, D entries.
inline std::vector<Real> head_features(const PlainSet& set, const Array& heads, Index head, Score score) {
  const std::size_t D = set.query.size() + 1, N = set.keys.size();
  std::vector<Real> weight(N);
  Real highest = -1e300L, total = 0;
  for (std::size_t k = 0; k < N; ++k) {
    Real c = 0;
    for (std::size_t i = 0; i < D; ++i)
      for (std::size_t j = 0; j < D; ++j)
        c += extended(set.query, i) *
             heads.at(static_cast<Index>((static_cast<std::size_t>(head) * D + i) * D + j)) *
             extended(set.keys[k], j);
    weight[k] = c;
    highest = std::max(highest, c);
  }
  for (Real& w : weight) {
    if (score == Score::relu) w = std::max<Real>(w, 0) / N;
    if (score == Score::step) w = (w > 0 ? Real(1) : Real(0)) / N;
    if (score == Score::exp) w = std::exp(w) / N;
    if (score == Score::softmax) w = std::exp(w - highest);
    total += w;
  }
  std::vector<Real> phi(D, 0);
  for (std::size_t k = 0; k < N; ++k)
    for (std::size_t j = 0; j < D; ++j)
      phi[j] += (score == Score::softmax ? weight[k] / total : weight[k]) * extended(set.keys[k], j);
  return phi;
}

// relu(<w, [xt_0 .. xt_N]>)
inline Real neuron_feature(const PlainSet& set, const Array& neurons, Index neuron) {
  const std::size_t D = set.query.size() + 1;
  const Index inputs = neurons.dim(1);
  Real c = 0;
  for (std::size_t t = 0; t <= set.keys.size(); ++t)
    for (std::size_t j = 0; j < D; ++j)
      c += extended(t == 0 ? set.query : set.keys[t - 1], j) *
           neurons.at(neuron * inputs + static_cast<Index>(t * D + j));
  return std::max<Real>(c, 0);
}

}  // namespace headlens::reference
