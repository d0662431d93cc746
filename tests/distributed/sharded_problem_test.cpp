// A recovery problem over ranks, on threads, against the same problem of one process: everything that a
// search asks of a problem, for examples that no number of ranks divides, with masks, biases and missing
// labels.
#include <gtest/gtest.h>

#include "backend/factor_input.hpp"
#include "base/parallel.hpp"
#include "distributed/answers.hpp"
#include "distributed/sharded_backend.hpp"
#include "reference/thread_ranks.hpp"

namespace headlens {
namespace {

using namespace answers;
using namespace factor_input;
using reference::on_ranks;
using reference::ThreadRanks;

constexpr double kRounding = 1e-11;  // of products of some thousand terms, and a Cholesky factorisation

// All answers of a problem at one point, one after the other.
std::vector<Matrix<double>> answers(const backend::LayerProblem& problem, const Matrix<double>& parameters) {
  std::vector<Matrix<double>> out;
  const auto point = problem.make_point();
  problem.evaluate(copy_of(parameters), 1e-3, *point);
  EXPECT_TRUE(point->finite);
  problem.solve_for_w(1e-6, *point);
  problem.linearise(*point);
  out.push_back(copy_of(point->w));
  out.push_back(problem.residual(*point));
  Matrix<double> numbers(1, 4);
  numbers(0, 0) = point->squares;
  numbers(0, 1) = point->cost;
  numbers(0, 2) = problem.y_squares();
  numbers(0, 3) = static_cast<double>(problem.rows());
  out.push_back(std::move(numbers));
  Matrix<double> gradient(parameters.rows(), parameters.cols());
  problem.gradient(*point, gradient);
  out.push_back(copy_of(gradient));
  const auto model = problem.make_linear_model();
  model->move_to(*point);
  model->refresh_preconditioner(*point);
  const double mu = 0.1 * point->squares;
  model->shift_preconditioner(mu);
  Matrix<double> z(problem.rows(), problem.outputs()), back(gradient.rows(), gradient.cols());
  model->derivative(gradient, z);
  out.push_back(copy_of(z));
  out.push_back(model->best_w(z));
  model->project(z);
  out.push_back(copy_of(z));
  model->adjoint(z, back);
  out.push_back(copy_of(back));
  model->normal_product(gradient, back);
  out.push_back(copy_of(back));
  model->respond(z, back);
  out.push_back(copy_of(back));
  out.push_back(model->respond_in_w(z, gradient));
  out.push_back(model->solve(gradient, mu, 1e-13, 400, Precision::f64, [] { return false; }).direction);
  return out;
}

// Problems of one kind: made on one process, and over ranks.
template <class Make>
void compare(const Matrix<double>& parameters, const std::string& what, const Make& make) {
  const Execution run{.threads = 1};
  backend::Context alone{processor(), 1, run};
  const std::vector<Matrix<double>> expected = answers(*make(alone), parameters);
  for (const int size : {2, 3, 4})
    on_ranks(size, [&](ThreadRanks& ranks) {
      const auto machine = distributed::make_sharded(processor(), ranks);
      const auto problem = make(backend::Context{*machine, 1, run, ranks});
      const std::vector<Matrix<double>> mine = answers(*problem, parameters);
      expect_alike(mine, expected, kRounding, join(what, " on ", size, " ranks"));
      for (const Matrix<double>& answer : mine) {  // the same bits on all ranks
        std::vector<double> all = comm::gather(
            ranks,
            std::span<const double>(answer.data(), static_cast<std::size_t>(answer.rows() * answer.cols())));
        const auto width = answer.rows() * answer.cols();
        for (Index i = 0; i < std::ssize(all); ++i)
          ASSERT_EQ(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i % width)]);
      }
    });
}

// Enough examples for the heads, and ranks of several sizes.
std::vector<Shape> solvable() {
  std::vector<Shape> out{{41, 4, 5, 3, {{2, 3}, {2, 1}}}, {30, 7, 6, 2, {{0, 2}, {3, 2}}}};
  out.push_back({37, 5, 6, 4, {{2, 2}, {2, 2}, true}});
  out.push_back({53, 3, 5, 5, {{2, 2, 0}, {2, 1, 1}, false, true}});
  return out;
}

// Tokens with a last coordinate of 1 and pinned parameters, where there are biases.
Input input_of(const Shape& shape, std::uint64_t seed) {
  Input out(shape, seed);
  if (!shape.ranks.biased) return out;
  for (Index i = 0; i < out.x.rows(); ++i) out.x(i, shape.dim - 1) = 1;
  backend::pin(shape.ranks, out.parameters.view());
  out.parameters(shape.dim - 1, shape.ranks.parameter_columns() - 1) = 1;
  return out;
}

TEST(ShardedProblem, FactorsAgreeWithOneProcess) {
  for (const Shape& shape : solvable()) {
    const Input in = input_of(shape, 7);
    compare(in.parameters, join(shape.examples, " examples"), [&](const backend::Context& context) {
      return context.machine.make_factor_problem(in.examples(), shape.ranks, context);
    });
  }
}

