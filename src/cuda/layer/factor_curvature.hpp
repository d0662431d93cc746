// The preconditioner of the problem in factors on the device: cpu/layer/factor_curvature.hpp has the
// equations. All heads are treated at once, as 3 m blocks (d, r) of one rank r, the largest: Q of every head,
// then K, then V, with zeros in the columns that a head does not have. Of heads that share K and V the first
// has both. With rotary positions directions that turn slowly are added (backend/slow_turns.hpp).
#pragma once

#include <optional>

#include "backend/slow_turns.hpp"
#include "cuda/layer/factor_problem.hpp"

namespace headlens::cuda {

template <class T>
class FactorTangent;

// Where the blocks lie.
struct BlockShape {
  Index dim = 0, heads = 0, rank = 0;
  Index parameter_columns = 0;
  const backend::HeadColumns* columns = nullptr;  // (m), on the device
  Index shared = 1;                               // heads, one after another, that share K and V
};

Index largest_rank(const backend::HeadRanks& ranks);

class FactorCurvature {
 public:
  void refresh(const FactorProblem& problem, const FactorPoint& point, const FactorTangent<float>& tangent);
  void shift(double mu);
  template <class T>
  void apply(DeviceMatrix<T>& a) const;

 private:
  // Eigenvectors as rows, rounded to the precision in which they are applied.
  template <class T>
  struct Turns {
    DeviceArray<T> left, right;  // (2 m, d, d) and (3 m, r, r)
    bool ready = false;
  };
  void sum_values(const FactorProblem& problem, const FactorTangent<float>& tangent);
  void sum_logits(const FactorProblem& problem, const FactorTangent<float>& tangent);
  void forget_turns(const backend::HeadRanks& ranks);
  void share_moments();
  void refresh_slow(const FactorProblem& problem, const FactorPoint& point);
  template <class T>
  void add_slow(const Matrix<double>& given, DeviceMatrix<T>& a) const;
  const Turns<float>& turns(float) const { return single_; }
  const Turns<double>& turns(double) const;

  BlockShape shape_;
  std::optional<FixedEntries> fixed_;
  DeviceArray<backend::HeadColumns> columns_;
  std::vector<backend::HeadColumns> host_columns_;
  Turns<float> single_;
  mutable Turns<double> double_;
  DeviceArray<float> left_values_, right_values_;  // (2 m, d) and (3 m, r)
  // Of every group of heads, with rotary positions. Solved on the host: a few columns of each head.
  std::vector<backend::SlowTurns> slow_;
  double mu_ = 0;
  int threads_ = 1;
};

}  // namespace headlens::cuda
