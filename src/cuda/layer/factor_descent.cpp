#include "cuda/layer/factor_descent.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/memory.hpp"
#include "cuda/layer/factor_map.hpp"
#include "cuda/layer/vectors.hpp"

namespace headlens::cuda {
namespace {

constexpr float kMean = 0.9f, kSquare = 0.98f, kSmall = 1e-8f;
constexpr double kBatchShare = 0.5;                 // of the examples, the most that a batch has
constexpr double kBatchRows = 32768;                // where there are few, up to this dim
constexpr double kBatchDim = 1024;                  // from which first batches grow with its square
constexpr double kLibraries = 512.0 * 1024 * 1024;  // workspaces of cuBLAS

double descent_bytes(const backend::LayerExamples& examples, const backend::HeadRanks& ranks) {
  const auto rows = static_cast<double>(examples.x.rows), d = static_cast<double>(examples.x.cols),
             e = static_cast<double>(examples.y.cols), k = static_cast<double>(examples.tokens);
  const auto z = static_cast<double>(ranks.parameter_columns()), m = static_cast<double>(ranks.heads()),
             b = static_cast<double>(ranks.value_columns());
  const double first = kBatchRows * std::max(1.0, d * d / (kBatchDim * kBatchDim)),
               batch = std::min(rows, std::max(first, kBatchShare * rows));
  const double partial = examples.seen.rows == 0 ? 0 : (rows + batch) * e;
  return 4 * (rows * (d + e) + batch * (d + e + 2 * z + 2 * m * k + 2 * b) + 5 * (d * z + b * e) + partial) +
         kLibraries;
}

template <class T>
MatrixView<const T> read(const DeviceMatrix<T>& a) {
  return a.view();
}

// One array of parameters with its gradient, the running means of Adam, and its own running mean.
struct Moving {
  DeviceMatrix<float> value, gradient, mean, square, averaged;

  Moving(const Matrix<double>& start, int threads)
      : value(upload<float>(start.view(), threads)),
        gradient(start.rows(), start.cols()),
        mean(start.rows(), start.cols()),
        square(start.rows(), start.cols()),
        averaged(upload<float>(start.view(), threads)) {
    mean.clear();
    square.clear();
  }

  void step(int t, double rate) {
    const float mean_share = 1 - std::pow(kMean, static_cast<float>(t)),
                square_share = 1 - std::pow(kSquare, static_cast<float>(t));
    adam_step({1 - kMean, 1 - kSquare, static_cast<float>(rate) / mean_share, 1 / square_share, kSmall,
               static_cast<float>(backend::averaged_share(t))},
              gradient.data(), value.size(), {value.data(), mean.data(), square.data(), averaged.data()});
  }
};

class AdamDescent final : public backend::FactorDescent {
 public:
  AdamDescent(const backend::LayerExamples& examples, backend::HeadRanks ranks,
              const backend::FactorValues& start, int threads)
      : tokens_(examples.tokens),
        lengths_(examples.lengths),
        ranks_(std::move(ranks)),
        threads_(threads),
        all_x_(upload<float>(examples.x, threads)),
        all_y_(upload<float>(examples.y, threads)),
        all_seen_(upload<float>(examples.seen, threads)),
        y_squares_(row_squares_of(all_y_.data(), all_y_.rows(), all_y_.cols())),
        parameters_(start.parameters, threads),
        o_(start.o, threads) {}

  double step(const std::vector<Index>& batch, double rate) override;
  backend::FactorValues values() const override {
    return {download(parameters_.value, threads_), download(o_.value, threads_)};
  }
  backend::FactorValues mean_values() const override {
    return {download(parameters_.averaged, threads_), download(o_.averaged, threads_)};
  }
  void go_to_mean() override {
    for (Moving* moving : {&parameters_, &o_})
      convert(moving->averaged.data(), moving->value.size(), moving->value.data());
  }

