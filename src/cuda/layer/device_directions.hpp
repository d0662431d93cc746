// Directions of the parameters on the device (backend/directions.hpp).
#pragma once

#include <optional>

#include "cuda/layer/curvature_kernels.hpp"
#include "cuda/layer/factor_model.hpp"

namespace headlens::cuda {

// The part of a direction that changes no head (recover/factors/gauge.hpp has the equations), for all heads
// at once, as blocks of one rank (factor_curvature.hpp).
class Gauge {
 public:
  Gauge(const backend::FixedGauge& fixed, int threads);
  void add(const DeviceMatrix<double>& a, DeviceMatrix<double>& to) const;  // to += curvature part(a)

 private:
  DeviceArray<backend::HeadColumns> columns_;
  BlockShape shape_;
  DeviceArray<double> factors_, sizes_;  // (3 m, d, r), and |q_j|^2 (m, r)
  double curvature_;
};

std::unique_ptr<backend::Directions> make_device_directions(FactorModel& model, int threads,
                                                            std::optional<Gauge> gauge);

}  // namespace headlens::cuda
