#include "cpu/layer/readout_problem.hpp"

#include <utility>

#include "linalg/vector_space.hpp"

namespace headlens::cpu {

ReadoutProblem::ReadoutProblem(const backend::LayerExamples& examples, int threads, comm::Communicator& ranks)
    : x_(examples.x),
      y_(examples.y),
      seen_(examples.seen, ranks),
      threads_(threads),
      ranks_(ranks),
      y_squares_(ranks.sum(squared_norm(y_))) {}

void ReadoutProblem::evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& at) const {
  ReadoutPoint& point = static_cast<ReadoutPoint&>(at);
  point.parameters = std::move(parameters);
  make_features(point);
  gather_readout(y_, threads_, point);
  solve_for_w(ridge, point);
}

void ReadoutProblem::solve_for_w(double ridge, backend::LayerPoint& at) const {
  solve_readout(y_, y_squares_, ridge, threads_, static_cast<ReadoutPoint&>(at));
}

Matrix<double> ReadoutProblem::residual(const backend::LayerPoint& at) const {
  return copy_of(static_cast<const ReadoutPoint&>(at).residual);
}

}  // namespace headlens::cpu
