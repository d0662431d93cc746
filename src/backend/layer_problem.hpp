// The recovery problem on one machine. F is linear in W, so W is eliminated: for parameters p of the heads
// (all Theta (d, m d)) and the attended tokens Phi(p) (n k, m d),
//
//   W(p) = argmin |Phi W - Y|^2 + lambda |W|^2,    cost(p) = |Phi W - Y|^2 + lambda |W|^2 at that W,
//
// with lambda = ridge * mean diagonal of Phi^T Phi. Examples, attention and Phi stay on the machine.
// Parameters, W and sums cross.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/directions.hpp"
#include "headlens/model.hpp"
#include "linalg/matrix.hpp"

namespace headlens::backend {

// x (n k, d), y (n k, e): views that outlive the problem. row_weights, where given: 1 for the rows that
// count, 0 for the others, whose y must be 0.
struct LayerExamples {
  MatrixView<const double> x, y;
  Index tokens = 0;  // k
  std::vector<double> row_weights = {};
  std::vector<Index> lengths = {};  // tokens of every example; empty where all have k
  // (n k, e), where given: 1 for the labels that count, 0 for the others, whose y must be 0.
  MatrixView<const double> seen = {nullptr, 0, 0};
};

// What one choice of parameters gives; a machine keeps more beside it. Points are reused from step to step,
// since their arrays are the bulk of the memory.
class LayerPoint {
 public:
  virtual ~LayerPoint() = default;
  Matrix<double> parameters;  // (d, m d)
  Matrix<double> w;           // (m d, e)
  double squares = 0;         // |Y - Phi W|^2
  double cost = 0;            // with the ridge
  bool finite = true;
};

struct Step {
  Matrix<double> direction;
  double predicted = 0;  // decrease of |r|^2 that the linear model promises
  int inner = 0;         // iterations of conjugate gradients
};

// The residual near a point, to first order: r(p + dp) = r(p) - P_perp J dp, in Kaufman's approximation, with
// J dp = dPhi W and P_perp = I - Phi (Phi^T Phi + lambda)^-1 Phi^T. J is applied, never formed.
class LinearModel {
 public:
  virtual ~LinearModel() = default;
  // The point has been linearised, and outlives its use here. The preconditioner stays where it was.
  virtual void move_to(const LayerPoint& point) = 0;
  virtual void refresh_preconditioner(const LayerPoint& point) = 0;
  virtual void shift_preconditioner(double mu) = 0;

  // (J^T P_perp J + mu) dp = gradient by preconditioned conjugate gradients in the given precision.
  // `expired`, asked before every iteration, ends the solve where it is.
  virtual Step solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                     Precision precision, const std::function<bool()>& expired) = 0;
  virtual Matrix<double> precondition(const Matrix<double>& a) const = 0;

  // In double, with z (n k, e):
  virtual void derivative(MatrixView<const double> dp, MatrixView<double> z) = 0;       // z = J dp
  virtual void project(MatrixView<double> z) = 0;                                       // z = P_perp z
  virtual void adjoint(MatrixView<const double> z, MatrixView<double> dp) = 0;          // dp = J^T z
  virtual void normal_product(MatrixView<const double> a, MatrixView<double> out) = 0;  // J^T P_perp J a
  virtual Matrix<double> best_w(MatrixView<const double> z) = 0;  // (Phi^T Phi + lambda)^-1 Phi^T z

  // An error nu (n k, e) of the labels moves the parameters along dp = J^T P_perp nu, and for the step dp
  // that it causes W by best_w(nu - J dp).
  virtual void respond(MatrixView<const double> nu, MatrixView<double> dp);
  virtual Matrix<double> respond_in_w(MatrixView<const double> nu, MatrixView<const double> dp);

  // Directions on this machine, at the point and with the preconditioner that the model has when they are
  // used. Those of the host, unless a machine has its own.
  virtual std::unique_ptr<Directions> directions();
  // The same with a gauge fixed in the products; null if the machine leaves that to the host.
  virtual std::unique_ptr<Directions> directions(const FixedGauge&) { return nullptr; }
};

class LayerProblem {
 public:
  virtual ~LayerProblem() = default;
  virtual Index rows() const = 0;  // n k
  virtual Index tokens() const = 0;
  virtual Index dim() const = 0;
  virtual Index heads() const = 0;
  virtual Index outputs() const = 0;
  virtual double y_squares() const = 0;
  // |Y|^2 / unknowns is the unit of the damping mu (levenberg_marquardt.hpp).
  virtual double unknowns() const { return static_cast<double>(heads() * dim() * dim()); }

  virtual std::unique_ptr<LayerPoint> make_point() const = 0;
  virtual void evaluate(Matrix<double> parameters, double ridge, LayerPoint& point) const = 0;
  virtual void solve_for_w(double ridge, LayerPoint& point) const = 0;  // another ridge, same parameters
  virtual Matrix<double> residual(const LayerPoint& point) const = 0;   // Y - Phi W (n k, e)

  virtual void linearise(LayerPoint& point) const = 0;  // before any of the following
  // dp = J^T residual: minus half the slope of the cost.
  virtual void gradient(const LayerPoint& point, MatrixView<double> dp) const = 0;
  virtual std::unique_ptr<LinearModel> make_linear_model() const = 0;
};

}  // namespace headlens::backend
