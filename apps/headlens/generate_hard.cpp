// headlens generate hard-parity, generate hard-rounding: layers with a hidden linear form, and examples of
// them.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/files.hpp"
#include "headlens/hardness.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  HardOptions hard;
  ExampleOptions examples{.count = 1000, .tokens = 2};
  double flips = 0;
  std::string layer, output;
};

int run(Arguments& a) {
  a.hard.seed = a.examples.seed = a.common.seed;
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

void add_shared_options(CLI::App& command, const std::shared_ptr<Arguments>& a) {
  command.add_option("--sharpness", a->hard.sharpness, "beta: a step is off by 2 exp(-beta/2) at most")
      ->type_name("beta")
      ->capture_default_str();
  add_whole(command, "--count", a->examples.count, "number of examples", "n")->capture_default_str();
  command.add_option("--noise", a->examples.noise, "standard deviation of Gaussian noise on Y")
      ->type_name("SIGMA")
      ->capture_default_str();
  command
      .add_option("--flips", a->flips,
                  "share of examples with the labels of a neighbour: one hidden sign turned over")
      ->type_name("ETA")
      ->capture_default_str();
  add_seed(command, a->common, "seed of the hidden set, the inputs and the noise");
  command.add_option("--layer-out", a->layer, "layer to write (.npz: Theta, W, and the hidden label)")
      ->type_name("FILE");
  command.add_option("-o,--output", a->output, "examples to write (.npz: X, Y)")
      ->type_name("FILE")
      ->required();
  add_common_options(command, a->common);
  set_action(command, [a] { return run(*a); });
}

}  // namespace

void add_generate_hard(CLI::App& generate) {
  auto parity = std::make_shared<Arguments>();
  CLI::App& first = *generate.add_subcommand(
      "hard-parity", "A layer of 2 s heads that computes a parity of 2 s hidden bits, and examples of it");
  add_whole(first, "--dim", parity->hard.dim, "coordinates of a token", "d")->capture_default_str();
  add_whole(first, "--size", parity->hard.size, "size of the hidden set; twice as many heads", "s")
      ->capture_default_str();
  add_shared_options(first, parity);
  first.footer(
      "Example:\n  headlens generate hard-parity --dim 20 --size 3 --count 2000 -o hard.npz --layer-out "
      "hard-layer.npz");

  auto rounding = std::make_shared<Arguments>();
  rounding->hard.kind = HardKind::rounding;
  CLI::App& second = *generate.add_subcommand(
      "hard-rounding", "A layer that rounds a hidden sum modulo q to r levels, and examples of it");
  add_whole(second, "--dim", rounding->hard.dim, "coordinates of a token", "d")->capture_default_str();
  add_whole(second, "--modulus", rounding->hard.modulus, "of the hidden sum", "q")->capture_default_str();
  add_whole(second, "--levels", rounding->hard.levels, "values of the label, 2 to q", "r")
      ->capture_default_str();
  add_whole(second, "--weight", rounding->hard.size, "coordinates in the hidden sum", "w")
      ->capture_default_str();
  add_shared_options(second, rounding);
  second.footer(
      "Example:\n  headlens generate hard-rounding --dim 16 --modulus 4 --levels 2 --weight 6 -o hard.npz "
      "--layer-out hard-layer.npz");
}

}  // namespace headlens::app
