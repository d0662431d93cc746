// Times the feature map: bench_features THREADS, a worker of bench/feature_map.py. Each line of JSON on
// standard input is one question, each answer one line:
//   {"data": FILE.npz, "repeats": R}   seconds of R passes, the block tuned when the file is first seen
//   {"bandwidth": BYTES}               GB/s of writing, and of copying, arrays of that size
// FILE holds query (n,d), heads (M,D,D) and keys (n,N,d), or (total,d) with offsets; float32 or float64.
// Features are computed in blocks of sets into one buffer; or, as prediction does it, every thread takes
// blocks and has a buffer, where that is faster. Seconds are of the processor for one thread, of the wall for
// more.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/parallel.hpp"
#include "cpu/features/feature_map.hpp"
#include "features/heads.hpp"
#include "headlens/arrays.hpp"
#include "headlens/blas_core.hpp"
#include "headlens/error.hpp"
#include "linalg/matrix.hpp"

namespace headlens {
namespace {

constexpr std::array<Index, 5> kBlocks{12, 24, 60, 120, 240};

struct Clock {
  int threads;
  double now() const {
    if (threads == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  double seconds(const std::function<void()>& work) const {
    const double start = now();
    work();
    return now() - start;
  }
};

void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

struct Contender {
  virtual ~Contender() = default;
  virtual nlohmann::json run(int repeats) = 0;
};

template <class T>
class MapContender final : public Contender {
 public:
  MapContender(const NamedArrays& arrays, Clock clock) : clock_(clock), sets_(read_sets(arrays)) {
    const Array& heads = arrays.at("heads");
    FeatureOptions options{.heads = heads.dim(0),
                           .precision = sizeof(T) == 4 ? Precision::f32 : Precision::f64};
    map_ = cpu::FeatureMap<T>::make(with_default_scales(options, 1), sets_.dim(), 0, heads, simd_level());
    tune();
  }

  nlohmann::json run(int repeats) override {
    pass(std::min<Index>(sets_.count(), 240), way_);
    reset_peak();
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) times.push_back(clock_.seconds([&] { pass(sets_.count(), way_); }));
    const double peak = peak_mib();
    Matrix<T>& out = out_.front();
    map_->compute(sets_, 0, 1, out.view().block(0, 0, 1, out.cols()), 1);
    double sum = 0;  // of the first set's features: the rivals must find the same
    for (Index j = 0; j < out.cols(); ++j) sum += static_cast<double>(out(0, j));
    return {{"seconds", times},
            {"checksum", sum},
            {"block", way_.block},
            {"shared", way_.whole_blocks ? "blocks" : "within a block"},
            {"level", name(simd_level())},
            {"peak_mib", peak},
            {"buffer_bytes", way_.block * map_->columns() * static_cast<Index>(sizeof(T))}};
  }

 private:
  static Sets read_sets(const NamedArrays& arrays) {
    if (!arrays.contains("offsets")) return Sets::from_arrays(arrays.at("query"), arrays.at("keys"));
    const Array& offsets = arrays.at("offsets");
    const auto* first = offsets.data<std::int64_t>();
    return Sets::from_ragged(arrays.at("query"), arrays.at("keys"), {first, first + offsets.dim(0)});
  }

  struct Way {
    Index block = 0;
    bool whole_blocks = false;  // each to one thread
  };

  void pass(Index sets, Way way) {
    const int within = way.whole_blocks ? 1 : clock_.threads;
    const Index blocks = (sets + way.block - 1) / way.block;
    parallel_for(way.whole_blocks ? clock_.threads : 1, blocks, [&](Index b, int worker) {
      const Index first = b * way.block, count = std::min(way.block, sets - first);
      Matrix<T>& out = out_[static_cast<std::size_t>(worker)];
      map_->compute(sets_, first, first + count, out.view().block(0, 0, count, out.cols()), within);
    });
  }

  void prepare(Way way) {
    out_.clear();
    for (int worker = 0; worker < (way.whole_blocks ? clock_.threads : 1); ++worker)
      out_.push_back(Matrix<T>::zeros(way.block, map_->columns()));
  }

  void tune() {
    const Index some = std::min(sets_.count(), std::max<Index>(240, sets_.count() / 4));
    double best = 1e300;
    for (const bool whole_blocks : {false, true})
      for (const Index block : kBlocks) {
        const Way way{block, whole_blocks};
        if ((block > some && way_.block > 0) || (whole_blocks && clock_.threads == 1)) continue;
        prepare(way);
        pass(block, way);
        double time = 1e300;
        for (int i = 0; i < 5; ++i) time = std::min(time, clock_.seconds([&] { pass(some, way); }));
        if (time < best) best = time, way_ = way;
      }
    prepare(way_);
  }

  Clock clock_;
  Sets sets_;
  std::unique_ptr<cpu::FeatureMap<T>> map_;
  std::vector<Matrix<T>> out_;
  Way way_;
};

std::unique_ptr<Contender> make_contender(const std::string& path, Clock clock) {
  const NamedArrays arrays = read_npz(path);
  if (arrays.at("heads").dtype() == DType::f32) return std::make_unique<MapContender<float>>(arrays, clock);
  return std::make_unique<MapContender<double>>(arrays, clock);
}

nlohmann::json bandwidth(std::size_t bytes, Clock clock) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const int passes = static_cast<int>(1 + (std::size_t(1) << 28) / bytes);
  double write = 1e300, copy = 1e300;
  for (int i = 0; i < 3; ++i) {
    write = std::min(write, clock.seconds([&] {
      for (int p = 0; p < passes; ++p) {
        std::memset(to.data(), p, bytes);
        asm volatile("" ::"r"(to.data()) : "memory");  // every pass is done
      }
    }));
    copy = std::min(copy, clock.seconds([&] {
      for (int p = 0; p < passes; ++p) {
        std::memcpy(to.data(), from.data(), bytes);
        asm volatile("" ::"r"(to.data()) : "memory");
      }
    }));
  }
  const double moved = 1e-9 * static_cast<double>(bytes) * passes;
  return {{"write", moved / write}, {"copy", 2 * moved / copy}};
}

}  // namespace
}  // namespace headlens

int main(int argc, char** argv) {
  using namespace headlens;
  repair_blas_core(argv);
  if (argc < 2 || argc == 3) return std::fprintf(stderr, "usage: bench_features THREADS\n"), 2;
  const bool alone = argc > 3;
  const Clock clock{std::atoi(argv[alone ? 3 : 1])};
  if (alone) {
    std::cout << make_contender(argv[1], clock)->run(std::atoi(argv[2])).dump() << std::endl;
    return 0;
  }
  std::string path;
  std::unique_ptr<Contender> contender;
  for (std::string line; std::getline(std::cin, line);) {
    const auto question = nlohmann::json::parse(line);
    if (question.contains("bandwidth")) {
      std::cout << bandwidth(question["bandwidth"], clock).dump() << std::endl;
      continue;
    }
    if (question["data"] != path) {
      contender.reset();  // its memory must not count
      path = question["data"];
      contender = make_contender(path, clock);
    }
    std::cout << contender->run(question["repeats"]).dump() << std::endl;
  }
}
