// The recovery problem over ranks: each has the rows of its own examples, in a problem of its own back end,
// which need not know of the others but for sums (backend/layer_problem.hpp). Parameters, W and what a point
// says of them are the same on every rank; arrays over all rows, which few callers ask for, are gathered:
//
//   evaluate           p (p + 1) / 2 + p e numbers are summed, p the columns of Phi
//   product J^T P J    p e and the parameters, per iteration of conjugate gradients
//   residual           n k e are gathered
#pragma once

#include "backend/backend.hpp"

namespace headlens::distributed {

// The rows of this rank, of equal parts; whole where there are fewer examples than ranks.
backend::LayerExamples own_part(const backend::LayerExamples& examples, comm::Communicator& ranks);

// Whether every rank gets some.
bool has_parts(const backend::LayerExamples& examples, comm::Communicator& ranks);

// local: of own_part(examples).
std::unique_ptr<backend::LayerProblem> sharded_problem(std::unique_ptr<backend::LayerProblem> local,
                                                       const backend::LayerExamples& examples,
                                                       comm::Communicator& ranks);

// Every rank takes its part of every batch. local: of all examples.
std::unique_ptr<backend::FactorDescent> sharded_descent(std::unique_ptr<backend::FactorDescent> local,
                                                        comm::Communicator& ranks);

}  // namespace headlens::distributed
