// What pages about layers share: spectra, attention on a sample input, the trace of the solver.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "linalg/slice.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"
#include "match/evaluate.hpp"
#include "refit/head_factors.hpp"
#include "report/layers/layer_page.hpp"

namespace headlens::report {
namespace {

constexpr Index kMostHeads = 12, kMostTokens = 12;
constexpr double kNothing = 1e-12;  // of the largest singular value: rounding
constexpr std::size_t kMostPoints = 400;

// Of A B^T; of A where B is empty.
std::vector<double> values_of(MatrixView<const double> a, const Matrix<double>& b) {
  if (b.rows() == 0) return svd(a).values;
  const refitting::Product parts = refitting::cut(a, b, std::min({a.rows, a.cols, b.rows()}));
  std::vector<double> out;
  for (Index j = 0; j < parts.left.cols(); ++j) {
    double left = 0, right = 0;  // both factors have the root of the value
    for (Index i = 0; i < parts.left.rows(); ++i) left += parts.left(i, j) * parts.left(i, j);
    for (Index i = 0; i < parts.right.rows(); ++i) right += parts.right(i, j) * parts.right(i, j);
    out.push_back(std::sqrt(left * right));
  }
  return out;
}

Line line_of(Index head, const std::vector<double>& values) {
  Line out{fmt::format("head {}", head), {}, {}};
  for (std::size_t j = 0; j < values.size(); ++j)
    if (values[j] > kNothing * values.front())
      out.x.push_back(static_cast<double>(j + 1)), out.y.push_back(values[j]);
  return out;
}

Matrix<double> second(const Array& array, Index i, bool transpose) {
  if (array.empty()) return {};
  if (transpose) return transposed(slice(array, i));
  Matrix<double> out(array.dim(1), array.dim(2));
  copy_rows(slice(array, i), out.view());
  return out;
}

}  // namespace

LayerFigure spectra(const LayerHeads& layer, const std::string& name, const std::string& title) {
  Chart chart{"place among the singular values", "singular value", {{"Theta", {}}, {"W", {}}}};
  const Index shown = std::min(layer.heads(), kMostHeads);
  for (Index i = 0; i < shown; ++i) {
    chart.panels[0].lines.push_back(line_of(i, values_of(slice(layer.q, i), second(layer.k, i, false))));
    chart.panels[1].lines.push_back(line_of(i, values_of(slice(layer.v, i), second(layer.o, i, true))));
  }
  std::string caption =
      "Singular values of Theta (what a head looks for) and of W (what a head writes), head by head, largest "
      "first. A line that ends early is a head of small rank.";
  if (shown < layer.heads()) caption += fmt::format(" The first {} of {} heads.", shown, layer.heads());
  return figure_of(name, title, caption, chart);
}

LayerFigure attention(const LayerHeads& layer, const Tokens& tokens) {
  const Index d = tokens.x.dim(2), length = tokens.lengths.empty() ? tokens.x.dim(1) : tokens.lengths.front(),
              k = std::min(length, kMostTokens), shown = std::min(layer.heads(), kMostHeads);
  const matching::View view{{tokens.x.data<double>(), k, d}, k, layer.mask == Mask::causal};
  Grids grids{"query token", "key token", {}};
  for (Index h = 0; h < shown; ++h) {
    const Matrix<double> p = matching::attention_of(layer, h, view);
    Grid& grid = grids.panels.emplace_back(Grid{fmt::format("head {}", h), {}, {}, {}});
    for (Index a = 0; a < k; ++a) {
      grid.rows.push_back(std::to_string(a)), grid.columns.push_back(std::to_string(a));
      grid.values.emplace_back(p.view().row(a), p.view().row(a) + k);
    }
  }
  return figure_of(
      "attention", "What each head attends to",
      fmt::format(
          "Attention weights in the first example: a row is a query token, and its cells sum to one. Bright "
          "cells are tokens that the head reads.{}{}",
          k < length ? fmt::format(" The first {} of {} tokens.", k, length) : "",
          shown < layer.heads() ? fmt::format(" The first {} of {} heads.", shown, layer.heads()) : ""),
      grids);
}

void add_trace(const std::vector<TracePoint>& trace, LayerPage& page) {
  Chart chart{"step of the solver", "training error", {{"", {}}}, true, false};
  std::vector<Line>& lines = chart.panels[0].lines;
  const std::size_t every = std::max<std::size_t>(1, trace.size() / kMostPoints);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (i % every != 0 && i + 1 != trace.size()) continue;
    // A phase that is entered again is another line of the same name.
    if (lines.empty() || lines.back().name != trace[i].phase) lines.push_back({trace[i].phase, {}, {}});
    lines.back().x.push_back(static_cast<double>(i)), lines.back().y.push_back(trace[i].train_error);
  }
  if (!can_draw(chart)) return;
  page.figures.push_back(figure_of("trace", "The way of the solver",
                                   "The relative error |F - Y| / |Y| on the training examples (of one batch, "
                                   "during a descent), step by step.",
                                   chart));
}

}  // namespace headlens::report
