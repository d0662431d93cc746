// Phi on the device, centred: held, or computed in blocks of rows whenever it is needed.
#pragma once

#include <functional>
#include <memory>

#include "cuda/design/device_gram.hpp"
#include "cuda/features/feature_map.hpp"

namespace headlens::cuda {

template <class T>
class HeadDesign : public DeviceDesign {
 public:
  HeadDesign(std::unique_ptr<FeatureMap<T>> map, const backend::FeatureSource& source,
             const backend::Context& context);

  Index rows() const override { return sets_.count(); }
  Index columns() const override { return map_->columns(); }
  Precision precision() const override { return sizeof(T) == 4 ? Precision::f32 : Precision::f64; }
  const std::vector<double>& means() override;
  void hold() override;

  Matrix<double> forward(MatrixView<const double> v, std::string_view phase) override;
  Matrix<double> adjoint(MatrixView<const double> r, std::string_view phase) override;
  Matrix<double> inner_product(MatrixView<const double> v, std::string_view phase,
                               const std::vector<double>& weights) override;
  double mean_square_row() override;
  backend::Residuals check(MatrixView<const double> values, MatrixView<const double> targets) override;

  std::unique_ptr<backend::Gram> gram(const backend::GramRequest& request) override;
  std::unique_ptr<backend::Factor> preconditioner(double) override { return nullptr; }

  std::vector<Index> head_of_column() const override { return backend::heads_of_columns(*map_); }
  Matrix<double> stored(MatrixView<const double> values) const override {
    return backend::in_stored_order(*map_, values);
  }
  std::vector<double> stored_means() override { return backend::in_stored_order(*map_, means()); }

  void gather(const std::vector<Index>& examples, float* to) override { gather_into(examples, to); }
  void gather(const std::vector<Index>& examples, double* to) override { gather_into(examples, to); }

 private:
  using Visit = std::function<void(Index first, Index count, const T* block)>;

  void for_blocks(std::string_view phase, const Visit& visit);  // centred
  void for_raw_blocks(std::string_view phase, const std::function<void(Index, Index, T*)>& visit);
  void prepare();  // means and scales
  void compute(Index first, Index count, T* to);
  template <class To>
  void gather_into(const std::vector<Index>& examples, To* to);
  Symmetric<double> exact_gram(bool dual);
  Symmetric<float> float_gram(bool dual);

  std::unique_ptr<FeatureMap<T>> map_;
  const Sets& sets_;
  bool centre_;
  backend::Context context_;
  std::vector<double> position_table_;
  Index block_rows_;
  bool resident_;     // all tokens stay on the device
  Tokens<T> tokens_;  // all, or those of the latest block
  DeviceArray<T> held_, block_;
  std::vector<double> means_;
  DeviceArray<double> device_means_, keep_;  // keep: 0 for columns that do not vary
  DeviceArray<float> scale_;                 // powers of two above the entries of the columns
};

// In the precision of the features.
std::unique_ptr<backend::Design> make_head_design(const backend::FeatureSource& source, const Array& heads,
                                                  const backend::Context& context);

// Rows computed at once, and whether tokens stay on the device: from shapes alone.
Index rows_of_block(Index columns, std::size_t item);
bool are_resident(const Sets& sets, std::size_t item);

}  // namespace headlens::cuda
