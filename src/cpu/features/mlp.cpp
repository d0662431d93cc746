#include "cpu/features/mlp.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/parallel.hpp"
#include "cpu/features/lane_products.hpp"
#include "cpu/features/set_tile.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kNeurons = 256;  // per block
// Fixed, so that each GEMM call and hence each bit is the same for every range.
constexpr Index kTileSets = 64;

template <class T>
class MlpMap final : public HeadMap<T> {
 public:
  MlpMap(const FeatureOptions& options, Index dim, Index keys, const Array& neurons)
      : positions_(options.positions), dim_(dim), keys_(keys), neurons_(neurons.dim(0)) {
    weights_ = Matrix<T>::zeros(blocks() * kNeurons, inputs());
    for (Index i = 0; i < neurons.size(); ++i)
      weights_.data()[i] = neurons.dtype() == DType::f32 ? static_cast<T>(neurons.data<float>()[i])
                                                         : static_cast<T>(neurons.data<double>()[i]);
  }

  Index blocks() const override { return (neurons_ + kNeurons - 1) / kNeurons; }
  Index block_columns() const override { return kNeurons; }
  Index heads() const override { return neurons_; }
  Index width() const override { return 1; }
  Index column_of(Index head, Index) const override { return head; }

  void compute(const Sets& sets, Index begin, Index end, Index block_begin, Index block_end,
               MatrixView<T> out, int threads) const override {
    check_sizes(sets);
    const std::vector<double> table = position_table(positions_, sets.max_keys() + 1, dim_);
    const Index tiles = (end - begin + kTileSets - 1) / kTileSets;
    std::atomic<bool> finite{true};
    parallel_for(threads, tiles, [&](Index tile, int) {
      const Index first = begin + tile * kTileSets, last = std::min(end, first + kTileSets);
      const Matrix<T> rows = flatten(sets, first, last, table);
      Matrix<T> block(kTileSets, kNeurons);
      for (Index b = block_begin; b < block_end; ++b) {
        project(rows, b, block);
        for (Index s = first; s < last; ++s) {
          T* to = out.row(s - begin) + (b - block_begin) * kNeurons;
          if (!rectify(block.data() + (s - first) * kNeurons, to)) finite = false;
        }
      }
    });
    if (!finite) throw_overflow(sets);
  }

  Index tile_sets() const override { return kTileSets; }

  void multiply(const Sets& sets, Index begin, Index end, MatrixView<const double> values,
                MatrixView<double> out) const override {
    check_sizes(sets);
    const std::vector<double> table = position_table(positions_, sets.max_keys() + 1, dim_);
    Matrix<T> block(kTileSets, kNeurons);
    bool finite = true;
    for (Index first = begin; first < end; first += kTileSets) {
      const Index count = std::min(kTileSets, end - first);
      const Matrix<T> rows = flatten(sets, first, first + count, table);
      LaneProducts<T> sums(simd_level(), count, values.rows);
      for (Index b = 0; b < blocks(); ++b) {
        heed();
        project(rows, b, block);
        for (Index s = 0; s < count; ++s) {
          T* row = block.data() + s * kNeurons;
          finite = rectify(row, row) && finite;
        }
        sums.add(block.data(), kNeurons, values.block(0, b * kNeurons, values.rows, kNeurons));
      }
      sums.write(out.block(first - begin, 0, count, values.rows));
    }
    if (!finite) throw_overflow(sets);
  }

 private:
  [[noreturn]] static void throw_overflow(const Sets& sets) {
    throw Error(ErrorCode::misuse, join(sets.name(), ": the features overflow: scale the tokens down"));
  }

  void check_sizes(const Sets& sets) const {
    require(sets.equal_sizes() && sets.keys_of(0) == keys_, sets.name(), ": mlp needs sets of exactly ",
            keys_, " keys each, found ", sets.equal_sizes() ? "" : "up to ", sets.max_keys());
  }

  // Products of a tile with the neurons of block b.
  void project(const Matrix<T>& rows, Index b, Matrix<T>& block) const {
    const MatrixView<const T> w = weights_.view().block(b * kNeurons, 0, kNeurons, inputs());
    gemm(Trans::no, Trans::yes, T(1), rows.view(), w, T(0), block.view());
  }

  Index inputs() const { return (keys_ + 1) * (dim_ + 1); }

  // [xt_0 .. xt_N] of every set; rows beyond the last set are zero.
  Matrix<T> flatten(const Sets& sets, Index first, Index last, const std::vector<double>& table) const {
    SetTile<T> packed;
    packed.pack(sets, first, last, table);
    const PackedSets<T> view = packed.view();
    Matrix<T> rows = Matrix<T>::zeros(kTileSets, inputs());
    for (Index s = 0; s < view.count; ++s)
      for (Index t = 0; t <= keys_; ++t) {
        const T* token = t == 0 ? view.queries + s * dim_ : view.keys + (s * keys_ + t - 1) * dim_;
        T* to = rows.data() + s * inputs() + t * (dim_ + 1);
        std::copy_n(token, dim_, to);
        to[dim_] = T(1);
      }
    return rows;
  }

  static bool rectify(const T* from, T* to) {
    T poison = 0;
    for (Index m = 0; m < kNeurons; ++m) {
      to[m] = from[m] < T(0) ? T(0) : from[m];
      poison += to[m] * T(0);
    }
    return poison == T(0);
  }

  Positions positions_;
  Index dim_, keys_, neurons_;
  Matrix<T> weights_;  // (blocks * kNeurons, (N + 1) D)
};

}  // namespace

template <class T>
std::unique_ptr<HeadMap<T>> make_mlp_map(const FeatureOptions& options, Index dim, Index keys,
                                         const Array& neurons) {
  return std::make_unique<MlpMap<T>>(options, dim, keys, neurons);
}
template std::unique_ptr<HeadMap<float>> make_mlp_map(const FeatureOptions&, Index, Index, const Array&);
template std::unique_ptr<HeadMap<double>> make_mlp_map(const FeatureOptions&, Index, Index, const Array&);

}  // namespace headlens::cpu
