#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "headlens/error.hpp"
#include "headlens/files.hpp"
#include "io/atomic_file.hpp"
#include "io/printable.hpp"

namespace headlens {
namespace fs = std::filesystem;
namespace {

thread_local FileGroup* t_group = nullptr;

bool is_special(const fs::path& path) {
  std::error_code ignored;
  const fs::file_type type = fs::status(path, ignored).type();
  return type == fs::file_type::character || type == fs::file_type::fifo || type == fs::file_type::socket ||
         type == fs::file_type::block;
}

}  // namespace

void check_writable(const fs::path& path) {
  if (!is_special(path)) {
    const io::AtomicFile probe(path);  // makes its temporary file, and removes it
  } else if (::access(path.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::environment, fmt::format("cannot write {}: {}", io::printable(path.string()),
                                                    std::generic_category().message(errno)));
  }
}

bool same_file(const fs::path& a, const fs::path& b) {
  if (is_special(a) || is_special(b)) return false;
  std::error_code ignored;
  if (fs::equivalent(a, b, ignored)) return true;
  const fs::path one = io::follow_links(a), other = io::follow_links(b);
  return !one.empty() && fs::weakly_canonical(one, ignored) == fs::weakly_canonical(other, ignored);
}

FileGroup::FileGroup() {
  ensure(t_group == nullptr, "FileGroup: one inside another");
  t_group = this;
}

FileGroup::~FileGroup() {
  t_group = nullptr;
  for (const Pending& file : pending_) io::remove_temporary(file.temporary);
}

bool FileGroup::take(const fs::path& temporary, const fs::path& target) {
  if (t_group == nullptr) return false;
  t_group->pending_.push_back({temporary, target});
  return true;
}

void FileGroup::commit() {
  while (!pending_.empty()) {
    io::replace_file(pending_.back().temporary, pending_.back().target);
    pending_.pop_back();
  }
}

}  // namespace headlens
