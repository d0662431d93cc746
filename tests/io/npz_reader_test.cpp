// Archives read a few rows at a time: the same bytes as at once, and damage is found where it is.
#include "io/npz_reader.hpp"

#include "files.hpp"
#include "io/npz.hpp"
#include "zip_builder.hpp"

namespace headlens::test {
namespace {

std::string npy(const Array& array) {
  return io::format_npy_header(array) + std::string(static_cast<const char*>(array.raw()), array.bytes());
}

// Rows [first, first + rows) of `array`, read by `in`.
void expect_rows(io::NpzReader& in, const std::string& name, const Array& array, Index first, Index rows) {
  const Array found = in.read_rows(name, rows);
  ASSERT_EQ(found.dim(0), rows);
  ASSERT_EQ(found.dtype(), array.dtype());
  const std::size_t row = array.bytes() / static_cast<std::size_t>(array.dim(0));
  EXPECT_EQ(
      std::memcmp(found.raw(), static_cast<const char*>(array.raw()) + static_cast<std::size_t>(first) * row,
                  found.bytes()),
      0);
}

}  // namespace

TEST(NpzReader, RowsInTurnsAreTheArrays) {
  for (const auto& pack : {stored, deflated})
    for (const DType type : all_types)
      for (const Index step : {1, 7, 100}) {
        const Array a = patterned(type, {100, 3, 2}), b = patterned(type, {100});
        const std::string bytes = zip({pack("a.npy", npy(a)), pack("b.npy", npy(b)), pack("c.npy", npy(b))});
        io::NpzReader in(as_span(bytes), "data.npz");
        EXPECT_EQ(in.headers().size(), 3U);
        EXPECT_EQ(in.data_bytes(), a.bytes() + 2 * b.bytes());
        for (Index first = 0; first < 100; first += step) {
          expect_rows(in, "a", a, first, std::min<Index>(step, 100 - first));
          expect_rows(in, "b", b, first, std::min<Index>(step, 100 - first));
        }
        in.finish();
      }
}

TEST(NpzReader, DamageIsFoundWithTheLastByte) {
  const Array array = counting<double>({40});
  for (const auto& pack : {stored, deflated}) {
    ZipEntry entry = pack("a.npy", npy(array));
    entry.contents.back() ^= 1;
    const std::string bytes = zip({pack("b.npy", npy(array)), entry});
    io::NpzReader in(as_span(bytes), "data.npz");
    EXPECT_NO_THROW(in.read_rows("a", 39));
    expect_error([&] { in.read_rows("a", 1); }, {"data.npz: a: CRC error"});
    io::NpzReader skips(as_span(bytes), "data.npz");  // what nobody asked for is checked too
    EXPECT_NO_THROW(skips.read("b"));
    expect_error([&] { skips.finish(); }, {"data.npz: a: CRC error"});
  }
}

TEST(NpzReader, NoMoreRowsThanThereAre) {
  const std::string bytes = zip({stored("a.npy", npy(counting<double>({40})))});
  io::NpzReader in(as_span(bytes), "data.npz");
  in.read_rows("a", 39);
  expect_error([&] { in.read_rows("a", 2); }, {"data.npz: a: ends early"});
}

TEST(NpzReader, LiesAreFoundAtOnce) {
  const std::string contents = npy(counting<double>({2, 3}));
  const auto refuse = [](const std::string& bytes, const std::string& fragment) {
    expect_error([&] { io::NpzReader(as_span(bytes), "data.npz"); }, {"data.npz: ", fragment});
  };
  refuse("", "is empty");
  refuse("hello", ".npz archive");
  refuse(zip({stored("a.npy", contents), stored("a.npy", contents)}), "twice");
  refuse(zip({stored("a.npy", contents.substr(0, contents.size() - 1))}), "cut off");
  refuse(zip({stored("a.npy", contents)}).substr(0, 200), ".npz archive");
}

}  // namespace headlens::test
