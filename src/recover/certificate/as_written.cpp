#include "recover/certificate/as_written.hpp"

#include <fmt/format.h>

#include <utility>

#include "attention/magnitude.hpp"
#include "headlens/options.hpp"
#include "linalg/vector_space.hpp"
#include "recover/factors/descend.hpp"
#include "recover/factors/factors.hpp"
#include "recover/factors/report.hpp"

namespace headlens::recovery {
namespace {

// By the map that users have.
Matrix<double> labels_of(const AttentionLayer& layer, const Split& given, const Execution& execution) {
  const MatrixView<const double> x = given.held_x;
  Array tokens(DType::f64, {x.rows / given.tokens, given.tokens, x.cols});
  copy_rows(x, MatrixView<double>(tokens.data<double>(), x.rows, x.cols));
  const Array labels = apply_layer(layer, Tokens{std::move(tokens), given.held_lengths}, execution);
  return copy_of<double>(MatrixView<const double>(labels.data<double>(), x.rows, given.held_y.cols));
}

// Where Theta is too large to be formed.
Matrix<double> labels_of(const FactoredLayer& layer, const Split& given, const Effort& effort) {
  const Factors factors = factors_from(layer);
  return effort.context().machine.apply_factors(given.held(), factors.ranks, factors.values,
                                                effort.context());
}

}  // namespace

double written_error(const Recovery& recovery, const Split& given, const Effort& effort,
                     const Execution& execution) {
  const Index size = given.held_y.rows * given.held_y.cols;
  // In the units of the user, squares of labels may be beyond what a double holds.
  const Magnitude all = norm_of(given.held_y.data, size);
  if (all.mantissa == 0) return 1;
  const Matrix<double> found = recovery.layer ? labels_of(*recovery.layer, given, execution)
                                              : labels_of(*recovery.factors, given, effort);
  Matrix<double> left = copy_of<double>(given.held_y);
  add(-1.0, found, left);
  hide_missing(given.held_seen, left);
  return ratio(norm_of(left.data(), size), all);
}

void test_as_written(const Examples& given, const Effort& effort, const Execution& execution,
                     Recovery& recovery) {
  Certificate& certificate = recovery.certificate;
  if (!is_certified(certificate.status) || !recovery.has_layer()) return;
  // Noise leaves more in some examples than in others. Where there is none, few examples tell as much as all.
  const Examples labelled = with_labels_alone(given);
  const Split held = hold_out(labelled);
  const bool exact = certificate.held_out_error < kProof;
  const double error = effort.context().ranks.of_first(
      written_error(recovery, exact ? few_held_out(held) : held, effort, execution));
  if (error <= certificate.held_out_error + kProof + effort.rounding) return;
  recovery.layer.reset();
  recovery.factors.reset();
  certificate.status = RecoveryStatus::not_identified;
  certificate.reason = fmt::format(
      "The heads leave {:.1e} of the held-out labels in the coordinates of the search, but {:.1e} as they "
      "would be written.",
      certificate.held_out_error, error);
  certificate.advice = message(
      "Give tokens whose coordinates are not nearly dependent. Where they are not, this is a fault "
      "of headlens: please report it with the layer that ",
      option("keep-uncertified", "FILE"), " writes.");
}

}  // namespace headlens::recovery
