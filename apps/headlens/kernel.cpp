// headlens kernel A [B]: the kernel matrix of a model with infinitely many heads.
#include "headlens/kernel.hpp"

#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  KernelOptions kernel;
  HeadOptions head;
  std::string a, b, output;
  std::string model = "rfa", score = "relu", positions = "none", precision = "f64";
  bool sequence = false;
};

KernelOptions options_from(const Arguments& a) {
  KernelOptions options = a.kernel;
  options.features.kind = parse<ModelKind>(a.model);
  options.features.score = parse<Score>(a.score);
  options.features.positions = parse<Positions>(a.positions);
  options.features.precision = parse<Precision>(a.precision);
  options.features.seed = a.common.seed;
  apply_head_options(a.head, options.features);
  options.validate();
  return options;
}

int run(const Arguments& a) {
  const auto file = Files({a.a, a.b, a.head.mean}).output("-o", npy_name(a.output), Stream::binary);
  const Execution execution = a.common.execution();
  const KernelOptions options = options_from(a);
  const DataLayout layout = a.sequence ? DataLayout::sequence : DataLayout::sets;
  const Sets left = load_sets(a.a, layout, execution);
  const Kernel kernel = a.b.empty()
                            ? attention_kernel(left, options, execution)
                            : attention_kernel(left, load_sets(a.b, layout, execution), options, execution);
  write_npy(file, kernel.values);
  const Json error = kernel.standard_error ? Json(*kernel.standard_error) : Json(nullptr);
  print(a.common,
        {{"file", file.string()},
         {"model", a.model},
         {"score", a.score},
         {"shape", kernel.values.shape()},
         {"dtype", name(kernel.values.dtype())},
         {"method", kernel.method},
         {"standard_error", error}},
        fmt::format(
            "{}: {} by {}{}", file.string(), kernel.values.describe(), kernel.method,
            kernel.standard_error ? fmt::format(", standard error {:.2g}", *kernel.standard_error) : ""));
  return kOk;
}

void add_options(CLI::App& command, Arguments& a) {
  FeatureOptions& f = a.kernel.features;
  f.heads = 4096;
  add_choice(command, "--model", a.model, "rfa, brfa (identity mean) or mlp (no attention, equal set sizes)",
             "rfa|brfa|mlp");
  add_choice(command, "--score", a.score, "relu, step (1 above 0), exp, or softmax (by Monte Carlo)",
             "relu|softmax|exp|step");
  add_choice(command, "--positions", a.positions, "none, or sinusoidal encodings added to the keys",
             "none|sinusoidal");
  command.add_option("--bias-scale", f.bias_scale, "scale b of the mean of the heads (rfa: 0, brfa: 1)")
      ->type_name("b");
  command
      .add_option("--weight-scale", f.weight_scale,
                  "standard deviation of the random entries (default 0.5; mlp: 1/sqrt(2(N+1)))")
      ->type_name("w");
  add_head_options(command, a.head);
  add_choice(command, "--precision", a.precision, "f32 or f64, of the tokens and of the file", "f32|f64");
  command.add_flag("--exact", a.kernel.exact,
                   "biased relu by Owen's T for every pair of keys: slower, 1e-14");
  add_whole(command, "--samples", f.heads, "heads that are drawn for softmax, and with --head-rank", "M")
      ->capture_default_str();
  command.add_flag("--sequence", a.sequence,
                   "A and B hold tokens (n,L,d): every token is a query, the others its keys");
}

}  // namespace

void add_kernel(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("kernel", "The kernel of a model with infinitely many heads");
  command.add_option("A", a->a, "sets (.npz; y is not needed)")->required();
  command.add_option("B", a->b, "sets for the columns (default: A itself)");
  command
      .add_option("-o,--output", a->output,
                  "file to write (.npy is added if missing, as np.save does), or - for standard output")
      ->type_name("K")
      ->required();
  add_options(command, *a);
  add_seed(command, a->common, "seed of the heads that are drawn");
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.footer(
      "K is the mean over heads of the products of their features: Phi Phi^T / M tends to it.\n\n"
      "Examples:\n"
      "  headlens kernel train.npz --model rfa -o K.npy\n"
      "  headlens kernel test.npz train.npz --model brfa --bias-scale 2 -o K.npy\n"
      "  headlens kernel train.npz --model brfa --mean shift.npy -o K.npy\n"
      "  headlens kernel train.npz --score softmax --samples 200 -o K.npy");
  set_action(command, [a] { return run(*a); });
}

}  // namespace headlens::app
