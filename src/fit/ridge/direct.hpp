// The normal equations by a factorisation in double.
#pragma once

#include <optional>
#include <string>

#include "backend/gram.hpp"
#include "backend/route.hpp"
#include "fit/problem.hpp"

namespace headlens::training {

// (gram + n ridge)^-1 rhs: alpha (n, q) in the dual, V (p, q) in the primal, with the ridge given, zero or
// chosen by leave-one-out. Fills in the report; its method begins with `side`. Nothing if no ridge leaves the
// matrix positive definite.
std::optional<Matrix<double>> solve_gram(backend::Gram& gram, backend::Method method, const Problem& problem,
                                         const std::string& side, FitReport& report);

}  // namespace headlens::training
