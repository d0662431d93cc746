// Blocks of a Gram matrix in tiles of 8-bit integers. An integer is 256 high + low, high signed and low not:
//
//   sum q q' = 2^16 sum high high' + 2^8 (sum high low' + sum low high') + sum low low'
//
// modulo 2^32, and it fits 32 bits: the same integers as in the other instances, the same result to the bit.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>

#include "cpu/products/float_products.hpp"

namespace headlens::cpu {

namespace avx512 {
void round_group(Index, const float*, Index, std::int32_t*, float*);
}

namespace amx {
namespace {

constexpr int kTile = 16;                  // vectors
constexpr int kTileSteps = 64;             // bytes of a row
constexpr int kTileItems = kTile * kTile;  // of 4 bytes
// Of kTile vectors and kTileSteps steps: high and low bytes for columns, [step / 4][vector][step % 4], then
// for rows, [vector][step].
enum { kColumnHigh, kColumnLow, kRowHigh, kRowLow, kOrders };
constexpr Index kChunk = kOrders * kTileItems, kVectors = kRoundedSteps / kTileSteps * kChunk;

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16};
};
constexpr TileShapes kShapes;

// The bytes of four steps of one vector, from two pairs.
std::int32_t four_bytes(std::int32_t first, std::int32_t second, int shift) {
  const std::uint32_t a = static_cast<std::uint32_t>(first) >> shift,
                      b = static_cast<std::uint32_t>(second) >> shift;
  return static_cast<std::int32_t>((a & 0xFF) | (a >> 8 & 0xFF00) | (b & 0xFF) << 16 | (b << 8 & 0xFF000000));
}

void multiply_tile(Index chunks, RoundedGroup columns, Index column, RoundedGroup rows, Index row, float* out,
                   Index out_stride) {
  const std::int32_t* right = columns.integers + column * kVectors + kColumnHigh * kTileItems;
  const std::int32_t* left = rows.integers + row * kVectors + kRowHigh * kTileItems;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  for (Index k = 0; k < chunks; ++k, left += kChunk, right += kChunk) {
    _tile_loadd(3, left, 64);
    _tile_loadd(4, left + kTileItems, 64);
    _tile_loadd(5, right, 64);
    _tile_loadd(6, right + kTileItems, 64);
    _tile_dpbssd(0, 3, 5);
    _tile_dpbsud(1, 3, 6);
    _tile_dpbusd(1, 4, 5);
    _tile_dpbuud(2, 4, 6);
  }
  alignas(64) std::uint32_t high[kTileItems], middle[kTileItems], low[kTileItems];
  _tile_stored(0, high, 64);
  _tile_stored(1, middle, 64);
  _tile_stored(2, low, 64);
  for (int r = 0; r < kTile; ++r)
    for (int c = 0; c < kTile; ++c) {
      const int i = r * kTile + c;
      const auto sum = static_cast<std::int32_t>((high[i] << 16) + (middle[i] << 8) + low[i]);
      out[r * out_stride + c] +=
          static_cast<float>(sum) * (columns.units[column * kTile + c] * rows.units[row * kTile + r]);
    }
}

}  // namespace

void round_group(Index steps, const float* from, Index stride, std::int32_t* integers, float* units) {
  std::array<std::int32_t, kSingleLanes * kRoundedSteps / 2> pairs;
  avx512::round_group(steps, from, stride, pairs.data(), units);
  const Index chunks = (steps + kTileSteps - 1) / kTileSteps, filled = (steps + 1) / 2 * kSingleLanes;
  std::fill(pairs.begin() + filled, pairs.begin() + chunks * kTileSteps / 2 * kSingleLanes, 0);
  for (Index tile = 0; tile < kSingleLanes / kTile; ++tile)
    for (Index chunk = 0; chunk < chunks; ++chunk)
      for (const int shift : {8, 0}) {
        std::int32_t* column = integers + tile * kVectors + chunk * kChunk +
                               (shift == 8 ? kColumnHigh : kColumnLow) * kTileItems;
        std::int32_t* row = column + (kRowHigh - kColumnHigh) * kTileItems;
        const std::int32_t* pair = pairs.data() + chunk * (kTileSteps / 2) * kSingleLanes + tile * kTile;
        for (int k = 0; k < kTileSteps / 4; ++k, pair += 2 * kSingleLanes)
          for (int v = 0; v < kTile; ++v)
            column[k * kTile + v] = four_bytes(pair[v], pair[kSingleLanes + v], shift);
        for (int v = 0; v < kTile; ++v)
          for (int k = 0; k < kTile; ++k) row[v * kTile + k] = column[k * kTile + v];
      }
}

void add_block(Index steps, RoundedGroup columns, RoundedGroup rows, float* out, Index out_stride) {
  _tile_loadconfig(&kShapes);
  for (Index row = 0; row < kSingleLanes / kTile; ++row)
    for (Index column = 0; column < kSingleLanes / kTile; ++column)
      multiply_tile((steps + kTileSteps - 1) / kTileSteps, columns, column, rows, row,
                    out + row * kTile * out_stride + column * kTile, out_stride);
  _tile_release();
}

}  // namespace amx
}  // namespace headlens::cpu
#endif
