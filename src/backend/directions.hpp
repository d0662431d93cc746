// Directions of the parameters of a recovery problem, for algorithms that work with many of them: they stay
// on the machine, and only inner products cross.
#pragma once

#include <memory>
#include <vector>

#include "backend/factors.hpp"
#include "linalg/matrix.hpp"

namespace headlens::backend {

class Direction {
 public:
  virtual ~Direction() = default;
};

class Directions {
 public:
  using Held = std::unique_ptr<Direction>;
  using Several = std::vector<const Direction*>;
  virtual ~Directions() = default;

  virtual Held hold(const Matrix<double>& a) = 0;
  virtual Matrix<double> fetch(const Direction& a) = 0;

  // <a_i, b>
  virtual std::vector<double> inner(const Several& a, const Direction& b) = 0;
  // to += sum_i factors_i from_i
  virtual void add(const std::vector<double>& factors, const Several& from, Direction& to) = 0;
  virtual void scale(double factor, Direction& a) = 0;
  virtual Held zero() = 0;

  virtual Held normal_product(const Direction& a) = 0;  // J^T P_perp J a
  virtual Held precondition(const Direction& a) = 0;

  double inner(const Direction& a, const Direction& b) { return inner(Several{&a}, b)[0]; }
  void add(double factor, const Direction& from, Direction& to) {
    add(std::vector<double>{factor}, Several{&from}, to);
  }
};

// `curvature` times the part of a direction that changes no head is added to its product
// (recover/factors/gauge.hpp). The factors are balanced.
struct FixedGauge {
  const HeadRanks& ranks;
  const FactorValues& values;
  double curvature;
};

}  // namespace headlens::backend
