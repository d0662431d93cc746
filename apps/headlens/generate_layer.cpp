// headlens generate attention-layer, generate examples: layers with known heads, and examples of a layer.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/files.hpp"
#include "headlens/layer.hpp"

namespace headlens::app {
namespace {

struct GenerateLayerArguments {
  CommonOptions common;
  TeacherOptions teacher;
  ExampleOptions examples;
  std::string layer, output;
};

void report(const GenerateLayerArguments& a, const Examples& examples, const AttentionLayer& layer) {
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

void add_example_options(Command& command, GenerateLayerArguments& a) {
  command.add_options(a.examples, {"tokens", "count", "inputs", "noise", "padding"});
  command.add_text("-o,--output", a.output, "FILE", "examples to write (.npz: X, Y)", Needed::yes);
  add_common_options(command, a.common);
}

}  // namespace

void add_generate_layer(Command& generate) {
  auto a = std::make_shared<GenerateLayerArguments>();
  Command& command = generate.add_command("attention-layer", "A random attention layer and examples of it");
  command.add_options(a->teacher,
                      {"heads", "dim", "outputs", "scale", "rank", "mask", "bias", "rotary", "seed"});
  command.add_text("--layer-out", a->layer, "FILE",
                   "layer to write (.npz: Theta, W; Q, K, W with rotary positions)");
  add_example_options(command, *a);
  command.set_footer(
      "Example:\n  headlens generate attention-layer --heads 4 --dim 16 --tokens 6 --count 320 -o ex.npz "
      "--layer-out layer.npz");
  command.set_action([a] {
    a->examples.seed = a->teacher.seed;
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

void add_generate_examples(Command& generate) {
  auto a = std::make_shared<GenerateLayerArguments>();
  Command& command = generate.add_command("examples", "Examples of a layer from a file");
  command.add_text("--layer", a->layer, "FILE", "layer (.npz: Theta, W)", Needed::yes);
  command.add_options(a->examples, {"seed"});
  add_example_options(command, *a);
  command.set_footer(
      "Example:\n  headlens generate examples --layer layer.npz --tokens 8 --count 500 -o ex.npz");
  command.set_action([a] {
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
