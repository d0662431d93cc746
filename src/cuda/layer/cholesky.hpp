// Cholesky factors L L^T of symmetric matrices on the device, in double, in the lower triangle by columns.
#pragma once

#include "cuda/layer/device_matrix.hpp"

namespace headlens::cuda {

// a (size, size) becomes the factor of a + shift. false if a + shift is not positive definite.
bool factorise(DeviceMatrix<double>& a, double shift);

// b (size, q) by rows = L^-1 b, L^-T b and (L L^T)^-1 b.
void solve_lower(const DeviceMatrix<double>& l, DeviceMatrix<double>& b);
void solve_upper(const DeviceMatrix<double>& l, DeviceMatrix<double>& b);
void solve_factored(const DeviceMatrix<double>& l, DeviceMatrix<double>& b);

}  // namespace headlens::cuda
