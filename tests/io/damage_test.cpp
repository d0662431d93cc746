// A file cut anywhere is an Error; a file with any one byte changed is an Error or still arrays. Never a
// crash.
#include <gtest/gtest.h>

#include "../../fuzz/entry_points.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "zip_builder.hpp"

namespace headlens::test {
namespace {

using EntryPoint = void (*)(std::span<const std::byte>);

void expect_every_cut_refused(EntryPoint read, const std::string& bytes) {
  ASSERT_NO_THROW(read(as_span(bytes)));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A copy of its own, so that AddressSanitizer sees a read behind the end.
    const std::string cut = bytes.substr(0, size);
    EXPECT_THROW(read(as_span(cut)), Error) << "cut to " << size << " of " << bytes.size();
  }
}

void survive_every_flip(EntryPoint read, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const int mask : {0x01, 0x10, 0x80, 0xff}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ mask);
      try {
        read(as_span(flipped));
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      }
    }
}

std::string safetensors_bytes() {
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  return little(header.size(), 8) + header + std::string(24, 'x');
}

}  // namespace

TEST(Damage, Npy) {
  for (const char* name : {"type_float64.npy", "version_2.npy", "shape_.npy", "type_bool.npy"}) {
    SCOPED_TRACE(name);
    expect_every_cut_refused(fuzz::read_npy, read_bytes(golden / name));
    survive_every_flip(fuzz::read_npy, read_bytes(golden / name));
  }
}

TEST(Damage, Npz) {
  for (const char* name : {"stored.npz", "deflated.npz", "none.npz"}) {
    SCOPED_TRACE(name);
    expect_every_cut_refused(fuzz::read_npz, read_bytes(golden / name));
    survive_every_flip(fuzz::read_npz, read_bytes(golden / name));
  }
}

TEST(Damage, Safetensors) {
  expect_every_cut_refused(fuzz::read_safetensors, safetensors_bytes());
  survive_every_flip(fuzz::read_safetensors, safetensors_bytes());
}

}  // namespace headlens::test
