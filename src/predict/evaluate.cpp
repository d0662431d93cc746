// Errors of a model: sums over blocks, put together in the order of the blocks.
#include <cmath>
#include <optional>

#include "comm/communicator.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "predict/label.hpp"
#include "predict/score_blocks.hpp"

namespace headlens {
namespace prediction {
namespace {

// One block, or several put together: the squared errors, and for every column the mean of y and the sum of
// squares around it. Two parts merge by
//
//   sum |y - mean|^2 = S_a + S_b + (mean_b - mean_a)^2 n_a n_b / (n_a + n_b),
//
// which loses nothing where y is far from 0 or its first value far from the others.
struct ErrorSums {
  double count = 0;
  Index hits = 0;
  double squares = 0;
  std::vector<double> means, deviations;

  void merge(const ErrorSums& other) {
    const double share = other.count / (count + other.count);
    for (std::size_t c = 0; c < means.size(); ++c) {
      const double step = other.means[c] - means[c];
      means[c] += step * share;
      deviations[c] += other.deviations[c] + step * step * count * share;
    }
    count += other.count;
    hits += other.hits;
    squares += other.squares;
  }
};

// Of all ranks, in their order.
ErrorSums merged(const ErrorSums& own, comm::Communicator& ranks) {
  std::vector<double> numbers{own.count, static_cast<double>(own.hits), own.squares};
  numbers.insert(numbers.end(), own.means.begin(), own.means.end());
  numbers.insert(numbers.end(), own.deviations.begin(), own.deviations.end());
  const std::vector<double> all = comm::gather(ranks, std::span<const double>(numbers));
  const auto q = static_cast<std::ptrdiff_t>(own.means.size());
  std::optional<ErrorSums> out;
  for (auto one = all.begin(); one != all.end(); one += std::ssize(numbers)) {
    const ErrorSums sums{
        one[0], static_cast<Index>(one[1]), one[2], {one + 3, one + 3 + q}, {one + 3 + q, one + 3 + 2 * q}};
    out ? out->merge(sums) : void(out = sums);
  }
  return *out;
}

ErrorSums label_hits(const Model& model, const ScoredBlock& block, const double* y) {
  ErrorSums sums{.count = static_cast<double>(block.scores.rows)};
  for (Index i = 0; i < block.scores.rows; ++i)
    sums.hits += static_cast<double>(label_of(model, block.scores.row(i))) == y[i];
  return sums;
}

ErrorSums error_sums(const ScoredBlock& block, const double* y) {
  const Index n = block.scores.rows, q = block.scores.cols;
  ErrorSums sums{.count = static_cast<double>(n)};
  for (Index c = 0; c < q; ++c) {
    double mean = 0, deviations = 0;  // of y - y[0], so that a constant column deviates by exactly 0
    for (Index i = 0; i < n; ++i) mean += (y[i * q + c] - y[c]) / sums.count;
    for (Index i = 0; i < n; ++i) {
      sums.squares += std::pow(block.scores(i, c) - y[i * q + c], 2);
      deviations += std::pow(y[i * q + c] - y[c] - mean, 2);
    }
    sums.means.push_back(y[c] + mean);
    sums.deviations.push_back(deviations);
  }
  return sums;
}

class ErrorSink final : public ScoreSink {
 public:
  // `targets` of all sets, or null: then they come with the blocks.
  ErrorSink(const Model& model, const double* targets) : model_(model), targets_(targets) {}

  double bytes() const override { return 0; }  // 3 numbers and a few more a block
  void start(Index blocks) override { blocks_.resize(static_cast<std::size_t>(blocks)); }
  void take(const ScoredBlock& block) override {
    const Index q = model_.is_classifier() ? 1 : model_.outputs;
    const double* y = targets_ != nullptr ? targets_ + block.first * q : block.targets;
    blocks_[static_cast<std::size_t>(block.number)] =
        model_.is_classifier() ? label_hits(model_, block, y) : error_sums(block, y);
  }

  Evaluation result(Index count, const std::string& name) const {
    ErrorSums own = blocks_.front();
    for (std::size_t b = 1; b < blocks_.size(); ++b) own.merge(blocks_[b]);
    const ErrorSums all = merged(own, comm::world());
    Evaluation result{.count = count};
    if (model_.is_classifier()) {
      result.accuracy = static_cast<double>(all.hits) / all.count;
      return result;
    }
    require(std::isfinite(all.squares), name, ": the squared errors overflow: scale the tokens down");
    double variance = 0;
    for (const double deviation : all.deviations) variance += deviation;
    result.mse = all.squares / (all.count * static_cast<double>(model_.outputs));
    if (variance > 0) result.nmse = all.squares / variance;
    return result;
  }

 private:
  const Model& model_;
  const double* targets_;
  std::vector<ErrorSums> blocks_;
};

void check_outputs(const Model& model, Index outputs, const std::string& name) {
  const Index expected = model.is_classifier() ? 1 : model.outputs;
  require(outputs == expected, name, ": y has ", outputs, " outputs, the model has ", expected);
}

}  // namespace
}  // namespace prediction

Evaluation evaluate(const Model& model, const LabelledSets& data, const Execution& execution) {
  prediction::check_outputs(model, data.targets.outputs, data.sets.name());
  prediction::ErrorSink sink(model, data.targets.values.data());
  prediction::score_blocks(model, data.sets, execution, sink);
  return sink.result(data.sets.whole().count, data.sets.name());
}

Evaluation evaluate(const Model& model, SetReader& reader, const Execution& execution) {
  prediction::check_outputs(model, reader.outputs(), reader.name());
  prediction::ErrorSink sink(model, nullptr);
  prediction::score_blocks(model, reader, execution, sink);
  return sink.result(reader.whole().count, reader.name());
}

}  // namespace headlens
