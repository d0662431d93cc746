// headlens kernel A [B]: the kernel matrix of a model with infinitely many heads.
#include "headlens/kernel.hpp"

#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "headlens/ranks.hpp"
#include "headlens/set_reader.hpp"

namespace headlens::app {
namespace {

struct KernelArguments {
  CommonOptions common;
  KernelOptions kernel;
  std::string a, b, mean, output;
  bool sequence = false;
};

int run(const KernelArguments& a) {
  const auto file = Files({a.a, a.b, a.mean}).output("-o", npy_name(a.output), Stream::binary);
  const Execution execution = a.common.execution();
  KernelOptions options = a.kernel;
  if (!a.mean.empty()) options.features.mean = read_npy(a.mean);
  options.validate();
  const DataLayout layout = a.sequence ? DataLayout::sequence : DataLayout::sets;
  // Of several ranks each has rows of its own.
  const bool alone = rank_count() == 1;
  const Sets left = load_sets(a.a, layout, execution, RankShare::mine);
  const Kernel kernel =
      a.b.empty() && alone
          ? attention_kernel(left, options, execution)
          : attention_kernel(left, load_sets(a.b.empty() ? a.a : a.b, layout, execution), options, execution);
  on_first_rank([&] { write_npy(file, kernel.values); });
  const Json error = optional_json(kernel.standard_error);
  print(a.common,
        {{"file", file.string()},
         {"model", name(options.features.kind)},
         {"score", name(options.features.score)},
         {"shape", kernel.values.shape()},
         {"dtype", name(kernel.values.dtype())},
         {"method", kernel.method},
         {"standard_error", error}},
        fmt::format(
            "{}: {} by {}{}", file.string(), kernel.values.describe(), kernel.method,
            kernel.standard_error ? fmt::format(", standard error {:.2g}", *kernel.standard_error) : ""));
  return kOk;
}

void add_options(Command& command, KernelArguments& a) {
  const OptionInfo& samples = option_of<KernelOptions>("samples").info;
  FeatureOptions& features = a.kernel.features;
  features.heads = read_whole(samples, samples.fallback);
  add_feature_options(command, features, a.mean, {"model", "score"});
  command.add_options(a.kernel, {"exact"});
  command.add_option(samples, [&](const std::string& text) { features.heads = read_whole(samples, text); });
  command.add_flag("--sequence", a.sequence,
                   "A and B hold tokens (n,L,d): every token is a query, the others its keys");
}

}  // namespace

void add_kernel(Command& app) {
  auto a = std::make_shared<KernelArguments>();
  Command& command = app.add_command("kernel", "The kernel of a model with infinitely many heads");
  command.add_positional("A", a->a, "sets (.npz; y is not needed)");
  command.add_positional("B", a->b, "sets for the columns (default: A itself)", Needed::no);
  command.add_text("-o,--output", a->output, "K",
                   "file to write (.npy is added if missing, as np.save does), or - for standard output",
                   Needed::yes);
  add_options(command, *a);
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.set_footer(
      "K is the mean over heads of the products of their features: Phi Phi^T / M tends to it.\n\n"
      "Examples:\n"
      "  headlens kernel train.npz --model rfa -o K.npy\n"
      "  headlens kernel test.npz train.npz --model brfa --bias-scale 2 -o K.npy\n"
      "  headlens kernel train.npz --model brfa --mean shift.npy -o K.npy\n"
      "  headlens kernel train.npz --score softmax --samples 200 -o K.npy");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app
