// The bodies of moment_rows.hpp, compiled once per instruction set. The including file defines HEADLENS_ISA
// (the namespace, so that the linker never mixes instruction sets) and HEADLENS_VECTOR_BYTES. Vectors are
// GCC/Clang vector extensions: the flags of the file choose the instructions.
#include "cpu/kernels/moment_rows.hpp"
#include "features/arc_cosine.hpp"

namespace headlens::cpu::HEADLENS_ISA {
namespace {

typedef double Vector __attribute__((vector_size(HEADLENS_VECTOR_BYTES)));
constexpr int kWidth = HEADLENS_VECTOR_BYTES / static_cast<int>(sizeof(double));
constexpr int kVectors = static_cast<int>(kColumnBlock) / kWidth;

inline Vector load(const double* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store(double* to, Vector v) { *reinterpret_cast<Vector*>(to) = v; }
inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }
inline Vector smaller(Vector a, Vector b) { return a < b ? a : b; }
inline Vector magnitude(Vector a) { return larger(a, -a); }

inline Vector square_root(Vector a) {
  for (int i = 0; i < kWidth; ++i) a[i] = __builtin_sqrt(a[i]);
  return a;
}

template <int Size>
inline Vector polynomial(const double (&coefficients)[Size], Vector x) {
  Vector sum = x * coefficients[Size - 1] + coefficients[Size - 2];
#pragma GCC unroll 16
  for (int k = Size - 3; k >= 0; --k) sum = sum * x + coefficients[k];
  return sum;
}

inline Vector kappa_small(Vector rho) {
  constexpr double kAtZero = 0.15915494309189533577;  // 1 / (2 pi)
  const Vector square = rho * rho;
  return (kAtZero + 0.25 * rho) + square * polynomial(kKappaSmall, square);
}

inline Vector kappa_large(Vector rho) {
  const Vector size = magnitude(rho), z = 0.5 - 0.5 * size;
  return 0.25 * (rho + size) + z * square_root(z) * polynomial(kKappaLarge, z);
}

// rho of a block of columns; returns the largest |rho|, which rounding may lift above 1.
inline double correlations(const MomentRow& row, Index first, Vector* rho) {
  Vector largest{};
  for (int v = 0; v < kVectors; ++v) {
    rho[v] = load(row.query_cosines + first + v * kWidth) * load(row.cosines + first + v * kWidth);
    largest = larger(largest, magnitude(rho[v]));
  }
  double bound = largest[0];
  for (int i = 1; i < kWidth; ++i) bound = largest[i] > bound ? largest[i] : bound;
  return bound;
}

inline void clamp(Vector* rho) {
  const Vector one = Vector{} + 1.0;
  for (int v = 0; v < kVectors; ++v) rho[v] = larger(smaller(rho[v], one), -one);
}

inline void add_moment(const MomentRow& row, Index column, Vector moment) {
  store(row.sums + column, load(row.sums + column) + row.weight * load(row.factors + column) * moment);
}

}  // namespace

void arc_cosine(const MomentRow& row) {
  const Vector reach = Vector{} + kKappaSmallReach;
  for (Index first = 0; first < row.columns; first += kColumnBlock) {
    Vector rho[kVectors];
    const bool small = correlations(row, first, rho) <= kKappaSmallReach;
    if (!small) clamp(rho);
    for (int v = 0; v < kVectors; ++v) {
      Vector moment = kappa_small(rho[v]);
      if (!small) moment = magnitude(rho[v]) > reach ? kappa_large(rho[v]) : moment;
      add_moment(row, first + v * kWidth, moment);
    }
  }
}

bool mehler(const MomentRow& row, const double* row_coefficients, const double* column_coefficients,
            const MehlerTerms& terms) {
  const Vector reach = Vector{} + kMehlerReach;
  bool beyond = false;
  for (Index first = 0; first < row.columns; first += kColumnBlock) {
    Vector rho[kVectors], moments[kVectors] = {};
    const double largest = correlations(row, first, rho);
    const double* columns = column_coefficients + first * kMehlerTerms;
    for (Index t = terms.needed(largest) - 1; t >= 0; --t) {
      const double coefficient = row_coefficients[t];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v)
        moments[v] = moments[v] * rho[v] + coefficient * load(columns + t * kColumnBlock + v * kWidth);
    }
    const bool all = largest <= kMehlerReach;
    beyond = beyond || !all;
    for (int v = 0; v < kVectors; ++v) {
      if (!all) moments[v] = magnitude(rho[v]) > reach ? Vector{} : moments[v];
      add_moment(row, first + v * kWidth, moments[v]);
    }
  }
  return beyond;
}

}  // namespace headlens::cpu::HEADLENS_ISA
