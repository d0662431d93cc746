// Times the kernel of one file: bench_kernels DATA.npz rfa|brfa fast|exact REPEATS THREADS [OUT.npy]. Prints
// JSON. DATA holds query (n,d), keys (n,N,d). Seconds are of the processor for one thread, of the wall for
// more.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headlens/arrays.hpp"
#include "headlens/blas_core.hpp"
#include "headlens/kernel.hpp"

double now(int threads) {
  if (threads == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char** argv) {
  using namespace headlens;
  repair_blas_core(argv);
  if (argc < 6)
    return std::fprintf(stderr,
                        "usage: bench_kernels DATA.npz rfa|brfa fast|exact REPEATS THREADS [OUT.npy]\n"),
           2;
  NamedArrays arrays = read_npz(argv[1]);
  const Sets sets = Sets::from_arrays(arrays.at("query"), arrays.at("keys"));
  KernelOptions options;
  options.features.kind = parse<ModelKind>(argv[2]);
  options.exact = std::string(argv[3]) == "exact";
  const Execution execution{.threads = std::atoi(argv[5])};
  std::vector<double> times;
  Kernel kernel;
  for (int i = 0; i < std::atoi(argv[4]); ++i) {
    const double start = now(execution.threads);
    kernel = attention_kernel(sets, options, execution);
    times.push_back(now(execution.threads) - start);
  }
  double sum = 0;
  for (const double value : kernel.values.to_doubles()) sum += value;
  if (argc > 6) write_npy(argv[6], kernel.values);
  std::cout << nlohmann::json{{"seconds", times}, {"checksum", sum}, {"method", kernel.method}}.dump()
            << "\n";
}
