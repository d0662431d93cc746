// .npz archives: what is written is read back, NumPy agrees to the byte, and memory is asked for in advance.
#include "io/npz.hpp"

#include "files.hpp"

namespace headlens::test {

class NpzTest : public FolderTest {};

void expect_same(const NamedArrays& found, const NamedArrays& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, array] : wanted) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(found.contains(name));
    expect_same(found.at(name), array);
  }
}

NamedArrays golden_arrays() {
  Array truth(DType::boolean, {2});
  static_cast<char*>(truth.raw())[1] = 1;
  return {{"keys", counting<double>({2, 3})},
          {"offsets", counting<std::int64_t>({4})},
          {"y", counting<float>({})},
          {"é", truth}};
}

TEST_F(NpzTest, RoundTripsEveryTypeAndShape) {
  NamedArrays arrays;
  for (const DType type : all_types)
    for (const auto& shape : all_shapes) {
      Array array = patterned(type, shape);
      const std::string label = array.describe();
      arrays.emplace(label, std::move(array));
    }
  write_npz(folder / "a.npz", arrays);
  expect_same(read_npz(folder / "a.npz"), arrays);
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(NpzTest, RoundTripsOddNames) {
  const NamedArrays arrays = {
      {"", counting<double>({1})},      {"a/b", counting<double>({2})},
      {"a.npy", counting<double>({3})}, {"with space", counting<double>({4})},
      {"語", counting<double>({5})},    {std::string(1000, 'x'), counting<double>({6})}};
  write_npz(folder / "a.npz", arrays);
  expect_same(read_npz(folder / "a.npz"), arrays);
}

TEST_F(NpzTest, BytesAreNumPys) {
  write_npz(folder / "a.npz", golden_arrays());
  EXPECT_EQ(read_bytes(folder / "a.npz"), read_bytes(golden / "stored.npz"));
  write_npz(folder / "a.npz", {});
  EXPECT_EQ(read_bytes(folder / "a.npz"), read_bytes(golden / "none.npz"));
}

TEST_F(NpzTest, ReadsNumPysArchives) {
  expect_same(read_npz(golden / "stored.npz"), golden_arrays());
  expect_same(read_npz(golden / "deflated.npz"), golden_arrays());
  EXPECT_TRUE(read_npz(golden / "none.npz").empty());
}

TEST_F(NpzTest, BudgetCountsAllArrays) {
  constexpr std::uint64_t total = 48 + 32 + 4 + 2;
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    expect_same(read_npz(golden / name, total), golden_arrays());
    expect_error([&] { read_npz(golden / name, total - 1); }, {name, "86 bytes", "85 bytes"},
                 ErrorCode::memory);
  }
}

TEST_F(NpzTest, BudgetStopsWhatUnpacksLarge) {
  const auto path = golden / "zeros.npz";
  EXPECT_LT(std::filesystem::file_size(path), 4096U);
  EXPECT_EQ(read_npz(path).at("zeros").bytes(), 1U << 20);
  expect_error([&] { read_npz(path, 1 << 16); }, {path.string(), "1048576 bytes", "65536 bytes"},
               ErrorCode::memory);
}

TEST_F(NpzTest, RefusesNamesThatAreNotText) {
  expect_error([&] { write_npz(folder / "a.npz", {{"two\nlines", Array()}}); }, {"two\\x0alines"});
  expect_error([&] { write_npz(folder / "a.npz", {{"\xff", Array()}}); }, {"\\xff"});
  expect_error([&] { write_npz(folder / "a.npz", {{std::string(70000, 'x'), Array()}}); }, {"65535"});
  EXPECT_TRUE(names().empty());
}

// Half a minute, 4 GiB of disk and 8 GiB of memory, so only when asked for.
TEST_F(NpzTest, HoldsMoreThanFourGibibytes) {
  if (std::getenv("HEADLENS_LARGE_TESTS") == nullptr) GTEST_SKIP() << "set HEADLENS_LARGE_TESTS=1 to run";
  NamedArrays arrays{{"a", Array(DType::u8, {(Index{1} << 32) + 5})}, {"b", counting<double>({3})}};
  arrays["a"].data<std::uint8_t>()[(Index{1} << 32) + 4] = 9;
  write_npz(folder / "a.npz", arrays);
  expect_same(read_npz(folder / "a.npz"), arrays);
}

}  // namespace headlens::test
