#include "files.hpp"

#include <unistd.h>

#include <array>
#include <fstream>

#include "command.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/files.hpp"
#include "headlens/ranks.hpp"

namespace headlens::app {
namespace fs = std::filesystem;
namespace {

constexpr const char* kStandardOutput = "/dev/stdout";

void take_standard_output(const std::string& option, Stream stream) {
  require(stream != Stream::refused, option,
          ": '-' given, but this cannot go to standard output: name a file");
  require(
      stream == Stream::text || isatty(STDOUT_FILENO) == 0, option,
      ": '-' given, but standard output is a terminal and the file is binary: send it to a pipe or a file");
  report_to_standard_error();
}

enum class Kind { other, sets, model };

// By the first bytes: a zip archive, or the length of a JSON header and its brace.
Kind kind_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 9> start{};
  if (!file.read(start.data(), start.size())) return Kind::other;
  if (start[0] == 'P' && start[1] == 'K' && start[2] == 3 && start[3] == 4) return Kind::sets;
  return start[7] == 0 && start[8] == '{' ? Kind::model : Kind::other;
}

}  // namespace

fs::path Files::output(const std::string& option, const std::string& name, Stream stream) {
  if (name.empty()) return {};
  const fs::path path = name == "-" ? kStandardOutput : name;
  on_first_rank([&] { check(option, path, stream); });
  outputs_.push_back({option, path});
  return path;
}

void Files::check(const std::string& option, const fs::path& path, Stream stream) const {
  if (path == kStandardOutput) take_standard_output(option, stream);
  for (const std::string& input : inputs_)
    require(input.empty() || !same_file(path, input), option, ": ", path.string(), " is ",
            path == input ? "" : join("the same file as ", input, ", "),
            "read by this command, and would be lost: give another name");
  for (const Output& other : outputs_)
    require(path != other.path && !same_file(path, other.path), option, ": ", path.string(), " is also what ",
            other.option, " writes: give another name");
  check_writable(path);
}

std::string npy_name(const std::string& output) {
  fs::path path(output);
  const auto type = fs::status(path).type();
  const bool special = output == "-" || (type != fs::file_type::not_found && type != fs::file_type::regular);
  if (!special && path.extension() != ".npy") path += ".npy";
  return path.string();
}

void check_model_and_data(const std::string& command, const std::string& model, const std::string& data) {
  require(kind_of(model) != Kind::sets || kind_of(data) != Kind::model, command, ": ", model,
          " holds sets and ", data, " is a model: expected the model first (headlens ", command,
          " MODEL DATA)");
}

bool is_layer_file(const std::string& path) {
  if (kind_of(path) != Kind::sets) return false;
  const NamedArrays arrays = read_npz(path);
  return arrays.count("W") > 0 || arrays.count("O") > 0;
}

}  // namespace headlens::app
