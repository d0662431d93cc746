#include "refit/descend.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"
#include "refit/moving_factors.hpp"

namespace headlens::refitting {
namespace {

// A step of the first rate turns a block by about this much; the more steps, the shorter each.
constexpr double kLargestRate = 0.02, kReach = 0.25;

template <class To, class From>
Matrix<To> converted(const Matrix<From>& a) {
  Matrix<To> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) out.data()[i] = static_cast<To>(a.data()[i]);
  return out;
}

MovingFactors moving_parameters(const TiedLayer& start) {
  const TiedShape& s = start.shape;
  std::vector<FactorBlock> blocks;
  for (Index i = 0; i < s.heads; ++i) blocks.push_back({0, s.q(i), s.rows, s.rank});
  for (Index g = 0; g < s.groups; ++g) blocks.push_back({0, s.k(g), s.rows, s.rank});
  for (Index g = 0; g < s.groups; ++g) blocks.push_back({0, s.v(g), s.rows, s.value_rank});
  return {start.parameters, std::move(blocks), {s.heads, s.heads + s.groups, s.heads + 2 * s.groups}};
}

MovingFactors moving_readout(const TiedLayer& start) {
  const TiedShape& s = start.shape;
  std::vector<FactorBlock> blocks;
  for (Index i = 0; i < s.heads; ++i) blocks.push_back({i * s.value_rank, 0, s.value_rank, s.outputs});
  if (s.bias) blocks.push_back({s.heads * s.value_rank, 0, 1, s.outputs});
  const auto all = static_cast<Index>(blocks.size());
  return {start.readout, std::move(blocks), {all}};
}

// The layer that labels, in float.
struct Teacher {
  TiedShape shape;
  Matrix<float> parameters, readout;

  explicit Teacher(const TiedLayer& layer)
      : shape(layer.shape),
        parameters(converted<float>(layer.parameters)),
        readout(converted<float>(layer.readout)) {}
  void label(MatrixView<const float> x, Index tokens, const std::vector<Index>& lengths, MatrixView<float> y,
             int threads) const {
    const TiedMap<float> map(x, tokens, shape, lengths, threads);
    Matrix<float> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
    map.evaluate(parameters.view(), z.view(), p.view(), phi.view());
    multiply(Trans::no, Trans::no, 1.0f, std::as_const(phi).view(), readout.view(), 0.0f, y, threads);
  }
};

class Descent {
 public:
  Descent(const TiedLayer& start, const TiedExamples& examples, const DescentOptions& options, int threads)
      : examples_(examples),
        shape_(start.shape),
        threads_(threads),
        parameters_(moving_parameters(start)),
        readout_(moving_readout(start)) {
    if (options.teacher) teacher_.emplace(*options.teacher);
    batch_ = std::min(examples.count(), std::max<Index>(8, options.rows / examples.tokens));
    const Index rows = batch_ * examples.tokens;
    x_ = Matrix<float>(rows, examples.x.cols);
    y_ = Matrix<float>(rows, shape_.outputs);
    g_ = Matrix<float>(rows, shape_.features());
  }

  // One step; returns |F - Y| / |Y| of the batch before the step.
  double step(Stream stream, double rate) {
    const std::vector<Index> lengths = gather(stream);
    const TiedMap<float> map(std::as_const(x_).view(), examples_.tokens, shape_, lengths, threads_);
    Matrix<float> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
    const MatrixView<const float> features = std::as_const(phi).view(), left = std::as_const(y_).view(),
                                  o = std::as_const(readout_.value).view();
    const double labels = std::max(inner_product(left, left), 1e-300);
    map.evaluate(std::as_const(parameters_.value).view(), z.view(), p.view(), phi.view());
    multiply(Trans::no, Trans::no, 1.0f, features, o, -1.0f, y_.view(), threads_);  // F - Y
    const double squares = inner_product(left, left) / labels;
    // Steps do not depend on the size of a gradient; it is kept near one for the sake of float.
    const auto factor = static_cast<float>(1 / labels);
    multiply(Trans::yes, Trans::no, factor, features, left, 0.0f, readout_.gradient.view(), threads_);
    multiply(Trans::no, Trans::yes, factor, left, o, 0.0f, g_.view(), threads_);
    map.adjoint(std::as_const(z).view(), std::as_const(p).view(), std::as_const(g_).view(),
                parameters_.gradient.view());
    parameters_.step(rate, threads_);
    readout_.step(rate, threads_);
    return std::sqrt(squares);
  }

  TiedLayer layer() const {
    return {shape_, converted<double>(parameters_.value), converted<double>(readout_.value)};
  }

 private:
  struct Crossing {
    Index begin, end;  // examples: the tokens of the first before `place`, those of the second from there on
    Index place;
  };
  Index length(Index example) const {
    return examples_.lengths.empty() ? examples_.tokens
                                     : examples_.lengths[static_cast<std::size_t>(example)];
  }
  Index any_example(Stream& stream) const {
    return static_cast<Index>(stream.below(static_cast<std::uint64_t>(examples_.count())));
  }
  Crossing draw(Stream& stream) const {
    const Index end = any_example(stream);
    if (!teacher_) return {end, end, 0};
    const Index begin = any_example(stream),
                shorter = std::max<Index>(1, std::min(length(begin), length(end)));
    return {begin, end, static_cast<Index>(stream.below(static_cast<std::uint64_t>(shorter)))};
  }
  // Fills x and y, and returns the lengths.
  std::vector<Index> gather(Stream& stream) {
    std::vector<Crossing> drawn;
    std::vector<Index> lengths;
    for (Index e = 0; e < batch_; ++e) drawn.push_back(draw(stream));
    for (const Crossing& one : drawn)
      if (!examples_.lengths.empty()) lengths.push_back(length(one.end));
    parallel_for(threads_, batch_, [&](Index e, int) { copy(drawn[static_cast<std::size_t>(e)], e); });
    if (teacher_) teacher_->label(std::as_const(x_).view(), examples_.tokens, lengths, y_.view(), threads_);
    return lengths;
  }
  void copy(const Crossing& one, Index e) {
    const Index k = examples_.tokens;
    for (Index t = 0; t < k; ++t) {
      const Index from = (t < one.place ? one.begin : one.end) * k + t;
      for (Index j = 0; j < x_.cols(); ++j) x_(e * k + t, j) = static_cast<float>(examples_.x(from, j));
      for (Index j = 0; j < y_.cols() && !teacher_; ++j)
        y_(e * k + t, j) = static_cast<float>(examples_.y(from, j));
    }
  }

  const TiedExamples& examples_;
  TiedShape shape_;
  int threads_;
  Index batch_ = 0;
  std::optional<Teacher> teacher_;
  MovingFactors parameters_, readout_;
  Matrix<float> x_, y_, g_;  // of one batch
};

}  // namespace

TiedLayer descend(const TiedLayer& start, const TiedExamples& examples, const DescentOptions& options,
                  const DescentWatch& watch, int threads) {
  Descent descent(start, examples, options, threads);
  double error = 1;
  const double first = std::min(kLargestRate, kReach / std::sqrt(std::max(options.steps, 1)));
  for (int t = 0; t < options.steps && !watch(t, error); ++t) {
    const double rate =
        first * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(t) / options.steps));
    error = descent.step(Stream(options.seed, "refit-batch", static_cast<std::uint64_t>(t)), rate);
  }
  return descent.layer();
}

}  // namespace headlens::refitting
