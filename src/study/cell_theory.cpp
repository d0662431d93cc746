#include "study/cell_theory.hpp"

#include "study/cell_inputs.hpp"

namespace headlens {

TheoryOptions theory_options(const StudyValues& inputs) {
  const FitInputs cell = fit_inputs(inputs, 0);
  return {.task = cell.train, .model = cell.fit.features.kind, .samples = {cell.train.count}};
}

std::string why_no_theory(StudyCommand command, const StudyValues& inputs) {
  if (command != StudyCommand::fit) return "command: theory is about fit";
  const FitInputs cell = fit_inputs(inputs, 0);
  const FeatureOptions& features = cell.fit.features;
  if (features.heads != kInfiniteHeads)
    return join("heads: ", features.heads, " given, but theory is about \"inf\"");
  if (features.score != Score::relu) return "score: " + name(features.score) + " given, expected relu";
  if (features.positions != Positions::none)
    return "positions: " + name(features.positions) + " given, expected none";
  if (features.bias_scale || features.weight_scale) return "scales: theory is about those of auto";
  if (features.mean || features.head_rank) return "heads: theory is about those of auto";
  if (cell.fit.loss != Loss::squared) return "loss: " + name(cell.fit.loss) + " given, expected squared";
  if (cell.fit.ridge) return "ridge: theory is about auto";
  if (!cell.fit.intercept) return "intercept: theory is about true";
  try {
    theory_options(inputs).validate();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace headlens
