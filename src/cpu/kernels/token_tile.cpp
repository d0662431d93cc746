#include "cpu/kernels/token_tile.hpp"

#include <algorithm>
#include <cmath>

#include "cpu/features/set_tile.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

// A tile of 512 keys against another: their products, 2 MiB, and all tables stay in the second-level cache.
constexpr Index kTileKeys = 512;
constexpr Index kTileSets = 64;

// A power of two, so that blocks of 64 sets or more are whole tiles.
Index sets_in_tile(Index keys) {
  Index sets = kTileSets;
  while (sets > 1 && sets * keys > kTileKeys) sets /= 2;
  return sets;
}

// [x; 1]
template <class T>
void extend(const T* x, Index dim, double* to) {
  for (Index j = 0; j < dim; ++j) to[j] = static_cast<double>(x[j]);
  to[dim] = 1;
}

template <class T>
TokenTile pack_attention(const PackedSets<T>& packed) {
  const Index dim = packed.dim, extended = dim + 1, total = packed.key_begin[packed.count];
  TokenTile tile;
  tile.queries = Matrix<double>(packed.count, extended);
  tile.keys = Matrix<double>(total, extended);
  tile.begin.assign(packed.key_begin, packed.key_begin + packed.count + 1);
  for (Index s = 0; s < packed.count; ++s) {
    double* query = tile.queries.view().row(s);
    extend(packed.queries + s * dim, dim, query);
    for (Index i = tile.begin[static_cast<std::size_t>(s)]; i < tile.begin[static_cast<std::size_t>(s) + 1];
         ++i) {
      double* key = tile.keys.view().row(i);
      extend(packed.keys + i * dim, dim, key);
      tile.mean.push_back(dot(query, key, dim));
      tile.key_length.push_back(normalise(key, extended));
    }
    tile.query_length.push_back(normalise(query, extended));
  }
  return tile;
}

template <class T>
TokenTile pack_mlp(const PackedSets<T>& packed) {
  const Index dim = packed.dim, extended = dim + 1, keys = packed.key_begin[packed.count] / packed.count;
  TokenTile tile;
  tile.keys = Matrix<double>(packed.count, (keys + 1) * extended);
  tile.query_length.assign(static_cast<std::size_t>(packed.count), 1.0);
  tile.mean.assign(static_cast<std::size_t>(packed.count), 0.0);
  tile.begin.assign(1, 0);
  for (Index s = 0; s < packed.count; ++s) {
    double* row = tile.keys.view().row(s);
    extend(packed.queries + s * dim, dim, row);
    for (Index i = 0; i < keys; ++i)
      extend(packed.keys + (s * keys + i) * dim, dim, row + (i + 1) * extended);
    tile.key_length.push_back(normalise(row, (keys + 1) * extended));
    tile.begin.push_back(s + 1);
  }
  return tile;
}

}  // namespace

void set_means(TokenTile& tile, const std::vector<double>& matrix) {
  const Index extended = tile.queries.cols();
  std::vector<double> projected(static_cast<std::size_t>(extended));  // W_0^T u_0
  for (Index s = 0; s < tile.sets(); ++s) {
    std::fill(projected.begin(), projected.end(), 0.0);
    for (Index i = 0; i < extended; ++i)
      for (Index j = 0; j < extended; ++j)
        projected[static_cast<std::size_t>(j)] +=
            matrix[static_cast<std::size_t>(i * extended + j)] * tile.queries(s, i);
    for (auto i = static_cast<std::size_t>(tile.begin[static_cast<std::size_t>(s)]);
         i < static_cast<std::size_t>(tile.begin[static_cast<std::size_t>(s) + 1]); ++i)
      tile.mean[i] = tile.query_length[static_cast<std::size_t>(s)] * tile.key_length[i] *
                     dot(projected.data(), tile.keys.view().row(static_cast<Index>(i)), extended);
  }
}

TokenSource::TokenSource(const Sets& sets, ModelKind kind, Positions positions, Precision precision,
                         Index max_keys)
    : sets_(sets),
      mlp_(kind == ModelKind::mlp),
      precision_(precision),
      tile_sets_(mlp_ ? kTileSets : sets_in_tile(std::max(max_keys, sets.max_keys()))),
      table_(position_table(positions, sets.max_keys() + 1, sets.dim())) {}

Index TokenSource::largest_tile_keys() const {
  return std::min(tile_sets_, sets_.count()) * (mlp_ ? 1 : sets_.max_keys());
}

template <class T>
TokenTile TokenSource::pack(Index first, Index last) const {
  SetTile<T> packed;
  packed.pack(sets_, first, last, table_);
  return mlp_ ? pack_mlp(packed.view()) : pack_attention(packed.view());
}

TokenTile TokenSource::tile(Index first, Index last) const {
  return precision_ == Precision::f32 ? pack<float>(first, last) : pack<double>(first, last);
}

}  // namespace headlens::cpu
