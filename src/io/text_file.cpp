#include "headlens/arrays.hpp"
#include "io/atomic_file.hpp"

namespace headlens {

void write_text(const std::filesystem::path& path, const std::string& text) {
  io::AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace headlens
