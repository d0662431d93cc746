// Headers that lie, and every way to write an honest one.
#include "files.hpp"
#include "io/npy.hpp"

namespace headlens::test {
namespace {

std::string file_with(const std::string& literal, const std::string& data = "", char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += {version, '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += static_cast<char>(literal.size() >> (8 * i) & 0xffU);
  return bytes + literal + data;
}

std::string header(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

Array parse(const std::string& bytes) {
  io::MemoryReader in(as_span(bytes), "data.npz: keys");
  return io::read_npy(in);
}

void refuse(const std::string& bytes, std::initializer_list<std::string> fragments) {
  SCOPED_TRACE(bytes.substr(0, 100));
  expect_error([&] { parse(bytes); }, {"data.npz: keys: "});
  expect_error([&] { parse(bytes); }, fragments);
}

const std::string eight(8, '\0');

}  // namespace

TEST(NpyHeader, AcceptsAnyOrderSpacingAndQuotes) {
  for (const char* literal : {
           "{'descr':'<f8','fortran_order':False,'shape':(1,)}",
           "{'shape': (1,), 'fortran_order': False, 'descr': '<f8'}",
           " { \"descr\" : \"<f8\" ,\n\t'shape' : ( 1 , ) , 'fortran_order' : True , } \n\n",
           "{'descr': '=f8', 'fortran_order': False, 'shape': (1, ), }",
       }) {
    SCOPED_TRACE(literal);
    for (const char version : {1, 2, 3}) {
      const Array array = parse(file_with(literal, eight, version));
      EXPECT_EQ(array.dtype(), DType::f64);
      EXPECT_EQ(array.shape(), std::vector<Index>{1});
    }
  }
}

TEST(NpyHeader, AcceptsTheTypes) {
  for (const char* descr : {"<f8", "=f8", "<i8", "<u8", "=u8"})
    EXPECT_EQ(parse(file_with(header(descr, "()"), eight)).bytes(), 8U) << descr;
  for (const char* descr : {"|i1", "<i1", "|u1", "<u1", "|b1"})
    EXPECT_EQ(parse(file_with(header(descr, "(8,)"), eight)).bytes(), 8U) << descr;
}

TEST(NpyHeader, RefusesOtherTypes) {
  for (const char* descr :
       {"f8", "", "<", "|f8", "<f2", "<f16", "|O", "<U4", "|S4", "<c8", "|V8", "<x4", "!f8", "<f88"})
    refuse(file_with(header(descr, "(1,)"), eight),
           {"(descr '" + std::string(descr) + "')", "allowed are float32"});
  refuse(file_with(header(">i4", "(2,)"), eight), {"big-endian", "'>i4'"});
  refuse(file_with(header("<f8\n\x1b", "(1,)"), eight), {"<f8\\x0a\\x1b"});
}

TEST(NpyHeader, FortranOrderMattersOnlyInTwoDimensions) {
  for (const char* shape : {"()", "(1,)", "(1, 1)", "(1, 1, 1)"})
    EXPECT_EQ(parse(file_with(header("<f8", shape, "True"), eight)).bytes(), 8U) << shape;
  EXPECT_EQ(parse(file_with(header("<f4", "(1, 2, 1)", "True"), eight)).bytes(), 8U);
  EXPECT_EQ(parse(file_with(header("<f4", "(2, 0, 3)", "True"))).bytes(), 0U);
  refuse(file_with(header("<f4", "(1, 2, 2)", "True"), eight + eight),
         {"Fortran", "(1, 2, 2)", "np.ascontiguousarray"});
}

TEST(NpyHeader, RefusesBadLiterals) {
  const std::string rest = "'fortran_order': False, 'shape': (1,)}";
  refuse(file_with(""), {"ends where '{'"});
  refuse(file_with("[]"), {"'{' should be"});
  refuse(file_with("{}"), {"has no 'descr'"});
  refuse(file_with("{'descr': '<f8', 'shape': (1,)}"), {"has no 'fortran_order'"});
  refuse(file_with("{'descr': '<f8', 'descr': '<f8', " + rest), {"'descr' twice"});
  refuse(file_with("{'descr': '<f8', 'more': 1, " + rest), {"unknown key 'more'"});
  refuse(file_with("{'descr': '<f8' " + rest), {"where ','"});
  refuse(file_with("{'descr' '<f8', " + rest), {"where ':'"});
  refuse(file_with("{'descr': '<f8, " + rest), {"should be"});
  refuse(file_with("{'descr': '<f8"), {"unfinished string"});
  refuse(file_with("{'descr': '<f\\x38', " + rest), {"backslash"});
  refuse(file_with("{'descr': 8, " + rest), {"a quoted string"});
  refuse(file_with("{'descr': [('a', '<f8')], " + rest), {"structured"});
  refuse(file_with("{'descr': [('a', '<f8'), " + rest), {"structured"});
  refuse(file_with("{'descr': '<f8', " + rest + " extra"), {"after its closing brace"});
  refuse(file_with("{'descr': '<f8', " + rest + std::string(1, '\0')), {"after its closing brace"});
  refuse(file_with("{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}"), {"neither True nor False"});
}

TEST(NpyHeader, RefusesBadShapes) {
  refuse(file_with(header("<f8", "(1)"), eight), {"where ','"});
  refuse(file_with(header("<f8", "1"), eight), {"where '('"});
  refuse(file_with(header("<f8", "[1]"), eight), {"where '('"});
  refuse(file_with(header("<f8", "(1,,)"), eight), {"a dimension"});
  refuse(file_with(header("<f8", "(1.0,)"), eight), {"where ','"});
  refuse(file_with(header("<f8", "(-1,)"), eight), {"negative dimension -1"});
  refuse(file_with(header("<f8", "(99999999999999999999,)")), {"too large"});
  refuse(file_with(header("<f8", "(4611686018427387904,)")), {"(4611686018427387904,)", "too large"});
  refuse(file_with(header("<f8", "(4294967296, 4294967296)")), {"too large"});
  refuse(file_with(header("<f8", "(4294967296, 4294967296, 0)")), {"too large"});
  refuse(file_with(header("<f8", "(0, 4294967296, 4294967296)")), {"too large"});
  std::string ones = "(";
  for (int i = 0; i < 65; ++i) ones += "1, ";
  refuse(file_with(header("<f8", ones + ")"), eight), {"more than 64 dimensions"});
}

TEST(NpyHeader, DataMustBeExactlyAsLongAsAnnounced) {
  const std::string start = file_with(header("<f8", "(2, 3)"));
  refuse(start, {"48 bytes", "only 0 follow"});
  refuse(start + std::string(47, 'x'), {"announces 48 bytes of data for float64 (2, 3)", "only 47 follow"});
  refuse(start + std::string(49, 'x'), {"48 bytes", "but 49 follow"});
  refuse(file_with(header("<f8", "(1000000000000,)")), {"8000000000000 bytes", "only 0 follow"});
}

TEST(NpyHeader, RefusesBadBeginnings) {
  refuse("", {"is empty"});
  refuse("PK\x03\x04", {"zip archive"});
  refuse("hello, world", {"not a NumPy array"});
  refuse("\x93NUM", {"not a NumPy array"});
  refuse("\x93NUMPY", {"ends after 6 bytes"});
  refuse(std::string("\x93NUMPY\x01\0", 8), {"ends after 8 bytes"});
  refuse(std::string("\x93NUMPY\x01\0\x01", 9), {"ends early"});
  refuse(std::string("\x93NUMPY\x04\0\0\0", 10), {"version 4.0"});
  refuse(std::string("\x93NUMPY\xff\x01\0\0", 10), {"version 255.1"});
  refuse(std::string("\x93NUMPY\x01\0\x10\0{}", 12), {"announces 16 bytes", "only 2 follow"});
  refuse(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14),
         {"announces 4294967295 bytes", "only 2 follow"});
  refuse(file_with(std::string((1 << 20) + 1, ' '), "", 2), {"takes 1048577 bytes", "allowed are 1048576"});
}

}  // namespace headlens::test
