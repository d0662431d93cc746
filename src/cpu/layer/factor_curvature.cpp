#include "cpu/layer/factor_curvature.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/curvature_sample.hpp"
#include "base/parallel.hpp"
#include "cpu/layer/sum_over.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

using backend::HeadColumns;

constexpr double kFloor = 1e-4;  // of the largest eigenvalue of a block: directions that gauge leaves free

// plain += sum_a B_a B_a^T and weighed += sum_a |q_a|^2 B_a B_a^T (k, k), where with G = v O O^T v^T
// (diag p - p p^T) G (diag p - p p^T) = p p^T * (G - g 1^T - 1 g^T + <p, g>), g = G p.
void add_bends(MatrixView<const double> p, MatrixView<const double> g, MatrixView<const double> q,
               Matrix<double>& plain, Matrix<double>& weighed) {
  const Index k = p.rows;
  std::vector<double> gp(static_cast<std::size_t>(k));
  for (Index a = 0; a < k; ++a) {
    const double* weight = p.row(a);
    double mean = 0, size = 0;
    for (Index b = 0; b < k; ++b) {
      double sum = 0;
      for (Index c = 0; c < k; ++c) sum += g(b, c) * weight[c];
      gp[static_cast<std::size_t>(b)] = sum;
      mean += weight[b] * sum;
    }
    for (Index j = 0; j < q.cols; ++j) size += q(a, j) * q(a, j);
    for (Index b = 0; b < k; ++b)
      for (Index c = 0; c < k; ++c) {
        const double bend =
            weight[b] * weight[c] *
            (g(b, c) - gp[static_cast<std::size_t>(b)] - gp[static_cast<std::size_t>(c)] + mean);
        plain(b, c) += bend;
        weighed(b, c) += size * bend;
      }
  }
}

void forget_turns(const backend::HeadRanks& ranks, Matrix<double>& moment) {
  if (!ranks.rotary) return;
  const Index r = moment.rows(), pairs = ranks.rotary->pairs(r);
  for (Index i = 0; i < r; ++i)
    for (Index j = 0; j < r; ++j)
      if (i != j) moment(i, j) = 0;
  for (Index j = 0; j < pairs; ++j) {
    const auto [one, other] = ranks.rotary->columns(j, r);
    moment(one, one) = moment(other, other) = 0.5 * (moment(one, one) + moment(other, other));
  }
}

double trace(const Matrix<double>& a) {
  double out = 0;
  for (Index i = 0; i < a.rows(); ++i) out += a(i, i);
  return out;
}

void divide(double by, Matrix<double>& a) {
  for (Index i = 0; i < a.rows() * a.cols(); ++i) a.data()[i] /= std::max(by, 1e-300);
}

}  // namespace

FactorCurvature::Spectrum FactorCurvature::identity(Index size) {
  Spectrum out{std::vector<double>(static_cast<std::size_t>(size), 1.0), Matrix<double>::zeros(size, size)};
  for (Index i = 0; i < size; ++i) out.vectors(i, i) = 1;
  return out;
}

FactorCurvature::Spectrum FactorCurvature::spectrum_of(MatrixView<const double> a) {
  SymmetricEigen eigen = symmetric_eigen(a);
  if (!eigen.ok()) return identity(a.rows);
  for (double& value : eigen.values) value = std::max(value, 0.0);
  return {std::move(eigen.values), std::move(eigen.vectors)};
}

void FactorCurvature::logit_moments(const FactorProblem& problem, const FactorPoint& point, Index head,
                                    Moments& out) {
  const HeadColumns c = backend::columns_of(problem.head_ranks())[static_cast<std::size_t>(head)];
  const Index d = problem.dim(), k = problem.tokens(), examples = problem.rows() / k, m = problem.heads();
  const Index step = std::max<Index>(1, examples * problem.ranks().size() / backend::sampled_examples(d, k));
  const Matrix<double> oo =
      product(Trans::no, Trans::yes, point.w.view().block(c.o, 0, c.values, point.w.cols()),
              point.w.view().block(c.o, 0, c.values, point.w.cols()));
  out.keys = Matrix<double>::zeros(c.logits, c.logits);
  out.tokens = Matrix<double>::zeros(d, d);
  out.rows = static_cast<double>(problem.rows());
  for (Index example = 0; example < examples; example += step) {
    const Index row = example * k;
    const auto part = [&](Index first, Index count) { return point.z.view().block(row, first, k, count); };
    const Matrix<double> half = product(Trans::no, Trans::no, part(c.v, c.values), oo.view());
    const Matrix<double> g = product(Trans::no, Trans::yes, half.view(), part(c.v, c.values));
    Matrix<double> plain = Matrix<double>::zeros(k, k), weighed = Matrix<double>::zeros(k, k);
    add_bends(point.p.view().block((example * m + head) * k, 0, k, k), g.view(), part(c.q, c.logits), plain,
              weighed);
    const Matrix<double> bent_keys = product(Trans::no, Trans::no, plain.view(), part(c.k, c.logits));
    gemm(Trans::yes, Trans::no, 1.0, part(c.k, c.logits), bent_keys.view(), 1.0, out.keys.view());
    const MatrixView<const double> x = problem.x().block(row, 0, k, d);
    const Matrix<double> bent_tokens = product(Trans::no, Trans::no, weighed.view(), x);
    gemm(Trans::yes, Trans::no, 1.0, x, bent_tokens.view(), 1.0, out.tokens.view());
    out.squares += squared_norm(part(c.q, c.logits));
    out.taken += static_cast<double>(k);
  }
}

