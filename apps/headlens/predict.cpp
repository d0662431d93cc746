// headlens predict MODEL DATA: predictions, class labels or scores of a fitted model; the outputs of a layer.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "headlens/automatic.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "headlens/layer.hpp"
#include "headlens/ranks.hpp"

namespace headlens::app {
namespace {

struct PredictArguments {
  CommonOptions common;
  std::string model, data, output;
  bool scores = false;
};

int tell(const PredictArguments& a, const std::filesystem::path& file, const Array& result, Index count) {
  on_first_rank([&] { write_npy(file, result); });
  print(a.common,
        {{"file", file.string()}, {"n", count}, {"shape", result.shape()}, {"dtype", name(result.dtype())}},
        fmt::format("{}: {} for {} sets", file.string(), result.describe(), count));
  return kOk;
}

int run_automatic(const PredictArguments& a, const std::filesystem::path& file, const Execution& execution) {
  const AutomaticModel model = load_automatic_model(a.model, execution);
  const Sets sets = load_sets(a.data, model.sequence ? DataLayout::sequence : DataLayout::sets, execution);
  const Array result = a.scores ? predict_scores(model, sets, execution) : predict(model, sets, execution);
  return tell(a, file, result, sets.count());
}

// F(X) of a layer; with `lengths`, rows of padding are zero.
int run_layer(const PredictArguments& a, const std::filesystem::path& file, const Execution& execution) {
  require(!a.scores, "--scores: given with a layer, whose outputs are no classes: leave it out");
  const AttentionLayer layer = load_layer(a.model, execution);
  const Array y = apply_layer(layer, load_tokens(a.data, execution), execution);
  on_first_rank([&] { write_npy(file, y); });
  print(a.common,
        {{"file", file.string()}, {"n", y.dim(0)}, {"shape", y.shape()}, {"dtype", name(y.dtype())}},
        fmt::format("{}: {} for {} examples", file.string(), y.describe(), y.dim(0)));
  return kOk;
}

int run(const PredictArguments& a) {
  check_model_and_data("predict", a.model, a.data);
  const auto file = Files({a.model, a.data}).output("-o", npy_name(a.output), Stream::binary);
  const Execution execution = a.common.execution();
  if (is_automatic_model(a.model)) return run_automatic(a, file, execution);
  if (is_layer_file(a.model)) return run_layer(a, file, execution);
  Model model;
  on_every_rank([&] { model = load_model(a.model, execution); });
  SetReader sets(a.data, model.sequence ? DataLayout::sequence : DataLayout::sets, Labels::ignored,
                 execution);
  const Array result = a.scores ? predict_scores(model, sets, execution) : predict(model, sets, execution);
  return tell(a, file, result, sets.whole().count);
}

}  // namespace

void add_predict(Command& app) {
  auto a = std::make_shared<PredictArguments>();
  Command& command = app.add_command("predict", "Predict with a fitted model, or with a layer");
  command.add_positional("MODEL", a->model, "model file, or layer (.npz)");
  command.add_positional("DATA", a->data, "sets (.npz; y is not needed); for a layer examples (.npz: X)");
  command.add_text("-o,--output", a->output, "PRED",
                   "file to write (.npy is added if missing, as np.save does), or - for standard output",
                   Needed::yes);
  command.add_flag(
      "--scores", a->scores,
      "float64 scores (n, q) instead of class labels: one per class, or one in all for two classes");
  add_unused_seed(command, a->common, "accepted everywhere; prediction draws nothing");
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.set_footer(
      "Examples:\n"
      "  headlens predict model.hlm test.npz -o predictions.npy\n"
      "  headlens predict classifier.hlm test.npz --scores -o scores.npy\n"
      "  headlens predict layer.npz examples.npz -o outputs.npy");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app