 private:
  void make_room(Index rows);
  void gather(const std::vector<Index>& batch);

  Index tokens_;
  std::vector<Index> lengths_;
  backend::HeadRanks ranks_;
  int threads_, steps_ = 0;
  DeviceMatrix<float> all_x_, all_y_, all_seen_;
  std::vector<double> y_squares_;  // row by row
  Moving parameters_, o_;
  DeviceMatrix<float> x_, y_, seen_, z_, p_, phi_, g_;  // of one batch
  DeviceArray<std::int64_t> numbers_;
  std::optional<FactorMap<float>> map_;
};

void AdamDescent::make_room(Index rows) {
  if (x_.rows() == rows) return;
  x_ = DeviceMatrix<float>(rows, all_x_.cols());
  y_ = DeviceMatrix<float>(rows, all_y_.cols());
  if (all_seen_.rows() > 0) seen_ = DeviceMatrix<float>(rows, all_y_.cols());
  map_.emplace(read(x_), tokens_, ranks_, std::vector<Index>{}, Digits::tensor);
  z_ = map_->make_activations();
  p_ = map_->make_attention();
  phi_ = map_->make_phi();
  g_ = map_->make_phi();
}

void AdamDescent::gather(const std::vector<Index>& batch) {
  const auto count = static_cast<Index>(batch.size());
  make_room(count * tokens_);
  numbers_ = DeviceArray<std::int64_t>::from(std::vector<std::int64_t>(batch.begin(), batch.end()));
  gather_examples(all_x_.data(), all_x_.cols(), tokens_, numbers_.data(), count, x_.data());
  gather_examples(all_y_.data(), all_y_.cols(), tokens_, numbers_.data(), count, y_.data());
  if (seen_.size() > 0)
    gather_examples(all_seen_.data(), all_seen_.cols(), tokens_, numbers_.data(), count, seen_.data());
  if (lengths_.empty()) return;
  std::vector<Index> lengths;
  for (const Index example : batch) lengths.push_back(lengths_[static_cast<std::size_t>(example)]);
  map_->set_lengths(lengths);
}

double AdamDescent::step(const std::vector<Index>& batch, double rate) {
  gather(batch);
  double labels = 0;
  for (const Index example : batch)
    for (Index t = 0; t < tokens_; ++t) labels += y_squares_[static_cast<std::size_t>(example * tokens_ + t)];
  if (!(labels > 0)) return -1;
  map_->evaluate(read(parameters_.value), z_, p_, phi_);
  multiply(Trans::no, Trans::no, 1, read(phi_), read(o_.value), -1, y_.view(), Digits::tensor);  // F - Y
  if (seen_.size() > 0) hide_unseen(seen_.data(), y_.size(), y_.data());
  // Adam does not mind the size of a gradient; it is kept near one for the sake of kSmall.
  multiply(Trans::yes, Trans::no, 2 / labels, read(phi_), read(y_), 0, o_.gradient.view(), Digits::tensor);
  multiply(Trans::no, Trans::yes, 2 / labels, read(y_), read(o_.value), 0, g_.view(), Digits::tensor);
  map_->adjoint(z_.data(), p_.data(), g_, parameters_.gradient.view());
  ++steps_;
  parameters_.step(steps_, rate);
  o_.step(steps_, rate);
  return inner_product(y_.data(), y_.data(), y_.size()) / labels;
}

}  // namespace

std::unique_ptr<backend::FactorDescent> make_factor_descent(const backend::LayerExamples& examples,
                                                            const backend::HeadRanks& ranks,
                                                            const backend::FactorValues& start,
                                                            const backend::Context& context) {
  require_tokens(examples.tokens);
  MemoryBudget(context.execution, free_device_bytes())
      .require(descent_bytes(examples, ranks), "the descent on the device");
  return std::make_unique<AdamDescent>(examples, ranks, start, context.threads);
}

}  // namespace headlens::cuda
