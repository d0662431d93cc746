// headlens COMMAND ...: parses, runs one subcommand, turns every failure into one line and an exit status.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <optional>
#include <system_error>

#include "command.hpp"
#include "headlens/blas_core.hpp"
#include "headlens/error.hpp"
#include "headlens/info.hpp"
#include "headlens/ranks.hpp"

namespace headlens::app {
namespace {

void say(const std::string& text) {
  clear_progress();
  std::string line = "headlens: " + text;
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  fmt::print(stderr, "{}\n", line);
}

// One line from all ranks together, or from the one that failed alone.
int fail(Ranks* ranks, const std::string& text, int status) {
  const std::string line = ranks ? ranks->fail(text, status, say) : this_rank() == 0 ? text : "";
  if (!line.empty()) say(line);
  return status;
}

// Commands that work on several ranks. A study with --mpi does, too. Every other runs on rank 0, and
// the others wait.
bool is_shared(int argc, char** argv) {
  constexpr std::string_view shared[] = {"fit", "predict", "evaluate", "kernel", "recover"};
  const auto given = [&](int first, std::string_view word) {
    return std::find(argv + std::min(first, argc), argv + argc, word) != argv + argc;
  };
  if (argc > 1 && std::string_view(argv[1]) == "study") return given(3, "--mpi");
  return argc > 1 &&
         std::find(std::begin(shared), std::end(shared), std::string_view(argv[1])) != std::end(shared);
}

int run(Command& program, int argc, char** argv) {
  if (rank_count() == 1 || is_shared(argc, argv)) return program.run(argc, argv);
  int status = kOk;
  on_first_rank([&] { status = program.run(argc, argv); });
  return status;
}

struct Entry {
  std::string_view name;
  void (*add)(Command&);
};
constexpr Entry kCommands[] = {
    {"generate", add_generate},   {"fit", add_fit},         {"kernel", add_kernel},
    {"plan", add_plan},           {"theory", add_theory},   {"predict", add_predict},
    {"evaluate", add_evaluate},   {"recover", add_recover}, {"compare", add_compare},
    {"match", add_match},         {"refit", add_refit},     {"check", add_check},
    {"export", add_export_layer}, {"inspect", add_inspect}, {"study", add_study},
    {"report", add_report},       {"info", add_info}};
constexpr Entry kAboutAll[] = {  // these tell about every command
    {"help", add_help},
    {"completion", add_completion},
    {"man", add_man},
    {"options", add_options}};

// Describing the options of all commands takes as long as a small prediction: where one of kCommands is asked
// for, that one is described alone.
void describe(Command& app, std::string_view asked) {
  app.set_footer(
      "Examples:\n"
      "  headlens generate power-mean --degree 2 --dim 16 --keys 16 --count 2048 --seed 1 -o train.npz\n"
      "  headlens generate power-mean --degree 2 --dim 16 --keys 16 --count 4096 --seed 2 -o test.npz\n"
      "  headlens fit train.npz --model rfa --heads 1000 -o model.hlm\n"
      "  headlens evaluate model.hlm test.npz\n\n"
      "Exit status: 0 success, 2 misuse or environment, 3 a numerical outcome without a full result,\n130 "
      "interrupted.\n"
      "'headlens COMMAND --help' tells more about a command.");
  app.require_command();
  const auto one = std::find_if(std::begin(kCommands), std::end(kCommands),
                                [&](const Entry& entry) { return entry.name == asked; });
  if (one != std::end(kCommands)) return one->add(app);
  for (const Entry& entry : kCommands) entry.add(app);
  for (const Entry& entry : kAboutAll) entry.add(app);
}

}  // namespace
}  // namespace headlens::app

int main(int argc, char** argv) {
  using namespace headlens;
  using namespace headlens::app;
  std::optional<Ranks> joined;
  const auto fail = [&](const std::string& text, int status) {
    return headlens::app::fail(joined ? &*joined : nullptr, text, status);
  };
  try {
    drop_blas_threads(argv);
    repair_blas_core(argv);
    install_interrupt_handlers();
    Command program("headlens", "What one attention layer can learn, and what can be learned about it.",
                    "headlens " + version());
    describe(program, argc > 1 ? argv[1] : "");
    remember_words(argc, argv);
    joined.emplace(std::vector<std::string>(argv + 1, argv + argc));
    const int status = run(program, argc, argv);
    flush_output();
    joined->leave();
    return status;
  } catch (const Error& error) {
    return fail(error.text().spelled(on_command_line),
                error.code() == ErrorCode::interrupted ? kInterrupted : kError);
  } catch (const std::bad_alloc&) {
    return fail("out of memory (try a lower --max-memory, fewer heads or fewer sets)", kError);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) return kOk;  // as in flush_output()
    return fail(error.what(), kError);
  } catch (const std::exception& error) {
    return fail(error.what(), kError);
  }
}
