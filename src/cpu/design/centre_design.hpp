// The design of Nystrom features (cpu/kernels/nystrom_map.hpp).
#pragma once

#include "cpu/design/design_matrix.hpp"
#include "cpu/kernels/nystrom_map.hpp"

namespace headlens::cpu {

class CentreDesign final : public DesignMatrix<double> {
 public:
  CentreDesign(std::unique_ptr<const NystromMap> map, const backend::FeatureSource& source,
               const backend::Context& context)
      : DesignMatrix<double>(std::move(map), source, context) {}

  std::unique_ptr<backend::Factor> preconditioner(double shift) override;
  Matrix<double> stored(MatrixView<const double> values) const override {
    return nystrom().coefficients(values);
  }

 private:
  const NystromMap& nystrom() const { return static_cast<const NystromMap&>(map()); }
};

}  // namespace headlens::cpu
