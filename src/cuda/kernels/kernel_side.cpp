#include "cuda/kernels/kernel_side.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "features/heads.hpp"
#include "features/positions.hpp"
#include "headlens/error.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cuda {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// Tokens xt of one set in double, the query first.
template <class T>
void extended_tokens(const Sets& sets, Index set, const std::vector<double>& table, double* to) {
  const Index dim = sets.dim(), tokens = sets.keys_of(set) + 1;
  thread_local std::vector<T> plain;
  plain.resize(at(tokens * dim));
  copy_with_positions(sets, set, table, plain.data(), plain.data() + dim);
  for (Index t = 0; t < tokens; ++t) {
    for (Index j = 0; j < dim; ++j) to[t * (dim + 1) + j] = static_cast<double>(plain[at(t * dim + j)]);
    to[t * (dim + 1) + dim] = 1;
  }
}

// The numbers of one side, before they travel.
class Packing {
 public:
  Packing(const Sets& sets, Index first, Index last, const FeatureOptions& options, Positions positions)
      : sets_(sets),
        first_(first),
        options_(options),
        form_(form_of(options)),
        mlp_(options.kind == ModelKind::mlp),
        extended_(sets.dim() + 1),
        width_(mlp_ ? extended_ * (sets.max_keys() + 1) : extended_),
        table_(position_table(positions, sets.max_keys() + 1, sets.dim())) {
    if (!mlp_) mean_ = mean_matrix(options, sets.dim());
    for (Index s = first; s < last; ++s) {
      begin_.push_back(begin_.back() + (mlp_ ? 1 : sets.keys_of(s)));
      max_keys_ = std::max(max_keys_, begin_.back() - begin_[begin_.size() - 2]);
    }
    const Index count = last - first, keys = begin_.back();
    if (!mlp_) queries_.resize(at(count * extended_));
    keys_.resize(at(keys * width_));
    for (auto* of_keys : {&argument_, &deviation_, &weight_}) of_keys->resize(at(keys));
    factor_.resize(at(count));
  }

  void fill(int threads) {
    constexpr Index kShare = 32;
    const Index count = std::ssize(factor_);
    parallel_for(threads, (count + kShare - 1) / kShare, [&](Index share, int) {
      for (Index s = share * kShare; s < std::min(count, (share + 1) * kShare); ++s)
        mlp_ ? fill_mlp(s) : fill_attention(s);
    });
  }

  KernelSide upload() const {
    KernelSide out{std::ssize(factor_), width_, max_keys_, mlp_};
    out.queries = DeviceArray<double>::from(queries_);
    out.keys = DeviceArray<double>::from(keys_);
    out.begin = DeviceArray<std::int64_t>::from(begin_);
    out.argument = DeviceArray<double>::from(argument_);
    out.deviation = DeviceArray<double>::from(deviation_);
    out.weight = DeviceArray<double>::from(weight_);
    out.factor = DeviceArray<double>::from(factor_);
    return out;
  }

 private:
  bool standardised() const { return form_ != Form::exponential && form_ != Form::constant_scores; }
  bool scaled() const { return standardised() && form_ != Form::step; }  // by the deviations

  void tokens(Index s, double* to) const {
    options_.precision == Precision::f32 ? extended_tokens<float>(sets_, first_ + s, table_, to)
                                         : extended_tokens<double>(sets_, first_ + s, table_, to);
  }

  void fill_key(Index key, double query, double length, double mean) {
    const double deviation = *options_.weight_scale * query * length;
    deviation_[at(key)] = deviation;
    weight_[at(key)] = scaled() && !mlp_ ? length * length : length;
    double& argument = argument_[at(key)];
    if (standardised())
      argument = mean / deviation;
    else if (form_ == Form::exponential)
      argument = mean + 0.5 * deviation * deviation;
    else
      argument = options_.score == Score::step ? (mean > 0 ? 1.0 : 0.0) : std::max(mean, 0.0);
  }

  void fill_attention(Index s) {
    const Index begin = begin_[at(s)], keys = begin_[at(s + 1)] - begin;
    thread_local std::vector<double> all;
    all.resize(at((keys + 1) * extended_));
    tokens(s, all.data());
    std::vector<double> projected(at(extended_), 0.0);  // W_0^T xt_0
    for (Index i = 0; i < extended_; ++i)
      for (Index j = 0; j < extended_; ++j) projected[at(j)] += mean_[at(i * extended_ + j)] * all[at(i)];
    const double query = normalise(all.data(), extended_);
    std::copy_n(all.data(), extended_, queries_.data() + s * extended_);
    factor_[at(s)] = (scaled() ? *options_.weight_scale * query : 1.0) / static_cast<double>(keys);
    for (Index k = 0; k < keys; ++k) {
      double* key = all.data() + (k + 1) * extended_;
      const double mean = *options_.bias_scale * dot(projected.data(), key, extended_);
      fill_key(begin + k, query, normalise(key, extended_), mean);
      std::copy_n(key, extended_, keys_.data() + (begin + k) * extended_);
    }
  }

  void fill_mlp(Index s) {
    double* row = keys_.data() + s * width_;
    tokens(s, row);
    factor_[at(s)] = scaled() ? *options_.weight_scale : 1.0;
    fill_key(s, 1.0, normalise(row, width_), 0.0);
  }

  const Sets& sets_;
  Index first_;
  const FeatureOptions& options_;
  Form form_;
  bool mlp_;
  Index extended_, width_, max_keys_ = 0;
  std::vector<double> table_, mean_, queries_, keys_, argument_, deviation_, weight_, factor_;
  std::vector<std::int64_t> begin_{0};
};

}  // namespace

Form form_of(const FeatureOptions& options) {
  const double bias = largest_mean(options);
  ensure(options.score != Score::softmax, "softmax has no closed form");
  // Beyond this ratio a score is its mean to all digits, and standardising it might overflow.
  if (options.score == Score::exp) return Form::exponential;
  if (*options.weight_scale <= 1e-100 * bias || *options.weight_scale == 0) return Form::constant_scores;
  if (options.score == Score::step) return Form::step;
  return bias == 0 ? Form::arc_cosine : Form::relu;
}

std::string name(Form form) {
  constexpr const char* names[] = {"arc cosine", "bivariate normal by quadrature",
                                   "bivariate normal probability", "exponential", "constant scores"};
  return names[static_cast<int>(form)];
}

KernelSide make_side(const Sets& sets, Index first, Index last, const FeatureOptions& options,
                     Positions positions, int threads) {
  Packing packing(sets, first, last, options, positions);
  packing.fill(threads);
  return packing.upload();
}

double side_bytes(const Sets& sets, const FeatureOptions& options) {
  const auto n = static_cast<double>(sets.count()), dim = static_cast<double>(sets.dim() + 1);
  const bool mlp = options.kind == ModelKind::mlp;
  const double keys = mlp ? n : static_cast<double>(sets.total_keys());
  const double width = mlp ? dim * static_cast<double>(sets.max_keys() + 1) : dim;
  return 8 * (n * (dim + 2) + keys * (width + 3));
}

}  // namespace headlens::cuda
