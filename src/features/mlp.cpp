#include "features/mlp.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/parallel.hpp"
#include "features/set_tile.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"

namespace headlens {
namespace {

constexpr Index kNeurons = 256;  // neurons to a block
constexpr Index kTileSets =
    64;  // fixed, so that each GEMM call and hence each bit is the same for every range

template <class T>
class MlpMap final : public FeatureMap<T> {
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
    require(sets.equal_sizes() && sets.keys_of(0) == keys_, sets.name(), ": mlp needs sets of exactly ",
            keys_, " keys each, found ", sets.equal_sizes() ? "" : "up to ", sets.max_keys());
    const std::vector<double> table = position_table(positions_, sets.max_keys() + 1, dim_);
    const Index tiles = (end - begin + kTileSets - 1) / kTileSets;
    std::atomic<bool> finite{true};
    parallel_for(threads, tiles, [&](Index tile, int) {
      const Index first = begin + tile * kTileSets, last = std::min(end, first + kTileSets);
      const Matrix<T> rows = flatten(sets, first, last, table);
      Matrix<T> block(kTileSets, kNeurons);
      for (Index b = block_begin; b < block_end; ++b) {
        const MatrixView<const T> w = weights_.view().block(b * kNeurons, 0, kNeurons, inputs());
        gemm(Trans::no, Trans::yes, T(1), rows, w, T(0), block);
        for (Index s = first; s < last; ++s) {
          T* to = out.row(s - begin) + (b - block_begin) * kNeurons;
          if (!rectify(block.data() + (s - first) * kNeurons, to)) finite = false;
        }
      }
    });
    if (!finite)
      throw Error(ErrorCode::misuse, join(sets.name(), ": the features overflow: scale the tokens down"));
  }

 private:
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
std::unique_ptr<FeatureMap<T>> make_mlp_map(const FeatureOptions& options, Index dim, Index keys,
                                            const Array& neurons) {
  return std::make_unique<MlpMap<T>>(options, dim, keys, neurons);
}
template std::unique_ptr<FeatureMap<float>> make_mlp_map(const FeatureOptions&, Index, Index, const Array&);
template std::unique_ptr<FeatureMap<double>> make_mlp_map(const FeatureOptions&, Index, Index, const Array&);

}  // namespace headlens
