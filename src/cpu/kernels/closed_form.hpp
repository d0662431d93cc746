// Kernels with a closed form, in tiles of sets.
//
//   K(x, x') = f f' sum_ij w_i w'_j t_ij E(rho_ij),   rho_ij = <u_0, u'_0> <u_i, u'_j>,   u = xt / |xt|
//
// and t_ij = <u_i, u'_j>, the inner products of tokens, from one GEMM for 64 keys against a tile. What f and
// w are depends on the score; for relu E is the moment of standardised scores, w_i = |xt_i|^2 and f =
// weight_scale |xt_0| / N. mlp is the same with the whole set as one key, no query, and t = 1.
//
// A pair of sets costs N N' moments (1 for mlp) and 2 N N' D flops.
#pragma once

#include <functional>

#include <string>

#include "cpu/kernels/moment_rows.hpp"
#include "cpu/kernels/token_tile.hpp"
#include "headlens/execution.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {

class ClosedFormKernel {
 public:
  // `options` with the scales filled in. exact: Owen's T for every pair of the biased relu.
  ClosedFormKernel(const FeatureOptions& options, bool exact, SimdLevel level = simd_level());

  std::string method() const;

  // out (last - first, b) = K(a[first, last), b). first: a multiple of a.tile_sets(). Throws Error if an
  // entry is not finite. Entries do not depend on the range or on threads.
  template <class T>
  void compute(const TokenSource& a, Index first, Index last, const TokenSource& b, MatrixView<T> out,
               const Execution& execution) const;

  // out = K(a, a), both triangles, each pair once.
  template <class T>
  void compute_symmetric(const TokenSource& a, MatrixView<T> out, const Execution& execution) const;

  // What the threads hold beside the output.
  double buffer_bytes(const TokenSource& a, const TokenSource& b, int threads) const;

 private:
  enum class Form { arc_cosine, series, owen, step, exponential, constant_scores };
  struct Side;
  struct Workspace;

  void prepare(TokenTile tokens, Side& side) const;
  void prepare_series(Side& side) const;
  Matrix<double> compute_tile(const TokenSource& a, Tile i, const TokenSource& b, Tile j, Workspace& work,
                              const std::function<void(double)>& report) const;
  Matrix<double> compute_tile(Workspace& work, const std::function<void(double)>& report) const;
  void start_set(Workspace& work, Index set, Index columns) const;
  void finish_set(const Workspace& work, Index set, MatrixView<double> out) const;
  void add_row(const Side& a, Index key, const Side& b, const MomentRow& row) const;
  template <class Moment>
  void add_scalar_row(const Side& b, const MomentRow& row, Moment&& moment) const;

  FeatureOptions options_;
  Form form_;
  MomentRowFunctions functions_;
  MehlerTerms terms_;
};

}  // namespace headlens::cpu
