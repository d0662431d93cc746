#include "cuda/layer/factor_curvature.hpp"

#include <algorithm>
#include <numeric>

#include "backend/curvature_sample.hpp"
#include "base/parallel.hpp"
#include "cuda/layer/curvature_kernels.hpp"
#include "cuda/layer/eigen.hpp"
#include "cuda/layer/factor_model.hpp"
#include "cuda/layer/vectors.hpp"

namespace headlens::cuda {
namespace {

constexpr double kFloor = 1e-4;  // of the largest eigenvalue of a block: directions that gauge leaves free

using View = MatrixView<const float>;

template <class T>
MatrixView<const T> read(const DeviceMatrix<T>& a) {
  return a.view();
}

double trace_of(const DeviceMatrix<float>& a) {
  const Matrix<double> entries = download(a, 1);
  double sum = 0;
  for (Index i = 0; i < entries.rows(); ++i) sum += entries(i, i);
  return sum;
}

// The traces of `count` matrices (size, size), one after another.
std::vector<double> traces_of(const float* a, Index count, Index size) {
  DeviceMatrix<float> all(count, size * size);
  convert(a, all.size(), all.data());
  const Matrix<double> entries = download(all, 1);
  std::vector<double> out(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    for (Index j = 0; j < size; ++j) out[static_cast<std::size_t>(i)] += entries(i, j * (size + 1));
  return out;
}

}  // namespace

Index largest_rank(const backend::HeadRanks& ranks) {
  return std::max(*std::max_element(ranks.logits.begin(), ranks.logits.end()),
                  *std::max_element(ranks.values.begin(), ranks.values.end()));
}

// X_p^T P_perp X_p of every head, X_p the rows p_a X.
void FactorCurvature::sum_values(const FactorProblem& problem, const FactorTangent<float>& tangent) {
  const Index d = shape_.dim, k = problem.tokens(), m = shape_.heads, rows = problem.rows();
  const DeviceMatrix<float>&q = tangent.orthonormal(), &p = tangent.p();
  DeviceMatrix<float> pooled(rows, d), c(q.cols(), d);
  for (Index head = 0; head < m; ++head) {
    multiply_each(Trans::no, Trans::no, View(p.data() + head * k, k, k, m * k), View(tangent.x().data, k, d),
                  MatrixView<float>(pooled.data(), k, d), rows / k, {k * m * k, k * d, k * d});
    multiply(Trans::yes, Trans::no, 1, read(q), read(pooled), 0, c.view(), Digits::tensor);
    multiply(Trans::no, Trans::no, -1, read(q), read(c), 1, pooled.view(), Digits::tensor);
    multiply(Trans::yes, Trans::no, 1, read(pooled), read(pooled), 0,
             MatrixView<float>(single_.left.data() + (m + head) * d * d, d, d), Digits::tensor);
  }
}

// k^T B B^T k and X^T B B^T X of every head, over a sample of examples.
void FactorCurvature::sum_logits(const FactorProblem& problem, const FactorTangent<float>& tangent) {
  const Index d = shape_.dim, k = problem.tokens(), m = shape_.heads, r = shape_.rank,
              examples = problem.rows() / k,
              step = std::max<Index>(1, examples / backend::sampled_examples(d, k));
  std::vector<std::int64_t> chosen;
  for (Index example = 0; example < examples; example += step) chosen.push_back(example);
  const auto count = static_cast<Index>(chosen.size()), rows = count * k, wide = shape_.parameter_columns;
  const DeviceArray<std::int64_t> numbers = DeviceArray<std::int64_t>::from(chosen);
  DeviceMatrix<float> z(rows, wide), p(rows, m * k), x(rows, d), bent_x(rows, d), g(rows, k), plain(rows, k),
      weighed(rows, k);
  gather_examples(tangent.z().data(), wide, k, numbers.data(), count, z.data());
  gather_examples(tangent.p().data(), m * k, k, numbers.data(), count, p.data());
  gather_examples(tangent.x().data, d, k, numbers.data(), count, x.data());
  const double all = static_cast<double>(problem.rows());
  for (Index head = 0; head < m; ++head) {
    const backend::HeadColumns& c = host_columns_[static_cast<std::size_t>(head)];
    if (c.logits == 0) continue;
    const auto part = [&](Index first, Index columns) { return View(z.data() + first, rows, columns, wide); };
    const auto first_of = [&](Index first, Index columns) {
      return View(z.data() + first, k, columns, wide);
    };
    const float* oo = single_.right.data() + (2 * m + head) * r * r;
    DeviceMatrix<float> half(rows, c.values), bent_keys(rows, c.logits), queries(c.logits, c.logits);
    multiply(Trans::no, Trans::no, 1, part(c.v, c.values), View(oo, c.values, c.values, r), 0, half.view());
    multiply_each(Trans::no, Trans::yes, View(half.data(), k, c.values), first_of(c.v, c.values),
                  MatrixView<float>(g.data(), k, k), count, {k * c.values, k * wide, k * k});
    sum_bends({count, k, m, head, wide, c}, z.data(), p.data(), g.data(), plain.data(), weighed.data());
    multiply_each(Trans::no, Trans::no, View(plain.data(), k, k), first_of(c.k, c.logits),
                  MatrixView<float>(bent_keys.data(), k, c.logits), count, {k * k, k * wide, k * c.logits});
    multiply(Trans::yes, Trans::no, all / static_cast<double>(rows), part(c.k, c.logits), read(bent_keys), 0,
             MatrixView<float>(single_.right.data() + head * r * r, c.logits, c.logits, r));
    multiply_each(Trans::no, Trans::no, View(weighed.data(), k, k), View(x.data(), k, d),
                  MatrixView<float>(bent_x.data(), k, d), count, {k * k, k * d, k * d});
    multiply(Trans::yes, Trans::no, 1, part(c.q, c.logits), part(c.q, c.logits), 0, queries.view());
    const double squares = trace_of(queries);
    multiply(Trans::yes, Trans::no, squares > 0 ? all / squares : 0, read(x), read(bent_x), 0,
             MatrixView<float>(single_.left.data() + head * d * d, d, d), Digits::tensor);
  }
}

// Columns that turn have moments that are diagonal on average, with one number per pair.
void FactorCurvature::forget_turns(const backend::HeadRanks& ranks) {
  if (!ranks.rotary) return;
  const Index m = shape_.heads, r = shape_.rank, turned = ranks.turned_rank(),
              pairs = ranks.rotary->pairs(turned);
  DeviceMatrix<float> moments(2 * m, r * r);  // of queries and keys
  convert(single_.right.data(), moments.size(), moments.data());
  Matrix<double> all = download(moments, 1);
  for (Index which = 0; which < 2 * m; ++which) {
    const auto at = [&](Index i, Index j) -> double& { return all(which, i * r + j); };
    for (Index i = 0; i < r; ++i)
      for (Index j = 0; j < r; ++j)
        if (i != j) at(i, j) = 0;
    for (Index j = 0; j < pairs; ++j) {
      const auto [one, other] = ranks.rotary->columns(j, turned);
      at(one, one) = at(other, other) = 0.5 * (at(one, one) + at(other, other));
    }
  }
  upload<float>(all.view(), 1, moments);
  convert(moments.data(), moments.size(), single_.right.data());
}

// Heads that share K and V add up, each of the two moments by itself, weighed by the other one's trace.
void FactorCurvature::share_moments() {
  const Index d = shape_.dim, m = shape_.heads, r = shape_.rank;
  if (shape_.shared == 1) return;
  for (const Index kind : {0, 1}) {  // K and V
    float *left = single_.left.data() + kind * m * d * d,
          *right = single_.right.data() + (kind + 1) * m * r * r;
    const std::vector<double> sizes = traces_of(right, m, r);
    for (Index first = 0; first < m; first += shape_.shared) {
      const Index end = std::min(m, first + shape_.shared);
      if (end == first + 1) continue;
      const double all = std::max(std::accumulate(sizes.begin() + first, sizes.begin() + end, 0.0), 1e-300);
      scale(sizes[static_cast<std::size_t>(first)] / all, d * d, left + first * d * d);
      for (Index head = first + 1; head < end; ++head) {
        add_scaled(sizes[static_cast<std::size_t>(head)] / all, left + head * d * d, d * d,
                   left + first * d * d);
        add_scaled(1, right + head * r * r, r * r, right + first * r * r);
      }
    }
  }
}

void FactorCurvature::refresh(const FactorProblem& problem, const FactorPoint& point,
                              const FactorTangent<float>& tangent) {
  const backend::HeadRanks& ranks = problem.ranks();
  const Index d = problem.dim(), m = problem.heads(), r = largest_rank(ranks);
  host_columns_ = backend::columns_of(ranks);
  columns_ = DeviceArray<backend::HeadColumns>::from(host_columns_);
  shape_ = {d, m, r, ranks.parameter_columns(), columns_.data(), ranks.shared};
  fixed_.emplace(ranks);
  single_ = {DeviceArray<float>(2 * m * d * d), DeviceArray<float>(3 * m * r * r), true};
  single_.left.clear();
  single_.right.clear();
  left_values_ = DeviceArray<float>(2 * m * d);
  right_values_ = DeviceArray<float>(3 * m * r);
  double_.ready = false;
  const DeviceMatrix<float> parameters = upload<float>(point.parameters.view(), problem.threads());
  for (Index head = 0; head < m; ++head) {
    const backend::HeadColumns& c = host_columns_[static_cast<std::size_t>(head)];
    const View o(tangent.o().data() + c.o * tangent.o().cols(), c.values, tangent.o().cols()),
        q(parameters.data() + c.q, d, c.logits, shape_.parameter_columns);
    const auto right = [&](Index kind, Index size) {
      return MatrixView<float>(single_.right.data() + (kind * m + head) * r * r, size, size, r);
    };
    multiply(Trans::no, Trans::yes, 1, o, o, 0, right(2, c.values));
    multiply(Trans::yes, Trans::no, 1, q, q, 0, right(1, c.logits));
  }
  sum_values(problem, tangent);
  sum_logits(problem, tangent);
  forget_turns(ranks);
  share_moments();
  refresh_slow(problem, point);
  symmetric_eigen(2 * m, d, single_.left.data(), left_values_.data());
  symmetric_eigen(3 * m, r, single_.right.data(), right_values_.data());
}

void FactorCurvature::refresh_slow(const FactorProblem& problem, const FactorPoint& point) {
  slow_.clear();
  threads_ = problem.threads();
  const backend::HeadRanks& ranks = problem.ranks();
  const Index k = problem.tokens(), wide = point.z.cols(),
              step = backend::turned_step(ranks, k, problem.rows());
  if (step == 0) return;
  backend::TurnedRows sample{ranks, k, point.parameters.view(), point.w.view(), step};
  std::vector<std::int64_t> examples;
  for (Index row = 0; row < problem.rows(); row += step) {
    sample.rows.push_back(row);
    examples.push_back(row / k);
  }
  const auto count = static_cast<Index>(examples.size());
  const auto gathered = [&](const DeviceMatrix<double>& from, Index tokens,
                            const std::vector<std::int64_t>& numbers) {
    DeviceMatrix<double> to(count * tokens, from.cols());
    gather_examples(from.data(), from.cols(), tokens, DeviceArray<std::int64_t>::from(numbers).data(), count,
                    to.data());
    return download(to, threads_);
  };
  const Matrix<double> z = gathered(point.z, k, examples), p = gathered(point.p, 1, sample.rows);
  sample.images = [&](std::size_t i) { return z.view().block(static_cast<Index>(i) * k, 0, k, wide); };
  sample.weights = [&](std::size_t i, Index head) {
    return p.view().block(static_cast<Index>(i), head * k, 1, k).row(0);
  };
  slow_ = backend::slow_turns_of(sample, threads_);
}

void FactorCurvature::shift(double mu) {
  mu_ = mu;
  parallel_for(threads_, static_cast<Index>(slow_.size()),
               [&](Index i, int) { slow_[static_cast<std::size_t>(i)].shift(mu); });
}

// a += what the slow turns make of the direction that was given.
template <class T>
void FactorCurvature::add_slow(const Matrix<double>& given, DeviceMatrix<T>& a) const {
  Matrix<double> out = Matrix<double>::zeros(given.rows(), given.cols());
  parallel_for(threads_, static_cast<Index>(slow_.size()),
               [&](Index i, int) { slow_[static_cast<std::size_t>(i)].add_to(given, out.view()); });
  const DeviceMatrix<T> added = upload<T>(out.view(), threads_);
  add_scaled(1, added.data(), a.size(), a.data());
}

const FactorCurvature::Turns<double>& FactorCurvature::turns(double) const {
  if (!double_.ready) {
    double_ = {DeviceArray<double>(single_.left.size()), DeviceArray<double>(single_.right.size()), true};
    convert(single_.left.data(), single_.left.size(), double_.left.data());
    convert(single_.right.data(), single_.right.size(), double_.right.data());
  }
  return double_;
}

// a -> L^T (L a R^T / (left right^T + mu)) R, with eigenvectors as rows.
template <class T>
void FactorCurvature::apply(DeviceMatrix<T>& a) const {
  const Index d = shape_.dim, m = shape_.heads, r = shape_.rank, size = d * r;
  const Turns<T>& turn = turns(T{});
  DeviceArray<T> blocks(3 * m * size), inside(3 * m * size);
  const MatrixView<const T> left(turn.left.data(), d, d), right(turn.right.data(), r, r);
  const auto all = [&](const DeviceArray<T>& from) { return MatrixView<T>(from.data(), d, r); };
  const auto turned = [&](const DeviceArray<T>& from) { return MatrixView<T>(from.data() + m * size, d, r); };
  const auto from = [](MatrixView<T> view) { return MatrixView<const T>(view); };
  Matrix<double> given;
  if (!slow_.empty()) given = download(a, threads_);
  to_blocks(shape_, a.data(), blocks.data());
  multiply_each(Trans::no, Trans::yes, from(all(blocks)), right, all(inside), 3 * m, {size, r * r, size});
  multiply_each(Trans::no, Trans::no, left, from(turned(inside)), turned(blocks), 2 * m, {d * d, size, size});
  check(cudaMemcpyAsync(blocks.data(), inside.data(), static_cast<std::size_t>(m * size) * sizeof(T),
                        cudaMemcpyDeviceToDevice, device().stream));
  divide_blocks(shape_, left_values_.data(), right_values_.data(), kFloor, mu_, blocks.data());
  multiply_each(Trans::yes, Trans::no, left, from(turned(blocks)), turned(inside), 2 * m,
                {d * d, size, size});
  check(cudaMemcpyAsync(inside.data(), blocks.data(), static_cast<std::size_t>(m * size) * sizeof(T),
                        cudaMemcpyDeviceToDevice, device().stream));
  multiply_each(Trans::no, Trans::no, from(all(inside)), right, all(blocks), 3 * m, {size, r * r, size});
  from_blocks(shape_, blocks.data(), a.data());
  if (!slow_.empty()) add_slow(given, a);
  fixed_->pin(a.view());
}

template void FactorCurvature::apply(DeviceMatrix<float>&) const;
template void FactorCurvature::apply(DeviceMatrix<double>&) const;

}  // namespace headlens::cuda
