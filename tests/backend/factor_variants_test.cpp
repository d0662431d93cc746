// Layers in factors that are not plain, on every back end: what one makes of a problem against what the
// processor makes of it, steps and descent, and whole recoveries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "factor_input.hpp"
#include "headlens/layer.hpp"
#include "headlens/recover.hpp"
#include "recover/factors/gauge.hpp"
#include "reference/backends.hpp"

namespace headlens {
namespace {

using namespace factor_input;
using reference::OnEveryBackend;

class FactorVariants : public OnEveryBackend {
 protected:
  const Execution run_ = {.threads = 1, .backend = reference::choice_of(GetParam())}, plain_ = {.threads = 1};
  backend::Context here() const { return backend::context_of(run_); }
  backend::Context processor() const { return backend::context_of(plain_); }
};

constexpr double kRidge = 1e-2;

// The condition of Phi^T Phi + lambda is at most b / ridge + 1: so much a backward error of b eps grows in O,
// and in all that O enters. Factor 20 for the order of sums, and two machines.
double agreement(const Shape& s) {
  const double b = double(s.ranks.value_columns());
  return 40 * b * kEpsilon * (b / kRidge + 1);
}

double distance(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> left = copy_of(a);
  add(-1.0, b, left);
  return norm(left);
}

// All that a machine makes of a problem, for one direction and one set of labels.
std::map<std::string, Matrix<double>> made_of(const Input& in, const backend::Context& context) {
  Posed posed(in, context, kRidge);
  Stream stream(32, "variants");
  const Matrix<double> dp = in.direction(1, stream), z = drawn(in.y.rows(), in.y.cols(), 1, stream);
  const auto direction = [&](auto&& work) {
    Matrix<double> out(dp.rows(), dp.cols());
    work(out.view());
    return out;
  };
  std::map<std::string, Matrix<double>> out;
  out["readout"] = copy_of(posed.point->w);
  out["residual"] = posed.problem->residual(*posed.point);
  out["slope of labels"] = direction([&](auto to) { posed.model->respond(in.y, to); });
  out["adjoint"] = direction([&](auto to) { posed.model->adjoint(z, to); });
  out["response"] = direction([&](auto to) { posed.model->respond(z, to); });
  out["normal product"] = direction([&](auto to) { posed.model->normal_product(dp, to); });
  out["derivative"] = Matrix<double>(z.rows(), z.cols());
  posed.model->derivative(dp, out["derivative"]);
  out["projection"] = copy_of(z);
  posed.model->project(out["projection"]);
  out["best readout"] = posed.model->best_w(z);
  out["response of the readout"] = posed.model->respond_in_w(z, dp);
  out["gradient"] = direction([&](auto to) { posed.problem->gradient(*posed.point, to); });
  return out;
}

TEST_P(FactorVariants, ProblemIsThatOfTheProcessor) {
  for (const Shape& s : variant_shapes()) {
    const Input in(s, 31);
    const auto found = made_of(in, here()), expected = made_of(in, processor());
    for (const auto& [what, value] : expected)
      EXPECT_LE(distance(found.at(what), value), agreement(s) * norm(value)) << name(s) << ": " << what;
  }
}

// P_perp z has no part along Phi among the labels that count, and S z - P_perp z is S Phi times the best
// readout of z.
TEST_P(FactorVariants, ProjectionLeavesWhatNoReadoutExplains) {
  for (const Shape& s : variant_shapes()) {
    if (s.missing == Missing::none) continue;
    const Input in(s, 33);
    Posed posed(in, here());
    Stream stream(34, "projection");
    const Matrix<double> z = drawn(in.y.rows(), s.outputs, 1, stream);
    Matrix<double> left = copy_of(z), counted = copy_of(z);
    posed.model->project(left);
    hide(in, counted);
    const Phi phi = phi_of(in, in.parameters);
    EXPECT_LT(overlap(phi.values, left), 1e-10 * norm(phi.values) * norm(z)) << name(s);
    Matrix<double> explained = product(phi.values, posed.model->best_w(z));
    hide(in, explained);
    add(1.0, left, explained);
    EXPECT_LT(distance(explained, counted), 1e-10 * norm(z)) << name(s);
  }
}

// Labels that are missing change nothing.
TEST_P(FactorVariants, HiddenLabelsAreNotRead) {
  const backend::Context context = here();
  Input in({30, 4, 6, 3, {{2, 3}, {3, 1}}, {}, Missing::labels}, 35);
  const Posed before(in, context);
  const Matrix<double> residual = before.problem->residual(*before.point);
  for (Index i = 0; i < residual.rows() * residual.cols(); ++i)
    if (in.seen.data()[i] == 0) {
      EXPECT_EQ(residual.data()[i], 0);
    }
  const backend::FactorValues values{copy_of(in.parameters), copy_of(in.o)};
  const double squares = context.machine.factor_squares(in.examples(), in.shape.ranks, values, context);
  for (Index i = 0; i < residual.rows() * residual.cols(); ++i) in.y.data()[i] += 1 - in.seen.data()[i];
  EXPECT_EQ(context.machine.factor_squares(in.examples(), in.shape.ranks, values, context), squares);
}

// The preconditioner is symmetric and positive, keeps what is fixed at zero, and is that of the processor to
// the digits of tensor cores: 2^-11 of the largest curvature, where the shift is of the mean curvature.
TEST_P(FactorVariants, PreconditionerIsThatOfTheProcessor) {
  for (const Shape& s : variant_shapes()) {
    const Input in(s, 36);
    Posed posed(in, here(), kRidge), other(in, processor(), kRidge);
    Stream stream(37, "preconditioner");
    const Matrix<double> a = in.direction(1, stream), b = in.direction(1, stream);
    Matrix<double> curved(s.dim, a.cols());
    other.model->normal_product(a, curved);
    for (Posed* each : {&posed, &other}) {
      each->model->refresh_preconditioner(*each->point);
      each->model->shift_preconditioner(inner_product(a, curved) / inner_product(a, a));
    }
    const Matrix<double> pa = posed.model->precondition(a), pb = posed.model->precondition(b);
    EXPECT_NEAR(inner_product(a, pb), inner_product(b, pa), 1e-12 * norm(pa) * norm(b)) << name(s);
    EXPECT_GT(inner_product(a, pa), 0) << name(s);
    EXPECT_LT(distance(pa, other.model->precondition(a)), 0.1 * norm(pa)) << name(s);
    Matrix<double> pinned = copy_of(pa);
    backend::pin(s.ranks, pinned.view());
    EXPECT_EQ(distance(pinned, pa), 0) << name(s);
  }
}

// As FactorSteps.StepSolvesItsEquations, where there are more labels than unknowns.
TEST_P(FactorVariants, StepSolvesItsEquations) {
  for (const Shape& s : variant_shapes()) {
    if (s.dim > 10) continue;
    const Input in(s, 38);
    Posed posed(in, here(), kRidge);
    posed.model->refresh_preconditioner(*posed.point);
    const double mu = 1e-2 * double(posed.problem->rows());
    posed.model->shift_preconditioner(mu);
    Matrix<double> gradient(s.dim, in.parameters.cols());
    posed.problem->gradient(*posed.point, gradient);
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      const double tolerance = precision == Precision::f64 ? 1e-9 : 1e-2;
      const backend::Step step =
          posed.model->solve(gradient, mu, tolerance, 400, precision, [] { return false; });
      Matrix<double> image(s.dim, in.parameters.cols());
      posed.model->normal_product(step.direction, image);
      add(mu, step.direction, image);
      add(-1.0, gradient, image);
      EXPECT_LT(inner_product(image, posed.model->precondition(image)),
                9 * tolerance * tolerance * inner_product(gradient, posed.model->precondition(gradient)))
          << name(s);
      EXPECT_LT(step.inner, 400) << name(s);
      Matrix<double> pinned = copy_of(step.direction);
      backend::pin(s.ranks, pinned.view());
      EXPECT_EQ(distance(pinned, step.direction), 0) << name(s);
    }
  }
}

// Directions that stay on a machine, with the gauge fixed, one problem too large for the host.
TEST_P(FactorVariants, FixedGaugeIsThatOfTheHost) {
  backend::HeadRanks biased{{70, 9, 0}, {40, 41, 1}}, shared{{50, 50}, {40, 40}};
  biased.biased = true;
  shared.shared = 2;
  for (const Shape& s : {Shape{60, 3, 150, 2, biased}, Shape{60, 3, 200, 2, shared}}) {
    Input in(s, 39);
    const recovery::Factors factors =
        recovery::balanced({s.ranks, {copy_of(in.parameters), copy_of(in.o)}, 1, 1});
    in.shape.ranks = factors.ranks;
    in.parameters = copy_of(factors.values.parameters);
    Posed posed(in, here());
    const recovery::GaugeFixed fixed(*posed.problem, factors, 7);
    const auto model = fixed.make_linear_model();
    model->move_to(*posed.point);
    Stream stream(40, "gauge");
    const Matrix<double> a = in.direction(1, stream);
    Matrix<double> expected(s.dim, a.cols());
    posed.model->normal_product(a, expected);
    add(7.0, recovery::gauge_part(factors, a), expected);
    const auto space = model->directions();
    const Matrix<double> found = space->fetch(*space->normal_product(*space->hold(a)));
    EXPECT_LT(distance(found, expected), 1e-12 * norm(expected)) << name(s);
  }
}

// |F - Y|^2 of the labels that count, by loops.
double squares_left(const Input& in, const Matrix<double>& parameters, const std::vector<Index>& batch) {
  Matrix<double> f = product(phi_of(in, parameters).values, in.o);
  add(-1.0, in.y, f);
  hide(in, f);
  double out = 0;
  for (const Index example : batch)
    out += squared_norm(f.view().block(example * in.shape.tokens, 0, in.shape.tokens, f.cols()));
  return out;
}

// As FactorSteps.DescentGoesAgainstTheGradient, for batches that are no block of examples.
TEST_P(FactorVariants, DescentGoesAgainstTheGradient) {
  for (const Shape& s : variant_shapes()) {
    if (s.dim > 10) continue;
    const Input in(s, 41);
    const auto descent = here().machine.make_factor_descent(in.examples(), s.ranks,
                                                            {copy_of(in.parameters), copy_of(in.o)}, here());
    std::vector<Index> batch;
    for (Index i = s.examples - 1; i >= 0; i -= s.examples > 2 ? 2 : 1) batch.push_back(i);
    double labels = 0;
    for (const Index example : batch)
      labels += squared_norm(in.y.view().block(example * s.tokens, 0, s.tokens, s.outputs));
    const double loss = squares_left(in, in.parameters, batch) / labels;
    EXPECT_NEAR(descent->step(batch, 1e-3), loss, 0x1p-6 * (1 + loss)) << name(s);
    const backend::FactorValues after = descent->values();
    Matrix<double> slopes(s.dim, in.parameters.cols());
    double largest = 0;
    for (Index i = 0; i < slopes.rows() * slopes.cols(); ++i) {
      Matrix<double> ahead = copy_of(in.parameters), behind = copy_of(in.parameters);
      ahead.data()[i] += 1e-4;
      behind.data()[i] -= 1e-4;
      slopes.data()[i] = squares_left(in, ahead, batch) - squares_left(in, behind, batch);
    }
    backend::pin(s.ranks, slopes.view());
    for (Index i = 0; i < slopes.rows() * slopes.cols(); ++i)
      largest = std::max(largest, std::abs(slopes.data()[i]));
    Matrix<double> fixed = Matrix<double>(s.dim, slopes.cols());
    std::fill_n(fixed.data(), fixed.rows() * fixed.cols(), 1.0);
    backend::pin(s.ranks, fixed.view());
    for (Index i = 0; i < slopes.rows() * slopes.cols(); ++i) {
      const double moved = after.parameters.data()[i] - in.parameters.data()[i], slope = slopes.data()[i];
      if (fixed.data()[i] == 0) {
        EXPECT_NEAR(moved, 0, 0x1p-24) << name(s);  // the start is rounded to float
      }
      if (std::abs(slope) < 0x1p-6 * largest) continue;
      EXPECT_NEAR(moved, slope > 0 ? -1e-3 : 1e-3, 2e-5) << name(s);
    }
  }
}

// Whole recoveries through the public interface: the heads to 1e-8.
void expect_recovered(const AttentionLayer& teacher, const Examples& examples, const RecoverOptions& options,
                      const Execution& run) {
  const Recovery found = recover(examples, options, run);
  ASSERT_EQ(found.certificate.status, RecoveryStatus::recovered)
      << name(options.variant()) << ": " << found.certificate.reason;
  EXPECT_EQ(found.certificate.backend, run.backend == BackendChoice::cuda ? "cuda" : "cpu");
  EXPECT_LT(compare_layers(*found.layer, teacher).worst_error, 1e-8) << name(options.variant());
}

TEST_P(FactorVariants, RecoversLayersWithBiases) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    const AttentionLayer teacher =
        draw_teacher({.heads = 2, .dim = 16, .rank = 4, .mask = mask, .bias = true, .seed = 51});
    expect_recovered(teacher, draw_examples(teacher, {.count = 500, .tokens = 8, .seed = 52}, {}),
                     {.heads = 2, .rank = "4", .mask = mask, .bias = true, .seed = 53}, run_);
  }
}

