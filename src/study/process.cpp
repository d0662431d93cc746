#include "study/process.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

namespace headlens {
namespace {

// Field 22 of /proc/PID/stat, in clock ticks since the boot; "" if there is no such process. The name of the
// program, field 2, may hold anything, so fields are counted from its closing bracket.
std::string start_time(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const auto bracket = all.rfind(')');
  if (bracket == std::string::npos) return "";
  std::istringstream fields(all.substr(bracket + 1));
  std::string field, state;
  for (int number = 3; number <= 22 && fields >> field; ++number)
    if (number == 3) state = field;
  return state == "Z" || state == "X" ? "" : field;  // killed, and not yet waited for
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id.empty() ? "unknown" : id;
}

std::string this_process() {
  const std::string pid = std::to_string(getpid());
  return boot_id() + " " + pid + " " + start_time(pid);
}

bool is_alive(const std::string& process_text) {
  std::istringstream words(process_text);
  std::string boot, pid, start;
  words >> boot >> pid >> start;
  const bool number = !pid.empty() && pid.find_first_not_of("0123456789") == std::string::npos;
  return number && boot == boot_id() && !start.empty() && start == start_time(pid);
}

}  // namespace headlens
