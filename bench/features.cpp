// Times the feature map on one file: bench_features DATA.npz REPEATS THREADS [LEVEL]. Prints JSON.
// DATA holds query (n,d), keys (n,N,d), heads (M,D,D), float32 or float64. Features are computed in blocks of
// sets into one buffer, the block tuned first as the rivals tune theirs. Also times a square GEMM of the same
// precision: the rate to compare with.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "features/feature_map.hpp"
#include "features/heads.hpp"
#include "headlens/arrays.hpp"
#include "headlens/blas_core.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"

namespace headlens {
namespace {

constexpr std::array<Index, 4> kBlocks{60, 120, 240, 960};

template <class Work>
double seconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
double gemm_rate() {
  const Index size = 2048;
  Matrix<T> a = Matrix<T>::zeros(size, size), b = Matrix<T>::zeros(size, size),
            c = Matrix<T>::zeros(size, size);
  for (Index i = 0; i < size * size; ++i)
    a.data()[i] = b.data()[i] = static_cast<T>(1) / static_cast<T>(1 + i % 7);
  double best = 1e300;
  for (int i = 0; i < 5; ++i)
    best = std::min(best,
                    seconds([&] { gemm(Trans::no, Trans::no, T(1), a.view(), b.view(), T(0), c.view()); }));
  return 2e-9 * static_cast<double>(size) * size * size / best;
}

template <class T>
nlohmann::json run(NamedArrays arrays, int repeats, int threads, SimdLevel level) {
  const Array heads = arrays.at("heads");
  const Sets sets = Sets::from_arrays(arrays.at("query"), arrays.at("keys"));
  FeatureOptions options{.heads = heads.dim(0),
                         .precision = sizeof(T) == 4 ? Precision::f32 : Precision::f64};
  options = with_default_scales(options, 1);
  const auto map = FeatureMap<T>::make(options, sets.dim(), 0, heads, level);
  Matrix<T> out = Matrix<T>::zeros(kBlocks.back(), map->columns());
  const auto pass = [&](Index sets_to_do, Index block) {
    for (Index first = 0; first < sets_to_do; first += block) {
      const Index count = std::min(block, sets_to_do - first);
      map->compute(sets, first, first + count, out.view().block(0, 0, count, out.cols()), threads);
    }
  };
  pass(sets.count() / 5, kBlocks.back());
  Index block = 0;
  double best = 1e300;
  for (const Index candidate : kBlocks) {
    const double time = seconds([&] { pass(sets.count() / 5, candidate); });
    if (time < best) best = time, block = candidate;
  }
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) times.push_back(seconds([&] { pass(sets.count(), block); }));
  map->compute(sets, 0, 1, out.view().block(0, 0, 1, out.cols()), 1);
  double sum = 0;  // of the first set's features: the rivals must find the same
  for (Index j = 0; j < out.cols(); ++j) sum += static_cast<double>(out(0, j));
  return {{"seconds", times},
          {"checksum", sum},
          {"block", block},
          {"level", name(level)},
          {"gemm_gflops", gemm_rate<T>()}};
}

}  // namespace
}  // namespace headlens

int main(int argc, char** argv) {
  using namespace headlens;
  repair_blas_core(argv);
  if (argc < 4) return std::fprintf(stderr, "usage: bench_features DATA.npz REPEATS THREADS [LEVEL]\n"), 2;
  SimdLevel level = simd_level();
  for (const SimdLevel known : {SimdLevel::portable, SimdLevel::avx2, SimdLevel::avx512})
    if (argc > 4 && name(known) == argv[4]) level = known;
  NamedArrays arrays = read_npz(argv[1]);
  const bool single = arrays.at("heads").dtype() == DType::f32;
  const int repeats = std::atoi(argv[2]), threads = std::atoi(argv[3]);
  const auto result = single ? run<float>(std::move(arrays), repeats, threads, level)
                             : run<double>(std::move(arrays), repeats, threads, level);
  std::cout << result.dump() << "\n";
}