TEST_P(FactorVariants, RecoversLayersWithAMask) {
  const AttentionLayer teacher =
      draw_teacher({.heads = 2, .dim = 24, .rank = 4, .mask = Mask::causal, .seed = 54});
  expect_recovered(teacher, draw_examples(teacher, {.count = 600, .tokens = 8, .seed = 55}, {}),
                   {.heads = 2, .rank = "4", .mask = Mask::causal, .seed = 56}, run_);
}

TEST_P(FactorVariants, RecoversFromPaddedExamples) {
  const AttentionLayer teacher =
      draw_teacher({.heads = 2, .dim = 16, .rank = 4, .mask = Mask::causal, .bias = true, .seed = 57});
  expect_recovered(teacher,
                   draw_examples(teacher, {.count = 800, .tokens = 8, .padding = true, .seed = 58}, {}),
                   {.heads = 2, .rank = "4", .mask = Mask::causal, .bias = true, .seed = 59}, run_);
}

TEST_P(FactorVariants, RecoversFromAPartOfTheLabels) {
  const AttentionLayer teacher = draw_teacher({.heads = 2, .dim = 16, .rank = 4, .bias = true, .seed = 60});
  Examples examples = draw_examples(teacher, {.count = 700, .tokens = 8, .seed = 61}, {});
  Stream stream(62, "missing labels");
  for (Index i = 0; i < examples.y.size(); ++i)
    if (stream.below(10) == 0) examples.y.data<double>()[i] = std::nan("");
  expect_recovered(teacher, make_partial_examples(examples.x, examples.y, {}, {}),
                   {.heads = 2, .rank = "4", .bias = true, .seed = 63}, run_);
}

