// O eliminated on the device: the twin of cpu/layer/readout.hpp, in double. Labels may be missing.
#pragma once

#include "backend/layer_problem.hpp"
#include "cuda/layer/seen_labels.hpp"

namespace headlens::cuda {

struct FactorPoint final : backend::LayerPoint {  // parameters (d, 2 a + b), w = O (b, e)
  DeviceMatrix<double> z, p, phi;                 // (n k, 2 a + b), (n k, m k), (n k, b)
  DeviceMatrix<double> residual;                  // (n k, e) Y - Phi O
  DeviceMatrix<double> gram, factor;              // (b, b) Phi^T Phi, and L in the lower triangle by columns
  DeviceMatrix<double> product, o;                // (b, e) Phi^T Y and O
  const SeenLabels* seen = nullptr;
  DeviceMatrix<double> cores;  // where labels are missing: M_c^-1 of every group of outputs
};
inline FactorPoint& as_factor_point(backend::LayerPoint& point) { return static_cast<FactorPoint&>(point); }
inline const FactorPoint& as_factor_point(const backend::LayerPoint& point) {
  return static_cast<const FactorPoint&>(point);
}

// seen outlives the point.
void allocate_readout(FactorPoint& point, Index rows, Index features, Index outputs, const SeenLabels& seen);
void gather_readout(const DeviceMatrix<double>& y, FactorPoint& point);
void solve_readout(const DeviceMatrix<double>& y, double y_squares, double ridge, int threads,
                   FactorPoint& point);

// q (n k, b) = Phi L^-T
DeviceMatrix<double> orthonormal_features(const FactorPoint& point);
// (Phi^T Phi + lambda)^-1 Phi^T z, of the labels that count
DeviceMatrix<double> best_readout(const FactorPoint& point, DeviceMatrix<double> z);

}  // namespace headlens::cuda
