// The path of backend/gram.hpp: a factor at every penalty.
#pragma once

#include "cuda/design/device_gram.hpp"

namespace headlens::cuda {

// out = (matrix + shift of its factor)^-1 in; in double refined until the residual no longer halves.
template <class T>
void solve_factored(const Symmetric<T>& matrix, MatrixView<const double> in, MatrixView<double> out);

// Null if the squares leave the range of T.
template <class T>
std::unique_ptr<backend::ShiftPath> make_shift_path(Symmetric<T> matrix,
                                                    std::shared_ptr<const Equations> equations,
                                                    const backend::Context& context);

}  // namespace headlens::cuda
