// headlens generate attention-layer, generate examples: layers with known heads, and examples of a layer.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "headlens/layer.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  TeacherOptions teacher;
  ExampleOptions examples;
  std::string layer, output;
};

void write_examples(const Arguments& a, const AttentionLayer& layer) {
  const Examples examples = draw_examples(layer, a.examples, a.common.execution());
  save_examples(a.output, examples);
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
  command.add_option("--tokens", a.examples.tokens, "tokens of an example")
      ->type_name("k")
      ->capture_default_str();
  command.add_option("--count", a.examples.count, "number of examples")
      ->type_name("n")
      ->capture_default_str();
  command.add_option("--inputs", a.examples.inputs, "random signs or standard normal numbers")
      ->transform(CLI::CheckedTransformer(inputs, CLI::ignore_case).description(""))
      ->type_name("signs|gaussian")
      ->default_str("signs");
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
  command.add_option("--heads", a->teacher.heads, "heads")->type_name("m")->capture_default_str();
  command.add_option("--dim", a->teacher.dim, "coordinates of a token")
      ->type_name("d")
      ->capture_default_str();
  command.add_option("--outputs", a->teacher.outputs, "coordinates of an output (default: d)")
      ->type_name("e");
  command.add_option("--scale", a->teacher.scale, "standard deviation of the logits on random signs")
      ->type_name("s")
      ->capture_default_str();
  command.add_option("--rank", a->teacher.rank, "rank of Theta and W (default: full)")->type_name("r");
  add_seed(command, a->common, "seed of the layer, the inputs and the noise");
  command.add_option("--layer-out", a->layer, "layer to write (.npz: Theta, W)")->type_name("FILE");
  add_example_options(command, *a);
  command.footer(
      "Example:\n  headlens generate attention-layer --heads 4 --dim 16 --tokens 6 --count 320 -o ex.npz "
      "--layer-out layer.npz");
  set_action(command, [a] {
    a->teacher.seed = a->examples.seed = a->common.seed;
    a->examples.validate();
    const AttentionLayer layer = draw_teacher(a->teacher);
    if (!a->layer.empty()) save_layer(a->layer, layer);
    write_examples(*a, layer);
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
    write_examples(*a, load_layer(a->layer, a->common.execution()));
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app
