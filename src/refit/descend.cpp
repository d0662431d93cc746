#include "refit/descend.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::refitting {
namespace {

constexpr float kMean = 0.9f, kSquare = 0.99f, kSmall = 1e-12f;
constexpr Index kBatchRows = 1024;

Matrix<float> in_float(MatrixView<const double> a) {
  Matrix<float> out(a.rows, a.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(i, j) = static_cast<float>(a(i, j));
  return out;
}

Matrix<double> in_double(const Matrix<float>& a) {
  Matrix<double> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) out.data()[i] = static_cast<double>(a.data()[i]);
  return out;
}

// Columns that move at one rate.
struct Part {
  Index begin, end;
  float size;  // the root mean square of the start, or of its matrix where that is zero
};

struct Moving {
  Matrix<float> value, gradient, mean, square;
  std::vector<Part> parts;

  Moving(const Matrix<double>& start, const std::vector<Index>& ends)
      : value(in_float(start.view())),
        gradient(start.rows(), start.cols()),
        mean(Matrix<float>::zeros(start.rows(), start.cols())),
        square(Matrix<float>::zeros(start.rows(), start.cols())) {
    Index begin = 0;
    for (const Index end : ends) {
      parts.push_back({begin, end, size_of(begin, end)});
      begin = end;
    }
    const float all = std::max(size_of(0, start.cols()), 1e-6f);
    for (Part& part : parts)
      if (!(part.size > 0)) part.size = all;
  }
  float size_of(Index begin, Index end) const {
    double sum = 0;
    for (Index i = 0; i < value.rows(); ++i)
      for (Index j = begin; j < end; ++j) sum += static_cast<double>(value(i, j)) * value(i, j);
    return static_cast<float>(std::sqrt(sum / static_cast<double>(value.rows() * (end - begin))));
  }
  void step(int t, double rate) {
    const float mean_share = 1 - std::pow(kMean, static_cast<float>(t)),
                square_share = 1 - std::pow(kSquare, static_cast<float>(t));
    for (const Part& part : parts) {
      const float along = static_cast<float>(rate) * part.size / mean_share;
      for (Index i = 0; i < value.rows(); ++i)
        for (Index j = part.begin; j < part.end; ++j) {
          const float g = gradient(i, j);
          float &m = mean(i, j), &s = square(i, j);
          m += (1 - kMean) * (g - m);
          s += (1 - kSquare) * (g * g - s);
          value(i, j) -= along * m / (std::sqrt(s / square_share) + kSmall);
        }
    }
  }
};

class Descent {
 public:
  Descent(const TiedLayer& start, const TiedExamples& examples, int threads)
      : examples_(examples),
        shape_(start.shape),
        threads_(threads),
        parameters_(start.parameters, {shape_.k(0), shape_.v(0), shape_.columns()}),
        readout_(start.readout, {start.readout.cols()}) {
    batch_ = std::min(examples.count(), std::max<Index>(8, kBatchRows / examples.tokens));
    const Index rows = batch_ * examples.tokens;
    x_ = Matrix<float>(rows, examples.x.cols);
    y_ = Matrix<float>(rows, examples.y.cols);
    g_ = Matrix<float>(rows, shape_.features());
  }

  // One step; returns |F - Y| / |Y| of the batch before the step.
  double step(Stream stream, int t, double rate) {
    const std::vector<Index> lengths = gather(stream);
    const TiedMap<float> map(std::as_const(x_).view(), examples_.tokens, shape_, lengths, threads_);
    Matrix<float> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
    const MatrixView<const float> features = std::as_const(phi).view(), left = std::as_const(y_).view(),
                                  o = std::as_const(readout_.value).view();
    const double labels = std::max(inner_product(left, left), 1e-300);
    map.evaluate(std::as_const(parameters_.value).view(), z.view(), p.view(), phi.view());
    multiply(Trans::no, Trans::no, 1.0f, features, o, -1.0f, y_.view(), threads_);  // F - Y
    const double squares = inner_product(left, left) / labels;
    // Adam does not mind the size of a gradient; it is kept near one for the sake of kSmall.
    const auto factor = static_cast<float>(1 / labels);
    multiply(Trans::yes, Trans::no, factor, features, left, 0.0f, readout_.gradient.view(), threads_);
    multiply(Trans::no, Trans::yes, factor, left, o, 0.0f, g_.view(), threads_);
    map.adjoint(std::as_const(z).view(), std::as_const(p).view(), std::as_const(g_).view(),
                parameters_.gradient.view());
    parameters_.step(t, rate);
    readout_.step(t, rate);
    return std::sqrt(squares);
  }

  TiedLayer layer() const { return {shape_, in_double(parameters_.value), in_double(readout_.value)}; }

 private:
  std::vector<Index> gather(Stream& stream) {
    const Index k = examples_.tokens;
    std::vector<Index> chosen, lengths;
    for (Index e = 0; e < batch_; ++e)
      chosen.push_back(static_cast<Index>(stream.below(static_cast<std::uint64_t>(examples_.count()))));
    for (const Index e : chosen)
      if (!examples_.lengths.empty()) lengths.push_back(examples_.lengths[static_cast<std::size_t>(e)]);
    parallel_for(threads_, batch_, [&](Index e, int) {
      const Index from = chosen[static_cast<std::size_t>(e)] * k;
      for (Index t = 0; t < k; ++t) {
        for (Index j = 0; j < x_.cols(); ++j) x_(e * k + t, j) = static_cast<float>(examples_.x(from + t, j));
        for (Index j = 0; j < y_.cols(); ++j) y_(e * k + t, j) = static_cast<float>(examples_.y(from + t, j));
      }
    });
    return lengths;
  }

  const TiedExamples& examples_;
  TiedShape shape_;
  int threads_;
  Index batch_ = 0;
  Moving parameters_, readout_;
  Matrix<float> x_, y_, g_;  // of one batch
};

}  // namespace

TiedLayer descend(const TiedLayer& start, const TiedExamples& examples, const DescentOptions& options,
                  const DescentWatch& watch, int threads) {
  Descent descent(start, examples, threads);
  double error = 1;
  for (int t = 0; t < options.steps && !watch(t, error); ++t) {
    const double rate =
        options.rate * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(t) / options.steps));
    error = descent.step(Stream(options.seed, "refit-batch", static_cast<std::uint64_t>(t)), t + 1, rate);
  }
  return descent.layer();
}

}  // namespace headlens::refitting
