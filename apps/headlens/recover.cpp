// headlens recover EXAMPLES: the heads of an unknown attention layer, with a certificate.
#include "headlens/recover.hpp"

#include <memory>
#include <optional>

#include "command.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "headlens/certificate.hpp"
#include "headlens/error.hpp"
#include "headlens/files.hpp"
#include "headlens/layer_report.hpp"
#include "headlens/ranks.hpp"

namespace headlens::app {
namespace {

struct RecoverArguments {
  CommonOptions common;
  RecoverOptions recover;
  std::string examples, output, certificate, span_output, uncertified, form, report;
};

// Theta and W, or the factors Q, K, V, O, as --form says. Layers of a variant have a form of their own.
void save(const std::filesystem::path& file, const std::optional<AttentionLayer>& layer,
          const std::optional<FactoredLayer>& factors, const RecoverArguments& a, Certified certified) {
  const bool in_factors = a.form.empty() ? !layer : a.form == "factors";
  if (layer && (!in_factors || !layer->variant.plain()))
    save_layer(file, *layer, certified);
  else if (!in_factors)
    save_layer(file, multiply_out(*factors), certified);
  else
    save_layer(file, factors ? *factors : factors_of(*layer), certified);
}

struct OutputFiles {
  std::filesystem::path layer, certificate, span, uncertified;
};

int write_all(const Recovery& recovery, const Examples& examples, const OutputFiles& files,
              const RecoverArguments& a, const Execution& execution) {
  const std::string json = to_json(recovery.certificate);
  const bool best_fit = recovery.certificate.status == RecoveryStatus::best_fit;
  {
    FileGroup together;
    if (recovery.has_layer())
      save(files.layer, recovery.layer, recovery.factors, a, best_fit ? Certified::no : Certified::not_said);
    if (!a.uncertified.empty() && (recovery.best || recovery.best_factors))
      save(files.uncertified, recovery.best, recovery.best_factors, a,
           recovery.has_layer() && !best_fit ? Certified::yes : Certified::no);
    if (!a.span_output.empty()) write_npz(files.span, {{"span", *recovery.sculpt_span}});
    if (!a.certificate.empty()) write_text(files.certificate, json + "\n");
    together.commit();
  }
  if (!a.report.empty()) write_report(recovery, examples, a.report, execution);
  print_text(a.common.json ? json : in_words(recovery.certificate, on_command_line));
  return recovery.has_layer() ? kOk : kOutcome;
}

int run(RecoverArguments& a) {
  a.recover.validate();
  require(a.form.empty() || a.form == "dense" || a.form == "factors", "--form: '", a.form,
          "' given, expected dense or factors");
  require(a.span_output.empty() || a.recover.method == RecoverMethod::sculpt, option("span-out"),
          ": given with --method ", name(a.recover.method), ", expected --method sculpt");
  Files files({a.examples});
  const OutputFiles outputs{files.output("-o", a.output, Stream::binary),
                            files.output("--certificate", a.certificate, Stream::refused),
                            files.output("--span-out", a.span_output, Stream::refused),
                            files.output("--keep-uncertified", a.uncertified, Stream::refused)};
  if (!a.report.empty()) on_first_rank([&] { check_report_folder(a.report); });
  const Execution execution = a.common.execution();
  Examples examples;
  on_every_rank([&] { examples = load_examples(a.examples, execution); });
  const Recovery recovery = recover(examples, a.recover, execution);
  int status = kOk;
  on_first_rank([&] { status = write_all(recovery, examples, outputs, a, execution); });
  return status;
}

}  // namespace

void add_recover(Command& app) {
  auto a = std::make_shared<RecoverArguments>();
  Command& command = app.add_command("recover", "Recover the heads of an attention layer from examples");
  command.add_positional("EXAMPLES", a->examples,
                         "examples (.npz: X (n,k,d), Y (n,k,e), and lengths (n) where there is padding)");
  command.add_text("-o,--output", a->output, "LAYER",
                   "layer to write (.npz: Theta, W, or the factors), if one is certified", Needed::yes);
  command.add_text("--form", a->form, "dense|factors",
                   "what the layer file holds: Theta and W (dense, the default for tokens of up to 512 "
                   "coordinates), or Q, K, V and "
                   "O (factors)");
  command.add_text("--keep-uncertified", a->uncertified, "FILE",
                   "layer to write whatever the status (.npz: Theta, W, and certified, 1 or 0)");
  command.add_text("--certificate", a->certificate, "FILE", "certificate to write (.json), certified or not");
  command.add_options(a->recover, {"heads", "max-heads", "rank", "variant", "mask", "bias", "rotary",
                                   "kv-groups", "starts", "start", "method", "steps", "best-fit"});
  command.add_options(a->recover.sculpt, {"sculpt-form", "span-form", "polish"});
  command.add_text("--span-out", a->span_output, "FILE",
                   "estimated span of Theta_i - Theta_j to write (.npz: span (m-1,d,d)); sculpt only");
  add_report_folder(command, a->report);
  command.add_options(a->recover, {"time-limit", "seed"});
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.set_footer(
      "The status is recovered, approximate, needs_more_examples, not_identified or stalled; only the first "
      "two come\n"
      "with a layer, the others say why and what to do next, and exit with status 3. With --best-fit the "
      "status is best_fit,\n"
      "which comes with a layer that is certified by nothing.\n\n"
      "Examples:\n"
      "  headlens recover examples.npz -o layer.npz --certificate certificate.json\n"
      "  headlens recover examples.npz -o layer.npz --report page\n"
      "  headlens recover examples.npz --heads 4 --time-limit 60 -o layer.npz\n"
      "  headlens recover examples.npz -o layer.npz --keep-uncertified best.npz\n"
      "  headlens recover examples.npz --heads 12 --rank 32 --form factors -o layer.npz\n"
      "  headlens recover examples.npz --heads 4 --mask causal --bias -o layer.npz\n"
      "  headlens recover examples.npz --heads 4 --variant auto -o layer.npz\n"
      "  headlens recover examples.npz --heads 4 --rotary base=10000,layout=half -o layer.npz\n"
      "  headlens recover examples.npz --method sculpt --heads 2 --sculpt-form lp -o layer.npz\n"
      "  headlens recover examples.npz --method sculpt --no-polish --keep-uncertified alone.npz -o "
      "layer.npz\n"
      "  headlens recover examples.npz --method gradient --heads 2 --starts 1 -o layer.npz --certificate "
      "path.json\n"
      "  headlens recover labels.npz --best-fit --heads 2 -o layer.npz\n"
      "  headlens recover hard.npz --method brute-force --heads 6 --time-limit 60 -o layer.npz");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app
