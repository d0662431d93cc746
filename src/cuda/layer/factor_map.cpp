#include "cuda/layer/factor_map.hpp"

#include "cuda/layer/curvature_kernels.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

// The most tokens whose squares the preconditioner's kernel holds in the shared memory of a block.
Index most_tokens() {
  int number = 0, bytes = 0;
  check(cudaGetDevice(&number));
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, number));
  Index most = kMostTokens;
  while (most > 1 && bend_bytes(most) > static_cast<std::size_t>(bytes)) --most;
  return most;
}

}  // namespace

void require_tokens(Index tokens) {
  const Index most = most_tokens();
  if (tokens <= most) return;
  throw Error(ErrorCode::environment,
              message(option("backend"), ": cuda recovers from examples of at most ", most,
                      " tokens on this device, the examples have ", tokens, ": ask for cpu"));
}

template <class T>
FactorMap<T>::FactorMap(MatrixView<const T> x, Index tokens, const backend::HeadRanks& ranks,
                        const std::vector<Index>& lengths, Digits digits)
    : x_(x),
      columns_(DeviceArray<backend::HeadColumns>::from(backend::columns_of(ranks))),
      shape_{x.rows,
             tokens,
             ranks.heads(),
             ranks.parameter_columns(),
             ranks.value_columns(),
             columns_.data(),
             ranks.causal,
             nullptr,
             ranks.shared},
      fixed_(ranks),
      positions_(ranks, tokens),
      digits_(digits) {
  set_lengths(lengths);
}

template <class T>
void FactorMap<T>::set_lengths(const std::vector<Index>& lengths) {
  if (lengths.empty()) return;
  lengths_ = DeviceArray<Index>::from(lengths);
  shape_.lengths = lengths_.data();
}

template <class T>
void FactorMap<T>::evaluate(MatrixView<const T> parameters, DeviceMatrix<T>& z, DeviceMatrix<T>& p,
                            DeviceMatrix<T>& phi) const {
  multiply(Trans::no, Trans::no, 1, x_, parameters, 0, z.view(), digits_);
  positions_.turn(z, 1);
  attend(shape_, z.data(), p.data(), phi.data());
}

template <class T>
void FactorMap<T>::derivative(const T* z, const T* p, MatrixView<const T> dparameters,
                              DeviceMatrix<T>& dphi) const {
  DeviceMatrix<T> moved = make_activations();
  multiply(Trans::no, Trans::no, 1, x_, dparameters, 0, moved.view(), digits_);
  positions_.turn(moved, 1);
  attend_along(shape_, z, p, moved.data(), dphi.data());
}

template <class T>
void FactorMap<T>::adjoint(const T* z, const T* p, const DeviceMatrix<T>& g,
                           MatrixView<T> dparameters) const {
  DeviceMatrix<T> back = make_activations(), c = make_attention();
  attend_back(shape_, z, p, g.data(), c.data(), back.data());
  positions_.turn(back, -1);
  multiply(Trans::yes, Trans::no, 1, x_, MatrixView<const T>(back.view()), 0, dparameters, digits_);
  fixed_.pin(dparameters);
}

template class FactorMap<float>;
template class FactorMap<double>;

}  // namespace headlens::cuda
