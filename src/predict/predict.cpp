// Scores become predictions or labels, block by block.
#include <algorithm>
#include <cmath>

#include "comm/gather_rows.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "predict/label.hpp"
#include "predict/score_blocks.hpp"

namespace headlens {
namespace prediction {
namespace {

// As y was.
template <class Source>
std::vector<Index> output_shape(const Model& model, const Source& sets) {
  std::vector<Index> shape{sets.count()};
  if (sets.is_sequence()) shape = {sets.count() / sets.sequence_length(), sets.sequence_length()};
  if (!model.is_classifier() && model.vector_targets) shape.push_back(model.outputs);
  return shape;
}

float as_float(double score, const std::string& name) {
  const auto rounded = static_cast<float>(score);
  require(std::isfinite(rounded), name, ": the predictions overflow float32: scale the tokens down");
  return rounded;
}

// One array that every block writes its own part of.
class ArraySink : public ScoreSink {
 public:
  ArraySink(DType type, std::vector<Index> shape) : type_(type), shape_(std::move(shape)) {}

  double bytes() const override {
    double items = 1;
    for (const Index size : shape_) items *= static_cast<double>(size);
    return items * static_cast<double>(item_bytes(type_));
  }
  void start(Index) override { array_ = Array(type_, shape_); }
  Array take_array() { return std::move(array_); }

 protected:
  Array array_;

 private:
  DType type_;
  std::vector<Index> shape_;
};

class NumberSink final : public ArraySink {
 public:
  NumberSink(DType type, std::vector<Index> shape, std::string name)
      : ArraySink(type, std::move(shape)), name_(std::move(name)) {}

  void take(const ScoredBlock& block) override {
    const Index size = block.scores.rows * block.scores.cols, first = block.first * block.scores.cols;
    if (array_.dtype() == DType::f64)
      std::copy_n(block.scores.data, size, array_.data<double>() + first);
    else
      std::transform(block.scores.data, block.scores.data + size, array_.data<float>() + first,
                     [&](double score) { return as_float(score, name_); });
  }

 private:
  std::string name_;
};

class LabelSink final : public ArraySink {
 public:
  LabelSink(const Model& model, std::vector<Index> shape)
      : ArraySink(DType::i64, std::move(shape)), model_(model) {}

  void take(const ScoredBlock& block) override {
    for (Index i = 0; i < block.scores.rows; ++i)
      array_.data<std::int64_t>()[block.first + i] = label_of(model_, block.scores.row(i));
  }

 private:
  const Model& model_;
};

template <class Source>
Array fill(ArraySink&& sink, const Model& model, Source& sets, const Execution& execution) {
  score_blocks(model, sets, execution, sink);
  return comm::world().alone() ? sink.take_array()
                               : comm::gather_rows_on_first(sink.take_array(), comm::world());
}

template <class Source>
Array scores_from(const Model& model, Source& sets, const Execution& execution) {
  return fill(NumberSink(DType::f64, {sets.count(), model.outputs}, sets.name()), model, sets, execution);
}

template <class Source>
Array predictions_from(const Model& model, Source& sets, const Execution& execution) {
  const std::vector<Index> shape = output_shape(model, sets);
  if (model.is_classifier()) return fill(LabelSink(model, shape), model, sets, execution);
  const DType type = model.features.precision == Precision::f64 ? DType::f64 : DType::f32;
  return fill(NumberSink(type, shape, sets.name()), model, sets, execution);
}

}  // namespace
}  // namespace prediction

Array predict_scores(const Model& model, const Sets& sets, const Execution& execution) {
  return prediction::scores_from(model, sets, execution);
}

Array predict_scores(const Model& model, SetReader& reader, const Execution& execution) {
  return prediction::scores_from(model, reader, execution);
}

Array predict(const Model& model, const Sets& sets, const Execution& execution) {
  return prediction::predictions_from(model, sets, execution);
}

Array predict(const Model& model, SetReader& reader, const Execution& execution) {
  return prediction::predictions_from(model, reader, execution);
}

}  // namespace headlens
