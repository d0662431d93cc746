// One key of a set against the keys of a tile of sets, vectorised: sums[j] += weight factor_j E_j, where E_j
// is the moment of the standardised scores (moments.hpp) at rho_j = query_cosine_j cosine_j.
//
//   arc cosine    zero means:  E = kappa(rho) = [sqrt(1 - rho^2) + rho (pi - arccos rho)] / (2 pi)
//   Mehler        E = sum_t rho^t c_t(h) c_t(k) / t!,  c_0 = h Phi(h) + phi(h), c_1 = Phi(h),
//                 c_t = (-1)^t He_{t-2}(h) phi(h): the c_t belong to one key and are tabulated.
//
// |He_n(h)| <= 1.0865 sqrt(n!) exp(h^2/4) (Cramer) bounds what lies beyond term T, for every h and k:
//
//   rest <= 0.188 |rho|^(T+1) / (T (T+1) (1 - |rho|)).
//
// The number of terms follows from the largest |rho| of a block of columns, such that the rest is below
// kMehlerTolerance; up to kMehlerReach that takes at most kMehlerTerms terms.
#pragma once

#include "base/cpu.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

constexpr Index kColumnBlock = 32;  // arrays over columns are padded to whole blocks, with factors of 0

constexpr double kMehlerTolerance = 1e-11;
constexpr Index kMehlerTerms = 64;
constexpr double kMehlerReach = 0.76;

struct MomentRow {
  const double* cosines = nullptr;
  const double* query_cosines = nullptr;
  const double* factors = nullptr;
  Index columns = 0;  // a multiple of kColumnBlock
  double weight = 0;
  double* sums = nullptr;
};

// c_t(h) / sqrt(t!) of a block of keys: out is (kMehlerTerms, kColumnBlock).
void mehler_coefficients(const double* h, double* out);

// How many terms |rho| <= bound needs; beyond kMehlerReach as many as at it.
class MehlerTerms {
 public:
  MehlerTerms();
  Index needed(double bound) const {
    return terms_[bound < kMehlerReach ? static_cast<int>(bound * kSteps)
                                       : static_cast<int>(kMehlerReach * kSteps)];
  }

 private:
  static constexpr int kSteps = 128;
  Index terms_[kSteps];
};

struct MomentRowFunctions {
  void (*arc_cosine)(const MomentRow& row);
  // Coefficients of the row: kMehlerTerms; of the columns: (blocks, kMehlerTerms, kColumnBlock). Columns
  // beyond kMehlerReach are left alone; returns whether there are any.
  bool (*mehler)(const MomentRow& row, const double* row_coefficients, const double* column_coefficients,
                 const MehlerTerms& terms);
};

MomentRowFunctions moment_row_functions(SimdLevel level);

}  // namespace headlens::cpu
