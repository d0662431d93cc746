// headlens generate hard-parity, generate hard-rounding: layers with a hidden linear form, and examples of
// them.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/files.hpp"
#include "headlens/hardness.hpp"

namespace headlens::app {
namespace {

struct GenerateHardArguments {
  CommonOptions common;
  HardOptions hard;
  ExampleOptions examples{.count = 1000, .tokens = 2};
  double flips = 0;
  std::string layer, output;
};

int run(GenerateHardArguments& a) {
  a.examples.seed = a.hard.seed;
  a.hard.validate();
  a.examples.validate();
  Files files({});
  const auto file = files.output("-o", a.output, Stream::binary);
  const auto layer_file = files.output("--layer-out", a.layer, Stream::refused);
  const HardLayer hard = draw_hard_layer(a.hard);
  const Examples examples = draw_hard_examples(hard, a.examples, a.flips, a.common.execution());
  FileGroup together;
  if (!a.layer.empty()) save_hard_layer(layer_file, hard);
  save_examples(file, examples);
  together.commit();
  const auto rivals = sq_dimension(hard.label);
  print(a.common,
        {{"file", a.output},
         {"layer", a.layer.empty() ? Json(nullptr) : Json(a.layer)},
         {"task", name(a.hard.kind)},
         {"n", examples.count()},
         {"dim", a.hard.dim},
         {"heads", hard.layer.heads()},
         {"sharpness", a.hard.sharpness},
         {"tolerance", hard.label.tolerance},
         {"sq_dimension", optional_json(rivals)},
         {"noise", a.examples.noise},
         {"flips", a.flips}},
        fmt::format("{}: {} examples of two sign tokens from a {} layer of {} heads (d = {})\n"
                    "  the layer differs from its exact label by {:.1e} at most{}",
                    a.output, examples.count(), name(a.hard.kind), hard.layer.heads(), a.hard.dim,
                    hard.label.tolerance,
                    rivals ? fmt::format("; its hidden set is one of {:.4g}", *rivals) : ""));
  return kOk;
}

void add_shared_options(Command& command, const std::shared_ptr<GenerateHardArguments>& a) {
  static const OptionInfo flips{.name = "flips",
                                .shown = "ETA",
                                .help =
                                    "share of examples that get the labels of a neighbour: one hidden sign "
                                    "of the first token turned over",
                                .range = from_to(0, 1),
                                .kind = OptionKind::real,
                                .fallback = "0"};
  command.add_options(a->hard, {"sharpness"});
  command.add_options(a->examples, {"count", "noise"});
  command.add_option(flips, [a](const std::string& text) { a->flips = read_real(flips, text); });
  command.add_options(a->hard, {"seed"});
  command.add_text("--layer-out", a->layer, "FILE", "layer to write (.npz: Theta, W, and the hidden label)");
  command.add_text("-o,--output", a->output, "FILE", "examples to write (.npz: X, Y)", Needed::yes);
  add_common_options(command, a->common);
  command.set_action([a] { return run(*a); });
}

}  // namespace

void add_generate_hard(Command& generate) {
  auto parity = std::make_shared<GenerateHardArguments>();
  Command& first = generate.add_command(
      "hard-parity", "A layer of 2 s heads that computes a parity of 2 s hidden bits, and examples of it");
  first.add_options(parity->hard, {"dim", "size"});
  add_shared_options(first, parity);
  first.set_footer(
      "Example:\n  headlens generate hard-parity --dim 20 --size 3 --count 2000 -o hard.npz --layer-out "
      "hard-layer.npz");

  auto rounding = std::make_shared<GenerateHardArguments>();
  rounding->hard.kind = HardKind::rounding;
  Command& second = generate.add_command(
      "hard-rounding", "A layer that rounds a hidden sum modulo q to r levels, and examples of it");
  second.add_options(rounding->hard, {"dim", "modulus", "levels", "weight"});
  add_shared_options(second, rounding);
  second.set_footer(
      "Example:\n  headlens generate hard-rounding --dim 16 --modulus 4 --levels 2 --weight 6 -o hard.npz "
      "--layer-out hard-layer.npz");
}

}  // namespace headlens::app
