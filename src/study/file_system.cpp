#include "study/file_system.hpp"

#include <sys/vfs.h>

#include "headlens/error.hpp"
#include "io/printable.hpp"

namespace headlens {
namespace {

std::optional<std::uint64_t> replacement;

}  // namespace

std::optional<std::string_view> network_file_system(std::uint64_t type) {
  switch (type) {  // as in statfs(2) and in the sources of the file systems
    case 0x6969:
      return "NFS";
    case 0x0bd00bd0:
      return "Lustre";
    case 0x517b:
    case 0xff534d42:
    case 0xfe534d42:
      return "SMB";
    case 0x47504653:
      return "GPFS";
    case 0x19830326:
      return "BeeGFS";
    case 0x00c36400:
      return "Ceph";
    case 0x5346414f:
      return "AFS";
    default:
      return std::nullopt;
  }
}

std::optional<std::string_view> network_file_system(const std::filesystem::path& path) {
  if (replacement) return network_file_system(*replacement);
  struct statfs found {};
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (statfs(folder.c_str(), &found) != 0) return std::nullopt;  // opening the store says what is wrong
  return network_file_system(static_cast<std::uint64_t>(found.f_type) & 0xffffffffU);
}

void require_own_disk(const std::filesystem::path& path) {
  const auto network = network_file_system(path);
  if (!network) return;
  throw Error(ErrorCode::environment,
              join("cannot write ", io::printable(path.string()), ": it lies on ", *network,
                   ", which does not carry SQLite's write-ahead log; give every machine a store on its own "
                   "disk, copy the finished stores and join them with 'headlens study merge'"));
}

FileSystemReplacement::FileSystemReplacement(std::uint64_t type) { replacement = type; }
FileSystemReplacement::~FileSystemReplacement() { replacement.reset(); }

}  // namespace headlens
