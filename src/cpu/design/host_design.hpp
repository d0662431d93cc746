// What the paths over penalties read of a design in memory, whatever the type of its features.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

constexpr Index kRowTile = 1024;

class HostDesign : public backend::Design {
 public:
  using TileVisit = std::function<void(Index first, Matrix<double>& rows)>;
  using FloatVisit = std::function<void(Index first, MatrixView<const float> rows)>;

  explicit HostDesign(const backend::Context& context) : context_(context) {}

  // visit(first row, copies of at most kRowTile rows, which the visitor may change), in order.
  virtual void for_tiles(std::string_view phase, const TileVisit& visit) = 0;
  // visit(first row, rows rounded to float), in order, in blocks of the design.
  virtual void for_float_blocks(std::string_view phase, const FloatVisit& visit) = 0;

  // The examples of all ranks, and the number of the first one here.
  virtual Whole whole() const = 0;

  const backend::Context& context() const { return context_; }
  int threads() const { return context_.threads; }

 protected:
  backend::Context context_;
};

}  // namespace headlens::cpu