void FactorCurvature::scale_logit_moments(const FactorProblem& problem, const FactorPoint& point, Index head,
                                          Moments& out) {
  const HeadColumns c = backend::columns_of(problem.head_ranks())[static_cast<std::size_t>(head)];
  const Index d = problem.dim();
  Matrix<double>&keys = out.keys, &tokens = out.tokens;
  const MatrixView<const double> q = point.parameters.view().block(0, c.q, d, c.logits);
  out.queries = product(Trans::yes, Trans::no, q, q);
  for (Index i = 0; i < keys.rows() * keys.cols(); ++i) keys.data()[i] *= out.rows / out.taken;
  for (Index i = 0; i < d * d; ++i) tokens.data()[i] *= out.rows / std::max(out.squares, 1e-300);
  forget_turns(problem.head_ranks(), keys);
  forget_turns(problem.head_ranks(), out.queries);
}

void FactorCurvature::value_moments(const FactorProblem& problem, const FactorPoint& point,
                                    MatrixView<const float> q, Index head, Moments& out) const {
  const HeadColumns c = backend::columns_of(problem.head_ranks())[static_cast<std::size_t>(head)];
  const Index d = problem.dim(), k = problem.tokens(), examples = problem.rows() / k, m = problem.heads();
  Matrix<float> pooled(problem.rows(), d);  // rows p_a X
  parallel_for(threads_, examples, [&](Index example, int) {
    const Matrix<double> rows =
        product(Trans::no, Trans::no, point.p.view().block((example * m + head) * k, 0, k, k),
                problem.x().block(example * k, 0, k, d));
    for (Index i = 0; i < k; ++i)
      for (Index j = 0; j < d; ++j) pooled(example * k + i, j) = static_cast<float>(rows(i, j));
  });
  project_out<float>(problem.ranks(), q, threads_, pooled.view());
  out.pooled = Matrix<double>::zeros(d, d);
  add_inner(std::as_const(pooled).view(), out.pooled.view(), threads_);
  sum_over(problem.ranks(), out.pooled.view());
  const MatrixView<const double> o = point.w.view().block(c.o, 0, c.values, point.w.cols());
  out.outputs = product(Trans::no, Trans::yes, o, o);
}

void FactorCurvature::set_blocks(Index head, std::vector<Moments>& moments) {
  const auto at = static_cast<std::size_t>(head);
  const HeadColumns c = backend::columns_of(ranks_)[at];
  const Index d = moments[at].tokens.rows();
  blocks_[3 * at] = {
      c.q, {std::vector<double>(static_cast<std::size_t>(d), 1.0), {}}, spectrum_of(moments[at].keys.view())};
  if (!ranks_.leads(head)) return;
  Moments& all = moments[at];
  const std::size_t end = std::min(moments.size(), at + static_cast<std::size_t>(ranks_.shared));
  if (end > at + 1) {
    for (Moments* each = &all; each != moments.data() + end; ++each) {
      const double keys = trace(each->queries), values = trace(each->outputs), before = each == &all ? 0 : 1;
      for (Index i = 0; i < d * d; ++i) {
        all.tokens.data()[i] = before * all.tokens.data()[i] + keys * each->tokens.data()[i];
        all.pooled.data()[i] = before * all.pooled.data()[i] + values * each->pooled.data()[i];
      }
    }
    for (Moments* each = &all + 1; each != moments.data() + end; ++each) {
      add(1.0, each->queries, all.queries);
      add(1.0, each->outputs, all.outputs);
    }
    divide(trace(all.queries), all.tokens);
    divide(trace(all.outputs), all.pooled);
  }
  blocks_[3 * at + 1] = {c.k, spectrum_of(all.tokens.view()), spectrum_of(all.queries.view())};
  blocks_[3 * at + 2] = {c.v, spectrum_of(all.pooled.view()), spectrum_of(all.outputs.view())};
}