void put(const Matrix<double>& from, Index head, Array& to) {
  const Index size = from.rows() * from.cols();
  std::copy_n(from.data(), size, to.data<double>() + head * size);
}

// Theta_i = Q_i K^T and W_i = V O_i, with one K and one V for every two of four heads.
AttentionLayer draw_shared_layer(const LayerVariant& variant, Index dim, Index rank, std::uint64_t seed) {
  Stream stream(seed, "shared layer");
  AttentionLayer out{Array(), Array(DType::f64, {4, dim, dim}), variant};
  if (variant.rotary)
    out.q = Array(DType::f64, {4, dim, rank}), out.k = Array(DType::f64, {4, dim, rank});
  else
    out.theta = Array(DType::f64, {4, dim, dim});
  Matrix<double> k, v;
  for (Index head = 0; head < 4; ++head) {
    if (head % 2 == 0) {
      k = drawn(dim, rank, 1 / std::sqrt(double(dim)), stream);
      v = drawn(dim, rank, 1 / std::sqrt(double(dim)), stream);
    }
    const Matrix<double> q = drawn(dim, rank, 2 / std::sqrt(double(dim * rank)), stream);
    put(product(v, drawn(rank, dim, 1, stream)), head, out.w);
    if (variant.rotary)
      put(q, head, out.q), put(k, head, out.k);
    else
      put(product(q, transposed(k.view())), head, out.theta);
  }
  return out;
}

TEST_P(FactorVariants, RecoversHeadsThatShareKeysAndValues) {
  const AttentionLayer teacher = draw_shared_layer({}, 16, 4, 64);
  expect_recovered(teacher, draw_examples(teacher, {.count = 500, .tokens = 8, .seed = 65}, {}),
                   {.heads = 4, .rank = "4", .kv_groups = 2, .seed = 66}, run_);
}

// The slow pairs of columns are solved for beside the blocks of the preconditioner.
TEST_P(FactorVariants, RecoversLayersWithPositions) {
  const AttentionLayer teacher = draw_shared_layer({.mask = Mask::causal, .rotary = Rotary{}}, 16, 4, 67);
  expect_recovered(
      teacher, draw_examples(teacher, {.count = 400, .tokens = 8, .seed = 68}, {}),
      {.heads = 4, .mask = Mask::causal, .rotary = "base=10000,layout=half", .kv_groups = 2, .seed = 69},
      run_);
}

INSTANTIATE_TEST_SUITE_P(Backends, FactorVariants, testing::ValuesIn(reference::backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace headlens
