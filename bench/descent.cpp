// The steps of a descent in factors against sgemm: bench_descent DIM HEADS RANK TOKENS THREADS. Prints JSON:
// seconds per step and GFLOP/s of both, in turns, medians of seven. The operations of a step are those of its
// products and no others: X [Q | K | V], Phi O, the two products with what is left of the labels, X^T of the
// way back, and the small products of the attention. sgemm multiplies X by [Q | K | V], the largest of them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/backend.hpp"
#include "base/random.hpp"
#include "headlens/blas_core.hpp"
#include "linalg/multiply.hpp"

using namespace headlens;

namespace {

constexpr Index kRows = 3200;  // of a batch, as in recover/factors/descend.cpp
constexpr int kRounds = 7, kSteps = 5;

Matrix<double> random_matrix(Index rows, Index cols, double size, Stream& stream) {
  Matrix<double> out(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) out.data()[i] = size * stream.normal();
  return out;
}

template <class Work>
double seconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps; ++i) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kSteps;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  return values[kRounds / 2];
}

}  // namespace

int main(int argc, char** argv) {
  repair_blas_core(argv);
  if (argc < 6) return std::fprintf(stderr, "usage: bench_descent DIM HEADS RANK TOKENS THREADS\n"), 2;
  const Index d = std::atoi(argv[1]), heads = std::atoi(argv[2]), rank = std::atoi(argv[3]),
              tokens = std::atoi(argv[4]), batch = kRows / tokens, rows = batch * tokens;
  const int threads = std::atoi(argv[5]);
  Stream stream(1, "bench descent");
  backend::HeadRanks ranks;
  ranks.logits.assign(static_cast<std::size_t>(heads), rank);
  ranks.values = ranks.logits;
  const Index columns = ranks.parameter_columns(), features = ranks.value_columns();
  const Matrix<double> x = random_matrix(rows, d, 1, stream), y = random_matrix(rows, d, 1, stream);
  const backend::FactorValues start{random_matrix(d, columns, 0.05, stream),
                                    random_matrix(features, d, 0.05, stream)};
  const Execution execution{.threads = threads, .backend = BackendChoice::cpu};
  const backend::Context context = backend::context_of(execution);
  const auto descent = context.machine.make_factor_descent({.x = x.view(), .y = y.view(), .tokens = tokens},
                                                           ranks, start, context);
  std::vector<Index> examples(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < examples.size(); ++i) examples[i] = static_cast<Index>(i);
  Matrix<float> a(rows, d), b(d, columns), c(rows, columns);
  std::fill_n(a.data(), rows * d, 0.5f);
  std::fill_n(b.data(), d * columns, 0.5f);
  const auto gemm = [&] {
    multiply(Trans::no, Trans::no, 1.0f, std::as_const(a).view(), std::as_const(b).view(), 0.0f, c.view(),
             threads);
  };
  std::vector<double> steps, products;
  for (int round = 0; round <= kRounds; ++round) {
    const double step = seconds([&] { descent->step(examples, 1e-6); }), product = seconds(gemm);
    if (round == 0) continue;
    steps.push_back(step);
    products.push_back(product);
  }
  const auto n = static_cast<double>(rows), k = static_cast<double>(tokens), r = static_cast<double>(rank),
             m = static_cast<double>(heads), wide = static_cast<double>(columns), e = static_cast<double>(d);
  const double large = 4 * n * e * wide + 6 * n * static_cast<double>(features) * e,
               small = 2 * n * k * r * m * (2 + 4), gemm_flops = 2 * n * e * wide;
  const double step = median(steps), product = median(products);
  std::cout << nlohmann::json{{"step_seconds", step},
                              {"step_gflops", (large + small) / step / 1e9},
                              {"sgemm_gflops", gemm_flops / product / 1e9},
                              {"share", (large + small) / step / (gemm_flops / product)}}
                   .dump()
            << "\n";
}
