// Times the CUDA back end: bench_cuda features|fit|kernel|cpu-kernel REPEATS, a worker of bench/cuda.py.
// Prints JSON.
//   features   seconds of the feature map alone, by events of the device, float32 and float64
//   fit        seconds of whole fits from sets in host memory, with a given and a chosen penalty
//   kernel     seconds of the kernel matrix of infinitely many heads (cpu-kernel: on 2 threads of the
//   processor)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/backend.hpp"
#include "base/random.hpp"
#include "cuda/features/feature_map.hpp"
#include "cuda/kernels/closed_form.hpp"
#include "cuda/machine.hpp"
#include "features/heads.hpp"
#include "headlens/fit.hpp"
#include "headlens/kernel.hpp"

namespace headlens {
namespace {

using Json = nlohmann::json;

constexpr Index kDim = 16, kKeys = 16, kHeads = 1000, kSets = 131072;

template <class T>
Array normal(std::vector<Index> shape, const char* purpose) {
  Array out(dtype_of<T>(), std::move(shape));
  Stream stream(7, purpose);
  for (Index i = 0; i < out.size(); ++i) out.data<T>()[i] = static_cast<T>(stream.normal());
  return out;
}

template <class T>
Sets random_sets(Index count) {
  return Sets::from_arrays(normal<T>({count, kDim}, "queries"), normal<T>({count, kKeys, kDim}, "keys"));
}

double device_seconds(const std::function<void()>& work) {
  cudaEvent_t start, end;
  float milliseconds = 0;
  cuda::check(cudaEventCreate(&start));
  cuda::check(cudaEventCreate(&end));
  cuda::check(cudaEventRecord(start, cuda::device().stream));
  work();
  cuda::check(cudaEventRecord(end, cuda::device().stream));
  cuda::check(cudaEventSynchronize(end));
  cuda::check(cudaEventElapsedTime(&milliseconds, start, end));
  return 1e-3 * static_cast<double>(milliseconds);
}

template <class T>
Json features(int repeats) {
  FeatureOptions options{.heads = kHeads, .precision = sizeof(T) == 4 ? Precision::f32 : Precision::f64};
  options = with_default_scales(options, kKeys);
  const Sets sets = random_sets<T>(kSets);
  const auto map = cuda::make_head_map<T>(options, kDim, 0, draw_heads(options, kDim, 0, 8));
  const cuda::Tokens<T> tokens = cuda::pack_tokens<T>(sets, 0, kSets, {}, 8);
  cuda::DeviceArray<T> out(kSets * map->columns());
  std::vector<double> seconds;
  for (int i = 0; i < repeats + 3; ++i) {
    const double now = device_seconds([&] { map->compute(tokens, 0, kSets, out.data()); });
    if (i >= 3) seconds.push_back(now);
  }
  map->check_finite(sets);
  return {{"seconds", seconds}, {"columns", map->columns()}};
}

LabelledSets task(Index count, std::uint64_t seed) {
  Targets targets{{}, 1, false, {count}};
  Sets sets = random_sets<float>(count);
  Stream stream(seed, "noise");
  std::vector<double> query(kDim), keys(kDim * kKeys);
  for (Index i = 0; i < count; ++i) {
    sets.copy_set(i, query.data(), keys.data(), kDim);
    double sum = 0;
    for (Index k = 0; k < kKeys; ++k) {
      double score = 0;
      for (Index j = 0; j < kDim; ++j) score += query[std::size_t(j)] * keys[std::size_t(k * kDim + j)];
      sum += std::max(score, 0.0) * keys[std::size_t(k * kDim)] / double(kKeys);
    }
    targets.values.push_back(sum + 0.1 * stream.normal());
  }
  return {std::move(sets), std::move(targets)};
}

Json fits(int repeats, const Execution& execution) {
  const LabelledSets data = task(kSets, 1);
  Json out;
  for (const Precision precision : {Precision::f32, Precision::f64})
    for (const bool given : {true, false}) {
      FitOptions options;
      options.features.heads = kHeads;
      options.features.precision = precision;
      if (given) options.ridge = 1e-4;
      std::vector<double> seconds;
      Fit found;
      for (int i = 0; i < repeats + 1; ++i) {
        found = fit(data, options, execution);
        if (i > 0) seconds.push_back(found.report.seconds);
      }
      out[name(precision) + (given ? " given" : " chosen")] = {{"seconds", seconds},
                                                               {"ridge", found.report.ridge},
                                                               {"train_loss", found.report.train_loss},
                                                               {"residual", found.report.residual},
                                                               {"iterations", found.report.iterations},
                                                               {"method", found.report.method}};
    }
  return out;
}

double seconds_of_kernel(const Sets& sets, const Execution& execution) {
  const auto start = std::chrono::steady_clock::now();
  const Kernel kernel = attention_kernel(sets, {}, execution);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The whole call, and the kernel alone, without the allocation of the result and the way home.
Json kernels(int repeats, const Execution& device) {
  const Sets sets = random_sets<double>(20000);
  const FeatureOptions options = with_default_scales({}, kKeys);
  const cuda::KernelSide side = cuda::make_side(sets, 0, sets.count(), options, Positions::none, 8);
  cuda::DeviceArray<double> matrix(sets.count() * sets.count());
  cuda::DeviceArray<int> overflow(1);
  Json out;
  for (int i = 0; i < repeats + 1; ++i) {
    const double alone = device_seconds([&] {
      cuda::closed_form(side, side, true, cuda::form_of(options), 0, sets.count(), matrix.data(),
                        overflow.data());
    });
    const double seconds = seconds_of_kernel(sets, device);
    if (i == 0) continue;
    out["alone"].push_back(alone);
    out["device"].push_back(seconds);
  }
  return out;
}

}  // namespace
}  // namespace headlens

int main(int argc, char** argv) {
  using namespace headlens;
  if (argc < 3) return std::fprintf(stderr, "usage: bench_cuda features|fit|kernel|cpu-kernel REPEATS\n"), 2;
  const std::string part = argv[1];
  const int repeats = std::atoi(argv[2]);
  Json out;
  if (part == "cpu-kernel") {
    out["seconds"] = seconds_of_kernel(random_sets<double>(20000), {.threads = 2});
  } else {
    const backend::Replacement here(cuda::machine());
    if (part == "features") out = {{"f32", features<float>(repeats)}, {"f64", features<double>(repeats)}};
    if (part == "fit") out = fits(repeats, {});
    if (part == "kernel") out = kernels(repeats, {});
  }
  std::cout << out.dump() << "\n";
}
