#include "automatic/tokens.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "automatic/scores.hpp"
#include "automatic/spectrum.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "linalg/multiply.hpp"

namespace headlens::automatic {
namespace {

constexpr Index kRank = 4;
constexpr double kClip = 3;       // deviations
constexpr double kWideClip = 30;  // of variances: how far keys lie outside is what a variance tells
constexpr Index kBlock = 64;

std::vector<Index> kept_coordinates(const TokenFrame& frame) {
  std::vector<Index> kept;
  for (Index j = 0; j < frame.width.size(); ++j)
    if (frame.width.at(j) > 0) kept.push_back(j);
  return kept;
}

// One set as it is in the data.
struct RawSet {
  std::vector<double> query, keys;
  Index count = 0;
};

RawSet read_set(const Sets& sets, Index set) {
  const Index d = sets.dim(), n = sets.keys_of(set);
  RawSet out{std::vector<double>(static_cast<std::size_t>(d)),
             std::vector<double>(static_cast<std::size_t>(n * d)), n};
  sets.copy_set(set, out.query.data(), out.keys.data(), d);
  return out;
}

// Mean and deviation of every coordinate over all keys, by two passes in the order of the sets.
void learn_moments(const Sets& sets, TokenFrame& frame) {
  const Index d = sets.dim();
  const auto size = static_cast<std::size_t>(d);
  std::vector<double> mean(size), square(size), largest(size);
  double total = 0;
  for (Index i = 0; i < sets.count(); ++i) total += static_cast<double>(sets.keys_of(i));
  const auto each_key = [&](auto&& body) {
    for (Index i = 0; i < sets.count(); ++i) {
      heed();
      const RawSet raw = read_set(sets, i);
      for (Index k = 0; k < raw.count; ++k)
        for (std::size_t j = 0; j < size; ++j) body(j, raw.keys[static_cast<std::size_t>(k) * size + j]);
    }
  };
  each_key([&](std::size_t j, double x) {
    mean[j] += x / total;
    largest[j] = std::max(largest[j], std::abs(x));
  });
  each_key([&](std::size_t j, double x) { square[j] += (x - mean[j]) * (x - mean[j]) / total; });
  Index kept = 0;
  std::vector<double> width(size);
  for (std::size_t j = 0; j < size; ++j) {
    width[j] = std::sqrt(square[j]);
    if (width[j] <= 1e-12 * largest[j]) width[j] = 0;  // constant but for rounding
    kept += width[j] > 0;
  }
  require(kept > 0, sets.name(),
          ": every coordinate of the keys is constant, so sets differ in nothing but size");
  for (double& w : width) {
    w *= std::sqrt(static_cast<double>(kept));
    require(std::isfinite(w), sets.name(), ": the squares of the tokens overflow: scale the tokens down");
  }
  frame.mean = Array::from(mean, {d});
  frame.width = Array::from(width, {d});
}

bool has_query(const Sets& sets) {
  const RawSet first = read_set(sets, 0);
  for (Index i = 1; i < sets.count(); ++i)
    if (read_set(sets, i).query != first.query) return true;
  return false;
}

Array draw_normals(std::uint64_t seed, const char* purpose, Index streams, Index each,
                   std::vector<Index> shape, int threads) {
  Array out(DType::f64, std::move(shape));
  parallel_for(threads, streams, [&](Index s, int) {
    Stream stream(seed, purpose, static_cast<std::uint64_t>(s));
    double* row = out.data<double>() + s * each;
    for (Index j = 0; j < each; ++j) row[j] = stream.normal();
  });
  return out;
}

// W_m = Q_m K_m^T / sqrt(r). Without a query, q = 0 with its trailing 1, a head is one direction: r = 1, Q
// = 1.
void draw_heads(TokenFrame& frame, Index d, std::uint64_t seed, int threads) {
  const Index rank = frame.given_query ? kRank : 1;
  frame.head_keys = draw_normals(seed, "automatic-keys", kHeads, rank * d, {kHeads, rank, d}, threads);
  frame.head_queries =
      frame.given_query
          ? draw_normals(seed, "automatic-queries", d + 1, kHeads * rank, {d + 1, kHeads, rank}, threads)
          : Array::from(std::vector<double>(static_cast<std::size_t>((d + 1) * kHeads), 1.0),
                        {d + 1, kHeads, rank});
}

// So many sets at even steps: enough for a mean or a median, and the same for every seed.
std::vector<Index> spaced(Index count, Index most) {
  const Index size = std::min(count, most);
  std::vector<Index> out(static_cast<std::size_t>(size));
  for (Index i = 0; i < size; ++i) out[static_cast<std::size_t>(i)] = i * count / size;
  return out;
}

double squared_distance(const double* a, const double* b, Index size) {
  double sum = 0;
  for (Index j = 0; j < size; ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return sum;
}

double squared_norm(const double* a, Index size) {
  double sum = 0;
  for (Index j = 0; j < size; ++j) sum += a[j] * a[j];
  return sum;
}

// E (q^T Q K^T x)^2 / r = |q|^2 |x|^2 for Q, K with entries N(0, 1), over the keys; and the median distance
// of two keys.
void learn_units(const Tokens& tokens, TokenFrame& frame) {
  const Index d = tokens.width();
  double sum = 0;
  for (Index i = 0; i < tokens.count(); ++i) {
    const MatrixView<const double> keys = tokens.keys_of(i);
    const double query = squared_norm(tokens.queries.view().row(i), d + 1);
    for (Index k = 0; k < keys.rows; ++k)
      sum += query * squared_norm(keys.row(k), d) / static_cast<double>(tokens.keys.rows());
  }
  frame.score_unit = 1 / std::sqrt(sum);
  const std::vector<Index> some = spaced(tokens.keys.rows(), 400);
  std::vector<double> distances;
  for (std::size_t a = 0; a < some.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const double distance =
          squared_distance(tokens.keys.view().row(some[a]), tokens.keys.view().row(some[b]), d);
      if (distance > 0) distances.push_back(distance);
    }
  if (distances.empty()) return;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  frame.key_distance = *middle;
}

double standard(const TokenFrame& frame, Index j, double x) {
  // width is the deviation times sqrt(d').
  return (x - frame.mean.data<double>()[j]) / frame.width.data<double>()[j];
}

// Coordinate j, which is kept as number `at`, as most blocks read it.
double read_value(const TokenFrame& frame, Index j, Index at, double x) {
  return frame.by_scores() ? score(frame, at, x) : standard(frame, j, x);
}

// The keys of one set as centre and spread read them, (N, d').
Matrix<double> wide_keys(const TokenFrame& frame, const RawSet& raw, const std::vector<Index>& kept) {
  const auto d = static_cast<Index>(kept.size()), dim = frame.width.size();
  const double most = kWideClip / std::sqrt(static_cast<double>(d));
  Matrix<double> out(raw.count, d);
  for (Index k = 0; k < raw.count; ++k)
    for (Index j = 0; j < d; ++j) {
      const Index from = kept[static_cast<std::size_t>(j)];
      out(k, j) =
          std::clamp(standard(frame, from, raw.keys[static_cast<std::size_t>(k * dim + from)]), -most, most);
    }
  return out;
}

// Rows of d coordinates as the other blocks read them, (rows, d').
void read_tokens(const TokenFrame& frame, const double* raw, const std::vector<Index>& kept,
                 MatrixView<double> out) {
  const double most = kClip / std::sqrt(static_cast<double>(kept.size()));
  for (Index k = 0; k < out.rows; ++k)
    for (std::size_t j = 0; j < kept.size(); ++j) {
      const auto at = static_cast<Index>(j);
      const double value = raw[k * frame.width.size() + kept[j]];
      out(k, at) = std::clamp(read_value(frame, kept[j], at, value), -most, most);
    }
}

// The mean of the keys, and Var_k <w, x_k> of every frequency w.
void fill_moments(const TokenFrame& frame, MatrixView<const double> keys, double* centre, double* spread) {
  const Index count = frame.frequencies.dim(0);
  const std::vector<double> means = column_means(keys);
  std::copy(means.begin(), means.end(), centre);
  Matrix<double> along(keys.rows, count);
  gemm(Trans::no, Trans::yes, 1, keys,
       MatrixView<const double>{frame.frequencies.data<double>(), count, keys.cols}, 0, along);
  const auto size = static_cast<double>(keys.rows);
  for (Index f = 0; f < count; ++f) {
    double mean = 0, square = 0;
    for (Index k = 0; k < keys.rows; ++k) mean += along(k, f) / size;
    for (Index k = 0; k < keys.rows; ++k) square += (along(k, f) - mean) * (along(k, f) - mean) / size;
    spread[f] = square;
  }
}

}  // namespace

TokenFrame learn_frame(const Sets& sets, std::uint64_t seed, int threads) {
  TokenFrame frame;
  learn_moments(sets, frame);
  frame.given_query = has_query(sets);
  const auto d = static_cast<Index>(kept_coordinates(frame).size());
  draw_heads(frame, d, seed, threads);
  frame.frequencies =
      draw_normals(seed, "automatic-frequencies", kFrequencies, d, {kFrequencies, d}, threads);
  learn_units(standardise(frame, sets, spaced(sets.count(), 1000), threads), frame);
  return frame;
}

TokenFrame frame_by_scores(const Sets& sets, TokenFrame frame, int threads) {
  const std::vector<Index> kept = kept_coordinates(frame), some = spaced(sets.count(), 1000);
  const auto d = static_cast<Index>(kept.size());
  Index total = 0, row = 0;
  for (const Index set : some) total += sets.keys_of(set);
  Matrix<double> keys(total, d);
  for (const Index set : some) {
    const RawSet raw = read_set(sets, set);
    for (Index k = 0; k < raw.count; ++k, ++row)
      for (Index j = 0; j < d; ++j)
        keys(row, j) = raw.keys[static_cast<std::size_t>(k * sets.dim() + kept[static_cast<std::size_t>(j)])];
  }
  learn_scores(keys, frame, threads);
  learn_units(standardise(frame, sets, some, threads), frame);
  return frame;
}

Tokens standardise(const TokenFrame& frame, const Sets& sets, const std::vector<Index>& chosen, int threads) {
  const std::vector<Index> kept = kept_coordinates(frame);
  const auto d = static_cast<Index>(kept.size()), n = static_cast<Index>(chosen.size());
  Tokens out;
  out.starts.push_back(0);
  for (const Index set : chosen) out.starts.push_back(out.starts.back() + sets.keys_of(set));
  out.keys = Matrix<double>(out.starts.back(), d);
  out.queries = Matrix<double>::zeros(n, d + 1);
  out.centres = Matrix<double>(n, d);
  out.spreads = Matrix<double>(n, frame.frequencies.dim(0));
  parallel_for(threads, (n + kBlock - 1) / kBlock, [&](Index block, int) {
    for (Index i = block * kBlock; i < std::min(n, (block + 1) * kBlock); ++i) {
      const RawSet raw = read_set(sets, chosen[static_cast<std::size_t>(i)]);
      read_tokens(frame, raw.keys.data(), kept,
                  out.keys.view().block(out.starts[static_cast<std::size_t>(i)], 0, raw.count, d));
      fill_moments(frame, wide_keys(frame, raw, kept), out.centres.view().row(i), out.spreads.view().row(i));
      double* query = out.queries.view().row(i);
      if (frame.given_query) read_tokens(frame, raw.query.data(), kept, {query, 1, d});
      query[d] = 1;
    }
  });
  return out;
}

}  // namespace headlens::automatic
