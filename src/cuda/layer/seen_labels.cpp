#include "cuda/layer/seen_labels.hpp"

#include "backend/seen_labels.hpp"
#include "cuda/layer/cholesky.hpp"
#include "cuda/layer/vectors.hpp"

namespace headlens::cuda {
namespace {

DeviceMatrix<double> identity(Index size) {
  Matrix<double> out = Matrix<double>::zeros(size, size);
  for (Index i = 0; i < size; ++i) out(i, i) = 1;
  return upload<double>(out.view(), 1);
}

void copy_entries(const double* from, Index size, double* to) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(size) * sizeof(double), cudaMemcpyDeviceToDevice,
                        device().stream));
}

}  // namespace

SeenLabels::SeenLabels(MatrixView<const double> seen, int threads) {
  const backend::SeenLabels labels(seen, comm::serial());
  if (labels.all()) return;
  std::vector<Index> missing, group_of(static_cast<std::size_t>(seen.cols));
  for (std::size_t g = 0; g < labels.groups().size(); ++g) {
    const backend::SeenLabels::Group& group = labels.groups()[g];
    begins_.push_back(static_cast<Index>(missing.size()));
    missing.insert(missing.end(), group.missing.begin(), group.missing.end());
    for (const Index output : group.outputs)
      group_of[static_cast<std::size_t>(output)] = static_cast<Index>(g);
  }
  begins_.push_back(static_cast<Index>(missing.size()));
  seen_ = upload<float>(seen, threads);
  missing_ = DeviceArray<Index>::from(missing);
  group_of_ = DeviceArray<Index>::from(group_of);
}

bool SeenLabels::invert_cores(const DeviceMatrix<double>& q, DeviceMatrix<double>& cores) const {
  const Index b = q.cols();
  const DeviceMatrix<double> unit = identity(b);
  if (cores.size() == 0) cores = DeviceMatrix<double>(groups() * b, b);
  for (Index g = 0; g < groups(); ++g) {
    const Index first = begins_[static_cast<std::size_t>(g)],
                count = begins_[static_cast<std::size_t>(g) + 1] - first;
    DeviceMatrix<double> core(b, b), inverse(b, b), rows(count, b);
    core.clear();
    if (count > 0) {
      gather_examples(q.data(), b, 1, missing_.data() + first, count, rows.data());
      const MatrixView<const double> missed = std::as_const(rows).view();
      multiply(Trans::yes, Trans::no, -1, missed, missed, 0, core.view());
    }
    if (!factorise(core, 1)) return false;
    copy_entries(unit.data(), b * b, inverse.data());
    solve_factored(core, inverse);
    copy_entries(inverse.data(), b * b, cores.data() + g * b * b);
  }
  return true;
}

template <class T>
void SeenLabels::solve(const DeviceMatrix<T>& cores, DeviceMatrix<T>& c) const {
  DeviceMatrix<T> out(c.rows(), c.cols());
  multiply_columns(cores.data(), group_of_.data(), c.data(), c.rows(), c.cols(), out.data());
  c = std::move(out);
}

template void SeenLabels::solve(const DeviceMatrix<float>&, DeviceMatrix<float>&) const;
template void SeenLabels::solve(const DeviceMatrix<double>&, DeviceMatrix<double>&) const;

}  // namespace headlens::cuda
