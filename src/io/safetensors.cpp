#include "io/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "io/allocation.hpp"
#include "io/atomic_file.hpp"
#include "io/printable.hpp"
#include "io/safetensors_header.hpp"

namespace headlens::io {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensor bytes are copied to and from files as they are");

constexpr std::uint64_t max_json_bytes = 100'000'000;  // the limit of the reference implementation

std::string read_json(ByteReader& in) {
  expect(in, in.remaining() > 0, "not a safetensors file: it is empty");
  std::uint64_t length = 0;
  expect(in, in.remaining() >= sizeof length, "not a safetensors file: ", in.remaining(),
         " bytes, the header alone takes at least ", sizeof length);
  in.read(&length, sizeof length);
  expect(in, length <= in.remaining(), "not a safetensors file: it announces a header of ", length,
         " bytes, but only ", in.remaining(), " follow");
  expect(in, length <= max_json_bytes, "not a safetensors file: it announces a header of ", length,
         " bytes, allowed are ", max_json_bytes);
  std::string json(length, '\0');
  in.read(json.data(), length);
  return json;
}

using Tensor = std::map<std::string, TensorEntry>::value_type;

// In the order of their bytes, which must cover the data without a gap or an overlap.
std::vector<const Tensor*> order_by_offset(const ByteReader& in, const SafetensorsHeader& header) {
  std::vector<const Tensor*> order;
  for (const Tensor& tensor : header.tensors) order.push_back(&tensor);
  std::ranges::sort(order, {},
                    [](const Tensor* tensor) { return std::pair(tensor->second.begin, tensor->second.end); });
  std::uint64_t covered = 0;
  for (const Tensor* tensor : order) {
    const auto& [name, entry] = *tensor;
    expect(in, entry.begin == covered, printable_name(name), ": its data begin at byte ", entry.begin,
           ", but the tensors before it end at ", covered);
    covered = entry.end;
  }
  expect(in, covered == in.remaining(), "its tensors take ", covered, " bytes, but ", in.remaining(),
         " follow the header", covered > in.remaining() ? " (cut off?)" : "");
  return order;
}

// bfloat16 is the upper half of a float32.
float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// float16: one sign, five exponent and ten fraction bits; exponent 0 has steps of 2^-24.
float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U, exponent = (bits >> 10U) & 31U, fraction = bits & 1023U;
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24F));
  const std::uint32_t widened = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23U | fraction << 13U);
}

void read_values(ByteReader& in, StoredAs stored, Array& array) {
  if (stored == StoredAs::itself) return in.read(array.raw(), array.bytes());
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(array.size()));
  in.read(bits.data(), bits.size() * sizeof(std::uint16_t));
  std::ranges::transform(bits, array.data<float>(),
                         stored == StoredAs::bfloat16 ? from_bfloat16 : from_float16);
}

std::string format_header(const TensorFile& file) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) json[std::string(metadata_key)] = file.metadata;
  std::uint64_t begin = 0;
  for (const auto& [name, array] : file.tensors) {
    require(name != metadata_key, "a tensor cannot have the name ", metadata_key);
    require(array.shape().size() <= max_rank, "tensor ", printable_name(name), " has ", array.rank(),
            " dimensions, allowed are ", max_rank);
    const std::uint64_t end = begin + array.bytes();
    json[name] = {
        {"dtype", safetensors_name(array.dtype())}, {"shape", array.shape()}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  try {
    std::string text = json.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    return text;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::misuse, "safetensors: a tensor name or the metadata is not valid UTF-8");
  }
}

}  // namespace

TensorFile read_safetensors(ByteReader& in, std::uint64_t max_bytes) {
  SafetensorsHeader header = parse_safetensors_header(read_json(in), in.label());
  const std::vector<const Tensor*> order = order_by_offset(in, header);
  std::uint64_t bytes = 0;  // of the arrays in memory
  for (const Tensor* tensor : order)
    bytes +=
        (tensor->second.end - tensor->second.begin) * (tensor->second.stored == StoredAs::itself ? 1U : 2U);
  require_budget(in.label(), bytes, max_bytes);
  TensorFile file{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const Tensor* tensor : order) {
    const auto& [name, entry] = *tensor;
    Array array = allocate(in.label(), entry.type, entry.shape);
    read_values(in, entry.stored, array);
    file.tensors.emplace(name, std::move(array));
  }
  return file;
}

}  // namespace headlens::io

namespace headlens {

TensorFile read_safetensors(const std::filesystem::path& path, std::uint64_t max_bytes) {
  io::FileReader file(path);
  return io::read_safetensors(file, max_bytes);
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  const std::string header = io::format_header(file);
  const std::uint64_t length = header.size();
  io::AtomicFile out(path);
  out.write(&length, sizeof length);
  out.write(header);
  for (const auto& [name, array] : file.tensors) out.write(array.raw(), array.bytes());
  out.commit();
}

}  // namespace headlens
