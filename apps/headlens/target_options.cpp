// The options that say which target of a task is meant, shared by generate and theory.
#include "command.hpp"
#include "words.hpp"

namespace headlens::app {

void add_target_options(CLI::App& command, TaskOptions& options) {
  const bool has_degree = options.task != Task::native;
  if (has_degree) add_whole(command, "--degree", options.degree, "the power p", "p")->capture_default_str();
  if (options.task == Task::correlation || options.task == Task::mixture)
    command.add_flag("--pure", options.pure, "without the share of functions of one token");
  if (options.task == Task::correlation || options.task == Task::native) {
    const std::map<std::string, TaskMatrix> matrices{
        {"identity", TaskMatrix::identity}, {"shift", TaskMatrix::shift}, {"random", TaskMatrix::random}};
    add_choice(command, "--matrix", options.matrix,
               "S: identity, shift (of the coordinates) or random (orthogonal)", "identity|shift|random",
               matrices);
  }
  if (options.task == Task::mixture)
    command.add_option("--weight", options.weight, "g: 0 is the identity alone, 1 the shift alone")
        ->type_name("g")
        ->capture_default_str();
}

}  // namespace headlens::app