void FactorCurvature::refresh(const FactorProblem& problem, const FactorPoint& point,
                              const FactorTangent<float>& tangent) {
  const Index m = problem.heads();
  threads_ = problem.threads();
  ranks_ = problem.head_ranks();
  blocks_ = std::vector<Block>(static_cast<std::size_t>(3 * m));
  std::vector<Moments> moments(static_cast<std::size_t>(m));
  const auto of = [&](Index head) -> Moments& { return moments[static_cast<std::size_t>(head)]; };
  for (Index head = 0; head < m; ++head) value_moments(problem, point, tangent.orthonormal(), head, of(head));
  parallel_for(threads_, m, [&](Index head, int) { logit_moments(problem, point, head, of(head)); });
  for (Moments& each : moments) {
    sum_over(problem.ranks(), each.keys.view());
    sum_over(problem.ranks(), each.tokens.view());
    for (double* number : {&each.squares, &each.taken, &each.rows}) *number = problem.ranks().sum(*number);
  }
  parallel_for(threads_, m, [&](Index head, int) { scale_logit_moments(problem, point, head, of(head)); });
  const auto groups = (m + ranks_.shared - 1) / ranks_.shared;
  parallel_for(threads_, groups, [&](Index group, int) {
    const Index end = std::min(m, (group + 1) * ranks_.shared);
    for (Index head = group * ranks_.shared; head < end; ++head) set_blocks(head, moments);
  });
  refresh_slow(problem, point);
}

void FactorCurvature::refresh_slow(const FactorProblem& problem, const FactorPoint& point) {
  slow_.clear();
  const Index k = problem.tokens(), step = backend::turned_step(ranks_, k, problem.rows());
  if (step == 0) return;
  backend::TurnedRows sample{ranks_, k, point.parameters.view(), point.w.view(), step};
  for (Index row = 0; row < problem.rows(); row += step) sample.rows.push_back(row);
  sample.images = [&](std::size_t i) {
    return point.z.view().block(sample.rows[i] / k * k, 0, k, point.z.cols());
  };
  sample.weights = [&](std::size_t i, Index head) {
    return problem.map().attention(point.p, sample.rows[i] / k, head).row(sample.rows[i] % k);
  };
  slow_ = backend::slow_turns_of(sample, threads_);
}

void FactorCurvature::shift(double mu) {
  mu_ = mu;
  parallel_for(threads_, static_cast<Index>(slow_.size()),
               [&](Index i, int) { slow_[static_cast<std::size_t>(i)].shift(mu); });
}

// a -> L (L^T a R / (left right^T + mu)) R^T
void FactorCurvature::apply_block(const Block& block, MatrixView<double> a) const {
  if (block.right.values.empty()) return;
  const bool turned = block.left.vectors.rows() > 0;
  Matrix<double> inside =
      product(Trans::no, Trans::yes, MatrixView<const double>(a), block.right.vectors.view());
  if (turned) inside = product(Trans::no, Trans::no, block.left.vectors.view(), inside.view());
  const double largest = block.left.values.back() * block.right.values.back();
  for (Index i = 0; i < inside.rows(); ++i)
    for (Index j = 0; j < inside.cols(); ++j)
      inside(i, j) /= mu_ + std::max(kFloor * largest, block.left.values[static_cast<std::size_t>(i)] *
                                                           block.right.values[static_cast<std::size_t>(j)]);
  if (turned) inside = product(Trans::yes, Trans::no, block.left.vectors.view(), inside.view());
  gemm(Trans::no, Trans::no, 1.0, std::as_const(inside).view(), block.right.vectors.view(), 0.0, a);
}

template <class T>
Matrix<T> FactorCurvature::apply(const Matrix<T>& a) const {
  Matrix<double> work(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) work.data()[i] = static_cast<double>(a.data()[i]);
  parallel_for(threads_, static_cast<Index>(blocks_.size()), [&](Index i, int) {
    const Block& block = blocks_[static_cast<std::size_t>(i)];
    apply_block(block,
                work.view().block(0, block.first, a.rows(), static_cast<Index>(block.right.values.size())));
  });
  if (!slow_.empty()) {
    Matrix<double> given(a.rows(), a.cols());
    for (Index i = 0; i < a.rows() * a.cols(); ++i) given.data()[i] = static_cast<double>(a.data()[i]);
    parallel_for(threads_, static_cast<Index>(slow_.size()),
                 [&](Index i, int) { slow_[static_cast<std::size_t>(i)].add_to(given, work.view()); });
  }
  backend::pin(ranks_, work.view());
  Matrix<T> out(a.rows(), a.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) out.data()[i] = static_cast<T>(work.data()[i]);
  return out;
}

template Matrix<float> FactorCurvature::apply(const Matrix<float>&) const;
template Matrix<double> FactorCurvature::apply(const Matrix<double>&) const;

}  // namespace headlens::cpu
