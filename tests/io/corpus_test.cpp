// The fuzzers' seeds and every input that once broke a reader, replayed without a fuzzer.
#include <gtest/gtest.h>

#include "../../fuzz/entry_points.hpp"
#include "files.hpp"

namespace headlens::test {
namespace {

void replay(const std::string& target, void (*read)(std::span<const std::byte>)) {
  const auto folder = std::filesystem::path(HEADLENS_TEST_DIR) / ".." / "fuzz" / "corpus" / target;
  int replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path());
    const std::string bytes = read_bytes(entry.path());
    try {
      read(as_span(bytes));
    } catch (const Error&) {
    }
    ++replayed;
  }
  EXPECT_GT(replayed, 0);
}

}  // namespace

TEST(Corpus, Npy) { replay("fuzz_npy", fuzz::read_npy); }
TEST(Corpus, Npz) { replay("fuzz_npz", fuzz::read_npz); }
TEST(Corpus, Safetensors) { replay("fuzz_safetensors", fuzz::read_safetensors); }
TEST(Corpus, Sets) { replay("fuzz_sets", fuzz::read_sets); }
TEST(Corpus, Model) { replay("fuzz_model", fuzz::read_model); }
TEST(Corpus, Study) { replay("fuzz_study", fuzz::read_study); }

}  // namespace headlens::test
