#include "report/draw/gnuplot.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "io/printable.hpp"

namespace headlens::report {
namespace {

namespace fs = std::filesystem;

// What the child is to do between fork and exec.
class FileActions {
 public:
  FileActions(const fs::path& folder, const fs::path& messages) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw Error(ErrorCode::environment, join("cannot wait for gnuplot: ", std::strerror(errno)));
  return status;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

void run_gnuplot(const std::string& script, const fs::path& folder, const Execution& execution) {
  const fs::path here = fs::absolute(folder), messages = here / "gnuplot.log";
  write_text(here / "script.gp", script);
  const FileActions actions(here, messages);
  // --default-settings: the user's own start-up files must not change a figure.
  std::string words[] = {"gnuplot", "--default-settings", "script.gp"};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawnp(&child, "gnuplot", actions.get(), nullptr, arguments, environ);
  if (failed == ENOENT)
    throw Error(ErrorCode::environment,
                "figures are drawn by gnuplot, which is not installed (Debian: gnuplot-nox)");
  if (failed != 0) throw Error(ErrorCode::environment, join("cannot start gnuplot: ", std::strerror(failed)));
  const int status = wait_for(child);
  execution.check_cancelled();  // Ctrl-C reaches gnuplot too; then its failure is no news
  if (status != 0)
    throw Error(ErrorCode::environment, join("gnuplot failed: ", io::printable(contents(messages), 300)));
  fs::remove(messages);
  fs::remove(here / "script.gp");
}

}  // namespace headlens::report
