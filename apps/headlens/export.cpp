// headlens export LAYER --like WEIGHTS -o OUT: a layer written back in the layout of a checkpoint.
#include "headlens/export.hpp"

#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"

namespace headlens::app {
namespace {

struct ExportArguments {
  CommonOptions common;
  WeightsOptions weights;
  std::string layer, like, prefix, rotary, output;
};

int run(const ExportArguments& a) {
  const bool npz = a.output.ends_with(".npz");
  require(npz || a.output.ends_with(".safetensors"), "-o: ", a.output,
          " given, expected .safetensors or .npz");
  const auto file = Files({a.layer, a.like}).output("-o", a.output, Stream::refused);
  const Execution execution = a.common.execution();
  HeadsSource source{.weights = a.weights};
  if (!a.rotary.empty()) source.rotary = read_rotary(a.rotary);
  const LayerHeads layer = load_heads(a.layer, source, execution).front();
  WeightsOptions options = a.weights;
  options.prefix = a.prefix;
  const Export out = export_layer(layer, load_tensors(a.like, execution), options, a.like);
  if (npz)
    write_npz(file, out.tensors);
  else
    write_safetensors(file, {out.tensors, {}});
  print(a.common,
        {{"file", a.output}, {"heads", layer.heads()}, {"tensors", out.tensors.size()}, {"loss", out.loss}},
        fmt::format("{}: {} heads in the layout of {}, {} tensors; at most {:.2g} of a head is lost",
                    a.output, layer.heads(), a.like, out.tensors.size(), out.loss));
  return kOk;
}

}  // namespace

void add_export_layer(Command& app) {
  auto a = std::make_shared<ExportArguments>();
  Command& command = app.add_command("export", "Write a layer back in the layout of a checkpoint");
  command.add_positional("LAYER", a->layer, "layer (.npz) or attention weights of one layer");
  command.add_text("--like", a->like, "WEIGHTS", "checkpoint whose attention weights are replaced",
                   Needed::yes);
  command.add_text("--prefix", a->prefix, "P", "what the names of the replaced weights begin with");
  command.add_options(a->weights, {"heads", "format"});
  command.add_text("--rotary", a->rotary, "SPEC",
                   "rotary positions, where LAYER is a checkpoint: such as base=10000,layout=half");
  command.add_text("-o,--output", a->output, "FILE", "checkpoint to write (.safetensors or .npz)",
                   Needed::yes);
  add_unused_seed(command, a->common, "accepted everywhere; writing draws nothing");
  add_common_options(command, a->common);
  command.set_footer(
      "Biases of keys become zero, which changes no output. The other tensors of the checkpoint stay as they "
      "are;\n"
      "bfloat16 and float16 become float32.\n\n"
      "Example:\n  headlens export layer.npz --like model.safetensors --prefix encoder.layer.0 -o "
      "new.safetensors");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app
