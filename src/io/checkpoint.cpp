#include "io/checkpoint.hpp"

#include "headlens/error.hpp"
#include "headlens/files.hpp"
#include "io/atomic_file.hpp"
#include "io/byte_reader.hpp"
#include "io/checksum.hpp"
#include "io/printable.hpp"

namespace headlens::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "HLCKPT1\n";
constexpr const char* kSuffix = ".checkpoint";
constexpr std::uint64_t kLongestIdentity = std::uint64_t{1} << 20;

// Reads, and sums up what was read.
class CheckedReader {
 public:
  explicit CheckedReader(const fs::path& path) : in_(path) {}
  void read(void* out, std::size_t bytes) {
    in_.read(out, bytes);
    sum_ = checksum(out, bytes, sum_);
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    read(&value, sizeof value);
    return value;
  }
  std::string text(std::size_t bytes) {
    std::string out(bytes, '\0');
    read(out.data(), bytes);
    return out;
  }
  void check_end() {
    const std::uint32_t found = sum_;
    std::uint32_t expected = 0;
    in_.read(&expected, sizeof expected);
    expect(in_, expected == found && in_.remaining() == 0,
           "is damaged: its checksum differs; remove the file");
  }
  const ByteReader& reader() const { return in_; }

 private:
  FileReader in_;
  std::uint32_t sum_ = 0;
};

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder, const std::string& name, std::string identity,
                       std::vector<std::span<std::byte>> sums)
    : file_(folder.empty() ? fs::path() : folder / (name + kSuffix)),
      identity_(std::move(identity)),
      sums_(std::move(sums)) {
  if (folder.empty()) return;
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw Error(ErrorCode::environment,
                join("cannot make the folder ", printable(folder.string()), ": ", failure.message()));
}

Index Checkpoint::resume() {
  std::error_code none;
  if (file_.empty() || !fs::exists(file_, none)) return 0;
  CheckedReader in(file_);
  expect(in.reader(), in.text(kMagic.size()) == kMagic, "is no checkpoint of headlens; remove the file");
  const std::uint64_t length = in.number();
  expect(in.reader(), length < kLongestIdentity, "is damaged; remove the file");
  const std::string identity = in.text(length);
  expect(in.reader(), identity == identity_, "belongs to another fit (", printable(identity),
         "), not to this one (", printable(identity_), "): give another folder, or remove the file");
  const auto row = static_cast<Index>(in.number());
  std::uint64_t bytes = 0;
  for (const auto& sum : sums_) bytes += sum.size();
  expect(in.reader(), in.number() == bytes, "is damaged: it holds sums of another size; remove the file");
  for (const auto& sum : sums_) in.read(sum.data(), sum.size());
  in.check_end();
  return row;
}

void Checkpoint::reached(Index next_row) {
  const auto start = Clock::now();
  if (file_.empty() || start - written_ < wait_) return;
  write(next_row);
  written_ = Clock::now();
  wait_ = std::max<Clock::duration>(std::chrono::milliseconds(250), 20 * (written_ - start));
}

void Checkpoint::write(Index next_row) {
  AtomicFile out(file_);
  std::uint32_t sum = 0;
  const auto put = [&](const void* bytes, std::size_t size) {
    sum = checksum(bytes, size, sum);
    out.write(bytes, size);
  };
  std::uint64_t total = 0;
  for (const auto& part : sums_) total += part.size();
  const std::uint64_t length = identity_.size(), row = static_cast<std::uint64_t>(next_row);
  put(kMagic.data(), kMagic.size());
  put(&length, sizeof length);
  put(identity_.data(), length);
  put(&row, sizeof row);
  put(&total, sizeof total);
  for (const auto& part : sums_) put(part.data(), part.size());
  const std::uint32_t end = sum;
  out.write(&end, sizeof end);
  out.commit();
}

std::string checkpoint_name(int rank, int ranks) { return join("rank-", rank, "-of-", ranks, "-"); }

}  // namespace headlens::io

namespace headlens {

void remove_checkpoints(const std::filesystem::path& folder, int rank, int ranks) {
  std::error_code none;
  const std::string begin = io::checkpoint_name(rank, ranks);
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with(begin) && file.ends_with(io::kSuffix)) std::filesystem::remove(entry.path(), none);
  }
  std::filesystem::remove(folder, none);  // only if it is empty
}

}  // namespace headlens
