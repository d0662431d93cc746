#include "cpu/features/feature_map.hpp"

#include <algorithm>
#include <atomic>

#include "base/parallel.hpp"
#include "cpu/features/lane_products.hpp"
#include "cpu/features/mlp.hpp"
#include "cpu/features/rfa.hpp"
#include "cpu/features/set_tile.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"

namespace headlens::cpu {
namespace {

// A multiple of kGroup; a tile of tokens and one block of heads stay in cache.
constexpr Index kTileSets = 60;
constexpr Index kTileBlocks = 16;  // of heads: few sets still make work for several threads

// Fewer sets where sets are large, because the question whether to stop is asked once per tile.
Index sets_in_tile(Index max_keys) {
  constexpr Index kTileKeys = 1 << 16;
  return std::clamp<Index>(kTileKeys / std::max<Index>(1, max_keys), 1, kTileSets);
}

[[noreturn]] void throw_overflow(const Sets& sets, Score score) {
  throw Error(ErrorCode::misuse, message(sets.name(), ": the features overflow: scale the tokens down",
                                         score == Score::exp ? message(", lower ", option("weight-scale"),
                                                                       ", or use the softmax score")
                                                             : Text(" (standardise them)")));
}

template <class T>
class AttentionFeatures final : public HeadMap<T> {
 public:
  AttentionFeatures(const FeatureOptions& options, Index dim, const Array& heads, SimdLevel level)
      : level_(level),
        score_(options.score),
        positions_(options.positions),
        dim_(dim),
        heads_(heads.dim(0)),
        function_(rfa_function<T>(level)),
        packed_(blocks() * (dim + 1) * (dim + 1) * kLanes) {
    const Index extended = dim + 1;
    std::fill_n(packed_.data(), packed_.size(), T(0));
    for (Index m = 0; m < heads_; ++m)
      for (Index i = 0; i < extended; ++i)
        for (Index j = 0; j < extended; ++j) {
          const Index from = (m * extended + i) * extended + j;
          const T w = heads.dtype() == DType::f32 ? static_cast<T>(heads.data<float>()[from])
                                                  : static_cast<T>(heads.data<double>()[from]);
          packed_[((m / kLanes * extended + j) * extended + i) * kLanes + m % kLanes] = w;
        }
  }

  Index blocks() const override { return (heads_ + kLanes - 1) / kLanes; }
  Index block_columns() const override { return (dim_ + 1) * kLanes; }
  Index heads() const override { return heads_; }
  Index width() const override { return dim_ + 1; }
  Index column_of(Index head, Index j) const override {
    return (head / kLanes * (dim_ + 1) + j) * kLanes + head % kLanes;
  }

  void compute(const Sets& sets, Index begin, Index end, Index block_begin, Index block_end,
               MatrixView<T> out, int threads) const override {
    const std::vector<double> table = position_table(positions_, sets.max_keys() + 1, dim_);
    const Index tile_sets = sets_in_tile(sets.max_keys());
    const Index tiles = (end - begin + tile_sets - 1) / tile_sets;
    const Index chunks = (block_end - block_begin + kTileBlocks - 1) / kTileBlocks;
    std::atomic<bool> finite{true};
    parallel_for(threads, tiles * chunks, [&](Index item, int) {
      const Index first = begin + item / chunks * tile_sets, last = std::min(end, first + tile_sets);
      const Index first_block = block_begin + item % chunks * kTileBlocks;
      Tile tile(*this, sets, first, last, table);
      for (Index b = first_block; b < std::min(block_end, first_block + kTileBlocks); ++b) {
        heed();
        T* to = out.row(first - begin) + (b - block_begin) * block_columns();
        if (!tile.compute(b, to, out.stride)) finite = false;
      }
    });
    if (!finite) throw_overflow(sets, score_);
  }

  Index tile_sets() const override { return kTileSets; }

  void multiply(const Sets& sets, Index begin, Index end, MatrixView<const double> values,
                MatrixView<double> out) const override {
    const std::vector<double> table = position_table(positions_, sets.max_keys() + 1, dim_);
    const Index width = block_columns();
    Buffer<T> phi(kTileSets * width);
    bool finite = true;
    const Index tile_sets = sets_in_tile(sets.max_keys());
    for (Index first = begin; first < end; first += tile_sets) {
      const Index count = std::min(tile_sets, end - first);
      Tile tile(*this, sets, first, first + count, table);
      LaneProducts<T> sums(level_, count, values.rows);
      for (Index b = 0; b < blocks(); ++b) {
        heed();
        finite = tile.compute(b, phi.data(), width) && finite;
        sums.add(phi.data(), width, values.block(0, b * width, values.rows, width));
      }
      sums.write(out.block(first - begin, 0, count, values.rows));
    }
    if (!finite) throw_overflow(sets, score_);
  }

 private:
  // Packed sets, ready for any block of heads.
  class Tile {
   public:
    Tile(const AttentionFeatures& map, const Sets& sets, Index first, Index last,
         const std::vector<double>& table)
        : map_(map), scratch_(rfa_scratch_items(map.dim_, sets.max_keys())) {
      packed_.pack(sets, first, last, table);
    }
    // False if a feature overflows.
    bool compute(Index block, T* to, Index stride) {
      const HeadBlock<T> head{map_.packed_.data() + block * (map_.dim_ + 1) * map_.block_columns(),
                              std::min(kLanes, map_.heads_ - block * kLanes)};
      return map_.function_(packed_.view(), head, map_.score_, scratch_.data(), to, stride);
    }

   private:
    const AttentionFeatures& map_;
    SetTile<T> packed_;
    Buffer<T> scratch_;
  };

  SimdLevel level_;
  Score score_;
  Positions positions_;
  Index dim_, heads_;
  RfaFunction<T> function_;
  Buffer<T> packed_;  // (blocks, D, D, kLanes): [block][j][i][lane]
};

}  // namespace

template <class T>
std::unique_ptr<HeadMap<T>> FeatureMap<T>::make(const FeatureOptions& options, Index dim, Index keys,
                                                const Array& heads, SimdLevel level) {
  if (options.kind == ModelKind::mlp) return make_mlp_map<T>(options, dim, keys, heads);
  return std::make_unique<AttentionFeatures<T>>(options, dim, heads, level);
}

template class FeatureMap<float>;
template class FeatureMap<double>;

}  // namespace headlens::cpu
