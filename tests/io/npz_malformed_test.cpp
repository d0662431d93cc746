// Archives that lie.
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "io/npy.hpp"
#include "io/npz.hpp"
#include "zip_builder.hpp"

namespace headlens::test {
namespace {

std::string npy_entry(const Array& array) {
  return io::format_npy_header(array) + std::string(static_cast<const char*>(array.raw()), array.bytes());
}

const std::string contents = npy_entry(counting<double>({2, 3}));

NamedArrays parse(const std::string& bytes) { return io::parse_npz(as_span(bytes), "data.npz"); }

void refuse(const std::string& bytes, std::initializer_list<std::string> fragments) {
  expect_error([&] { parse(bytes); }, {"data.npz: "});
  expect_error([&] { parse(bytes); }, fragments);
}

}  // namespace

TEST(NpzMalformed, TheBuilderIsHonestByDefault) {
  const NamedArrays arrays = parse(zip({stored("keys.npy", contents), deflated("y.npy", contents)}));
  ASSERT_EQ(arrays.size(), 2U);
  expect_same(arrays.at("keys"), counting<double>({2, 3}));
  expect_same(arrays.at("y"), counting<double>({2, 3}));
}

TEST(NpzMalformed, NotAnArchive) {
  refuse("", {"is empty"});
  refuse("hello", {".npz archive"});
  refuse(contents, {".npz archive", "single array"});
  refuse(std::string(100000, 'x'), {".npz archive"});
  const auto path = golden / "type_float64.npy";
  expect_error([&] { read_npz(path); }, {path.string() + ": ", "single array"});
}

TEST(NpzMalformed, Entries) {
  refuse(zip({stored("readme.txt", "text")}), {"'readme.txt'", ".npy"});
  refuse(zip({stored("folder/", "")}), {"'folder/'", ".npy"});
  refuse(zip({stored("keys.npy", contents), stored("keys.npy", contents)}), {"data.npz: keys: ", "twice"});
  refuse(zip({stored("keys.npy", "")}), {"data.npz: keys: is empty"});
  refuse(zip({stored("keys.npy", "hello, world")}), {"data.npz: keys: is not a NumPy array"});
  refuse(zip({stored("a\nb\x1b.txt", "")}), {"a"});
}

TEST(NpzMalformed, Methods) {
  ZipEntry entry = stored("keys.npy", contents);
  entry.method = 12;
  refuse(zip({entry}), {"data.npz: keys: ", "method 12", "stored (0) and deflated (8)"});
  expect_error([] { read_npz(golden / "bad_lzma.npz"); }, {"bad_lzma.npz: keys: ", "method 14"});
  entry = stored("keys.npy", contents);
  entry.flags = 1;
  refuse(zip({entry}), {"data.npz: keys: is encrypted"});
}

TEST(NpzMalformed, SizesDisagree) {
  refuse(zip({stored("keys.npy", contents + "x")}), {"data.npz: keys: ", "48 bytes", "49 follow"});
  refuse(zip({stored("keys.npy", contents.substr(0, contents.size() - 1))}), {"48 bytes", "only 47 follow"});
  ZipEntry entry = deflated("keys.npy", contents);
  entry.size += 1;
  refuse(zip({entry}), {"data.npz: keys: ", "48 bytes", "49 follow"});
  entry = deflated("keys.npy", contents + "x");
  entry.size -= 1;
  refuse(zip({entry}), {"data.npz: keys: "});
}

TEST(NpzMalformed, AbsurdSizesAreRefusedBeforeAllocation) {
  const std::string header = io::format_npy_header(Array(DType::f64, {0}));
  const std::string huge = std::string("\x93NUMPY\x01\0\x46\0", 10) +
                           "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }  \n";
  ZipEntry entry = stored("keys.npy", huge);
  refuse(zip({entry}), {"data.npz: keys: ", "8796093022208 bytes", "follow"});
  entry.size = entry.packed_size = huge.size() + 8796093022208;
  refuse(zip({entry}), {"data.npz: keys: ", "inside an archive of"});
  entry.packed_size = huge.size();
  refuse(zip({entry}), {"data.npz: keys: is stored, yet announces"});
  entry = deflated("keys.npy", huge);
  entry.size = huge.size() + 8796093022208;
  refuse(zip({entry}), {"data.npz: keys: ", "deflated bytes can hold"});
}

TEST(NpzMalformed, DamagedData) {
  ZipEntry entry = stored("keys.npy", contents);
  entry.contents.back() ^= 1;
  refuse(zip({entry}), {"data.npz: keys: CRC error"});
  entry = deflated("keys.npy", contents);
  entry.contents.back() ^= 1;
  refuse(zip({entry}), {"data.npz: keys: CRC error"});
  entry = deflated("keys.npy", contents);
  entry.contents[1] ^= 1;
  refuse(zip({entry}), {"data.npz: keys: "});
}

}  // namespace headlens::test
