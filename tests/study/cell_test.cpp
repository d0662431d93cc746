// A cell is what the public calls give on the same data.
#include "study/cell.hpp"

#include <cmath>

#include "studies.hpp"
#include "study/cell_inputs.hpp"
#include "study/cell_options.hpp"

namespace headlens::test {
namespace {

double number(const CellResult& result, const std::string& name) {
  for (const auto& [key, value] : result.outputs)
    if (key == name)
      return std::holds_alternative<double>(value) ? std::get<double>(value)
                                                   : static_cast<double>(std::get<std::int64_t>(value));
  ADD_FAILURE() << name;
  return 0;
}

StudyValues fit_cell(const std::string& model, std::int64_t samples) {
  return complete_inputs(StudyCommand::fit, {{"model", model},
                                             {"samples", samples},
                                             {"heads", std::int64_t{20}},
                                             {"dim", std::int64_t{4}},
                                             {"keys", std::int64_t{4}},
                                             {"noise", 0.1},
                                             {"test-samples", std::int64_t{50}}});
}

}  // namespace

TEST(Cell, IsFitAndEvaluate) {
  const FitInputs in = fit_inputs(fit_cell("rfa", 40), 3);
  const Fit fitted = fit(generate(in.train, one_thread()), in.fit, one_thread());
  const Evaluation test = evaluate(fitted.model, generate(in.test, one_thread()), one_thread());
  const CellResult result = run_cell(StudyCommand::fit, fit_cell("rfa", 40), 3, one_thread());
  EXPECT_EQ(number(result, "mse"), test.mse);
  EXPECT_EQ(number(result, "nmse"), test.nmse.value());
  EXPECT_EQ(number(result, "chosen-ridge"), fitted.report.ridge);
  EXPECT_EQ(result.peak_bytes, fitted.report.predicted_peak_bytes);
}

TEST(Cell, TakesInfinitelyManyHeads) {
  StudyValues inputs = fit_cell("rfa", 40);
  for (auto& [option, value] : inputs)
    if (option == "heads") value = std::string("inf");
  EXPECT_TRUE(fit_inputs(inputs, 3).fit.features.infinite());
  EXPECT_LT(number(run_cell(StudyCommand::fit, inputs, 3, one_thread()), "nmse"), 1);
}

TEST(Cell, ModelsSeeTheSameSetsAndFewerSamplesAreTheFirst) {
  const FitInputs a = fit_inputs(fit_cell("rfa", 40), 3), b = fit_inputs(fit_cell("mlp", 40), 3),
                  fewer = fit_inputs(fit_cell("rfa", 10), 3), other = fit_inputs(fit_cell("rfa", 40), 4);
  const auto y = [](const TaskOptions& task) { return generate(task, one_thread()).targets.values; };
  EXPECT_EQ(y(a.train), y(b.train));
  EXPECT_EQ(y(a.test), y(b.test));
  const std::vector<double> all = y(a.train);
  EXPECT_EQ(y(fewer.train), std::vector<double>(all.begin(), all.begin() + 10));
  EXPECT_NE(y(a.train), y(other.train));
  EXPECT_EQ(a.train.target_seed, a.test.target_seed);
  EXPECT_NE(a.train.seed, a.test.seed);
  EXPECT_EQ(a.test.noise, 0);  // measured against the target itself
}

TEST(Cell, RecordsEveryQuantityInOrder) {
  const CellResult fits = run_cell(StudyCommand::fit, fit_cell("rfa", 10), 1, one_thread());
  const CellResult recovers = run_cell(
      StudyCommand::recover,
      complete_inputs(StudyCommand::recover,
                      {{"heads", std::int64_t{1}}, {"dim", std::int64_t{4}}, {"examples-per-unknown", 4.0}}),
      1, one_thread());
  for (const auto& [command, result] :
       {std::pair{StudyCommand::fit, fits}, {StudyCommand::recover, recovers}}) {
    std::vector<std::string> names;
    for (const auto& item : result.outputs) names.push_back(item.first);
    EXPECT_EQ(names, quantities_of(command));
  }
  EXPECT_EQ(number(recovers, "success"), 1);
  EXPECT_LT(number(recovers, "worst-error"), 1e-8);
  EXPECT_GT(recovers.peak_bytes, 0U);
}

TEST(Cell, HardLayersAreJudgedByTheirLabels) {
  const auto cell = [](const char* layer, const char* method, double flips) {
    return run_cell(StudyCommand::recover,
                    complete_inputs(StudyCommand::recover, {{"layer", std::string(layer)},
                                                            {"method", std::string(method)},
                                                            {"flips", flips},
                                                            {"heads", std::int64_t{4}},
                                                            {"dim", std::int64_t{30}},
                                                            {"count", std::int64_t{400}}}),
                    1, one_thread());
  };
  const CellResult clean = cell("hard-parity", "linear-algebra", 0),
                   flipped = cell("hard-parity", "brute-force", 0.05),
                   rounding = cell("hard-rounding", "linear-algebra", 0);
  EXPECT_EQ(number(clean, "success"), 1);
  EXPECT_EQ(number(clean, "set-found"), 1);
  EXPECT_EQ(number(clean, "labels-learned"), 1);
  EXPECT_EQ(number(clean, "sq-dimension"), 29 * 28 / 2);
  EXPECT_EQ(number(flipped, "success"), 0);
  EXPECT_EQ(number(flipped, "set-found"), 1);
  EXPECT_EQ(number(rounding, "success"), 0);
  EXPECT_TRUE(std::isnan(number(rounding, "sq-dimension")));
}

TEST(Cell, MethodsShownAloneAreMeasuredToo) {
  const auto cell = [](const char* method, StudyValues more) {
    more.insert(more.end(), {{"method", std::string(method)},
                             {"heads", std::int64_t{1}},
                             {"dim", std::int64_t{4}},
                             {"noise", 0.1}});
    return run_cell(StudyCommand::recover, complete_inputs(StudyCommand::recover, more), 1, one_thread());
  };
  for (const CellResult& result : {cell("moments", {}), cell("gradient", {{"starts", std::int64_t{1}}})}) {
    EXPECT_EQ(number(result, "success"), 0);
    EXPECT_EQ(number(result, "starts"), 1);
    EXPECT_LT(number(result, "held-out-error"), 1);
  }
  EXPECT_THROW((void)cell("moments", {{"starts", std::int64_t{1}}}), Error);
}

TEST(Cell, RoundingsHaveAWidth) {
  const StudyValues given{{"layer", std::string("hard-rounding")},
                          {"method", std::string("brute-force")},
                          {"width", std::int64_t{3}},
                          {"dim", std::int64_t{10}},
                          {"count", std::int64_t{800}}};
  const CellResult found =
      run_cell(StudyCommand::recover, complete_inputs(StudyCommand::recover, given), 1, one_thread());
  EXPECT_EQ(number(found, "success"), 1);
  EXPECT_EQ(number(found, "set-found"), 1);
  EXPECT_EQ(number(found, "hidden-sets"), 84);
  for (const auto& [layer, width] :
       {std::pair{"hard-parity", 3}, {"hard-rounding", 10}, {"hard-rounding", -1}})
    EXPECT_THROW(complete_inputs(StudyCommand::recover,
                                 {{"layer", std::string(layer)}, {"width", std::int64_t{width}}}),
                 Error);
}

// The mean is the matrix of the target: heads around it learn a native target that others do not.
TEST(Cell, HeadsTakeAMeanAndARank) {
  const auto error = [](const char* mean, const StudyValue& rank) {
    return number(run_cell(StudyCommand::fit,
                           complete_inputs(StudyCommand::fit, {{"task", std::string("native")},
                                                               {"matrix", std::string("random")},
                                                               {"model", std::string("brfa")},
                                                               {"mean", std::string(mean)},
                                                               {"head-rank", rank},
                                                               {"dim", std::int64_t{5}},
                                                               {"keys", std::int64_t{4}},
                                                               {"heads", std::int64_t{200}},
                                                               {"samples", std::int64_t{150}},
                                                               {"test-samples", std::int64_t{300}}}),
                           1, one_thread()),
                  "nmse");
  };
  const double right = error("random", std::string("full")), wrong = error("shift", std::string("full"));
  EXPECT_LT(5 * right, wrong);
  EXPECT_NE(error("random", std::int64_t{2}), right);
  const StudyValue rfa = std::string("rfa"), mlp = std::string("mlp"), shift = std::string("shift");
  EXPECT_THROW(complete_inputs(StudyCommand::fit, {{"model", rfa}, {"mean", shift}}), Error);
  EXPECT_THROW(complete_inputs(StudyCommand::fit, {{"model", mlp}, {"head-rank", std::int64_t{2}}}), Error);
  EXPECT_THROW(complete_inputs(StudyCommand::fit, {{"head-rank", std::string("half")}}), Error);
  EXPECT_THROW(
      complete_inputs(StudyCommand::fit, {{"heads", std::string("inf")}, {"head-rank", std::int64_t{2}}}),
      Error);
}

TEST(Cell, TooFewExamplesAreAResult) {
  const StudyValues inputs =
      complete_inputs(StudyCommand::recover,
                      {{"heads", std::int64_t{2}}, {"dim", std::int64_t{4}}, {"examples-per-unknown", 0.8}});
  const CellResult result = run_cell(StudyCommand::recover, inputs, 1, one_thread());
  EXPECT_EQ(number(result, "success"), 0);
  EXPECT_TRUE(std::isnan(number(result, "worst-error")));
}

}  // namespace headlens::test
