#include "study/cell_theory.hpp"

#include "study/cell_inputs.hpp"

namespace headlens {

TheoryOptions theory_options(const StudyValues& inputs) {
  const FitInputs cell = fit_inputs(inputs, 0);
  const FeatureOptions& features = cell.fit.features;
  return {.task = cell.train,
          .model = features.kind,
          .bias_scale = features.kind == ModelKind::brfa ? features.bias_scale : std::nullopt,
          .heads = features.heads,
          .samples = {cell.train.count}};
}

std::string why_no_theory(StudyCommand command, const StudyValues& inputs) {
  if (command != StudyCommand::fit) return "command: theory is about fit";
  const FitInputs cell = fit_inputs(inputs, 0);
  const FeatureOptions& features = cell.fit.features;
  if (features.score != Score::relu) return "score: " + name(features.score) + " given, expected relu";
  if (features.positions != Positions::none)
    return "positions: " + name(features.positions) + " given, expected none";
  if (!has_usual_scales(cell)) return "scales: theory is about those of auto";
  if (features.mean || features.head_rank) return "heads: theory is about those of auto";
  if (cell.fit.loss != Loss::squared) return "loss: " + name(cell.fit.loss) + " given, expected squared";
  if (cell.fit.ridge) return "ridge: theory is about auto";
  if (cell.fit.norm_ball) return "norm-ball: theory predicts ridge regression, and bounds norm balls";
  if (!cell.fit.intercept) return "intercept: theory is about true";
  try {
    theory_options(inputs).validate();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace headlens
