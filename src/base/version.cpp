#include <headlens_commit.hpp>

#include "headlens/info.hpp"

namespace headlens {

std::string version() { return HEADLENS_VERSION; }
std::string commit() { return HEADLENS_COMMIT; }

std::string compiler() {
#if defined(__clang__)
  const std::string family = "Clang " __clang_version__;
#else
  const std::string family = "GCC " __VERSION__;
#endif
  return family + ", " HEADLENS_BUILD_TYPE;
}

}  // namespace headlens
