// headlens generate attention-layer, generate examples: layers with known heads, and examples of a layer.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/files.hpp"
#include "headlens/layer.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  TeacherOptions teacher;
  ExampleOptions examples;
  std::string layer, output;
};

void report(const Arguments& a, const Examples& examples, const AttentionLayer& layer) {
  print(a.common,
        {{"file", a.output},
         {"n", examples.count()},
         {"tokens", examples.tokens()},
         {"dim", layer.dim()},
         {"outputs", layer.outputs()},
         {"heads", layer.heads()},
         {"inputs", name(a.examples.inputs)},
         {"noise", a.examples.noise}},
        fmt::format("{}: {} examples of {} {} tokens from a layer of {} heads (d = {}, e = {})", a.output,
                    examples.count(), examples.tokens(), name(a.examples.inputs), layer.heads(), layer.dim(),
                    layer.outputs()));
}

void add_example_options(CLI::App& command, Arguments& a) {
  const std::map<std::string, Inputs> inputs{{"signs", Inputs::signs}, {"gaussian", Inputs::gaussian}};
  add_whole(command, "--tokens", a.examples.tokens, "tokens of an example", "k")->capture_default_str();
  add_whole(command, "--count", a.examples.count, "number of examples", "n")->capture_default_str();
  add_choice(command, "--inputs", a.examples.inputs, "random signs or standard normal numbers",
             "signs|gaussian", inputs);
  command.add_option("--noise", a.examples.noise, "standard deviation of Gaussian noise on Y")
      ->type_name("SIGMA")
      ->capture_default_str();
  command.add_option("-o,--output", a.output, "examples to write (.npz: X, Y)")
      ->type_name("FILE")
      ->required();
  add_common_options(command, a.common);
}

}  // namespace

void add_generate_layer(CLI::App& generate) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command =
      *generate.add_subcommand("attention-layer", "A random attention layer and examples of it");
  add_whole(command, "--heads", a->teacher.heads, "heads", "m")->capture_default_str();
  add_whole(command, "--dim", a->teacher.dim, "coordinates of a token", "d")->capture_default_str();
  add_whole(command, "--outputs", a->teacher.outputs, "coordinates of an output (default: d)", "e");
  command.add_option("--scale", a->teacher.scale, "standard deviation of the logits on random signs")
      ->type_name("s")
      ->capture_default_str();
  add_whole(command, "--rank", a->teacher.rank, "rank of Theta and W (default: full)", "r");
  add_seed(command, a->common, "seed of the layer, the inputs and the noise");
  command.add_option("--layer-out", a->layer, "layer to write (.npz: Theta, W)")->type_name("FILE");
  add_example_options(command, *a);
  command.footer(
      "Example:\n  headlens generate attention-layer --heads 4 --dim 16 --tokens 6 --count 320 -o ex.npz "
      "--layer-out layer.npz");
  set_action(command, [a] {
    a->teacher.seed = a->examples.seed = a->common.seed;
    a->examples.validate();
    Files files({});
    const auto file = files.output("-o", a->output, Stream::binary);
    const auto layer_file = files.output("--layer-out", a->layer, Stream::refused);
    const AttentionLayer layer = draw_teacher(a->teacher);
    const Examples examples = draw_examples(layer, a->examples, a->common.execution());
    FileGroup together;
    if (!a->layer.empty()) save_layer(layer_file, layer);
    save_examples(file, examples);
    together.commit();
    report(*a, examples, layer);
    return static_cast<int>(kOk);
  });
}

void add_generate_examples(CLI::App& generate) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *generate.add_subcommand("examples", "Examples of a layer from a file");
  command.add_option("--layer", a->layer, "layer (.npz: Theta, W)")->type_name("FILE")->required();
  add_seed(command, a->common, "seed of the inputs and the noise");
  add_example_options(command, *a);
  command.footer("Example:\n  headlens generate examples --layer layer.npz --tokens 8 --count 500 -o ex.npz");
  set_action(command, [a] {
    a->examples.seed = a->common.seed;
    const auto file = Files({a->layer}).output("-o", a->output, Stream::binary);
    const Execution execution = a->common.execution();
    const AttentionLayer layer = load_layer(a->layer, execution);
    const Examples examples = draw_examples(layer, a->examples, execution);
    save_examples(file, examples);
    report(*a, examples, layer);
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app
