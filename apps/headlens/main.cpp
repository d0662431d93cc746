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

// Commands that work on several ranks. Every other runs on rank 0, and the others wait.
bool is_shared(int argc, char** argv) {
  constexpr std::string_view shared[] = {"fit", "predict", "evaluate", "kernel"};
  return argc > 1 &&
         std::find(std::begin(shared), std::end(shared), std::string_view(argv[1])) != std::end(shared);
}

int run(Command& program, int argc, char** argv) {
  if (rank_count() == 1 || is_shared(argc, argv)) return program.run(argc, argv);
  int status = kOk;
  on_first_rank([&] { status = program.run(argc, argv); });
  return status;
}

void describe(Command& app) {
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
  add_generate(app);
  add_fit(app);
  add_kernel(app);
  add_plan(app);
  add_theory(app);
  add_predict(app);
  add_evaluate(app);
  add_recover(app);
  add_compare(app);
  add_match(app);
  add_refit(app);
  add_check(app);
  add_export_layer(app);
  add_inspect(app);
  add_study(app);
  add_report(app);
  add_info(app);
  add_help(app);
  add_completion(app);
  add_man(app);
  add_options(app);
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
    describe(program);
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
