#include "linalg/linear_program.hpp"

#include <Clp_C_Interface.h>

#include <algorithm>

#include "headlens/error.hpp"
#include "linalg/blas.hpp"

namespace headlens {
namespace {

constexpr int kPivots = 100;       // between two looks at the clock
constexpr int kMostSlices = 2000;  // ends what would cycle

}  // namespace

struct LinearProgram::Model {
  Clp_Simplex* clp = nullptr;
  Index rows = 0, columns = 0;
};

void LinearProgram::Delete::operator()(Model* model) const {
  if (model->clp) Clp_deleteModel(model->clp);
  delete model;
}

LinearProgram::LinearProgram(MatrixView<const double> rows, const Bounds& row_bounds,
                             const Bounds& column_bounds)
    : model_(new Model{nullptr, rows.rows, rows.cols}) {
  const auto n = static_cast<std::size_t>(rows.rows), columns = static_cast<std::size_t>(rows.cols);
  ensure(row_bounds.lower.size() == n && row_bounds.upper.size() == n &&
             column_bounds.lower.size() == columns && column_bounds.upper.size() == columns,
         "linear program: bounds do not fit (", rows.rows, " x ", rows.cols, ")");
  use_one_blas_thread();
  std::vector<CoinBigIndex> starts{0};
  std::vector<int> indices;
  std::vector<double> values;
  for (Index j = 0; j < rows.cols; ++j) {
    for (Index i = 0; i < rows.rows; ++i)
      if (rows(i, j) != 0) indices.push_back(blas_int(i)), values.push_back(rows(i, j));
    starts.push_back(static_cast<CoinBigIndex>(indices.size()));
  }
  model_->clp = Clp_newModel();
  Clp_setLogLevel(model_->clp, 0);
  Clp_setMaximumIterations(model_->clp, kPivots);
  const std::vector<double> objective(columns, 0.0);
  Clp_loadProblem(model_->clp, blas_int(rows.cols), blas_int(rows.rows), starts.data(), indices.data(),
                  values.data(), column_bounds.lower.data(), column_bounds.upper.data(), objective.data(),
                  row_bounds.lower.data(), row_bounds.upper.data());
}

LpSolution LinearProgram::minimise(const std::vector<double>& objective,
                                   const std::function<bool()>& expired) {
  ensure(static_cast<Index>(objective.size()) == model_->columns, "linear program: ", objective.size(),
         " coefficients, expected ", model_->columns);
  Clp_Simplex* clp = model_->clp;
  Clp_chgObjCoefficients(clp, objective.data());
  // A basis that was optimal for another objective is feasible still: the primal method goes on from it.
  // Status 3 means that the pivots of this slice are used up.
  int slices = 0;
  do Clp_primal(clp, 0);
  while (Clp_status(clp) == 3 && ++slices < kMostSlices && !(expired && expired()));
  LpSolution out;
  switch (Clp_status(clp)) {
    case 0:
      out.status = LpStatus::optimal;
      break;
    case 1:
      out.status = LpStatus::infeasible;
      break;
    case 2:
      out.status = LpStatus::unbounded;
      break;
    default:
      out.status = LpStatus::stalled;
  }
  if (!out.ok()) return out;
  out.value = Clp_getObjValue(clp);
  out.x.assign(Clp_getColSolution(clp), Clp_getColSolution(clp) + model_->columns);
  return out;
}

}  // namespace headlens
