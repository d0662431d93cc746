// The options that say which target of a task is meant, shared by generate and theory.
#include "target_options.hpp"

namespace headlens::app {

void add_target_options(Command& command, TaskOptions& options) {
  const Task task = options.task;
  if (task != Task::native) command.add_options(options, {"degree"});
  if (task == Task::correlation || task == Task::mixture) command.add_options(options, {"pure"});
  if (task == Task::correlation || task == Task::native) command.add_options(options, {"matrix"});
  if (task == Task::mixture) command.add_options(options, {"weight"});
}

}  // namespace headlens::app