TEST(ShardedProblem, MissingLabelsAreThoseOfAllRanks) {
  for (const Shape& shape : solvable()) {
    Input in = input_of(shape, 8);
    Matrix<double> seen(in.y.rows(), shape.outputs);
    for (Index i = 0; i < seen.rows(); ++i)
      for (Index j = 0; j < seen.cols(); ++j) {
        // Two outputs miss the same rows at the beginning and other rows at the end.
        seen(i, j) = (i * (j / 2 + 3)) % 11 == 0 || (j == 1 && i + 3 > seen.rows()) ? 0 : 1;
        in.y(i, j) *= seen(i, j);
      }
    backend::LayerExamples examples = in.examples();
    examples.seen = seen.view();
    compare(in.parameters, join(shape.examples, " examples"), [&](const backend::Context& context) {
      return context.machine.make_factor_problem(examples, shape.ranks, context);
    });
  }
}

TEST(ShardedProblem, AllEntriesAgreeWithOneProcess) {
  Stream stream(5, "dense");
  const Index k = 4, d = 3, heads = 2;
  for (const Index examples : {29, 64}) {
    const Matrix<double> x = drawn(examples * k, d, 1, stream), theta = drawn(d, heads * d, 0.5, stream);
    Matrix<double> y = drawn(examples * k, 2, 1, stream);
    for (const bool weighed : {false, true}) {
      backend::LayerExamples given{x.view(), y.view(), k};
      if (weighed)
        for (Index i = 0; i < x.rows(); ++i) {
          given.row_weights.push_back(i % 5 == 2 ? 0 : 1);
          for (Index j = 0; j < 2; ++j) y(i, j) *= given.row_weights.back();
        }
      compare(theta, join(examples, " examples"), [&](const backend::Context& context) {
        return context.machine.make_layer_problem(given, heads, context);
      });
    }
  }
}

TEST(ShardedProblem, FewerExamplesThanRanksAreSolvedByEach) {
  const Shape shape{3, 6, 3, 2, {{1}, {1}}};
  const Input in(shape, 3);
  compare(in.parameters, "three examples", [&](const backend::Context& context) {
    return context.machine.make_factor_problem(in.examples(), shape.ranks, context);
  });
}

TEST(ShardedProblem, DescentTakesTheStepsOfOneProcess) {
  const Shape shape{48, 4, 6, 5, {{2, 3}, {2, 2}}};
  const Input in(shape, 9);
  const Execution run{.threads = 1};
  backend::Context alone{processor(), 1, run};
  const backend::FactorValues start{copy_of(in.parameters), copy_of(in.o)};
  const auto batch_at = [](int step) {
    std::vector<Index> out;
    for (Index i = 0; i < (step % 3 == 2 ? 2 : 17); ++i) out.push_back((7 * i + step) % 48);
    return out;
  };
  const auto expected = processor().make_factor_descent(in.examples(), shape.ranks, start, alone);
  std::vector<double> squares;
  for (int step = 0; step < 20; ++step) squares.push_back(expected->step(batch_at(step), 1e-3));
  const backend::FactorValues values = expected->values(), mean = expected->mean_values();
  for (const int size : {2, 3})
    on_ranks(size, [&](ThreadRanks& ranks) {
      const auto machine = distributed::make_sharded(processor(), ranks);
      const backend::Context context{*machine, 1, run, ranks};
      const auto descent = machine->make_factor_descent(in.examples(), shape.ranks, start, context);
      for (int step = 0; step < 20; ++step)
        EXPECT_NEAR(descent->step(batch_at(step), 1e-3), squares[static_cast<std::size_t>(step)],
                    1e-5 * squares[static_cast<std::size_t>(step)]);
      EXPECT_LT(distance(descent->values().parameters, values.parameters), 1e-5);
      EXPECT_LT(distance(descent->mean_values().o, mean.o), 1e-5);
      EXPECT_NEAR(machine->factor_squares(in.examples(), shape.ranks, start, context),
                  processor().factor_squares(in.examples(), shape.ranks, start, alone), 1e-9);
    });
}

TEST(ShardedProblem, ExchangesWhatThePageSays) {
  const Shape shape{40, 4, 6, 5, {{2, 3}, {2, 2}}};
  const Input in(shape, 9);
  const Execution run{.threads = 1};
  const std::uint64_t b = 4, e = 5, parameters = 6 * 14;
  on_ranks(3, [&](ThreadRanks& ranks) {
    const auto machine = distributed::make_sharded(processor(), ranks);
    const auto problem = machine->make_factor_problem(in.examples(), shape.ranks, {*machine, 1, run, ranks});
    const auto point = problem->make_point();
    const auto bytes_of = [&](const auto& act) {
      const std::uint64_t before = ranks.exchanged_bytes();
      act();
      return ranks.exchanged_bytes() - before;
    };
    EXPECT_EQ(bytes_of([&] { problem->evaluate(copy_of(in.parameters), 1e-3, *point); }),
              8 * (b * (b + 1) / 2 + b * e + 1));  // the triangle, Phi^T Y and the squares
    const auto model = problem->make_linear_model();
    model->move_to(*point);
    Matrix<double> a = copy_of(in.parameters), out(6, 14);
    EXPECT_EQ(bytes_of([&] { model->normal_product(a, out); }), 8 * (b * e + parameters));
  });
}

}  // namespace
}  // namespace headlens
