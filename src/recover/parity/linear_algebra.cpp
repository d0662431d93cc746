// Gaussian elimination over GF(2), 64 unknowns a word: n d^2 / 64 operations for n equations.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "recover/parity/parity.hpp"

namespace headlens::recovery {
namespace {

// Unknown 0 is the constant, unknown j the membership of coordinate j; bit d is the right-hand side.
class Elimination {
 public:
  explicit Elimination(Index unknowns)
      : unknowns_(unknowns), words_(unknowns / 64 + 1), pivots_(static_cast<std::size_t>(unknowns)) {}

  using Equation = std::vector<std::uint64_t>;
  Equation make_equation() const { return Equation(static_cast<std::size_t>(words_), 0); }
  static void set(Equation& equation, Index bit) {
    equation[static_cast<std::size_t>(bit / 64)] |= std::uint64_t{1} << (bit % 64);
  }
  static bool has(const Equation& equation, Index bit) {
    return (equation[static_cast<std::size_t>(bit / 64)] >> (bit % 64) & 1) != 0;
  }

  // False if the equation contradicts those before it.
  bool add(Equation equation) {
    for (Index pivot = first(equation); pivot < unknowns_; pivot = first(equation)) {
      Equation& known = pivots_[static_cast<std::size_t>(pivot)];
      if (known.empty()) {
        known = std::move(equation);
        ++rank_;
        return true;
      }
      for (std::size_t w = 0; w < known.size(); ++w) equation[w] ^= known[w];
    }
    return !has(equation, unknowns_);
  }
  Index rank() const { return rank_; }

  // Unknowns that no equation decides are 0.
  std::vector<bool> solution() const {
    std::vector<bool> value(static_cast<std::size_t>(unknowns_), false);
    for (Index pivot = unknowns_ - 1; pivot >= 0; --pivot) {
      const Equation& row = pivots_[static_cast<std::size_t>(pivot)];
      if (row.empty()) continue;
      bool right = has(row, unknowns_);
      for (Index j = pivot + 1; j < unknowns_; ++j)
        right ^= has(row, j) && value[static_cast<std::size_t>(j)];
      value[static_cast<std::size_t>(pivot)] = right;
    }
    return value;
  }

 private:
  // The lowest bit that is set; `unknowns_` or more if only the right-hand side is left, or nothing.
  Index first(const Equation& equation) const {
    for (std::size_t w = 0; w < equation.size(); ++w)
      if (equation[w] != 0) return static_cast<Index>(w) * 64 + std::countr_zero(equation[w]);
    return unknowns_;
  }

  Index unknowns_, words_, rank_ = 0;
  std::vector<Equation> pivots_;  // by their lowest unknown
};

}  // namespace

ParitySolution solve_parity(const ActiveExamples& active, Effort& effort) {
  const Index d = active.bits.rows(), n = active.count();
  const double* v = active.labels.view().row(strongest_output(active));
  ParitySolution out;
  if (n == 0) return out;
  const auto [least, most] = std::minmax_element(v, v + n);
  const double middle = (*least + *most) / 2;
  Elimination system(d);
  for (Index i = 0; i < n && !effort.expired(); ++i) {
    if (i % 1024 == 0) {
      effort.execution().check_cancelled();
      effort.execution().report("linear algebra", static_cast<double>(i), static_cast<double>(n));
    }
    Elimination::Equation equation = system.make_equation();
    Elimination::set(equation, 0);
    for (Index j = 1; j < d; ++j)
      if (active.bits(j, i) < 0) Elimination::set(equation, j);
    if (v[i] > middle) Elimination::set(equation, d);
    out.violated += !system.add(std::move(equation));
    ++out.equations;
  }
  out.rank = system.rank();
  const std::vector<bool> value = system.solution();
  for (Index j = 1; j < d; ++j)
    if (value[static_cast<std::size_t>(j)]) out.set.push_back(j);
  return out;
}

}  // namespace headlens::recovery
